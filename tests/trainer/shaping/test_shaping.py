"""Shaping: costs against values worked by hand, and their gradient against the exact one of a small policy."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from aliquot.domain import Noun
from aliquot.trainer.shaping import SHAPINGS, Shaping, ShapingConfig, to_go
from aliquot.trainer.shaping.overlong import Overlong
from aliquot.trainer.shaping.repeated_token import RepeatedToken, run_positions
from aliquot.trainer.shaping.step_penalty import StepPenalty

torch.set_num_threads(1)
EACH = [Overlong(soft=1, hard=3), RepeatedToken(longest=1, penalty=0.5), StepPenalty(penalty=0.2)]


def rows(*lengths: int, time: int = 6) -> torch.Tensor:
    """bool [batch, time]: that many tokens after a prompt of one."""
    index = torch.arange(time)
    return torch.stack([(index >= 1) & (index < 1 + length) for length in lengths])


def test_the_overlong_punishment_rises_from_soft_to_hard():
    mask = rows(2, 3, 4, 5, time=8)
    found = Overlong(soft=2, hard=4, penalty=0.6)(torch.zeros(4, 8, dtype=torch.int64), mask)
    expected = torch.tensor([0.0, -0.3, -0.6, -0.6])[:, None] * mask  # each token of a row leads to its length
    torch.testing.assert_close(found, expected)


def test_soft_must_be_below_hard():
    with pytest.raises(ValidationError, match="`soft` must be below `hard`, not 5 and 5"):
        Overlong(soft=5, hard=5)


def test_only_the_tokens_above_the_longest_run_cost():
    tokens = torch.tensor([[9, 4, 4, 4, 4, 5, 5, 5]])
    mask = torch.tensor([[False, True, True, True, True, True, True, True]])
    assert run_positions(tokens, mask).tolist() == [[0, 1, 2, 3, 4, 1, 2, 3]]
    found = RepeatedToken(longest=2, penalty=0.5)(tokens, mask)  # the third and fourth 4, and the third 5
    torch.testing.assert_close(found, torch.tensor([[0, -1.5, -1.5, -1.5, -1.0, -0.5, -0.5, -0.5]]))


def test_a_run_does_not_begin_in_the_prompt():
    tokens, mask = torch.tensor([[4, 4, 4]]), torch.tensor([[False, True, True]])
    assert run_positions(tokens, mask).tolist() == [[0, 1, 2]]


def test_the_step_penalty_of_a_token_is_for_itself_and_all_after_it():
    found = StepPenalty(penalty=0.5)(torch.zeros(2, 6, dtype=torch.int64), rows(3, 1))
    torch.testing.assert_close(found, torch.tensor([[0, -1.5, -1.0, -0.5, 0, 0], [0, -0.5, 0, 0, 0, 0]]))


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(EACH),
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=2, max_size=4),
)
def test_a_shaping_sees_nothing_but_its_own_row(shaping, sequences):
    together = additions(shaping, sequences)
    for row, sequence in enumerate(sequences):
        torch.testing.assert_close(together[row, : len(sequence)], additions(shaping, [sequence])[0])
        assert (together[row, len(sequence) :] == 0).all()
    assert (together <= 0).all()


def additions(shaping: Shaping, sequences: list[list[int]]) -> torch.Tensor:
    longest = max(map(len, sequences))
    tokens = torch.tensor([sequence + [0] * (longest - len(sequence)) for sequence in sequences])
    mask = torch.arange(longest) < torch.tensor([[len(sequence)] for sequence in sequences])
    return shaping(tokens, mask)


def enumerated(logits: torch.Tensor):
    """Every sequence of tokens 0 and 1 that ends with token 2 or at the third, with its tokens' log-probabilities.

    The policy depends on the token before: logits [before (3 is the beginning), token].
    """
    logp = logits.log_softmax(-1)
    for length in (1, 2, 3):
        for body in itertools.product((0, 1), repeat=length - 1):
            for last in (0, 1, 2) if length == 3 else (2,):
                sequence = [*body, last]
                yield sequence, torch.stack([logp[b, t] for b, t in zip([3, *sequence], sequence, strict=False)])


@pytest.mark.parametrize("shaping", EACH, ids=lambda shaping: shaping.type)
def test_the_expected_gradient_is_that_of_the_expected_cost(shaping):
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    exact = learned = constant = total = torch.zeros((), dtype=torch.float64)
    for sequence, logp in enumerated(logits):
        tokens, mask = torch.tensor([sequence]), torch.ones(1, len(sequence), dtype=torch.bool)
        probability = logp.sum().exp()
        exact = exact + probability * shaping.rewards(tokens, mask).sum()
        learned = learned + probability.detach() * (shaping(tokens, mask)[0] * logp).sum()
        constant = constant + probability.detach() * (-0.2 * logp).sum()
        total = total + probability.detach()
    assert float(total) == pytest.approx(1.0)
    wanted, found, naive = (
        torch.autograd.grad(sum, logits, retain_graph=True)[0] for sum in (exact, learned, constant)
    )
    assert wanted.abs().max() > 1e-3
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-7)
    assert naive.abs().max() < 1e-12  # a cost that is the same at every token, not summed to go, teaches nothing


def test_rewards_to_go_are_sums_from_the_right():
    rewards, mask = torch.tensor([[1.0, 2.0, 4.0, 8.0]]), torch.tensor([[True, True, True, False]])
    assert to_go(rewards, mask).tolist() == [[7.0, 6.0, 4.0, 0.0]]


def test_shapings_are_a_list_of_sections_picked_by_their_type():
    class Section(Noun):
        shaping: list[ShapingConfig] = []

    section = Section.model_validate(
        {"shaping": [{"type": "overlong", "soft": 40, "hard": 60}, {"type": "step_penalty"}]}
    )
    assert section.shaping == [Overlong(soft=40, hard=60), StepPenalty()]
    assert Section.model_validate_json(section.model_dump_json()) == section
    assert set(SHAPINGS.members()) >= {"overlong", "repeated_token", "step_penalty"}
    with pytest.raises(ValidationError, match="no such shaping; did you mean 'overlong'"):
        Section.model_validate({"shaping": [{"type": "over_long"}]})
