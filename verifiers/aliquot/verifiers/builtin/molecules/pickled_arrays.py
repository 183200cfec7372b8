"""Reads numbers out of a pickle that is not trusted. Nothing in the file is imported, called or evaluated.

A pickle is a program for a small stack machine. The standard library's `pickletools` splits it into operations without
running it; the machine here knows those few that pickles of numpy arrays inside plain objects consist of, and what they
make is data: arrays of numbers, numbers, text, tuples, lists, dicts, and `Record`s that stand for the objects. Whatever
else stands in the file (another operation, a name that is not allowed, an array of objects) is a `RefusedPickle`.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from aliquot.domain import AliquotError

RECONSTRUCT, SCALAR = "numpy.core.multiarray _reconstruct", "numpy.core.multiarray scalar"
NDARRAY, DTYPE = "numpy ndarray", "numpy dtype"
CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict,
}  # fmt: skip
LITERALS = frozenset("BININT BININT1 BININT2 BINFLOAT BINUNICODE SHORT_BINBYTES BINBYTES".split())
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class RefusedPickle(AliquotError, ValueError):
    """The file asks for more than numbers, or is damaged."""


@dataclass(frozen=True)
class Name:
    """A name that the file refers to. It stays a name."""

    text: str


@dataclass(eq=False)
class Record:
    """What stands for an object: the name of its class, the arguments it was made with, and its state."""

    name: str
    arguments: tuple[Any, ...] = ()
    state: Any = None


class _Mark:
    pass


def read_pickle(data: bytes, classes: Iterable[str]) -> Any:
    """The value that a pickle holds.

    Args:
        classes: names ("module Class") of objects that may stand in it, as `Record`s. An array is a `Record` too, of
            the name `NDARRAY`, whose `state` is the `numpy.ndarray`.

    Raises:
        RefusedPickle: there is something in it that is not allowed, or it is damaged.
    """
    try:
        return _run(data, frozenset(classes))
    except (IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, RefusedPickle):
            raise
        raise RefusedPickle(f"the pickle is damaged: {error}") from error


def _run(data: bytes, classes: frozenset[str]) -> Any:
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        at = max(i for i, value in enumerate(stack) if value is _Mark)
        items = stack[at + 1 :]
        del stack[at:]
        return items

    argument: Any
    for operation, argument, position in pickletools.genops(data):
        name = operation.name
        if name in CONSTANTS:
            stack.append(CONSTANTS[name]())
        elif name in LITERALS:
            stack.append(argument)
        elif name in TUPLES:
            items = stack[-TUPLES[name] :]
            if len(items) < TUPLES[name]:
                raise RefusedPickle(f"{name} at byte {position} finds too little on the stack")
            stack[-TUPLES[name] :] = [tuple(items)]
        elif name == "TUPLE":
            stack.append(tuple(since_mark()))
        elif name == "MARK":
            stack.append(_Mark)
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in ("APPEND", "APPENDS"):
            items = [stack.pop()] if name == "APPEND" else since_mark()
            _plain(stack[-1], list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = [stack.pop(-2), stack.pop()] if name == "SETITEM" else since_mark()
            _plain(stack[-1], dict).update(zip(items[::2], items[1::2], strict=True))
        elif name == "GLOBAL":
            if argument not in classes | {NDARRAY, DTYPE, RECONSTRUCT, SCALAR}:
                raise RefusedPickle(f"the file names {argument!r} at byte {position}, which is not allowed")
            stack.append(Name(argument))
        elif name in ("NEWOBJ", "REDUCE"):
            arguments = _plain(stack.pop(), tuple)
            stack.append(_made(_plain(stack.pop(), Name).text, arguments, classes))
        elif name == "BUILD":
            state = stack.pop()
            _build(_plain(stack[-1], Record), state)
        elif name == "STOP":
            (value,) = stack
            return value
        elif name != "PROTO":
            raise RefusedPickle(f"the file uses {name} at byte {position}, which is not allowed")
    raise RefusedPickle("the file ends too early")


def _plain(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise RefusedPickle(f"expected a {kind.__name__}, found {type(value).__name__}")
    return value


def _made(name: str, arguments: tuple[Any, ...], classes: frozenset[str]) -> Any:
    """What a call in the file stands for."""
    if name == RECONSTRUCT:
        return Record(NDARRAY)
    if name == DTYPE:
        kind = _plain(arguments[0], str)
        if kind[:1] not in "biufV" or not kind[1:].isdigit():
            raise RefusedPickle(f"an array of type {kind!r} is not one of numbers")
        return Record(DTYPE, state=np.dtype(kind))
    if name == SCALAR:
        dtype, content = arguments
        return np.frombuffer(_plain(content, bytes), _dtype(dtype), count=1)[0].item()
    if name in classes:
        return Record(name, arguments)
    raise RefusedPickle(f"{name} cannot be called")


def _build(record: Record, state: Any) -> None:
    """Give a record its state: to an array its content, to a dtype its byte order and fields."""
    if record.name == DTYPE:
        _, order, _, names, fields = _plain(state, tuple)[:5]
        if names is None:
            record.state = record.state.newbyteorder(_text(order).replace("|", "="))
            return
        order_of = [_text(name) for name in _plain(names, tuple)]
        parts = {_text(name): _plain(part, tuple) for name, part in _plain(fields, dict).items()}
        record.state = np.dtype(
            {
                "names": order_of,
                "formats": [_dtype(parts[name][0]) for name in order_of],
                "offsets": [_plain(parts[name][1], int) for name in order_of],
                "itemsize": record.state.itemsize,
            }
        )
    elif record.name == NDARRAY:
        _, shape, dtype, fortran, content = _plain(state, tuple)
        kind = _dtype(dtype)
        shape = tuple(_plain(n, int) for n in _plain(shape, tuple))
        if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(_plain(content, bytes)):
            raise RefusedPickle(f"an array of shape {shape} and type {kind} does not hold {len(content)} bytes")
        flat = np.frombuffer(content, kind)
        record.state = flat.reshape(shape, order="F" if fortran else "C")
    else:
        record.state = state


def _dtype(value: Any) -> np.dtype[Any]:
    if type(value) is not Record or value.name != DTYPE:
        raise RefusedPickle(f"expected a dtype, found {type(value).__name__}")
    return value.state


def _text(value: Any) -> str:
    """Text that older pickles hold as bytes."""
    return value.decode("ascii") if type(value) is bytes else _plain(value, str)
