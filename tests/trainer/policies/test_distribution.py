"""One softmax for sampler and trainer: what a space forbids has probability zero, the rest sums to one."""

from __future__ import annotations

import math

import torch

from aliquot.domain import ConditionsSpace, MoleculeSpace, SequenceSpace
from aliquot.domain.spaces import BOS, EOS, PAD
from aliquot.trainer.policies import legal_tokens, masked_log_softmax


def test_pad_bos_and_ids_beyond_the_vocabulary_are_never_legal():
    codec = MoleculeSpace().codec()
    legal = legal_tokens(codec, len(codec.vocabulary) + 3)
    assert legal.shape == (1, len(codec.vocabulary) + 3)
    assert (~legal[0]).nonzero().flatten().tolist() == [PAD, BOS, *range(len(codec.vocabulary), legal.shape[1])]


def test_a_masked_softmax_against_one_worked_by_hand():
    legal = torch.tensor([[False, False, True, True], [False, False, False, True]])
    logits = torch.tensor([[[9.0, 9.0, 1.0, 2.0], [9.0, 9.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.0]]])
    logp = masked_log_softmax(logits, torch.tensor([[0, 1, 7]]), legal)
    share = 1 / (1 + math.e)
    torch.testing.assert_close(logp[0, 0].exp(), torch.tensor([0.0, 0.0, share, 1 - share]))
    assert logp[0, 1].tolist() == [-math.inf, -math.inf, -math.inf, 0.0]
    assert logp[0, 2].tolist() == [-math.inf, -math.inf, -math.inf, 0.0]  # the last row holds for later positions


def test_temperature_divides_the_logits_row_by_row():
    logits, legal = torch.tensor([[0.0, 0.0, 1.0, 3.0]]).repeat(2, 1), torch.tensor([[False, False, True, True]])
    logp = masked_log_softmax(logits, torch.zeros(2, dtype=torch.int64), legal, torch.tensor([[1.0], [2.0]]))
    torch.testing.assert_close(logp[:, 3] - logp[:, 2], torch.tensor([2.0, 1.0]))


def test_half_precision_logits_are_normalised_in_float32():
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0)).bfloat16()
    logp = masked_log_softmax(logits, torch.zeros(4, dtype=torch.int64), torch.ones(1, 50, dtype=torch.bool))
    assert logp.dtype == torch.float32
    torch.testing.assert_close(logp.exp().sum(-1), torch.ones(4))


def test_masked_tokens_pass_no_gradient_and_no_nan():
    logits = torch.randn(1, 5, requires_grad=True)
    logp = masked_log_softmax(logits, torch.tensor([0]), torch.tensor([[False, True, True, False, True]]))
    logp[0, 2].backward()
    assert logits.grad is not None and torch.isfinite(logits.grad).all()
    assert logits.grad[0, [0, 3]].tolist() == [0.0, 0.0]


def test_the_masks_of_the_spaces_are_the_codecs_own():
    sequence = SequenceSpace(alphabet="dna", min_length=2, max_length=3)
    legal = legal_tokens(sequence.codec(), 7)
    assert legal[:, EOS].tolist() == [False, False, True, True]
    assert legal[:, 3:].all(1).tolist() == [True, True, True, False]
    conditions = ConditionsSpace.model_validate(
        {"parameters": [{"type": "categorical", "name": "solvent", "choices": ["DMF", "water"]}]}
    )
    assert legal_tokens(conditions.codec(), 5).tolist() == [
        [False, False, False, True, True],
        [False, False, True, False, False],
    ]
