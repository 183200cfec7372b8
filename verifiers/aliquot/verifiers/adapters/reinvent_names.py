"""The names that a REINVENT4 scoring component imports, for a process in which REINVENT4 is not installed.

Always true: where REINVENT4 is installed its own modules are used; what stands here is written anew to the documented
interface. `provide` puts it into the modules of this process and nowhere else.

| a component imports | from `reinvent_plugins` |
| --- | --- |
| `add_tag`, `ComponentResults`, `run_command` | `components.add_tag`, `.component_results`, `.run_program` |
| `molcache`, `normalize_smiles`, `normalize` | `mol_cache`, `normalize`, `normalizers.rdkit_smiles` |
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

ROOT = "reinvent_plugins"
COMPONENTS = f"{ROOT}.components"
BESIDE = ("add_tag", "component_results", "run_program")
"""Modules that stand beside the components."""
ABOVE = ("mol_cache", "normalize", "normalizers")
"""Modules that stand in the folder above."""
REMEMBERED = 4096
"""Molecules that `molcache` keeps."""


def add_tag(label: str, text: str = "True") -> Callable[[type], type]:
    """A class decorator: marks a component (`__component`) or its parameters (`__parameters`)."""

    def mark(cls: type) -> type:
        setattr(cls, label, text)
        return cls

    return mark


@dataclass
class ComponentResults:
    """What a component gives: one array for each endpoint, in the order of its SMILES; NaN where it failed."""

    scores: list[Any]
    scores_properties: list[dict[str, Any]] | None = None
    uncertainty: list[Any] | None = None
    uncertainty_type: str | None = None
    uncertainty_properties: list[dict[str, Any]] | None = None
    failures_properties: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None


def molcache(method: Callable[[Any, list[Any]], Any]) -> Callable[[Any, list[str]], Any]:
    """Gives a method RDKit molecules where it is called with SMILES."""

    @functools.wraps(method)
    def with_molecules(self: Any, smilies: list[str]) -> Any:
        return method(self, [_molecule(smiles) for smiles in smilies])

    return with_molecules


@functools.lru_cache(maxsize=REMEMBERED)
def _molecule(smiles: str) -> Any:
    from rdkit import Chem

    return Chem.MolFromSmiles(smiles)


def normalize(smilies: Sequence[str], keep_all: bool = False) -> list[str]:
    """SMILES without isotopes and atom numbers. One that RDKit cannot read is left out, or kept as it is."""
    from rdkit import Chem

    cleaned = []
    for smiles in smilies:
        if (mol := Chem.MolFromSmiles(smiles)) is None:
            cleaned += [smiles] if keep_all else []
            continue
        for atom in mol.GetAtoms():
            atom.SetIsotope(0)
            atom.SetAtomMapNum(0)
        cleaned.append(Chem.MolToSmiles(mol))
    return cleaned


def normalize_smiles(method: Callable[[Any, list[str]], Any]) -> Callable[[Any, list[str]], Any]:
    """Gives a method normalised SMILES, unless the component says `skip_normalize`."""

    @functools.wraps(method)
    def with_normalised(self: Any, smilies: list[str]) -> Any:
        if getattr(self, "skip_normalize", False):
            return method(self, smilies)
        wanted = getattr(self, "smiles_type", "rdkit_smiles")
        if wanted != "rdkit_smiles":
            raise ImportError(f"the normaliser {wanted!r} needs REINVENT4 itself; here there is rdkit_smiles")
        return method(self, normalize(smilies))

    return with_normalised


def run_command(
    command: Sequence[str], env: Mapping[str, str] | None = None, input: str | None = None, cwd: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program and wait for it. Raises `ValueError` with its output when it fails."""
    done = subprocess.run(list(command), env=env, input=input, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        said = f"stdout={done.stdout[-2000:]}, stderr={done.stderr[-2000:]}"
        raise ValueError(f"{' '.join(command)} ended with exit code {done.returncode}: {said}")
    return done


def provide() -> None:
    """Make these names importable in this process, unless REINVENT4 is."""
    if ROOT in sys.modules or importlib.util.find_spec(ROOT) is not None:
        return
    _module(ROOT)
    _module(COMPONENTS)
    _module(f"{COMPONENTS}.add_tag", add_tag=add_tag)
    _module(f"{COMPONENTS}.component_results", ComponentResults=ComponentResults)
    _module(f"{COMPONENTS}.run_program", run_command=run_command)
    _module(f"{ROOT}.mol_cache", molcache=molcache)
    _module(f"{ROOT}.normalize", normalize_smiles=normalize_smiles)
    _module(f"{ROOT}.normalizers")
    _module(f"{ROOT}.normalizers.rdkit_smiles", normalize=normalize)


def package(name: str, folder: str) -> None:
    """A package of this name whose modules are looked for in a folder; more folders may be given one after another."""
    if name in sys.modules or importlib.util.find_spec(name) is not None:
        module = importlib.import_module(name)
    else:
        module = _module(name)
    paths = list(getattr(module, "__path__", []))
    if folder not in paths:
        module.__path__ = [*paths, folder]  # type: ignore[assignment]


def _module(name: str, **members: Any) -> ModuleType:
    module = sys.modules[name] = ModuleType(name)
    if not members:
        module.__path__ = []
    for key, member in members.items():
        setattr(module, key, member)
    above, _, own = name.rpartition(".")
    if above:
        setattr(sys.modules[above], own, module)
    return module
