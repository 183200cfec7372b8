"""What is packed is what is unpacked, and nothing else ever lands on the disk."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from aliquot.verifiers import digest
from aliquot.verifiers.kit import archive
from aliquot.verifiers.kit.archive import MANIFEST, ArchiveRefused, pack, unpack

TEXT = b"x = 1\n"


def packed(tmp_path: Path, package: Path) -> Path:
    return pack(digest.files_of_folder(package), tmp_path, name="my-pep", version="1", target="my_pep:MyPep")


def forged(tmp_path: Path, *members: tuple[tarfile.TarInfo, bytes], files: dict[str, bytes] | None = None) -> Path:
    """An archive with a manifest that names `files`, and these members."""
    import hashlib

    named = {name: hashlib.sha256(content).hexdigest() for name, content in (files or {}).items()}
    manifest = {"name": "bad", "version": "1", "kind": "verifier", "target": "bad.py:Bad", "files": named}
    text = json.dumps(manifest | {"requirements": []}).encode()
    path = tmp_path / "bad.tar.gz"
    with tarfile.open(path, "w:gz") as opened:
        for member, content in ((tarfile.TarInfo(MANIFEST), text), *members):
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def everything(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_the_same_files_give_the_same_bytes_wherever_and_whenever(tmp_path, package):
    first = packed(tmp_path / "a", package).read_bytes()
    for path in package.rglob("*.py"):
        path.touch()
        path.chmod(0o755)
    (package / "__pycache__").mkdir()
    (package / "__pycache__/my_pep.cpython-311.pyc").write_bytes(b"\0")
    assert packed(tmp_path / "b", package).read_bytes() == first


def test_it_comes_out_as_it_went_in(tmp_path, package):
    out = tmp_path / "out"
    out.mkdir()
    manifest = unpack(packed(tmp_path, package), out)
    assert {name: (out / name).read_bytes() for name in manifest.files} == {
        name: path.read_bytes() for name, path in digest.files_of_folder(package).items()
    }
    assert everything(out) == {*manifest.files, "tests"} and len(manifest.digest) == 64


def test_a_digest_follows_every_byte(tmp_path, package):
    digests = []
    for i, change in enumerate((b"", b"\n# changed\n")):
        (package / "README.md").write_bytes((package / "README.md").read_bytes() + change)
        out = tmp_path / f"out{i}"
        out.mkdir()
        digests.append(unpack(packed(tmp_path / f"in{i}", package), out).digest)
    assert digests[0] != digests[1]


@pytest.mark.parametrize(
    "name",
    ["../escape.py", "/tmp/escape.py", "a/../../escape.py", "a//b.py", "./a.py", "..", "C:/a.py", "a\\..\\b.py",
     "a\x00.py", "sitecustomize.pth", "a/__pycache__/b.py", "a./b.py", "x" * 250, "e\u0301.py", MANIFEST.upper()],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_or_means_something_is_refused(tmp_path, name):
    out = tmp_path / "deep" / "out"
    out.mkdir(parents=True)
    before = everything(tmp_path) | {"bad.tar.gz"}
    with pytest.raises(ArchiveRefused):
        unpack(forged(tmp_path, (member(name), TEXT), files={name: TEXT}), out)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE]
)
def test_only_plain_files_are_in_an_archive(tmp_path, kind):
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(ArchiveRefused, match="plain files only"):
        unpack(forged(tmp_path, (member("a.py", kind, "/etc/passwd"), b""), files={"a.py": TEXT}), out)
    assert everything(out) == set()


def test_a_link_cannot_be_written_through(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    members = ((member("a", tarfile.SYMTYPE, str(tmp_path)), b""), (member("a/b.py"), TEXT))
    with pytest.raises(ArchiveRefused):
        unpack(forged(tmp_path, *members, files={"a/b.py": TEXT}), out)
    assert not (tmp_path / "b.py").exists()


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a.py", "A.py"], "same file"),
        (["a", "a/b.py"], "same file"),
    ],
)
def test_names_that_are_one_file_on_some_systems_are_refused(tmp_path, names, says):
    out = tmp_path / "out"
    out.mkdir()
    members = [(member(name), TEXT) for name in names]
    with pytest.raises(ArchiveRefused, match=says):
        unpack(forged(tmp_path, *members, files={name: TEXT for name in names}), out)


@pytest.mark.parametrize(
    ("members", "files", "says"),
    [
        ([("a.py", b"y = 2\n")], {"a.py": TEXT}, "changed after packing"),
        ([("a.py", TEXT), ("b.py", TEXT)], {"a.py": TEXT}, "not, or once only"),
        ([("a.py", TEXT), ("a.py", TEXT)], {"a.py": TEXT}, "not, or once only"),
        ([], {"a.py": TEXT}, "not in the archive"),
    ],
)
def test_what_differs_from_the_manifest_is_refused(tmp_path, members, files, says):
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(ArchiveRefused, match=says):
        unpack(forged(tmp_path, *[(member(name), content) for name, content in members], files=files), out)


def test_a_bomb_ends_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_UNPACKED", 2**20)
    zeros = bytes(8 * 2**20)
    bomb = forged(tmp_path, (member("a.bin"), zeros), files={"a.bin": zeros})
    assert bomb.stat().st_size < 2**15
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(ArchiveRefused, match="unpacks to more than"):
        unpack(bomb, out)
    assert sum(path.stat().st_size for path in out.rglob("*")) <= 2**20


def test_a_header_that_lies_about_its_size_ends_there_too(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_UNPACKED", 2**20)
    path = tmp_path / "bad.tar.gz"
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 2**33
    with gzip.open(path, "wb") as squeezed:
        squeezed.write(header.tobuf())
        for _ in range(64):
            squeezed.write(bytes(2**16))
    with pytest.raises(ArchiveRefused):
        unpack(path, tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", gzip.compress(b""), gzip.compress(b"no tar at all" * 100)],
    ids=["nothing", "text", "compressed nothing", "compressed text"],
)
def test_what_is_no_archive_is_refused_in_words(tmp_path, content):
    path = tmp_path / "bad.tar.gz"
    path.write_bytes(content)
    with pytest.raises(ArchiveRefused):
        unpack(path, tmp_path / "out")


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_FILES", 3)
    files = {f"{i}.py": TEXT for i in range(4)}
    with pytest.raises(ArchiveRefused, match="4 files"):
        unpack(forged(tmp_path, *[(member(name), TEXT) for name in files], files=files), tmp_path)


def test_what_would_be_refused_is_not_packed(tmp_path):
    (tmp_path / "a.py").write_bytes(TEXT)
    for files, about in (
        ({"../a.py": tmp_path / "a.py"}, {}),
        ({"a.py": tmp_path / "a.py"}, {"name": "../evil"}),
        ({"a.py": tmp_path / "a.py"}, {"version": "1/../../x"}),
        ({"a.py": tmp_path / "a.py"}, {"target": "a.py:Bad;import os"}),
    ):
        with pytest.raises(ArchiveRefused):
            pack(files, tmp_path / "out", **({"name": "a", "version": "1", "target": "a.py:A"} | about))
