"""LoRA: small adapters learn, and the policy underneath stays as it is.

    W' = W + (alpha / rank) B A        A [rank, in], B [out, rank], B = 0 at first

(Hu et al. 2021, https://arxiv.org/abs/2106.09685; the layers are those of `peft`.) An adapter stands on linear layers
inside the blocks. Embeddings and head are left out, since they may be tied; so are the routers and the experts of a
mixture, which are stacked parameters and no linear layers: of a mixture the attention is adapted, and what else is
linear. There is no dropout: a sequence that is scored twice shall have one probability.

Nobody but the trainer sees an adapter. What is published is merged and has the names and shapes of the base, so any
rollout engine loads it, and experts that it records are replayed under the adapters.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from aliquot.domain import Noun
from aliquot.trainer.policies.policy import Policy, PolicyError

ADAPTER = "learned"
"""Under this name `peft` keeps the one adapter that there is."""


class LoraConfig(Noun):
    """Low-rank adapters in place of the whole model. They want a learning rate some ten times as high."""

    rank: int = Field(default=8, ge=1)
    alpha: float = Field(default=16.0, gt=0)
    """What an adapter adds is multiplied by alpha / rank."""
    targets: tuple[str, ...] | None = None
    """Last part of the names of the linear layers that are adapted, such as `q_proj`; null for all inside the blocks.
    Routers and experts of a mixture are none of them."""


def with_lora(policy: Policy, config: LoraConfig, seed: int = 0) -> Policy:
    """A copy that starts where the policy stands and in which adapters alone have a gradient.

    Args:
        policy: left as it is.
        config: of the adapters.
        seed: of their first weights.

    Raises:
        PolicyError: a target that is no linear layer of the blocks.
    """
    from peft import LoraConfig as PeftConfig
    from peft import inject_adapter_in_model

    model = copy.deepcopy(policy.model)
    # Given the whole model, peft takes `gate_proj` and its like for the routers and stacked experts of a mixture.
    blocks: Any = model.base_model.layers
    linear = [name for name, module in blocks.named_modules() if isinstance(module, nn.Linear)]
    known = sorted({name.rpartition(".")[2] for name in linear})
    wanted = known if config.targets is None else config.targets
    if unknown := sorted(set(wanted) - set(known)):
        raise PolicyError(
            f"policy {policy.name} has no linear layer {unknown[0]!r} to adapt: it has {', '.join(known)}"
        )
    chosen = [name for name in linear if name.rpartition(".")[2] in wanted]
    peft = PeftConfig(r=config.rank, lora_alpha=config.alpha, target_modules=chosen)  # type: ignore[arg-type]
    model.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(peft, blocks, adapter_name=ADAPTER)
    return replace(policy, model=model)


def has_adapters(model: nn.Module) -> bool:
    return bool(_adapted(model))


@torch.no_grad()
def merged_weights(model: nn.Module) -> dict[str, Tensor]:
    """The state of the base model with the adapters merged into it; of a model without adapters, its own state.

    Names, shapes and tied tensors are those of the base.
    """
    state = {name.replace(".base_layer.", "."): x for name, x in model.state_dict().items() if ".lora_" not in name}
    for name, layer in _adapted(model).items():
        state[f"{name}.weight"] = state[f"{name}.weight"] + layer.get_delta_weight(ADAPTER)
    return state


def trained_state(policy: Policy) -> dict[str, Any]:
    """What a checkpoint needs of a policy: its weights, or with adapters those alone and the digest of their base."""
    state = policy.model.state_dict()
    if not has_adapters(policy.model):
        return {"weights": state}
    return {"weights": {name: x for name, x in state.items() if ".lora_" in name}, "base": policy.digest}


def restore_trained(policy: Policy, state: dict[str, Any]) -> None:
    """Take what `trained_state` gave.

    Raises:
        PolicyError: adapters of another base, or adapters where there are none, or the other way round.
    """
    weights, base = state["weights"], state.get("base")
    if (base is not None) != has_adapters(policy.model):
        held = "adapters" if base is not None else "whole weights"
        raise PolicyError(f"the checkpoint holds {held}, and `learning.lora` says otherwise: set it as it was")
    if base is not None and base != policy.digest:
        raise PolicyError(
            f"the checkpoint's adapters were trained on a base with digest {base[:12]}; policy {policy.name} has "
            f"{policy.digest[:12]} now: restore its weights, or begin a new campaign"
        )
    policy.model.load_state_dict(weights, strict=base is None)


def _adapted(model: nn.Module) -> dict[str, Any]:
    """By name, the layers that carry an adapter."""
    return {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}
