"""The process in which a proposed program runs: `python -S -s -P -B python_child.py DESCRIPTOR LANDLOCK CONFINEMENT`.

It is told the program, then one call after another, and answers each on its private descriptor. What must come out of a
call is never told to it, so there is nothing here for a program to find: it may read the frames of this file, patch it,
or answer in its place, and all that reaches the verifier is still its own answer to one question.

Requests and answers are lines of JSON; an answer echoes the number of its request, which nobody can guess before.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` is most of what this process would import
    from typing import Any


def main() -> None:
    answers = int(sys.argv[1])
    os.set_inheritable(answers, False)
    requests = _lines(_private_standard_input())
    settings = json.loads(next(requests))
    landlock, confinement = _module(sys.argv[2]), _module(sys.argv[3])
    try:
        confinement.confine(
            landlock.restrict, settings["readable"], settings["memory_mb"], settings["seconds"], settings["parent"]
        )
    except Exception as error:
        _say(answers, {"unconfined": f"{type(error).__name__}: {error}"})
        return
    _say(answers, {"ready": True})
    names: dict[str, Any] = {"__name__": "program", "__builtins__": __builtins__}
    for line in requests:
        request = json.loads(line)
        _say(answers, {"number": request["number"], **_answer(request, names)})


def _answer(request: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """What one request comes to; `names` is the module that the program makes."""
    try:
        if "program" in request:
            exec(compile(request["program"], "<program>", "exec"), names)
            return {"value": callable(names.get(request["entry"]))}
        value = names[request["entry"]](*request["arguments"], **request["keywords"])
    except BaseException:
        return {"failed": "raised"}
    try:
        json.dumps(value, allow_nan=False)
    except BaseException:
        return {"failed": "no value"}
    return {"value": value}


def _say(descriptor: int, answer: Any) -> None:
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def _lines(descriptor: int) -> Iterator[bytes]:
    held = b""
    while part := os.read(descriptor, 65536):
        held += part
        while b"\n" in held:
            line, _, held = held.partition(b"\n")
            yield line


def _private_standard_input() -> int:
    """Move the requests to a descriptor of our own; the program finds its standard input empty."""
    requests = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return requests


def _module(path: str) -> ModuleType:
    module = ModuleType(os.path.basename(path)[:-3])
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), module.__dict__)
    return module


if __name__ == "__main__":
    main()
