"""A verifier in this very process, for its author: prints appear, breakpoints stop, exceptions keep their traceback."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from aliquot.domain import ConfigError, Design
from aliquot.isolation.loading import load_target
from aliquot.verifiers.hosting import describe, report
from aliquot.verifiers.registry import Reference
from aliquot.verifiers.sdk import NoScore, PointwiseVerifier, SetVerifier, SlowVerifier


def build(reference: Reference, config: Mapping[str, Any]) -> Any:
    """The verifier, as its worker would build it, without a worker.

    Raises:
        ConfigError: the configuration is wrong.
        Exception: whatever its import or `__init__` raises.
    """
    if reference.folder is not None and reference.folder not in sys.path:
        sys.path.insert(0, reference.folder)
    said = describe(reference.target, dict(config))
    if said["problems"]:
        told = [(problem["path"], problem["value"], problem["remedy"]) for problem in said["problems"]]
        raise ConfigError(f"verifier {reference.type}", told)
    cls = load_target(reference.target)
    return cls(cls.Config.model_validate(dict(config)))


def design_of(text: str, kinds: tuple[str, ...], kind: str | None = None) -> Design:
    """A design from what a person typed: a JSON object is conditions, any other text is of the kind that is judged.

    Raises:
        ConfigError: the text begins like an object, and is none; or the verifier does not judge the kind.
    """
    if text.lstrip().startswith("{"):
        try:
            return Design(kind=kind or "conditions", value=json.loads(text))
        except json.JSONDecodeError as error:
            raise ConfigError("DESIGN", [("", text, f"this is no JSON object: {error}")]) from None
    chosen = kind or next((k for k in kinds if k != "conditions"), kinds[0])
    if chosen not in kinds:
        raise ConfigError("--kind", [("", chosen, f"it judges {' and '.join(kinds)}")])
    return Design(kind=chosen, value=text)


def judge(verifier: Any, design: Design) -> dict[str, Any]:
    """What it says of one design, as a verdict would hold it, or its ticket and what `poll` says at once."""
    if isinstance(verifier, SlowVerifier):
        (ticket,) = verifier.submit([design])
        if isinstance(ticket, NoScore):
            return report(ticket, design)
        ready = verifier.poll([ticket])
        return {"ticket": ticket, **(report(ready[ticket], design) if ticket in ready else {"pending": True})}
    assert isinstance(verifier, PointwiseVerifier | SetVerifier)
    scores = list(verifier.verify([design]))
    if len(scores) != 1:
        return {"error": f"`verify` gave {len(scores)} scores for one design"}
    return report(scores[0], design)
