"""A small language of arithmetic over named values: read by Python's parser, run by the table below, and nothing else.

Always true: an expression that `parse` accepts has at most `NODES` nodes and `DEPTH` levels, holds only what is in the
tables here, and ends; every number in it is a 64-bit float, so no power can grow without bound. There is no attribute,
no index, no comprehension, no assignment, and no name but those that are given.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

LENGTH, NODES, DEPTH = 2000, 400, 40
"""Characters, nodes and levels of an expression."""
FUNCTIONS: dict[str, Callable[..., float]] = {
    "abs": abs, "min": min, "max": max, "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "log10": math.log10,
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "tanh": math.tanh, "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip
ARGUMENTS = {"min": (1, 20), "max": (1, 20)}
"""How many arguments; every other function takes one."""
CONSTANTS = {"pi": math.pi, "e": math.e}
BINARY: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Mod: operator.mod, ast.Pow: math.pow,
}  # fmt: skip
COMPARED: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip


def parse(text: str) -> ast.expr:
    """The expression as a tree.

    Raises:
        ValueError: it is none, or says something that this language has not; the message points at it.
    """
    text = text.strip()
    if len(text) > LENGTH:
        raise ValueError(f"{len(text)} characters; an expression has at most {LENGTH}")
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"no expression: {error.msg} at character {error.offset}") from None
    except (RecursionError, MemoryError, ValueError):
        raise ValueError("no expression: it nests too deep") from None
    level, count = [tree], 0
    for _ in range(DEPTH):
        if not level:
            return tree
        count += len(level)
        level = [child for node in level for child in _inside(node, text)]
        if count > NODES:
            raise ValueError(f"an expression has at most {NODES} parts")
    raise ValueError(f"an expression nests at most {DEPTH} levels deep")


def names(tree: ast.expr) -> set[str]:
    """Names of values that it needs, without the constants of the language."""
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return found - called - CONSTANTS.keys()


def evaluate(tree: ast.expr, values: Mapping[str, float | str]) -> float:
    """The value of a parsed expression, finite.

    Raises:
        ValueError: there is none for these values (a division by zero, an overflow, text where a number belongs).
    """
    try:
        result = _number(_value(tree, values))
    except ZeroDivisionError:
        raise ValueError("division by zero") from None
    except OverflowError:
        raise ValueError("the result is too large") from None
    if not math.isfinite(result):
        raise ValueError("the result is too large")
    return result


def _inside(node: ast.expr, text: str) -> list[ast.expr]:
    """The parts of one node. Raises ValueError where the node is none of the language."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            return []
        case ast.Name():
            return []
        case ast.BinOp() if type(node.op) in BINARY:
            return [node.left, node.right]
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() | ast.Not()):
            return [node.operand]
        case ast.BoolOp():
            return list(node.values)
        case ast.Compare() if all(type(op) in COMPARED for op in node.ops):
            return [node.left, *node.comparators]
        case ast.IfExp():
            return [node.test, node.body, node.orelse]
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
            low, high = ARGUMENTS.get(name, (1, 1))
            if not low <= len(node.args) <= high:
                raise ValueError(f"{name} takes {low}{f' to {high}' * (high > low)} arguments, not {len(node.args)}")
            return list(node.args)
    shown = (ast.get_source_segment(text, node) or "")[:60]
    known = ", ".join(FUNCTIONS)
    raise ValueError(
        f"{shown!r} is not known here; there are + - * / % **, comparisons, and, or, not, if else, {known}"
    )


def _value(node: ast.expr, values: Mapping[str, float | str]) -> float | str | bool:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Constant(value=bool() | int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return values[name] if name in values else CONSTANTS[name]
        case ast.BinOp():
            return BINARY[type(node.op)](_number(_value(node.left, values)), _number(_value(node.right, values)))
        case ast.UnaryOp():
            operand = _number(_value(node.operand, values))
            return (
                not operand if isinstance(node.op, ast.Not) else -operand if isinstance(node.op, ast.USub) else operand
            )
        case ast.BoolOp():
            decide = all if isinstance(node.op, ast.And) else any
            return decide(_number(_value(part, values)) for part in node.values)
        case ast.Compare():
            return _compared(node, values)
        case ast.IfExp():
            return _value(node.body if _number(_value(node.test, values)) else node.orelse, values)
        case ast.Call(func=ast.Name(id=name)):
            return float(FUNCTIONS[name](*(_number(_value(argument, values)) for argument in node.args)))
    raise AssertionError("parse lets nothing else through")


def _compared(node: ast.Compare, values: Mapping[str, float | str]) -> bool:
    sides = [_value(side, values) for side in (node.left, *node.comparators)]
    for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
        if isinstance(left, str) != isinstance(right, str):
            raise ValueError(f"{left!r} and {right!r} cannot be compared")
        if not COMPARED[type(op)](left, right):
            return False
    return True


def _number(value: float | str | bool) -> float:
    if isinstance(value, str):
        raise ValueError(f"{value!r} is text, where a number belongs")
    return float(value)
