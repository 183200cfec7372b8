"""A Policy: a causal language model, the codec it speaks, and where it came from.

What is loaded here can be trained and sampled as it is: every problem of a checkpoint is found now, not after the
first batch. Weights are read as safetensors only, and no code of a checkpoint is ever run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from aliquot.domain import AliquotError, DesignSpace
from aliquot.domain.spaces import Codec
from aliquot.trainer.policies.architecture import Architecture, Dense, build_model
from aliquot.trainer.policies.distribution import legal_tokens
from aliquot.trainer.policies.tokenizer import first_difference
from aliquot.trainer.routing import RoutingShape, routing_shape

SHIPPED = Path(__file__).parent / "shipped"
SUPPORTED = ("deepseek_v3", "llama", "mixtral", "olmoe", "qwen2", "qwen3", "qwen3_moe")
"""`model_type`s whose sampling and scoring are tested to agree."""


class PolicyError(AliquotError, ValueError):
    """A policy that cannot be loaded, or that does not fit the design space."""


@dataclass(frozen=True)
class Policy:
    """A model in float32, and what is needed to speak with it."""

    model: PreTrainedModel
    codec: Codec
    name: str
    """`fresh`, the name of a shipped prior, or the path of a checkpoint."""
    digest: str
    """sha256 over configuration and weights at loading, hex."""
    legal: Tensor
    """bool [positions, logits], which token may stand where (`legal_tokens`)."""
    routing: RoutingShape | None
    """What its routers choose from; None for a dense model."""

    @property
    def context(self) -> int:
        """Longest sequence in tokens, `<bos>` included."""
        return int(self.model.config.max_position_embeddings)

    @classmethod
    def of(cls, model: PreTrainedModel, codec: Codec, name: str) -> Policy:
        """Joins a model to the codec of its space.

        Raises:
            PolicyError: too few logits for the vocabulary, or a context too short for the space.
        """
        width, context = model.config.vocab_size, model.config.max_position_embeddings
        if width < len(codec.vocabulary):
            raise PolicyError(f"policy {name} has {width} token ids; the space needs {len(codec.vocabulary)}")
        if context < codec.max_tokens + 1:
            raise PolicyError(
                f"policy {name} has a context of {context} tokens; the space needs {codec.max_tokens + 1} (its longest "
                "design and <bos>): choose a policy with a longer context, or make the space's designs shorter"
            )
        return cls(model, codec, name, _digest(model), legal_tokens(codec, width), routing_shape(model))


def shipped_policies() -> list[str]:
    """Names of the priors that come with this package."""
    return sorted(folder.name for folder in SHIPPED.glob("*") if (folder / "config.json").is_file())


def load_policy(init: str, space: DesignSpace, architecture: Architecture | None, seed: int) -> Policy:
    """The policy that a campaign names, in float32, in training mode.

    Args:
        init: `fresh`, the name of a shipped prior, or the path of a folder with a Hugging Face causal LM.
        space: what it shall propose.
        architecture: shape of a fresh policy, None for a small dense one that fits the space.
        seed: of a fresh policy's weights.

    Raises:
        PolicyError: an unknown name, a folder that holds no usable checkpoint, a tokenizer other than the space's, a
            context too short, or an architecture given for weights that have one already.
    """
    codec = space.codec()
    if init == "fresh":
        chosen = architecture or Dense(
            hidden_size=64, layers=2, feed_forward_size=256, max_positions=max(16, codec.max_tokens + 1)
        )
        return Policy.of(build_model(chosen, len(codec.vocabulary), seed).train(), codec, init)
    folder = SHIPPED / init if init in shipped_policies() else Path(init).expanduser()
    if not folder.is_dir():
        names = ", ".join(["fresh", *shipped_policies()])
        raise PolicyError(f"there is no policy {init!r}: give one of {names}, or the path of a checkpoint folder")
    if architecture is not None:
        raise PolicyError(f"policy {init} has an architecture already: leave `architecture` out, or say `init: fresh`")
    return Policy.of(_read(folder, codec).train(), codec, init)


def _read(folder: Path, codec: Codec) -> PreTrainedModel:
    try:
        config = json.loads((folder / "config.json").read_text())
    except FileNotFoundError:
        raise PolicyError(f"{folder} holds no config.json: it is not a Hugging Face checkpoint") from None
    except json.JSONDecodeError as error:
        raise PolicyError(f"{folder / 'config.json'} is not JSON: {error}") from None
    if (kind := config.get("model_type")) not in SUPPORTED:
        raise PolicyError(f"{folder} is of type {kind!r}; supported are {', '.join(SUPPORTED)}")
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        raise PolicyError(f"{folder} uses sliding-window attention, which is not supported: set sliding_window to null")
    if not list(folder.glob("*.safetensors")):
        raise PolicyError(f"{folder} holds no *.safetensors: save the model with safe serialisation")
    if difference := first_difference(folder, codec.vocabulary):
        raise PolicyError(f"the tokenizer of {folder} does not fit the design space: {difference}")
    try:
        with quiet_transformers():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=torch.float32, local_files_only=True, use_safetensors=True, output_loading_info=True
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise PolicyError(f"{folder} cannot be loaded: {error}") from error
    model, report = loaded
    if absent := sorted([*report["missing_keys"], *map(str, report["mismatched_keys"])]):
        raise PolicyError(f"{folder} lacks {len(absent)} weights of a {kind} model, the first is {absent[0]}")
    return model


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and no reports: what matters in them is raised as an error here."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.enable_progress_bar()
        transformers_logging.set_verbosity(verbosity)


def _digest(model: PreTrainedModel) -> str:
    incidental = ("architectures", "dtype", "transformers_version")
    config = {key: value for key, value in model.config.to_diff_dict().items() if key not in incidental}
    hasher = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        hasher.update(f"{name}{tuple(tensor.shape)}".encode())
        hasher.update(tensor.detach().float().cpu().numpy().tobytes())
    return hasher.hexdigest()
