"""Policies on disk: whole ones in Hugging Face's format, and published versions as bare float32 weights.

A file or folder appears under its name only when it is complete. Tied weights are written once; their other names
stand in the file's metadata.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import GenerationConfig

from aliquot.domain.spaces import BOS, EOS, PAD
from aliquot.trainer.policies.adapters import merged_weights
from aliquot.trainer.policies.policy import Policy, quiet_transformers
from aliquot.trainer.policies.tokenizer import tokenizer_of

TIED = "tied"
"""Metadata key: a JSON object from each tied name to the name its tensor stands under. It is the only key, since the
format's library writes several in any order, and the same weights shall be the same bytes."""


def save_policy(policy: Policy, folder: Path, card: str) -> None:
    """Write config.json, model.safetensors, the tokenizer, generation_config.json and README.md.

    The folder is made beside its place and moved there; one that stood there before is replaced.

    Args:
        card: the model card, Markdown.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(partial, ignore_errors=True)
    with quiet_transformers():
        policy.model.save_pretrained(partial)
    tokenizer_of(policy.codec.vocabulary, policy.context).save_pretrained(partial)
    GenerationConfig(
        do_sample=True, bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD, max_new_tokens=policy.codec.max_tokens
    ).save_pretrained(partial)
    (partial / "README.md").write_text(card)
    if folder.exists():
        previous = folder.with_name(f".{folder.name}.{os.getpid()}.previous")
        folder.rename(previous)
        partial.rename(folder)
        shutil.rmtree(previous)
    else:
        partial.rename(folder)


def write_weights(path: Path, model: nn.Module) -> None:
    """Write a model's state as safetensors in float32, whole or not at all; the folder is made if need be.

    Adapters are merged into what they adapt.
    """
    first: dict[tuple, str] = {}
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for name, tensor in merged_weights(model).items():
        place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride())
        owner = first.setdefault(place, name)
        if owner == name:
            tensors[name] = (tensor.float() if tensor.is_floating_point() else tensor).cpu().contiguous()
        else:
            tied[name] = owner
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    save_file(tensors, partial, metadata={TIED: json.dumps(tied)})
    partial.replace(path)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The state that `write_weights` wrote, under all its names, ready for `load_state_dict`."""
    with safe_open(path, framework="pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        tied = json.loads(file.metadata()[TIED])
    return state | {name: state[owner] for name, owner in tied.items()}
