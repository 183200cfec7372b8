"""Which due coefficients a step takes, and what is given up."""

import pytest
from pydantic import TypeAdapter

from aliquot.trainer.learning.samplers import Candidate, DropAfter, FreshestFirst, OldestFirst, SamplerConfig, Windowed

QUEUE = [Candidate(proposal_id=i, round=number, age=age) for i, number, age in ((1, 3, 9), (2, 1, 20), (3, 5, 0))]


def numbers(chosen):
    return [one.round for one in chosen]


def test_the_freshest_or_the_oldest_come_first_and_no_more_than_fit():
    assert numbers(FreshestFirst().select(QUEUE, 2)) == [5, 3]
    assert numbers(OldestFirst().select(QUEUE, 2)) == [1, 3]


@pytest.mark.parametrize("sampler", [FreshestFirst(), OldestFirst(), Windowed(rounds=3)])
def test_nothing_is_ever_given_up(sampler):
    assert all(sampler.evict(one) == "" for one in QUEUE)


def test_a_window_holds_the_fast_back_until_the_slow_are_in():
    windowed = Windowed(rounds=3)
    assert [windowed.admit(one, oldest_open=1) for one in QUEUE] == [True, True, False]
    assert windowed.admit(QUEUE[2], oldest_open=3)


def test_drop_after_gives_up_what_is_too_old_and_says_so():
    sampler = DropAfter(versions=8)
    assert sampler.evict(QUEUE[0]) == "dropped: 9 versions old, more than 8"
    assert sampler.evict(QUEUE[2]) == ""


def test_a_sampler_is_chosen_by_its_type():
    assert TypeAdapter(SamplerConfig).validate_python({"type": "windowed"}) == Windowed(rounds=32)
