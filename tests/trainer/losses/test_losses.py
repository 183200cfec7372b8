"""Each loss against a case worked by hand, and against the losses that it is known to equal."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.trainer.losses import LOSSES, LossInputs, Reinforce
from aliquot.trainer.losses.aipo import AIPO
from aliquot.trainer.losses.cispo import CISPO
from aliquot.trainer.losses.dapo import DAPO
from aliquot.trainer.losses.dppo import DPPO
from aliquot.trainer.losses.dr_grpo import DrGRPO
from aliquot.trainer.losses.gspo import GSPO
from aliquot.trainer.losses.ppo import PPO

AGGREGATIONS = ("sequence_sum", "constant", "token", "sequence", "prompt")
LOG = {p: math.log(p) for p in (0.2, 0.3, 0.4, 0.5, 0.6)}


def near(found: torch.Tensor, expected: list[list[float]]) -> bool:
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-5, atol=1e-7)
    return True


def built_in():
    return [cls() for cls in LOSSES.members().values() if cls.__module__.startswith("aliquot.trainer.losses.")]


def test_reinforce_is_as_worked_by_hand(batch, learn):
    value, gradient, metrics = learn(Reinforce(), batch)
    by_hand = -2 * (LOG[0.3] + 0.5 * LOG[0.6]) + (LOG[0.4] + 2 * LOG[0.2] + LOG[0.5])
    assert value == pytest.approx(by_hand / 4, rel=1e-6)
    assert near(gradient, [[-2 / 4, -1 / 4, 0], [1 / 4, 2 / 4, 1 / 4]])
    assert metrics == {"clipped_positive": 0.0, "clipped_negative": 0.0}


def test_ppo_is_as_worked_by_hand(batch, learn):
    # surrogates 1.3·2, 1.2·2 and 1·−1, .8·−1, 2.5·−1; means over rows of means over tokens
    value, gradient, metrics = learn(PPO(clip_low=0.2, clip_high=0.3), batch)
    assert value == pytest.approx(-((2.6 + 1.2) / 2 + (-1 - 1.6 - 2.5) / 3) / 2, rel=1e-5)
    assert near(gradient, [[0, -0.5 * 1.2 * 2 / 4, 0], [1 / 6, 0, 2.5 / 6]])
    assert metrics == {"clipped_positive": 0.5, "clipped_negative": pytest.approx(1 / 3)}


def test_ppo_with_the_bypass_divides_by_the_behaviour_policy(batch, learn):
    # ratios 1.5 1.0, .8 .5 5.0
    value, gradient, _ = learn(PPO(ratio="behaviour", clip_low=0.3, clip_high=0.3), batch)
    assert value == pytest.approx(-((2.6 + 1.0) / 2 + (-0.8 - 2 * 0.7 - 5.0) / 3) / 2, rel=1e-5)
    assert near(gradient, [[0, -1 / 4, 0], [0.8 / 6, 0, 5.0 / 6]])


def test_the_dual_clip_bounds_a_negative_advantage_from_above(batch, learn):
    value, gradient, metrics = learn(PPO(clip_low=0.2, clip_high=0.3, dual_clip=2.0), batch)
    assert value == pytest.approx(-((2.6 + 1.2) / 2 + (-1 - 1.6 - 2.0) / 3) / 2, rel=1e-5)
    assert near(gradient, [[0, -0.3, 0], [1 / 6, 0, 0]])
    assert metrics["clipped_negative"] == pytest.approx(2 / 3)


def test_dr_grpo_is_as_worked_by_hand(batch, learn):
    value, gradient, _ = learn(DrGRPO(clip_low=0.2, clip_high=0.3), batch)
    assert value == pytest.approx(-(2.6 + 1.2 - 1 - 1.6 - 2.5) / 40, rel=1e-4)
    assert near(gradient, [[0, -1.2 / 40, 0], [1 / 40, 0, 2.5 / 40]])


def test_dapo_is_as_worked_by_hand(batch, learn):
    # 1.5 is clipped at 1.28; five tokens
    value, gradient, _ = learn(DAPO(), batch)
    assert value == pytest.approx(-(2.56 + 1.2 - 1 - 1.6 - 2.5) / 5, rel=1e-4)
    assert near(gradient, [[0, -1.2 / 5, 0], [1 / 5, 0, 2.5 / 5]])


def test_gspo_is_as_worked_by_hand(batch, learn):
    first, second = math.sqrt(1.5 * 1.2), (1.0 * 0.5 * 2.5) ** (1 / 3)
    loss = GSPO(clip_low=0.5, clip_high=0.5)
    value, gradient, metrics = learn(loss, batch)
    assert value == pytest.approx(-(1.5 * first * 2 / 2 - 4 * second / 3) / 2, rel=1e-5)
    assert near(gradient, [[-first / 2, -first / 4, 0], [second / 6, second / 3, second / 6]])
    assert metrics == {"clipped_positive": 0.0, "clipped_negative": 0.0}
    _, gradient, metrics = learn(GSPO(), batch)
    assert near(gradient, [[0, 0, 0], [second / 6, second / 3, second / 6]])  # the first row is clipped as a whole
    assert metrics == {"clipped_positive": 1.0, "clipped_negative": 0.0}


def test_the_gradient_of_gspo_is_that_of_the_geometric_mean(batch, learn):
    logp = batch.logp.clone().requires_grad_()
    log_ratio = torch.where(batch.mask, logp - batch.logold, 0.0).double()
    mean = (log_ratio.sum(-1) / torch.tensor([2, 3])).exp()
    (-(mean * batch.coefficients).sum() / 2).backward()
    _, gradient, _ = learn(GSPO(clip_low=0.9, clip_high=9.0), batch, weights=batch.mask.float())
    torch.testing.assert_close(gradient, logp.grad)


def test_cispo_is_as_worked_by_hand(batch, learn):
    # ratios 1.5 1.2, 1.0 .5 2.5, the last truncated to 2
    value, gradient, metrics = learn(CISPO(max_ratio=2.0), batch)
    by_hand = -2 * (1.5 * LOG[0.3] + 0.5 * 1.2 * LOG[0.6]) + (LOG[0.4] + 2 * 0.5 * LOG[0.2] + 2 * LOG[0.5])
    assert value == pytest.approx(by_hand / 5, rel=1e-5)
    assert near(gradient, [[-3 / 5, -1.2 / 5, 0], [1 / 5, 1 / 5, 2 / 5]])
    assert metrics == {"clipped_positive": 0.0, "clipped_negative": pytest.approx(1 / 3)}


def test_aipo_is_as_worked_by_hand(batch, learn):
    # ratios 1.5 1.0, .8 .5 5.0, truncated to 1.2
    value, gradient, metrics = learn(AIPO(max_ratio=1.2), batch)
    by_hand = -2 * (1.2 * LOG[0.3] + 0.5 * LOG[0.6]) + (0.8 * LOG[0.4] + 2 * 0.5 * LOG[0.2] + 1.2 * LOG[0.5])
    assert value == pytest.approx(by_hand / 4, rel=1e-5)
    assert near(gradient, [[-2.4 / 4, -1 / 4, 0], [0.8 / 4, 1 / 4, 1.2 / 4]])
    assert metrics == {"clipped_positive": 0.5, "clipped_negative": pytest.approx(1 / 3)}


def test_dppo_is_as_worked_by_hand(batch, learn):
    # π − μ is .1 0, −.1 −.2 .4; with these bounds the first and the fourth token are masked, and keep their penalty
    value, gradient, metrics = learn(DPPO(mask_low=0.15, mask_high=0.05, penalty=0.1), batch)
    d = [math.log(1.5), 0.0, math.log(0.8), math.log(0.5), math.log(5.0)]
    by_hand = 0.1 * d[0] ** 2 + 0.5 * -2 + (0.8 + 0.1 * d[2] ** 2) + 2 * 0.1 * d[3] ** 2 + (5 + 0.1 * d[4] ** 2)
    assert value == pytest.approx(by_hand / 5, rel=1e-5)
    expected = [[0.2 * d[0], -1.0, 0], [0.8 + 0.2 * d[2], 2 * 0.2 * d[3], 5 + 0.2 * d[4]]]
    assert near(gradient * 5, expected)
    assert metrics == {"clipped_positive": 0.5, "clipped_negative": pytest.approx(1 / 3)}


def test_dppo_masks_only_what_moves_further_away(batch, learn):
    turned = replace(batch, coefficients=-batch.coefficients)
    _, _, metrics = learn(DPPO(mask_low=0.05, mask_high=0.3), turned)
    # the first row, now negative, gained; of the second, now positive, only the last gained more than .3
    assert metrics == {"clipped_positive": pytest.approx(1 / 3), "clipped_negative": 0.0}


def test_shaping_is_added_to_the_coefficient_token_by_token(batch, learn):
    shaping = torch.tensor([[-3.0, 0.5, 9.0], [0.0, 0.0, 1.0]])
    _, gradient, _ = learn(Reinforce(), batch, shaping=shaping)
    assert near(gradient, [[1 / 4, -0.5 * 2.5 / 4, 0], [1 / 4, 2 / 4, 0]])


@pytest.mark.parametrize("loss", built_in(), ids=lambda loss: loss.type)
def test_descent_raises_what_is_good_and_lowers_what_is_bad(loss, batch, learn):
    on_policy = replace(batch, logmu=batch.logp, logold=batch.logp, weights=batch.mask.float())
    _, gradient, metrics = learn(loss, on_policy)
    assert (gradient[0][on_policy.mask[0]] < 0).all()
    assert (gradient[1] > 0).all()
    assert metrics == {"clipped_positive": 0.0, "clipped_negative": 0.0}


@pytest.mark.parametrize("how", AGGREGATIONS)
@pytest.mark.parametrize("loss", built_in(), ids=lambda loss: loss.type)
def test_on_policy_every_loss_has_the_gradient_of_reinforce(loss, how, batch, learn):
    on_policy = replace(batch, logmu=batch.logp, logold=batch.logp)
    loss, plain = loss.model_copy(update={"aggregation": how}), Reinforce(aggregation=how)
    torch.testing.assert_close(learn(loss, on_policy)[1], learn(plain, on_policy)[1])


@pytest.mark.parametrize("loss", built_in(), ids=lambda loss: loss.type)
def test_what_is_outside_the_mask_is_nobodys(loss, batch, learn):
    value, gradient, metrics = learn(loss, batch)
    rubbish = torch.where(batch.mask, 0.0, -40.0)
    changed = {
        "logmu": batch.logmu + rubbish, "logold": batch.logold + rubbish, "weights": batch.weights - rubbish
    }  # fmt: skip
    again = learn(loss, batch, **changed)
    assert again[0] == value and again[2] == metrics
    assert torch.equal(again[1], gradient) and gradient[0, 2] == 0


@pytest.mark.parametrize("loss", built_in(), ids=lambda loss: loss.type)
def test_a_token_of_weight_zero_teaches_nothing(loss, batch, learn):
    weights = batch.weights.clone()
    weights[0, 1] = 0.0
    assert learn(loss, batch, weights=weights)[1][0, 1] == 0


@pytest.mark.parametrize("how", AGGREGATIONS)
def test_cispo_at_the_behaviour_policy_is_aipo(how, batch, learn):
    cispo, aipo = CISPO(ratio="behaviour", max_ratio=1.3, aggregation=how), AIPO(max_ratio=1.3, aggregation=how)
    one, other = learn(cispo, batch), learn(aipo, batch)
    assert one[0] == other[0] and torch.equal(one[1], other[1]) and one[2] == other[2]


def test_aipo_is_reinforce_under_truncated_importance_sampling(batch, learn):
    ratios = torch.tensor([[1.5, 1.0, 0.0], [0.8, 0.5, 1.7]])  # 5.0 truncated
    value, gradient, _ = learn(AIPO(max_ratio=1.7), batch, weights=batch.mask.float())
    plain = learn(Reinforce(), batch, weights=ratios)
    assert value == pytest.approx(plain[0], rel=1e-5)
    torch.testing.assert_close(gradient, plain[1])


def test_gspo_on_sequences_of_one_token_is_ppo(batch, learn):
    single = replace(
        batch, mask=torch.tensor([[True, False, False], [False, False, True]]), logp=batch.logp, groups=batch.groups
    )
    bounds = {"clip_low": 0.3, "clip_high": 0.3}
    one, other = learn(GSPO(**bounds), single), learn(PPO(**bounds), single)
    assert one[0] == pytest.approx(other[0], rel=1e-6) and one[2] == other[2]
    torch.testing.assert_close(one[1], other[1])


def test_dapo_and_dr_grpo_are_ppo_with_their_own_bounds_and_normaliser(batch, learn):
    for loss, same in (
        (DAPO(), PPO(clip_high=0.28, aggregation="token")),
        (DrGRPO(), PPO(aggregation="constant")),
    ):
        assert learn(loss, batch)[0] == learn(same, batch)[0]


@pytest.mark.parametrize("loss", built_in(), ids=lambda loss: loss.type)
def test_extreme_ratios_stay_finite(loss, batch, learn):
    far = replace(batch, logmu=batch.logmu - 300.0, logold=batch.logold + 300.0)
    value, gradient, _ = learn(loss, far)
    assert math.isfinite(value) and torch.isfinite(gradient).all()


def left_standing(loss, batch: LossInputs, learn, first: torch.Tensor, second: torch.Tensor) -> float:
    """How far, on the first row, learning `first` beside the second row and then `second` alone is from learning their
    sum alone: the greatest difference in the gradient."""
    alone = {name: getattr(batch, name)[:1] for name in ("logp", "logmu", "logold", "mask", "weights", "groups")}

    def by_itself(coefficients: torch.Tensor) -> torch.Tensor:
        return learn(loss, batch, **alone, coefficients=coefficients[:1])[1]

    together = learn(loss, batch, coefficients=first)[1][:1]
    return float((together + by_itself(second) - by_itself(first + second)).abs().max())


@pytest.mark.parametrize("how", AGGREGATIONS)
@pytest.mark.parametrize("loss", built_in(), ids=lambda loss: loss.type)
def test_a_loss_says_truly_whether_it_can_learn_a_revision_as_a_difference(loss, how, batch, learn):
    loss = loss.model_copy(update={"aggregation": how})
    left = left_standing(loss, batch, learn, torch.tensor([2.0, -1.0]), torch.tensor([-3.0, 0.0]))
    assert (left < 1e-6) == loss.revisable


def test_which_losses_are_revisable_as_they_come():
    assert {loss.type for loss in built_in() if loss.revisable} == {"reinforce", "aipo"}


numbers = st.floats(-3, 3, allow_nan=False, width=32)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(numbers, numbers, numbers, numbers), min_size=1, max_size=4), data=st.data())
def test_revisable_losses_are_additive_in_the_coefficient(rows, data):
    loss = data.draw(st.sampled_from([
        Reinforce(), Reinforce(aggregation="constant"), AIPO(), AIPO(aggregation="constant"),
        CISPO(aggregation="sequence_sum"), CISPO(ratio="behaviour", aggregation="constant"),
    ]))  # fmt: skip
    assert loss.revisable
    logp, logmu, one, two = (torch.tensor(column) for column in zip(*rows, strict=True))
    leaf = (logp.abs().neg()[:, None]).requires_grad_()
    mask = torch.ones_like(leaf, dtype=torch.bool)

    def gradient(coefficients: torch.Tensor) -> torch.Tensor:
        inputs = LossInputs(
            leaf, logmu[:, None], logmu[:, None] / 2, mask, mask.float(), coefficients, torch.arange(len(rows)), 8, 5
        )
        return torch.autograd.grad(loss(inputs)[0], leaf)[0]

    torch.testing.assert_close(gradient(one) + gradient(two), gradient(one + two), rtol=1e-4, atol=1e-4)
