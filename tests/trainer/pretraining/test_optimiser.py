"""Muon is the library's where the library's exists, and the same for each slice of stacked experts."""

from __future__ import annotations

import pytest
import torch

from aliquot.trainer.policies import MoE, build_model
from aliquot.trainer.pretraining.optimiser import Muon, optimisers_for, orthogonalise


@pytest.mark.parametrize("shape", [(8, 8), (6, 24), (24, 6)])
def test_muon_equals_the_librarys_on_matrices(shape):
    start = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    mine = Muon([ours], lr=0.02, momentum=0.95, weight_decay=0.1)
    library = torch.optim.Muon([theirs], lr=0.02, momentum=0.95, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for step in range(5):
        gradient = torch.randn(shape, generator=torch.Generator().manual_seed(step + 1))
        for parameter, optimiser in ((ours, mine), (theirs, library)):
            parameter.grad = gradient.clone()
            optimiser.step()
    apart = (ours - theirs).norm() / (theirs - start).norm()
    assert apart.item() < 0.03  # the iteration runs in bfloat16, rounded at other places


def test_stacked_experts_are_updated_as_matrices_one_by_one():
    start = torch.randn(3, 6, 10, generator=torch.Generator().manual_seed(0))
    gradient = torch.randn(3, 6, 10, generator=torch.Generator().manual_seed(1))
    stacked = torch.nn.Parameter(start.clone())
    single = [torch.nn.Parameter(matrix.clone()) for matrix in start]
    for parameters, gradients in (([stacked], [gradient]), (single, list(gradient))):
        optimiser = Muon(parameters, lr=0.02)
        for parameter, its in zip(parameters, gradients, strict=True):
            parameter.grad = its.clone()
        optimiser.step()
    torch.testing.assert_close(stacked, torch.stack(list(single)))


def test_orthogonalised_updates_have_singular_values_near_one():
    values = torch.linalg.svdvals(orthogonalise(torch.randn(16, 40, generator=torch.Generator().manual_seed(0))))
    assert float(values.min()) > 0.6 and float(values.max()) < 1.25


def test_embeddings_routers_and_norms_are_left_to_adamw():
    model = build_model(MoE(hidden_size=16, layers=1, heads=2, key_value_heads=1, feed_forward_size=8), 12, seed=0)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    muon, adamw = optimisers_for(model, 1e-3, 0.0)
    matrices, rest = (
        {names[id(p)] for group in optimiser.param_groups for p in group["params"]} for optimiser in (muon, adamw)
    )
    assert matrices | rest == set(names.values()) and not matrices & rest
    assert "model.embed_tokens.weight" in rest and "model.layers.0.mlp.gate.weight" in rest
    assert "model.layers.0.mlp.experts.gate_up_proj" in matrices and not any("norm" in name for name in matrices)
