"""bfloat16 arithmetic over float32 weights, with the head and the routers left in float32.

Weights, and so their gradients and the optimiser's moments, stay in float32: an update smaller than 2⁻⁸ of a weight
would be lost in bfloat16. The forward pass runs under `torch.autocast`. The output head and the router gates do not:
rounded logits move probabilities more than all the rounding before them (ScaleRL, Khatri et al. 2025,
https://arxiv.org/abs/2510.13786), and rounded gates send tokens to other experts than the sampler did.

It is a property of the model, once set: every forward pass has it, and so has a layer that activation checkpointing
runs again during backward.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from aliquot.trainer.routing.replay import named_routers

Precision = Literal["float32", "bfloat16"]


def use_precision(model: PreTrainedModel, precision: Precision) -> None:
    """Make every later forward pass of the model, or of a deep copy, compute in `precision`; once per model.

    Args:
        model: with float32 weights; they are not touched.
        precision: `float32` leaves the model as it is.
    """
    if precision == "float32":
        return
    if named_routers(model):
        # Stacked experts are multiplied by a kernel that autocast does not know; one expert after another, it does.
        model.set_experts_implementation("eager")
    _under(model, torch.bfloat16)
    for module in [model.get_output_embeddings(), *(router for _, router in named_routers(model))]:
        _under(module, None)


def _under(module: nn.Module, dtype: torch.dtype | None) -> None:
    """Run a module under autocast to `dtype`; None for in float32, without autocast."""
    module._autocasts = []  # type: ignore[assignment]
    module.register_forward_pre_hook(partial(_enter, dtype), with_kwargs=True)
    module.register_forward_hook(_leave, always_call=True)


def _enter(dtype: torch.dtype | None, module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    device = next(module.parameters()).device.type
    context = torch.autocast(device, dtype=dtype or torch.bfloat16, enabled=dtype is not None)
    context.__enter__()
    module._autocasts.append(context)
    return args if dtype else tuple(_float32(value) for value in args), kwargs


def _leave(module: Any, args: tuple, output: Any) -> None:
    module._autocasts.pop().__exit__(None, None, None)


def _float32(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value
