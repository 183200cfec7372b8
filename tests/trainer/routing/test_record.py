"""A recording that would train on the wrong experts is refused."""

from __future__ import annotations

import numpy as np
import pytest

from aliquot.trainer.routing import RoutingError, RoutingRecord, RoutingShape

SHAPE = RoutingShape(layers=2, top_k=2, experts=4)


def good() -> np.ndarray:
    return np.array([[[0, 1], [3, 2]], [[2, 0], [1, 3]], [[1, 0], [0, 2]]], dtype=np.uint8)


def test_a_sound_recording_is_accepted():
    assert RoutingRecord(good(), SHAPE, tokens=4).ids.shape == (3, 2, 2)


@pytest.mark.parametrize("tokens", [3, 5])
def test_a_row_too_many_or_too_few_is_refused(tokens):
    with pytest.raises(RoutingError, match="one row per token but the last"):
        RoutingRecord(good(), SHAPE, tokens)


def test_layers_without_experts_must_not_be_in_the_recording():
    with pytest.raises(RoutingError, match="MoE layers only"):
        RoutingRecord(good().repeat(2, axis=1), SHAPE, tokens=4)


def test_an_expert_that_does_not_exist_is_named_with_its_place():
    ids = good()
    ids[1, 0, 1] = 4
    with pytest.raises(RoutingError, match=r"row 1, MoE layer 0 names experts \[2, 4\]; there are 4"):
        RoutingRecord(ids, SHAPE, tokens=4)


def test_the_same_expert_twice_in_a_row_is_refused():
    ids = good()
    ids[2, 1] = [3, 3]
    with pytest.raises(RoutingError, match=r"row 2, MoE layer 1 names an expert twice: \[3, 3\]"):
        RoutingRecord(ids, SHAPE, tokens=4)


def test_a_layer_left_at_zero_is_told_from_a_repetition():
    ids = good()
    ids[:, 1] = 0
    with pytest.raises(RoutingError, match=r"MoE layers \[1\] are all zero"):
        RoutingRecord(ids, SHAPE, tokens=4)


def test_one_expert_per_token_may_always_be_expert_zero():
    RoutingRecord(np.zeros((3, 2, 1), dtype=np.uint8), RoutingShape(layers=2, top_k=1, experts=4), tokens=4)


def test_signed_or_wide_ids_are_refused():
    with pytest.raises(RoutingError, match="int64"):
        RoutingRecord(good().astype(np.int64), SHAPE, tokens=4)


@pytest.mark.parametrize(("experts", "dtype"), [(2, "uint8"), (256, "uint8"), (257, "uint16")])
def test_ids_take_one_byte_up_to_256_experts(experts, dtype):
    assert RoutingShape(layers=1, top_k=1, experts=experts).dtype == dtype
