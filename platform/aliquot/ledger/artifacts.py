"""Content-addressed files, and trajectories as bytes.

An artifact is named by the sha256 of its content, written to a temporary file and renamed, so a name that exists is
whole. Small trajectories stand in their row; larger ones go here.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
import numpy as np

from aliquot.domain import AliquotError, Trajectory

INLINE_LIMIT = 16 * 1024
"""Bytes up to which a sealed trajectory stands in its row."""
_ARRAYS = ("prompt", "tokens", "logprobs", "experts", "recorded")


class DamagedArtifact(AliquotError):
    """Stored bytes do not match their hash."""


class ArtifactStore:
    """Files under a folder, named by content."""

    def __init__(self, folder: Path):
        self.folder = folder

    def put(self, data: bytes) -> str:
        """Store and return the sha256, hex."""
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}.tmp")
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        return digest

    def get(self, digest: str) -> bytes:
        """Raises `DamagedArtifact` when the bytes no longer match, `FileNotFoundError` when they are gone."""
        data = self._path(digest).read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise DamagedArtifact(f"artifact {digest} does not match its hash: restore it from a backup")
        return data

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest


def seal(trajectory: Trajectory) -> bytes:
    """A trajectory as msgpack; arrays as (dtype, shape, bytes)."""
    record = trajectory.model_dump(mode="json", exclude=set(_ARRAYS))
    for name in _ARRAYS:
        array = getattr(trajectory, name)
        record[name] = None if array is None else (array.dtype.str, array.shape, array.tobytes())
    return msgspec.msgpack.encode(record)


def unseal(data: bytes, digest: str) -> Trajectory:
    """The trajectory in `data`.

    Raises:
        DamagedArtifact: it cannot be read, or its digest is not the one its row holds.
    """
    try:
        record = msgspec.msgpack.decode(data)
        for name in _ARRAYS:
            if record.get(name) is not None:  # what was sealed before a field was there does not name it
                dtype, shape, raw = record[name]
                record[name] = np.frombuffer(raw, dtype=dtype).reshape(shape)
        trajectory = Trajectory(**record)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
        raise DamagedArtifact(f"trajectory {digest} cannot be read: {error}") from error
    if trajectory.digest != digest:
        raise DamagedArtifact(f"trajectory {digest} does not match its hash")
    return trajectory
