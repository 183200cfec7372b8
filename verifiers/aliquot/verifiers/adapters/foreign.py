"""What all adapters share: limits that the configuration sets, and numbers that came from somebody else's code."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from pydantic import AfterValidator, Field, FiniteFloat

from aliquot.domain import Design
from aliquot.verifiers.environment import PIN
from aliquot.verifiers.sdk import Needs, NoScore, Score, VerifierConfig

SHOWN = 200
"""Characters of a foreign value that a reason shows."""
ALONE = "--no-deps"
"""Stands first in a list of pins that is complete: nothing else is installed."""


def _pin(text: str) -> str:
    if not PIN.fullmatch(text):
        raise ValueError("write it as `name==version`; what verdicts are made with must be the same everywhere")
    return text.replace(" ", "")


class AdapterConfig(VerifierConfig):
    """What every adapter can be told."""

    minimum: FiniteFloat | None = None
    """Refuse designs that score below it; None: score only."""
    maximum: FiniteFloat | None = None
    """Refuse designs that score above it; None: score only."""
    seconds: FiniteFloat = Field(default=30.0, gt=0, le=3600)
    """Longest time one design may take."""
    memory_mb: int = Field(default=4096, ge=64)
    """Memory of its worker, MiB."""


class HostingConfig(AdapterConfig):
    """Of an adapter that runs foreign Python."""

    requirements: tuple[Annotated[str, AfterValidator(_pin)], ...] = ()
    """Pins of its own environment, `name==version`, installed with what they depend on; default: the adapter's own
    list, or the environment of this program. `aliquot plugin prepare` builds it."""


def needs_of(config: AdapterConfig, **more: Any) -> Needs:
    return Needs(memory_mb=config.memory_mb, seconds=config.seconds, startup_seconds=300.0, **more)


def scored(
    value: Any, config: AdapterConfig, *, name: str = "score", values: Mapping[str, Any] | None = None, reason: str = ""
) -> Score | NoScore:
    """A foreign number as a score; what is no finite number leaves the design without one.

    Args:
        name: what the number is called there.
        values: further foreign results; what is no JSON value is shown as text.
    """
    if problem := not_a_number(value):
        return NoScore(f"{name} is {problem}" + (f" ({reason})" if reason else ""))
    number = float(value)
    refused = ""
    if config.minimum is not None and number < config.minimum:
        refused = f"{name} {number:g} is below {config.minimum:g}"
    if config.maximum is not None and number > config.maximum:
        refused = f"{name} {number:g} is above {config.maximum:g}"
    told = "; ".join(filter(None, (refused, reason)))
    return Score(number, not refused, told, {key: plain(member) for key, member in (values or {}).items()})


def not_a_number(value: Any) -> str:
    """What is wrong with a value that ought to be a finite number, or an empty text."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return f"{shown(value)}, not a number"
    if not isinstance(value, Real):
        return f"{shown(value)}, not a number"
    try:
        return "" if math.isfinite(value) else f"{float(value)}: it could not be computed"
    except OverflowError:
        return "beyond what a number can hold"


def plain(value: Any) -> Any:
    """A foreign value as JSON can say it: numbers that are none become None, unknown objects their text."""
    if isinstance(value, str):
        return value[: 10 * SHOWN]
    if value is None or isinstance(value, bool | int):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(member) for key, member in list(value.items())[:1000]}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(member) for member in value[:1000]]
    return value if isinstance(value, bool | int) else shown(value)


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def unreadable(design: Design) -> NoScore | None:
    """An answer to a molecule that RDKit cannot read, or that has no atom, which foreign code seldom expects; None
    where it is a proper one."""
    text, parse = str(design.value).strip(), _parser()
    if text and (parse is None or parse(text) is not None):
        return None
    return NoScore("it is no SMILES that RDKit can read; `validity` before this verifier keeps such designs from it")


@lru_cache(maxsize=1)
def _parser() -> Any:
    if importlib.util.find_spec("rdkit") is None:
        return None
    from rdkit import Chem, RDLogger

    RDLogger.DisableLog("rdApp.error")  # type: ignore[attr-defined]
    return Chem.MolFromSmiles


def load_file(path: Path, name: str) -> ModuleType:
    """The module of a Python file, under this name. Raises whatever its import raises."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
