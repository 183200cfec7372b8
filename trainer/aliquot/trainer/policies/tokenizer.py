"""A codec's vocabulary as a Hugging Face tokenizer, so that a policy's folder is complete for any other tool.

`AutoTokenizer.from_pretrained(folder)(text)` gives `<bos>` and the ids that the codec gives for the body.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from aliquot.domain.spaces import BOS, SPECIAL_TOKENS


def tokenizer_of(vocabulary: Sequence[str], longest: int) -> PreTrainedTokenizerFast:
    """Splits text at the longest token that fits; `, ` between the settings of a conditions design is no token.

    Text that holds anything else raises an exception, as the codec does.

    Args:
        vocabulary: token strings by id, special tokens first.
        longest: context of the model in tokens.
    """
    body = sorted(vocabulary[len(SPECIAL_TOKENS) :], key=len, reverse=True)
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocabulary)}))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("|".join(map(re.escape, body))), behavior="isolated"),
            pre_tokenizers.Split(Regex(r"\A, \z"), behavior="removed"),
        ]
    )
    bos = SPECIAL_TOKENS[BOS]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, BOS)])
    tokenizer.decoder = decoders.Fuse()
    pad, bos, eos = SPECIAL_TOKENS
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=pad, bos_token=bos, eos_token=eos, model_max_length=longest,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


def first_difference(folder: Path, vocabulary: Sequence[str]) -> str | None:
    """How a folder's tokenizer differs from a vocabulary, in words, or None when it holds every token at its id."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        return "there is no tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    for i, token in enumerate(vocabulary):
        if (found := tokenizer.id_to_token(i)) != token:
            return f"id {i} is {found!r} in the checkpoint and {token!r} in the space"
    return None
