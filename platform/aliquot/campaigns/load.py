"""From a YAML file to a campaign that can run, or to one message that says all that is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from aliquot.campaigns.spec import CampaignSpec
from aliquot.clock import VirtualClock
from aliquot.domain import ConfigError
from aliquot.domain.errors import Problem
from aliquot.lab_adapters import create_lab
from aliquot.trainer.policies import PolicyError, load_policy
from aliquot.verifiers.ladder import VerifierLadder


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        ConfigError: the file is missing, is not YAML (with line and column), or holds no mapping.
    """
    if not path.is_file():
        raise ConfigError(str(path), [("", str(path), "no such file; give the path of a YAML file")])
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        said = getattr(error, "problem", None) or str(error)
        raise ConfigError(str(path), [(where, said, "this is not valid YAML")]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [("", str(error), "the file cannot be read as UTF-8 text")]) from None
    if not isinstance(data, dict):
        raise ConfigError(str(path), [("", data, "a mapping of keys to values is wanted")])
    return data


def override(data: dict[str, Any], assignments: list[str]) -> dict[str, Any]:
    """`data` with `a.b.c=value` assignments applied; values are YAML.

    Raises:
        ConfigError: an assignment without `=`, or a path through something that is not a mapping.
    """
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if not separator:
            raise ConfigError("--set", [(assignment, assignment, "write KEY.KEY=VALUE")])
        keys, here = path.split("."), data
        for key in keys[:-1]:
            here = here.setdefault(key, {})
            if not isinstance(here, dict):
                raise ConfigError("--set", [(path, here, f"{key} is not a mapping")])
        try:
            here[keys[-1]] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError("--set", [(path, text, "the value is not valid YAML")]) from None
    return data


def parse(data: Any, source: str) -> CampaignSpec:
    """A validated spec, looked at as far as it can be without beginning a run.

    Raises:
        ConfigError: every problem found, with its path, its value and its remedy.
    """
    try:
        spec = CampaignSpec.model_validate(data)
    except ValidationError as error:
        raise ConfigError.of(source, error, CampaignSpec) from None
    problems: list[Problem] = []
    try:
        VerifierLadder(spec.verifiers, kind=spec.space.type).close()
    except ConfigError as error:
        problems += [
            (f"verifiers[{path.replace('.', '].', 1)}", value, remedy) for path, value, remedy in error.problems
        ]
    try:
        lab = create_lab(spec.lab.type, spec.lab.config, VirtualClock(), source)
        try:
            problems += spec.misfits(lab.describe())
        finally:
            lab.close()
    except ConfigError as error:
        problems += error.problems
    try:
        load_policy(spec.policy.init, spec.space, spec.policy.architecture, spec.seed)
    except PolicyError as error:
        problems.append(("policy.init", spec.policy.init, str(error)))
    if problems:
        raise ConfigError(source, problems)
    return spec


def load(path: Path, assignments: list[str] | None = None) -> CampaignSpec:
    """The campaign in a YAML file, with `--set` assignments applied. Raises `ConfigError`.

    Relative paths of plugins and checkpoints start from the file's folder; in the spec they are absolute, so that a run
    can be resumed from anywhere.
    """
    return parse(_anchored(override(read_yaml(path), assignments or []), path.resolve().parent), str(path))


def _anchored(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    verifiers = data.get("verifiers")
    named = [data.get("lab"), *(verifiers if isinstance(verifiers, list) else [])]
    for section in named:
        if isinstance(section, dict) and isinstance(kind := section.get("type"), str) and ".py:" in kind:
            section["type"] = str(folder / kind)
    policy = data.get("policy")
    if isinstance(policy, dict) and isinstance(init := policy.get("init"), str) and (folder / init).is_dir():
        policy["init"] = str(folder / init)
    return data
