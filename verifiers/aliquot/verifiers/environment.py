"""A plugin's own environment: a virtual environment made of its pins, shared by all plugins with the same pins.

Pins stand in the plugin: in the comment block of PEP 723 where it is one file, else under `project.dependencies` of its
pyproject.toml. They are read as text; nothing of the plugin runs.

Always true: an environment that stands in its place is whole (it is built beside and then moved), its folder's name is
the digest of what was asked for, and only wheels go into it: no code of a package runs while it is built, and none
ever runs outside the sandbox.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from aliquot.domain import AliquotError, ConfigError
from aliquot.verifiers import store

PEP723 = re.compile(r"(?m)^# /// script$\s(?P<body>(^#(| .*)$\s)+)^# ///$")
PIN = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[A-Za-z0-9,._ -]+\])?"
    r"\s*==\s*[A-Za-z0-9][A-Za-z0-9.!+_-]*"
)
WORKER_NEEDS = ("msgspec", "numpy", "pydantic")
"""What the worker itself imports: each environment gets them, in the version of this one unless it pins another."""


class EnvironmentFailed(AliquotError):
    """The environment of a plugin could not be built. The message ends with what pip said."""


def pins_of(plugin: Path) -> tuple[str, ...]:
    """The pins of a plugin's own environment: of a file, or of a folder with a pyproject.toml. Empty: it has none.

    `aliquot` itself is left out, whatever version is asked for: it is there.

    Raises:
        ConfigError: the text is no TOML, or a requirement is no pin `name==version`.
    """
    wanted = _wanted(plugin)
    pins = tuple(sorted({pin.replace(" ", "") for pin in wanted if not re.match(r"aliquot\b(?!-)", pin.strip())}))
    if wrong := [pin for pin in pins if not PIN.fullmatch(pin)]:
        remedy = "write it as `name==version`; what a plugin runs with must be the same everywhere, and come as a wheel"
        raise ConfigError(str(plugin), [("dependencies", pin, remedy) for pin in wrong])
    return pins


def digest_of_pins(pins: Sequence[str]) -> str:
    """Name of the folder in which their environment stands, 32 hex digits."""
    whole = json.dumps([sys.implementation.cache_tag, sorted(_with_base(pins))])
    return hashlib.sha256(whole.encode()).hexdigest()[:32]


def python_of_pins(pins: Sequence[str], home: Path | None = None) -> str | None:
    """The interpreter of the environment of these pins; None where it is not built."""
    python = (home or store.home()) / "environments" / digest_of_pins(pins) / "bin" / "python"
    return str(python) if python.exists() else None


def build(pins: Sequence[str], home: Path | None = None, *, wheels: Path | None = None, seconds: float = 1800.0) -> str:
    """Build the environment of these pins unless it is there; its interpreter.

    Args:
        wheels: a folder of wheels; then nothing is fetched from anywhere else.

    Raises:
        EnvironmentFailed: pip could not.
    """
    if (python := python_of_pins(pins, home)) is not None:
        return python
    folder = (home or store.home()) / "environments"
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / digest_of_pins(pins)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=folder) as temporary:
        made = Path(temporary) / "environment"
        venv.EnvBuilder(with_pip=False, symlinks=True, clear=True).create(made)
        _fill(made / "bin" / "python", _with_base(pins), wheels, seconds)
        (made / "pins.json").write_text(json.dumps(sorted(_with_base(pins)), indent=1))
        with contextlib.suppress(OSError):  # another process was quicker: theirs is the same
            os.replace(made, place)
    found = python_of_pins(pins, home)
    if found is None:
        shutil.rmtree(place, ignore_errors=True)
        raise EnvironmentFailed(f"the environment {place} has no interpreter after it was built; try again")
    return found


def _fill(python: Path, pins: Sequence[str], wheels: Path | None, seconds: float) -> None:
    source = ["--no-index", "--find-links", str(wheels)] if wheels else []
    command = [
        sys.executable, "-m", "pip", "--python", str(python), "install", "--no-input", "--only-binary", ":all:",
        "--disable-pip-version-check", "--no-compile", *source, *pins,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise EnvironmentFailed(f"pip did not finish {', '.join(pins)} within {seconds:g} s") from None
    if done.returncode != 0:
        raise EnvironmentFailed(
            f"pip could not install {', '.join(pins)}:\n{(done.stdout + done.stderr)[-3000:].strip()}"
        )


def _with_base(pins: Sequence[str]) -> list[str]:
    named = {_name(pin) for pin in pins}
    return [*pins, *(f"{name}=={version(name)}" for name in WORKER_NEEDS if name not in named)]


def _name(pin: str) -> str:
    found = PIN.fullmatch(pin)
    return re.sub(r"[-_.]+", "-", found["name"]).lower() if found else ""


def _wanted(plugin: Path) -> list[str]:
    project = plugin / "pyproject.toml" if plugin.is_dir() else None
    try:
        if project is not None:
            text = project.read_text() if project.is_file() else ""
            return list(tomllib.loads(text).get("project", {}).get("dependencies", []))
        blocks = [found["body"] for found in PEP723.finditer(plugin.read_text(errors="replace"))]
        lines = "".join(line[2:] if line.startswith("# ") else line[1:] for line in "".join(blocks).splitlines(True))
        return list(tomllib.loads(lines).get("dependencies", []))
    except tomllib.TOMLDecodeError as error:
        place = "pyproject.toml" if project is not None else "the block `# /// script`"
        raise ConfigError(str(plugin), [(place, None, f"this is no TOML: {error}")]) from None
