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
LIGHT = 256 * 1024
"""A payload up to this many bytes cannot become large when it is decoded."""
MAX_VALUES = 2**19
"""Most values, counting those inside others, in a payload: an empty list is one byte here and 56 in memory."""


class ProtocolError(Exception):
    """Bytes that no honest peer sends, or a message that does not fit a frame."""


class Walls(msgspec.Struct, frozen=True):
    """What a contained worker puts up around itself; paths are those that it sees."""

    readable: tuple[str, ...]
    writable: tuple[str, ...]
    devices: tuple[str, ...]
    """May be read and written, but nothing made there."""
    port: int | None
    """The one TCP port it may use, on its own loopback."""
    proxy: str
    """Socket that leads to the supervisor's proxy; empty: no network."""
    landlock: bool
    """Whether it must not go on without Landlock."""
    address_space: bool
    """Whether that is limited."""


class Contain(msgspec.Struct, tag="contain", frozen=True):
    """First request, before any code of an author's is imported: limit yourself, and say what holds."""

    nonce: int
    limits: Limits
    walls: Walls | None
    """None: the hosted code is trusted."""
    forking: bool
    """Whether each call is to run in a fresh copy of the worker, so that nothing is remembered."""
    seconds: float


class Load(msgspec.Struct, tag="load", frozen=True):
    """Second request: import `target` and call it."""

    nonce: int
    target: str
    """`package.module:factory` or `/path/file.py:factory`: gives method names → functions on a batch."""
    argument: Any
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
    """Answer to `Contain`: what holds."""


Request = Contain | Load | Call
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode


def frame(message: Request | Reply) -> bytes:
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


def weigh(payload: bytes) -> None:
    """Raises `ProtocolError` when decoding the payload would make more than `MAX_VALUES` objects."""
    if len(payload) <= LIGHT:
        return
    at, values, size = 0, 0, len(payload)
    while at < size:
        values += 1
        if values > MAX_VALUES:
            raise ProtocolError(f"a message of more than {MAX_VALUES} values")
        byte = payload[at]
        if 0xA0 <= byte <= 0xBF:  # a short string
            at += 1 + (byte & 0x1F)
        elif (width := _LENGTHS.get(byte)) is not None:  # bytes, a string or an extension, after its length
            length = int.from_bytes(payload[at + 1 : at + 1 + width], "big")
            at += 1 + width + length + (1 if 0xC7 <= byte <= 0xC9 else 0)
        else:
            at += 1 + _FIXED.get(byte, 0)


_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""First byte → bytes of the length that follows it. Source: the msgpack specification."""
_FIXED = {
    0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4,
}  # fmt: skip
"""First byte → bytes that follow it; of arrays and maps, their count."""


def read_payload(descriptor: int, most: int | None = None) -> bytes | None:
    """Wait for one whole frame; None when the peer has closed, or announces more than `most` bytes."""
    header = _read_exactly(descriptor, HEADER)
    if header is None or (most is not None and int.from_bytes(header, "big") > most):
        return None
    return _read_exactly(descriptor, int.from_bytes(header, "big"))


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
