"""A plugin as one file that can be sent: what was packed is what is unpacked, byte for byte, or nothing is.

    NAME-VERSION.aliquot.tar.gz
        aliquot-plugin.json     what it is, its pins, and the digest of every file
        …                       the files

Always true of `pack`: the same files give the same bytes. Always true of `unpack`: nothing is written outside the
folder that it is given, nothing but plain files is written, and no more than the limits say; a file that is not in the
manifest, or is not as the manifest says, refuses the whole archive. Nothing that is in it is run.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
import unicodedata
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from pydantic import Field, ValidationError

from aliquot.domain import AliquotError, Noun
from aliquot.verifiers import digest, store

MANIFEST = "aliquot-plugin.json"
SUFFIX = ".aliquot.tar.gz"
MAX_ARCHIVE = 64 * 2**20
"""Bytes of the archive."""
MAX_UNPACKED = 256 * 2**20
"""Bytes of all files together, with the headers of the archive."""
MAX_FILES = 2000
MAX_PATH = 200
MAX_MANIFEST = 2**20
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\:*?\"<>|]")
"""Characters that some system reads as something else."""


class ArchiveRefused(AliquotError):
    """An archive that is not what it should be. Nothing of it was kept."""


class PackedPlugin(Noun):
    """The manifest inside an archive."""

    name: str = Field(pattern=f"^{store.NAME.pattern}$")
    version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+_\-]{0,63}$")
    kind: Literal["verifier"] = "verifier"
    target: str = Field(pattern=r"^[A-Za-z0-9_./\-]+:[A-Za-z_][A-Za-z0-9_]*$")
    """`package.module:Class` or `file.py:Class`, from the root of the archive."""
    requirements: tuple[str, ...] = ()
    files: dict[str, str]
    """sha256 of each, by its path."""

    @property
    def digest(self) -> str:
        """Of everything: name, version, target, pins and files."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def pack(
    files: Mapping[str, Path], out: Path, *, name: str, version: str, target: str, requirements: tuple[str, ...] = ()
) -> Path:
    """Write the archive of these files (by their path inside it) into a folder; its path.

    Raises:
        ArchiveRefused: it would be refused when unpacked: a name, a path, the size.
    """
    try:
        digests = {path: digest.digest_of_file(file) for path, file in sorted(files.items())}
        packed = PackedPlugin(name=name, version=version, target=target, requirements=requirements, files=digests)
    except ValidationError as error:
        what = "; ".join(f"{'.'.join(map(str, e['loc']))} {e['input']!r}: {e['msg']}" for e in error.errors())
        raise ArchiveRefused(f"it cannot be packed: {what}") from None
    _check_paths(list(digests))
    if (size := sum(file.stat().st_size for file in files.values())) > MAX_UNPACKED:
        raise ArchiveRefused(f"its files are {size / 2**20:.0f} MiB; the limit is {MAX_UNPACKED // 2**20} MiB")
    whole = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=whole, mode="wb", mtime=0, compresslevel=9) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        text = json.dumps(packed.model_dump(mode="json"), indent=1, sort_keys=True).encode()
        _add(archive, MANIFEST, text)
        for path in digests:
            _add(archive, path, files[path].read_bytes())
    if whole.tell() > MAX_ARCHIVE:
        raise ArchiveRefused(f"it is {whole.tell() / 2**20:.0f} MiB packed; the limit is {MAX_ARCHIVE // 2**20} MiB")
    out.mkdir(parents=True, exist_ok=True)
    place = out / f"{name}-{version}{SUFFIX}"
    place.write_bytes(whole.getvalue())
    return place


def unpack(archive: Path, folder: Path) -> PackedPlugin:
    """Write the files of an archive into an empty folder; its manifest.

    Raises:
        ArchiveRefused: see the class; the folder may hold a part, and is to be thrown away.
    """
    if archive.stat().st_size > MAX_ARCHIVE:
        raise ArchiveRefused(f"{archive.name} is larger than {MAX_ARCHIVE // 2**20} MiB")
    try:
        with gzip.open(archive, "rb") as opened:
            return _unpack(_Limited(opened, MAX_UNPACKED), folder)  # type: ignore[arg-type]
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, UnicodeError, ValueError, OSError) as error:
        raise ArchiveRefused(f"{archive.name} is no plugin archive: {error}") from None


def _unpack(stream: IO[bytes], folder: Path) -> PackedPlugin:
    packed: PackedPlugin | None = None
    seen: set[str] = set()
    with tarfile.open(fileobj=stream, mode="r|", errorlevel=2) as opened:
        for member in opened:
            if not member.isreg() or member.issparse():
                raise ArchiveRefused(f"{member.name!r} is a {_kind(member)}; an archive holds plain files only")
            content = opened.extractfile(member)
            assert content is not None
            if packed is None:
                packed = _manifest(member.name, content.read(MAX_MANIFEST + 1))
                _check_paths(list(packed.files))
                continue
            if member.name in seen or member.name not in packed.files:
                raise ArchiveRefused(f"{member.name!r} is in the archive and not, or once only, in its manifest")
            seen.add(member.name)
            _write(folder / member.name, content, packed.files[member.name], member.name)
    if packed is None:
        raise ArchiveRefused("it is empty")
    if missing := sorted(packed.files.keys() - seen):
        raise ArchiveRefused(f"{missing[0]!r} is in the manifest and not in the archive")
    return packed


def _write(place: Path, content: IO[bytes], expected: str, name: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    found = hashlib.sha256()
    with place.open("xb") as out:
        while part := content.read(2**20):
            found.update(part)
            out.write(part)
    place.chmod(0o644)
    if found.hexdigest() != expected:
        raise ArchiveRefused(f"{name!r} is not the file that its manifest names: it was changed after packing")


def _manifest(name: str, text: bytes) -> PackedPlugin:
    if name != MANIFEST or len(text) > MAX_MANIFEST:
        raise ArchiveRefused(f"it does not begin with {MANIFEST}; make it with: aliquot plugin pack")
    try:
        return PackedPlugin.model_validate_json(text)
    except ValidationError as error:
        raise ArchiveRefused(f"its manifest is wrong: {error}") from None


def _check_paths(paths: list[str]) -> None:
    """Raises `ArchiveRefused` for a path that leads elsewhere, means something to some system, or stands twice."""
    if len(paths) > MAX_FILES:
        raise ArchiveRefused(f"it has {len(paths)} files; the limit is {MAX_FILES}")
    for path in paths:
        parts = PurePosixPath(path).parts
        strange = FORBIDDEN.search(path) or unicodedata.normalize("NFC", path) != path or len(path) > MAX_PATH
        if not parts or path.startswith("/") or ".." in parts or path != "/".join(parts) or strange:
            raise ArchiveRefused(f"{path!r} is no path that an archive may hold: relative, plain, without '..'")
        if any(part.endswith((".", " ")) or part in digest.LEAVE_OUT for part in parts) or path.endswith(".pth"):
            raise ArchiveRefused(f"{path!r} is a by-product, or would be read by Python or a system by itself")
    folded = [path.casefold() for path in paths]
    folders = {str(parent) for path in folded for parent in PurePosixPath(path).parents}
    if len(set(folded)) != len(folded) or set(folded) & folders or MANIFEST in folded:
        raise ArchiveRefused("two of its paths are the same file on some systems")


def _add(archive: tarfile.TarFile, path: str, content: bytes) -> None:
    member = tarfile.TarInfo(path)
    member.size, member.mode, member.mtime = len(content), 0o644, 0
    archive.addfile(member, io.BytesIO(content))


def _kind(member: tarfile.TarInfo) -> str:
    kinds = {"symbolic link": member.issym(), "hard link": member.islnk(), "folder": member.isdir()}
    return next((kind for kind, is_it in kinds.items() if is_it), "special file")


class _Limited:
    """A stream that gives no more than so many bytes: a bomb ends here, whatever its headers say."""

    def __init__(self, stream: IO[bytes], limit: int):
        self._stream, self._left = stream, limit

    def read(self, size: int = -1) -> bytes:
        part = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(part)
        if self._left < 0:
            raise ArchiveRefused(f"it unpacks to more than {MAX_UNPACKED // 2**20} MiB")
        return part
