"""The model card of a prior: what it was made from, how, how good it is, and what it is not for."""

from __future__ import annotations

from aliquot.domain.spaces import MoleculeSpace
from aliquot.trainer.policies import Policy
from aliquot.trainer.policies.architecture import MoE
from aliquot.trainer.pretraining.config import PretrainConfig
from aliquot.trainer.pretraining.corpus import TokenisedCorpus
from aliquot.trainer.pretraining.evaluate import Evaluation, LayerLoad


def model_card(
    config: PretrainConfig, command: str, policy: Policy, corpus: TokenisedCorpus, loss: float, found: Evaluation
) -> str:
    """Markdown with the metadata block that model hubs read.

    Args:
        command: that made the prior.
        loss: cross-entropy per token of the molecules held out, in nats.
    """
    kept, schedule = len(corpus.starts) - 1, config.schedule
    parameters = sum(p.numel() for p in policy.model.parameters())
    where = f"`{config.corpus.file}`"
    if config.corpus.package:
        where += f" of the Python package `{config.corpus.package}`"
    return f"""---
library_name: transformers
pipeline_tag: text-generation
tags: [chemistry, molecule-generation, smiles]
---

# {config.name}

A prior over drug-like molecules: a {policy.model.config.model_type} causal language model of {parameters:,} parameters
that writes SMILES. {_shape(config)}

## How it was made

| | |
| --- | --- |
| data | {where}: {corpus.read:,} lines, {kept:,} molecules after canonicalisation and removal of duplicates |
| canonical form | {_policy(config.space)} |
| held out | {corpus.holdout:,} molecules, never trained on |
| schedule | {schedule.steps:,} steps of {schedule.batch_size} molecules |
| optimiser | Muon and AdamW, peak learning rate {schedule.learning_rate:g}, linear decay to zero |
| seed | {config.seed} |
| command | `{command}` |
{_notes(config.notes)}
The molecules were compiled by the ZINC database, whose terms ask that major portions of it are not redistributed. The
corpus is therefore not part of this project; only the weights trained on it are.

## How good it is

{found.samples:,} samples at temperature 1, without truncation:

| | |
| --- | --- |
| loss on the molecules held out | {loss:.4f} nats a token |
| validity | {found.validity:.2%} |
| uniqueness, of the valid | {found.uniqueness:.2%} |
| novelty, of the unique | {found.novelty:.2%} |
| internal diversity | {found.internal_diversity:.3f} |
| tokens a sample | {found.mean_tokens:.1f} |
{_experts(found.experts)}
## What it is for

The starting point of a campaign (`policy: {{init: {config.output.name}}}`) over a molecule space with the same
canonical form. It proposes molecules that look like its corpus. It knows nothing of activity, toxicity or how a
molecule is made, writes no stereochemistry unless its canonical form keeps it, and no molecule of more than
{config.space.max_tokens} tokens.
What it proposes is a hypothesis: nothing it writes is safe to make or to use until qualified people have judged it.
"""


def _shape(config: PretrainConfig) -> str:
    shape = config.architecture
    if isinstance(shape, MoE):
        chosen = f"{shape.experts_per_token} of {shape.experts} experts"
        return f"Every token goes through {chosen} in each of {shape.layers} layers."
    return f"It has {shape.layers} layers of width {shape.hidden_size}."


def _notes(notes: str) -> str:
    return f"\n{notes.strip()}\n" if notes else ""


def _policy(space: MoleculeSpace) -> str:
    return f"salts: {space.salts}, charges: {space.charges}, stereo: {space.stereo}, tautomers: {space.tautomers}"


def _experts(layers: tuple[LayerLoad, ...]) -> str:
    if not layers:
        return ""
    rows = [
        f"| {i} | {' '.join(f'{share:.1%}' for share in layer.share)} | {layer.imbalance:.2f} | {len(layer.dead)} |"
        for i, layer in enumerate(layers)
    ]
    head = "| layer | share of each expert | largest load / mean load | dead experts |"
    return "\n".join(["", head, "| --- | --- | --- | --- |", *rows, ""])
