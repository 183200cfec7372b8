"""Anchors against values worked by hand."""

import math
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from aliquot.domain import Noun
from aliquot.trainer.anchors import ANCHORS, AnchorConfig, AnchorInputs, KLAnchor, kl_to_reference
from aliquot.trainer.anchors.augmented_likelihood import AugmentedLikelihood
from aliquot.trainer.anchors.none import NoAnchor

torch.set_num_threads(1)


class Section(Noun):
    anchor: AnchorConfig = KLAnchor()


@pytest.fixture
def batch() -> AnchorInputs:
    """Three sequences over three tokens, of which the last is illegal; the third sequence has no reward."""
    mask = torch.tensor([[True, True], [True, False], [True, True]])
    policy = torch.log(torch.tensor([[0.5, 0.5, 0.0]])).repeat(3, 2, 1)
    reference = torch.log(torch.tensor([[0.25, 0.75, 0.0]])).repeat(3, 2, 1)
    return AnchorInputs(
        vocabulary_logp=policy,
        reference_vocabulary_logp=reference,
        logp=torch.where(mask, policy[..., 0], 0.0),
        reference_logp=torch.where(mask, reference[..., 0], -9.0),
        mask=mask,
        values=torch.tensor([1.0, 0.5, torch.nan]),
        batch_size=4,
    )


def test_kl_is_exact_over_the_vocabulary_and_ignores_illegal_tokens(batch):
    each = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    vocabulary = batch.vocabulary_logp.clone().requires_grad_()
    value, metrics = KLAnchor(coefficient=0.1)(replace(batch, vocabulary_logp=vocabulary))
    assert float(value.detach()) == pytest.approx(0.1 * 5 * each / 4, rel=1e-5)
    assert metrics == {"anchor_kl": pytest.approx(5 * each / 4, rel=1e-5)}
    value.backward()
    assert torch.isfinite(vocabulary.grad).all()
    kl = torch.nn.functional.kl_div(
        batch.reference_vocabulary_logp[0, 0, :2], batch.vocabulary_logp[0, 0, :2], log_target=True, reduction="sum"
    )
    one = slice(0, 1), slice(0, 1)
    found = kl_to_reference(batch.vocabulary_logp[one], batch.reference_vocabulary_logp[one], batch.mask[one], 1)
    assert float(found) == pytest.approx(float(kl), rel=1e-5)


def test_augmented_likelihood_is_as_worked_by_hand(batch):
    # log prior − log policy is log(1/2) at each token
    first, second = 2 * math.log(0.5) + 10 * 1.0, math.log(0.5) + 10 * 0.5
    logp = batch.logp.clone().requires_grad_()
    value, metrics = AugmentedLikelihood(sigma=10.0, coefficient=0.5)(replace(batch, logp=logp))
    assert float(value.detach()) == pytest.approx(0.5 * (first**2 + second**2) / 4, rel=1e-5)
    assert metrics == {"anchor_augmented": pytest.approx((first**2 + second**2) / 4, rel=1e-5)}
    value.backward()
    expected = torch.tensor([[-first / 4, -first / 4], [-second / 4, 0], [0, 0]])
    torch.testing.assert_close(logp.grad, expected)


def test_a_missing_reward_is_not_a_reward_of_zero(batch):
    anchor = AugmentedLikelihood(sigma=10.0)
    missing, _ = anchor(batch)
    zero, _ = anchor(replace(batch, values=torch.tensor([1.0, 0.5, 0.0])))
    assert float(zero - missing) == pytest.approx((2 * math.log(0.5)) ** 2 / 4, rel=1e-4)
    nothing, metrics = anchor(replace(batch, values=torch.full((3,), torch.nan)))
    assert float(nothing) == 0.0 and metrics == {"anchor_augmented": 0.0}


def test_augmented_likelihood_has_its_minimum_at_the_raised_prior(batch):
    logp = (batch.reference_logp + torch.tensor([[0.5, 0.5], [0.5, 0.0], [0.0, 0.0]])).requires_grad_()
    value, _ = AugmentedLikelihood(sigma=1.0)(replace(batch, logp=logp))
    value.backward()
    assert float(value.detach()) == pytest.approx(0.0, abs=1e-9)
    assert logp.grad.abs().max() < 1e-6


@pytest.mark.parametrize("anchor", [KLAnchor(), AugmentedLikelihood()])
def test_the_parts_of_a_batch_add_up_to_the_whole(anchor, batch):
    def part(rows: slice) -> float:
        tensors = {name: value[rows] for name, value in vars(batch).items() if name != "batch_size"}
        return float(anchor(AnchorInputs(**tensors, batch_size=4))[0])

    assert part(slice(0, 1)) + part(slice(1, 3)) == pytest.approx(float(anchor(batch)[0]), rel=1e-5)


def test_no_anchor_adds_nothing(batch):
    value, metrics = NoAnchor()(batch)
    assert float(value) == 0.0 and metrics == {}


def test_only_an_anchor_that_reads_rewards_cannot_be_revised():
    made = {"kl": KLAnchor(), "augmented_likelihood": AugmentedLikelihood(), "none": NoAnchor()}
    assert {name for name, anchor in made.items() if not anchor.revisable} == {"augmented_likelihood"}


def test_an_anchor_is_picked_by_its_type_and_written_whole():
    assert set(ANCHORS.members()) >= {"augmented_likelihood", "kl", "none"}
    section = Section.model_validate({"anchor": {"type": "augmented_likelihood", "sigma": 500}})
    assert section.model_dump()["anchor"] == {"type": "augmented_likelihood", "sigma": 500.0, "coefficient": 1.0}
    assert Section.model_validate_json(section.model_dump_json()) == section
    with pytest.raises(ValidationError, match="no such anchor; did you mean 'kl'"):
        Section.model_validate({"anchor": {"type": "kll"}})
