"""From a YAML file to a prior on disk: read, tokenise, train, evaluate, save.

Always true here: a run that is stopped anywhere goes on where it was when it is started again, and one whose last step
is done goes straight to evaluation. The prior's folder appears only when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from aliquot.domain import ConfigError
from aliquot.trainer.policies import Policy, save_policy
from aliquot.trainer.pretraining import corpus as corpora
from aliquot.trainer.pretraining.card import model_card
from aliquot.trainer.pretraining.config import PretrainConfig
from aliquot.trainer.pretraining.evaluate import evaluate
from aliquot.trainer.pretraining.loop import holdout_loss, pretrain


def run_pretraining(
    config_path: Path, work: Path = Path("runs/pretraining"), say: Callable[[str], None] = print
) -> Path:
    """Make the prior that a file describes; returns its folder.

    Tokenised corpora are kept in `$ALIQUOT_CACHE`, by default `~/.cache/aliquot`.

    Args:
        config_path: YAML of a `PretrainConfig`.
        work: checkpoints and the training log go to `work/NAME`, the evaluation too.
        say: told what happens, a line at a time.

    Raises:
        ConfigError: the file, its corpus, or a checkpoint in `work/NAME` does not fit, with the place in the file.
    """
    config = read_config(config_path)
    folder = work / config.name
    cache = Path(os.environ.get("ALIQUOT_CACHE", "~/.cache/aliquot")).expanduser()
    corpus = corpora.load(config.corpus, config.space, config.seed, cache)
    codec = config.space.codec()
    say(f"{config.name}: {len(corpus.starts) - 1:,} molecules, {corpus.holdout:,} of them held out")
    model = pretrain(config, corpus, len(codec.vocabulary), folder, say)
    policy = Policy.of(model, codec, config.name)
    say(f"drawing {config.evaluate_samples:,} samples")
    loss = holdout_loss(model, corpus)
    found = evaluate(policy, corpus.smiles(codec), config.evaluate_samples, config.seed)
    (folder / "evaluation.json").write_text(found.model_dump_json(indent=2))
    card = model_card(config, f"aliquot pretrain {config_path}", policy, corpus, loss, found)
    save_policy(policy, config.output, card)
    say(
        f"{config.output}: loss {loss:.3f} nats a token, {found.validity:.1%} valid, {found.uniqueness:.1%} unique, "
        f"{found.novelty:.1%} novel"
    )
    return config.output


def read_config(path: Path) -> PretrainConfig:
    """The configuration in a YAML file.

    Raises:
        ConfigError: no such file, not YAML, or a key that is unknown, missing or out of range.
    """
    if not path.is_file():
        raise ConfigError(str(path), [("", str(path), "no such file: give the path of a YAML file")])
    try:
        data = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ConfigError(str(path), [("", str(path), f"is not YAML: {error}")]) from None
    try:
        return PretrainConfig.model_validate(data)
    except ValidationError as error:
        problems = [
            (_place(problem["loc"], data), problem["input"], problem["msg"].removeprefix("Value error, "))
            for problem in error.errors()
        ]
        raise ConfigError(str(path), problems) from None


def _place(location: tuple[str | int, ...], data: Any) -> str:
    """Dotted keys as they stand in the file: the tag by which pydantic chose among `type`s is left out."""
    keys = []
    for part in location:
        if isinstance(data, dict) and part not in data and part == data.get("type"):
            continue
        keys.append(str(part))
        data = data.get(part) if isinstance(data, dict) else None
    return ".".join(keys)
