"""Maximum-likelihood pretraining of a prior on one core.

Always true here: a run that is stopped anywhere and started again continues from its last checkpoint and, batches
being a pure function of (seed, step), computes what it would have computed had it not been stopped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

from aliquot.domain.errors import ConfigError
from aliquot.domain.spaces.codec import PAD
from aliquot.trainer.policies.architecture import MoE, build_model
from aliquot.trainer.pretraining.config import PretrainConfig, Schedule
from aliquot.trainer.pretraining.corpus import TokenisedCorpus, batches_of_epoch
from aliquot.trainer.pretraining.optimiser import optimisers_for


def learning_rate_at(step: int, schedule: Schedule) -> float:
    """Linear warm-up to the peak, then linear decay to zero at the last step (D2Z: Bergsma et al. 2025)."""
    warm = min(1.0, (step + 1) / max(1, schedule.warmup_steps))
    return schedule.learning_rate * warm * max(0.0, 1 - step / schedule.steps)


def token_loss(model: PreTrainedModel, tokens: torch.Tensor, balance: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(loss to descend, cross-entropy per token in nats) of right-padded sequences int64 [batch, length].

    Padding stands on the right of causal attention, so it needs no mask; its targets and its routing do not count.
    """
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    out = model(input_ids=inputs, output_router_logits=balance > 0) if balance > 0 else model(input_ids=inputs)
    entropy = F.cross_entropy(out.logits.float().flatten(0, 1), targets.flatten(), ignore_index=PAD)
    if not balance:
        return entropy, entropy.detach()
    # One layer at a time: given all at once, the library's function adds the layers up first, and an expert that is
    # dead in one layer is balanced by its namesake in another.
    experts, top_k, mask = model.config.num_experts, model.config.num_experts_per_tok, (inputs != PAD).long()
    layers = [load_balancing_loss_func((logits,), experts, top_k, mask) for logits in out.router_logits]
    aux = sum(layers) / len(layers)
    return entropy + balance * aux, entropy.detach()


@torch.no_grad()
def holdout_loss(model: PreTrainedModel, corpus: TokenisedCorpus) -> float:
    """Cross-entropy per token, in nats, on the molecules held out."""
    first = len(corpus.starts) - 1 - corpus.holdout
    index = first + torch.argsort(torch.from_numpy(corpus.lengths[first:])).numpy()
    total = count = 0.0
    for chunk in torch.from_numpy(index).split(128):
        tokens = corpus.sequences(chunk.numpy())
        n = int((tokens[:, 1:] != PAD).sum())
        total, count = total + float(token_loss(model, tokens, 0.0)[0]) * n, count + n
    return total / count


def pretrain(
    config: PretrainConfig, corpus: TokenisedCorpus, vocabulary_size: int, work: Path, say: Callable[[str], None]
) -> PreTrainedModel:
    """Train, from the last checkpoint in `work` if there is one, and return the model in evaluation mode.

    Raises:
        ConfigError: `work` holds a checkpoint of another configuration.
    """
    torch.set_num_threads(1)
    schedule, step = config.schedule, 0
    model = build_model(config.architecture, vocabulary_size, config.seed).train()
    optimisers = optimisers_for(model, schedule.learning_rate, schedule.weight_decay)
    balance = schedule.load_balance if isinstance(config.architecture, MoE) else 0.0
    work.mkdir(parents=True, exist_ok=True)
    checkpoint, identity = (
        work / "checkpoint.pt",
        config.model_dump_json(exclude={"output", "evaluate_samples", "notes"}),
    )
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        if state["config"] != identity:
            remedy = "is a checkpoint of another configuration: remove it, or give this one another `name`"
            raise ConfigError(str(work), [("name", config.name, remedy)])
        model.load_state_dict(state["model"])
        for optimiser, saved in zip(optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        step = state["step"]
        say(f"going on from step {step}")

    trained = corpus.lengths[: len(corpus.lengths) - corpus.holdout]
    batches: list[np.ndarray] = []
    epoch, seen, since = -1, 0, time.perf_counter()
    while step < schedule.steps:
        per_epoch = len(batches) or len(trained) // schedule.batch_size
        if step // per_epoch != epoch:
            epoch = step // per_epoch
            batches = batches_of_epoch(trained, schedule.batch_size, config.seed, epoch)
        tokens = corpus.sequences(batches[step % per_epoch])
        for group in (group for optimiser in optimisers for group in optimiser.param_groups):
            group["lr"] = learning_rate_at(step, schedule)
        loss, entropy = token_loss(model, tokens, balance)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.max_gradient_norm)
        for optimiser in optimisers:
            optimiser.step()
        model.zero_grad(set_to_none=True)
        step, seen = step + 1, seen + int((tokens[:, 1:] != PAD).sum())
        if step % schedule.log_every == 0 or step == schedule.steps:
            now = time.perf_counter()
            row = {"step": step, "loss": float(entropy), "gradient_norm": float(norm)}
            row["tokens_per_second"], seen, since = round(seen / (now - since)), 0, now
            with (work / "log.jsonl").open("a") as log:
                log.write(json.dumps(row) + "\n")
            say(f"step {step}/{schedule.steps}  loss {row['loss']:.3f}  {row['tokens_per_second']} tokens/s")
        if step % schedule.checkpoint_every == 0 or step == schedule.steps:
            state = {"config": identity, "step": step}
            state |= {"model": model.state_dict(), "optimisers": [o.state_dict() for o in optimisers]}
            partial = checkpoint.with_suffix(f".{os.getpid()}.tmp")
            torch.save(state, partial)
            partial.replace(checkpoint)
    return model.eval()
