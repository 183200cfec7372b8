"""From the `type` of a verifier in a campaign to the code that it names. No plugin is imported here.

A type is the name of a built-in, a name that an installed package declares under the entry point group
`aliquot.verifiers`, the name of a plugin that was installed from an archive, a path with a class, `./my.py:MyVerifier`,
or the folder of a package, `./my_plugin`, whose pyproject.toml says where the class is. A name may end in `@VERSION`.
Built-ins cannot be shadowed. They are the project's own code and their configuration is checked here; everything else
is imported and checked in a worker process.
"""

from __future__ import annotations

import os
import tomllib
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue

from aliquot.domain import ConfigError, Noun
from aliquot.verifiers import store

GROUP = "aliquot.verifiers"
BUILTINS = {
    "validity": "aliquot.verifiers.builtin.molecules.validity:Validity",
    "qed": "aliquot.verifiers.builtin.molecules.qed:Qed",
    "synthetic_accessibility": "aliquot.verifiers.builtin.molecules.synthetic_accessibility:SyntheticAccessibility",
    "structural_alerts": "aliquot.verifiers.builtin.molecules.structural_alerts:StructuralAlerts",
    "novelty": "aliquot.verifiers.builtin.molecules.novelty:Novelty",
    "diversity": "aliquot.verifiers.builtin.molecules.diversity:Diversity",
    "allowed_atoms": "aliquot.verifiers.builtin.molecules.allowed_atoms:AllowedAtoms",
    "descriptor": "aliquot.verifiers.builtin.molecules.descriptor:Descriptor",
    "druglikeness_rules": "aliquot.verifiers.builtin.molecules.druglikeness_rules:DruglikenessRules",
    "natural_product_likeness": "aliquot.verifiers.builtin.molecules.natural_product_likeness:NaturalProductLikeness",
    "substructure": "aliquot.verifiers.builtin.molecules.substructure:Substructure",
    "similarity": "aliquot.verifiers.builtin.molecules.similarity:Similarity",
    "scaffold_novelty": "aliquot.verifiers.builtin.molecules.scaffold_novelty:ScaffoldNovelty",
    "purchasability": "aliquot.verifiers.builtin.molecules.purchasability:Purchasability",
    "shape": "aliquot.verifiers.builtin.molecules.shape:Shape",
    "pmo": "aliquot.verifiers.builtin.molecules.pmo:Pmo",
    "bioactivity": "aliquot.verifiers.builtin.molecules.bioactivity:Bioactivity",
    "ranges": "aliquot.verifiers.builtin.conditions.ranges:Ranges",
    "mixture": "aliquot.verifiers.builtin.conditions.mixture:Mixture",
    "incompatibility": "aliquot.verifiers.builtin.conditions.incompatibility:Incompatibility",
    "solvent_limits": "aliquot.verifiers.builtin.conditions.solvent_limits:SolventLimits",
    "cost": "aliquot.verifiers.builtin.conditions.cost:Cost",
    "snar": "aliquot.verifiers.builtin.conditions.snar:SnAr",
    "alphabet": "aliquot.verifiers.builtin.sequences.alphabet:Alphabet",
    "length": "aliquot.verifiers.builtin.sequences.length:Length",
    "forbidden_motifs": "aliquot.verifiers.builtin.sequences.forbidden_motifs:ForbiddenMotifs",
    "gc_content": "aliquot.verifiers.builtin.sequences.gc_content:GcContent",
    "repeats": "aliquot.verifiers.builtin.sequences.repeats:Repeats",
    "codon_adaptation": "aliquot.verifiers.builtin.sequences.codon_adaptation:CodonAdaptation",
    "hydropathy": "aliquot.verifiers.builtin.sequences.hydropathy:Hydropathy",
    "net_charge": "aliquot.verifiers.builtin.sequences.net_charge:NetCharge",
    "isoelectric_point": "aliquot.verifiers.builtin.sequences.isoelectric_point:IsoelectricPoint",
    "instability_index": "aliquot.verifiers.builtin.sequences.instability_index:InstabilityIndex",
    "json_schema": "aliquot.verifiers.builtin.general.json_schema:JsonSchema",
    "expression": "aliquot.verifiers.builtin.general.expression:Expression",
    "learned_model": "aliquot.verifiers.builtin.general.learned_model:LearnedModel",
    "python_code": "aliquot.verifiers.builtin.general.python_code:PythonCode",
}

ADAPTERS = {
    "reinvent_component": "aliquot.verifiers.adapters.reinvent_component:ReinventComponent",
    "external_process": "aliquot.verifiers.adapters.external_process:ExternalProcess",
    "molscore": "aliquot.verifiers.adapters.molscore:MolScoreTask",
    "prime_reward": "aliquot.verifiers.adapters.prime_reward:PrimeReward",
    "http": "aliquot.verifiers.adapters.http_batch:HttpBatch",
    "http_job": "aliquot.verifiers.adapters.http_job:HttpJob",
}
"""The project's own verifiers that run or ask something foreign, which the configuration names. Their classes are
trusted and checked here; what they run is not, so each has a sandbox of its own."""

TRUSTED_PLUGINS = "ALIQUOT_TRUSTED_PLUGINS"
"""Environment variable: types, separated by commas, that the operator lets run without a sandbox."""


CONTAINED = frozenset({"learned_model", "python_code"})
"""Built-ins that run what others wrote, a user's model or a policy's program: each in a sandbox of its own."""


class Reference(Noun):
    """Where the class of a verifier is."""

    type: str
    """As written in the campaign."""
    origin: Literal["builtin", "adapter", "entry_point", "path", "uploaded"]
    target: str
    """`package.module:Class` or `/absolute/path/file.py:Class`."""
    version: str | None = None
    """The version that was asked for; None: whatever there is."""
    plugin: store.InstalledPlugin | None = None
    """Of an uploaded one."""
    folder: str | None = None
    """Where the package of a plugin that is a folder is imported from."""
    root: Path | None = None
    """The file or folder that a person knows the plugin by."""

    @property
    def trusted(self) -> bool:
        """Whether it runs without a sandbox: the project's own code, and what the operator names."""
        named = {name.strip() for name in os.environ.get(TRUSTED_PLUGINS, "").split(",")}
        ours = self.origin == "builtin" and self.type.partition("@")[0] not in CONTAINED
        return ours or self.type in named


def known() -> dict[str, Reference]:
    """Every verifier that has a name: built-ins, those of installed packages, then those installed from archives."""
    references = {name: Reference(type=name, origin="builtin", target=target) for name, target in BUILTINS.items()}
    references |= {name: Reference(type=name, origin="adapter", target=target) for name, target in ADAPTERS.items()}
    for point in entry_points(group=GROUP):
        references.setdefault(point.name, Reference(type=point.name, origin="entry_point", target=point.value))
    for plugin in store.installed():
        references.setdefault(plugin.name, _uploaded(plugin.name, plugin))
    return references


def resolve(type: str, base: Path | None = None) -> Reference:
    """The reference of a type.

    Args:
        base: folder that a relative path starts from; default: the working directory.

    Raises:
        ConfigError: nothing has this name, the file is not there, or no administrator has approved the plugin.
    """
    location, colon, name = type.rpartition(":")
    if colon and location.endswith(".py"):
        path = ((base or Path.cwd()) / Path(location).expanduser()).resolve()
        if not path.is_file():
            raise ConfigError("verifier", [("type", type, f"there is no file {path}")])
        if not name.isidentifier():
            raise ConfigError("verifier", [("type", type, "after the colon stands the name of a class")])
        return Reference(type=type, origin="path", target=f"{path}:{name}", root=path)
    if "/" in type or type.startswith("."):
        return _folder(type, (base or Path.cwd()))
    plain, _, version = type.partition("@")
    references = known()
    if plain not in references:
        near = get_close_matches(plain, references, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        remedy = f"no such verifier; {hint}known: {', '.join(references)}; or a file with a class, ./my.py:MyVerifier"
        raise ConfigError("verifier", [("type", type, remedy)])
    reference = references[plain]
    if reference.origin == "uploaded":
        return _chosen(type, plain, version)
    return reference.model_copy(update={"type": type, "version": version or None})


def validate_config(type: str, config: dict[str, Any], base: Path | None = None) -> dict[str, JsonValue]:
    """The configuration of a verifier with its defaults filled in, as JSON values.

    Raises:
        ConfigError: nothing has this type, its code does not import, or a key or value is wrong. Paths in it begin
            with `type` or `config`.
        SandboxUnavailable: it is not trusted, and this machine cannot contain it.
    """
    reference = resolve(type, base)
    if reference.origin in ("builtin", "adapter"):
        from aliquot.verifiers.hosting import describe

        described = describe(reference.target, config)
        problems, filled = described["problems"], described["config"]
    else:
        from aliquot.verifiers.opening import introduce

        (description,) = introduce([(type, reference, config)])
        problems, filled = [problem.model_dump() for problem in description.problems], description.config
    if problems:
        told = [(problem["path"], problem["value"], problem["remedy"]) for problem in problems]
        raise ConfigError(f"verifier {type}", told)
    return filled


def _uploaded(type: str, plugin: store.InstalledPlugin) -> Reference:
    location, _, name = plugin.target.rpartition(":")
    source = store.folder_of(plugin) / "source"
    about = {"type": type, "origin": "uploaded", "plugin": plugin, "root": source, "version": plugin.version}
    if location.endswith(".py"):
        return Reference(target=f"{source / location}:{name}", **about)
    return Reference(target=plugin.target, folder=str(_import_root(source)), **about)


def _folder(type: str, base: Path) -> Reference:
    """The plugin of a folder; `./folder:name` where it has several."""
    written, _, wanted = type.partition(":")
    root = (base / Path(written).expanduser()).resolve()
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    except OSError:
        remedy = "there is no such file, nor a folder with a pyproject.toml; a file is written ./my.py:MyVerifier"
        raise ConfigError("verifier", [("type", type, remedy)]) from None
    except (tomllib.TOMLDecodeError, KeyError) as error:
        remedy = f"its pyproject.toml has no proper [project]: {error}"
        raise ConfigError("verifier", [("type", type, remedy)]) from None
    points = project.get("entry-points", {}).get(GROUP, {})
    names = [name for name in points if wanted in ("", name)]
    if len(names) != 1:
        there = f"it has {', '.join(points)}: write {written}:NAME" if points else "it has none"
        remedy = f'its pyproject.toml must have one entry under [project.entry-points."{GROUP}"]; {there}'
        raise ConfigError("verifier", [("type", type, remedy)])
    target, folder = str(points[names[0]]), str(_import_root(root))
    return Reference(type=type, origin="path", target=target, folder=folder, root=root)


def _import_root(root: Path) -> Path:
    return root / "src" if (root / "src").is_dir() else root


def _chosen(type: str, name: str, version: str) -> Reference:
    """The newest installation of this name (and version) that is approved."""
    found = [plugin for plugin in store.installed() if plugin.name == name and version in ("", plugin.version)]
    if not found:
        versions = ", ".join(plugin.version for plugin in store.installed() if plugin.name == name)
        raise ConfigError("verifier", [("type", type, f"no such version of it is installed; there is {versions}")])
    approved = [plugin for plugin in found if plugin.approved]
    if not approved:
        remedy = f"{name} {found[0].version} is installed, and waits for the approval of an administrator"
        raise ConfigError("verifier", [("type", type, remedy)])
    return _uploaded(type, approved[0])
