"""What supervisor and worker say to each other: a 4-byte big-endian length, then that many bytes of msgpack.

Always true: a frame is at most `MAX_FRAME` bytes, in both directions; a reply echoes the nonce of its request, so an
answer that comes late can never be taken for the answer to something else; nothing is ever unpickled.
"""

from __future__ import annotations

import math
import os
from typing import Any

import msgspec

from aliquot.isolation.launch import Limits

MAX_FRAME = 8 * 2**20
"""Longest payload, bytes."""
HEADER = 4
"""Bytes of the length that stands before a payload."""


class ProtocolError(Exception):
    """Bytes that no honest peer sends, or a message that does not fit a frame."""


class Load(msgspec.Struct, tag="load", frozen=True):
    """First request: limit yourself, import `target` and call it."""

    nonce: int
    target: str
    """`package.module:factory` or `/path/file.py:factory`: gives method names → functions on a batch."""
    argument: Any
    limits: Limits
    seconds: float


class Call(msgspec.Struct, tag="call", frozen=True):
    """Run one method on a batch; it gives exactly one result for each item, in order."""

    nonce: int
    method: str
    items: list[Any]
    seconds: float


class Reply(msgspec.Struct, frozen=True):
    """Results, or what was raised instead."""

    nonce: int
    items: list[Any] = []
    error: str = ""
    """Traceback of what the hosted code raised; empty when it returned."""
    spent: bool = False
    """The worker says of itself that it should be replaced: it ran out of memory."""
    controls: tuple[str, ...] = ()
    """Answer to `Load`: the limits that hold."""


decode_request = msgspec.msgpack.Decoder(Load | Call).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode


def frame(message: Load | Call | Reply) -> bytes:
    """The message as bytes with its length before it.

    Raises:
        ProtocolError: it is longer than `MAX_FRAME`.
        TypeError, ValueError, OverflowError: it holds something msgpack cannot say.
    """
    payload = msgspec.msgpack.encode(message)
    if len(payload) > MAX_FRAME:
        raise ProtocolError(f"a message of {len(payload) / 2**20:.1f} MiB; the limit is {MAX_FRAME // 2**20} MiB")
    return len(payload).to_bytes(HEADER, "big") + payload


def unframe(received: bytes | bytearray) -> bytes | None:
    """The payload once all of it is there, else None.

    Raises:
        ProtocolError: the announced length is above `MAX_FRAME`, or bytes follow the payload.
    """
    if len(received) < HEADER:
        return None
    size = int.from_bytes(received[:HEADER], "big")
    if size > MAX_FRAME:
        raise ProtocolError(f"a frame of {size} bytes was announced; the limit is {MAX_FRAME}")
    if len(received) > HEADER + size:
        raise ProtocolError(f"{len(received) - HEADER - size} bytes follow the frame")
    return bytes(received[HEADER:]) if len(received) == HEADER + size else None


def read_payload(descriptor: int) -> bytes | None:
    """Wait for one whole frame; None when the peer has closed."""
    header = _read_exactly(descriptor, HEADER)
    return None if header is None else _read_exactly(descriptor, int.from_bytes(header, "big"))


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def is_json(value: Any, depth: int = 32) -> bool:
    """Whether a decoded value is JSON, with finite numbers only and at most `depth` levels."""
    if value is None or isinstance(value, str | bool | int):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return depth > 0 and all(isinstance(k, str) and is_json(v, depth - 1) for k, v in value.items())
    return isinstance(value, list) and depth > 0 and all(is_json(v, depth - 1) for v in value)


def _read_exactly(descriptor: int, size: int) -> bytes | None:
    parts, missing = [], size
    while missing:
        part = os.read(descriptor, missing)
        if not part:
            return None
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
