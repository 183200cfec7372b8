"""A plugin to pack, install and check, and a home for plugins that is not the user's."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from aliquot.verifiers.kit.scaffold import new_verifier


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where plugins are installed in this test."""
    folder = tmp_path / "home"
    monkeypatch.setenv("ALIQUOT_PLUGINS", str(folder))
    return folder


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder of a new plugin, as `aliquot plugin new` writes it."""
    new_verifier("my-pep", tmp_path / "my-pep")
    return tmp_path / "my-pep"


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], str]:
    """Writes a one-file plugin whose class is Mine; its type."""

    def write(body: str) -> str:
        path = tmp_path / "mine.py"
        path.write_text(
            "import os, sys, time, random\n"
            "from aliquot.domain import Design\n"
            "from aliquot.verifiers.sdk import *\n" + textwrap.dedent(body)
        )
        return f"{path}:Mine"

    return write
