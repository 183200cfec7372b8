"""Two sequences, of two and three tokens, with a positive and a negative coefficient.

           first row         second row
π          .3    .6          .4    .2    .5
μ          .2    .6          .5    .4    .1        π/μ      1.5  1.0      .8   .5   5.0
π_old      .2    .5          .4    .4    .2        π/π_old  1.5  1.2     1.0   .5   2.5
weight     1     .5          1     2     1
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from aliquot.trainer.losses import Loss, LossInputs

torch.set_num_threads(1)


def _logs(*rows: list[float]) -> torch.Tensor:
    return torch.log(torch.tensor(rows))


@pytest.fixture
def batch() -> LossInputs:
    """The two sequences, with what stands outside the mask made to be noticed."""
    mask = torch.tensor([[True, True, False], [True, True, True]])
    return LossInputs(
        logp=torch.where(mask, _logs([0.3, 0.6, 1.0], [0.4, 0.2, 0.5]), 0.0),
        logmu=_logs([0.2, 0.6, 1e-9], [0.5, 0.4, 0.1]),
        logold=_logs([0.2, 0.5, 1e-9], [0.4, 0.4, 0.2]),
        mask=mask,
        weights=torch.tensor([[1.0, 0.5, 0.0], [1.0, 2.0, 1.0]]),
        coefficients=torch.tensor([2.0, -1.0]),
        groups=torch.tensor([7, 7]),
        batch_size=4,
        horizon=10,
    )


@pytest.fixture
def learn():
    """(loss, inputs, changes) → (value, gradient with respect to log π, metrics)."""

    def run(loss: Loss, inputs: LossInputs, **changes) -> tuple[float, torch.Tensor, dict[str, float]]:
        inputs = replace(inputs, **changes)
        inputs = replace(inputs, logp=inputs.logp.detach().clone().requires_grad_())
        value, metrics = loss(inputs)
        value.backward()
        assert inputs.logp.grad is not None
        return float(value.detach()), inputs.logp.grad, metrics

    return run
