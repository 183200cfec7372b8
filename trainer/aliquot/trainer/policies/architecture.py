"""Model shapes this project makes itself: Qwen3 (dense) and Qwen3-MoE, by the `transformers` library, unforked."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from aliquot.domain.base import Noun
from aliquot.domain.spaces.codec import BOS, EOS, PAD


class _Shape(Noun):
    hidden_size: int = Field(default=128, ge=8)
    layers: int = Field(default=4, ge=1)
    heads: int = Field(default=4, ge=1)
    key_value_heads: int = Field(default=2, ge=1)
    max_positions: int = Field(default=256, ge=16)
    """Longest sequence in tokens, prompt included."""

    @model_validator(mode="after")
    def _divides(self):
        if self.hidden_size % self.heads or self.heads % self.key_value_heads:
            raise ValueError("`heads` must divide `hidden_size`, and `key_value_heads` must divide `heads`")
        return self

    def _shared(self, vocabulary_size: int) -> dict:
        return {
            "vocab_size": vocabulary_size,
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_value_heads,
            "head_dim": self.hidden_size // self.heads,
            "max_position_embeddings": self.max_positions,
            "tie_word_embeddings": True,
            "pad_token_id": PAD,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "use_cache": False,
        }


class Dense(_Shape):
    """Qwen3: every token through the same feed-forward block."""

    type: Literal["dense"] = "dense"
    feed_forward_size: int = Field(default=512, ge=8)

    def config(self, vocabulary_size: int) -> Qwen3Config:
        return Qwen3Config(intermediate_size=self.feed_forward_size, **self._shared(vocabulary_size))


class MoE(_Shape):
    """Qwen3-MoE: each token through `experts_per_token` of `experts` feed-forward blocks in every layer."""

    type: Literal["moe"] = "moe"
    feed_forward_size: int = Field(default=128, ge=8)
    """Width of one expert."""
    experts: int = Field(default=8, ge=2, le=65_535)
    experts_per_token: int = Field(default=2, ge=1)

    @model_validator(mode="after")
    def _enough_experts(self):
        if self.experts_per_token > self.experts:
            raise ValueError(f"experts_per_token is {self.experts_per_token}, more than the {self.experts} experts")
        return self

    def config(self, vocabulary_size: int) -> Qwen3MoeConfig:
        return Qwen3MoeConfig(
            intermediate_size=self.feed_forward_size,
            moe_intermediate_size=self.feed_forward_size,
            num_experts=self.experts,
            num_experts_per_tok=self.experts_per_token,
            norm_topk_prob=True,
            **self._shared(vocabulary_size),
        )


Architecture = Annotated[Dense | MoE, Field(discriminator="type")]


def build_model(architecture: Dense | MoE, vocabulary_size: int, seed: int) -> PreTrainedModel:
    """A freshly initialised causal LM in float32; same seed, same weights. Leaves torch's global stream as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(architecture, MoE):
            return Qwen3MoeForCausalLM(architecture.config(vocabulary_size)).float()
        return Qwen3ForCausalLM(architecture.config(vocabulary_size)).float()
