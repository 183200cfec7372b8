"""The distribution over the next token: one function, used by the sampler and by the trainer alike.

What a space forbids at a position is masked inside the softmax, on both sides, so no probability mass is cut away
behind the importance ratio's back. `<pad>` and `<bos>` are forbidden everywhere, and so are ids beyond the vocabulary
that a padded embedding table may hold.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aliquot.domain.spaces import BOS, PAD, Codec


def legal_tokens(codec: Codec, width: int) -> Tensor:
    """bool [positions, width]: which token may stand at each position after `<bos>`.

    The last row holds for every later position too, so a space that allows any token anywhere takes one row.

    Args:
        width: number of logits of the model, at least the size of the codec's vocabulary.
    """
    mask = codec.position_mask()
    known = torch.ones(1, len(codec.vocabulary), dtype=torch.bool) if mask is None else torch.from_numpy(mask)
    legal = torch.zeros(len(known), width, dtype=torch.bool)
    legal[:, : known.shape[1]] = known
    legal[:, [PAD, BOS]] = False
    return legal


def masked_log_softmax(logits: Tensor, positions: Tensor, legal: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
    """float32 [..., vocabulary]: natural log-probability of each token, −inf where it may not stand.

    Args:
        logits: [..., vocabulary], any floating dtype; the softmax is taken in float32.
        positions: int64 [...], place after `<bos>` of the token that is predicted: 0 for the first.
        legal: bool [positions, vocabulary] of `legal_tokens`.
        temperature: divides the logits; a tensor must broadcast against them.
    """
    allowed = legal[positions.clamp(max=len(legal) - 1)]
    return torch.log_softmax((logits.float() / temperature).masked_fill(~allowed, float("-inf")), dim=-1)
