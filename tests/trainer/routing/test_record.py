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


def masked(*rows: bool) -> np.ndarray:
    return np.array(rows)


def test_what_stands_in_a_row_without_a_recording_does_not_matter():
    ids = good()
    ids[1] = [[9, 9], [0, 0]]
    record = RoutingRecord(ids, SHAPE, tokens=4, recorded=masked(True, False, True))
    assert record.mask.tolist() == [True, False, True]
    ids = good()
    ids[2, 1] = [3, 3]
    with pytest.raises(RoutingError, match="row 2, MoE layer 1 names an expert twice"):
        RoutingRecord(ids, SHAPE, tokens=4, recorded=masked(False, True, True))


def test_a_sequence_of_which_nothing_was_recorded_is_a_record():
    record = RoutingRecord(np.zeros((3, 2, 2), dtype=np.uint8), SHAPE, tokens=4, recorded=np.zeros(3, dtype=bool))
    assert not record.mask.any()


def test_a_layer_at_zero_in_all_recorded_rows_is_refused():
    ids = good()
    ids[1:, 0] = 0
    with pytest.raises(RoutingError, match=r"MoE layers \[0\] are all zero"):
        RoutingRecord(ids, SHAPE, tokens=4, recorded=masked(False, True, True))


@pytest.mark.parametrize("mask", [np.ones(4, dtype=bool), np.ones(3, dtype=np.uint8)], ids=["length", "dtype"])
def test_a_mask_that_is_not_one_bool_per_row_is_refused(mask):
    with pytest.raises(RoutingError, match="one value per row"):
        RoutingRecord(good(), SHAPE, tokens=4, recorded=mask)


def all_layers() -> np.ndarray:
    """Decoder layers: dense, MoE, dense, MoE."""
    ids = np.zeros((3, 4, 2), dtype=np.uint8)
    ids[:, [1, 3]] = good()
    return ids


def test_of_all_decoder_layers_the_moe_ones_are_kept_in_order():
    record = RoutingRecord.of_all_layers(all_layers(), (False, True, False, True), SHAPE, tokens=4)
    assert record.ids.tolist() == good().tolist() and record.ids.flags.c_contiguous


def test_a_dense_layer_that_names_experts_is_refused():
    with pytest.raises(RoutingError, match=r"decoder layers \[3\] are dense and yet name experts"):
        RoutingRecord.of_all_layers(all_layers(), (True, True, False, False), SHAPE, tokens=4)


def test_an_moe_layer_that_came_back_as_a_dense_one_is_refused():
    ids = all_layers()
    ids[:, 3] = 0
    with pytest.raises(RoutingError, match=r"MoE layers \[1\] are all zero"):
        RoutingRecord.of_all_layers(ids, (False, True, False, True), SHAPE, tokens=4)


@pytest.mark.parametrize("moe", [(False, True, True), (False, True, True, True)], ids=["decoder", "MoE"])
def test_another_number_of_layers_is_refused(moe):
    with pytest.raises(RoutingError, match="its routers are 2"):
        RoutingRecord.of_all_layers(all_layers(), moe, SHAPE, tokens=4)


def test_a_generation_taken_up_again_appends_one_row_per_new_token():
    record = RoutingRecord(good(), SHAPE, tokens=4).extended(good()[:2])
    assert record.tokens == 6 and record.recorded is None
    assert record.ids.tolist() == [*good().tolist(), *good()[:2].tolist()]


def test_rows_lost_at_the_seam_are_masked_and_the_others_stand():
    first = RoutingRecord(good(), SHAPE, tokens=4)
    grown = first.extended(np.zeros((1, 2, 2), dtype=np.uint8), masked(False)).extended(good())
    assert grown.tokens == 8 and grown.mask.tolist() == [True] * 3 + [False] + [True] * 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((1, 2, 2), dtype=np.uint8), "row 3, MoE layer 0 names an expert twice"),
        (good()[:1, :1], "cannot follow"),
        (good()[:1].astype(np.uint16), "cannot follow"),
    ],
    ids=["duplicate", "layers", "dtype"],
)
def test_rows_that_do_not_belong_to_a_record_cannot_be_appended(rows, message):
    with pytest.raises(RoutingError, match=message):
        RoutingRecord(good(), SHAPE, tokens=4).extended(rows)
