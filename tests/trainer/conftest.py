"""Tiny models of the families that policies may be of."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    OlmoeConfig,
    OlmoeForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

EXPERTS, TOP_K = 8, 2

COMMON = {
    "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip

FAMILIES = {
    "llama": (LlamaForCausalLM, LlamaConfig, {"intermediate_size": 24}),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {"intermediate_size": 24}),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {"intermediate_size": 24, "head_dim": 4}),
    "qwen3_moe": (Qwen3MoeForCausalLM, Qwen3MoeConfig, {
        "num_experts": EXPERTS, "num_experts_per_tok": TOP_K, "moe_intermediate_size": 12, "intermediate_size": 12,
        "head_dim": 4, "norm_topk_prob": True,
    }),
    "mixtral": (MixtralForCausalLM, MixtralConfig, {
        "num_local_experts": EXPERTS, "num_experts_per_tok": TOP_K, "intermediate_size": 12, "head_dim": 4,
    }),
    "olmoe": (OlmoeForCausalLM, OlmoeConfig, {
        "num_experts": EXPERTS, "num_experts_per_tok": TOP_K, "intermediate_size": 12,
    }),
    "deepseek_v3": (DeepseekV3ForCausalLM, DeepseekV3Config, {
        "n_routed_experts": EXPERTS, "num_experts_per_tok": TOP_K, "moe_intermediate_size": 12,
        "intermediate_size": 24, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2,
        "kv_lora_rank": 8, "q_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 4,
        "num_key_value_heads": 4, "routed_scaling_factor": 2.5, "norm_topk_prob": True,
    }),
}  # fmt: skip


@pytest.fixture
def tiny_model():
    """(family, vocabulary size) → random weights, large enough for routing and logits to differ between tokens."""

    def make(family: str, vocabulary: int, seed: int = 0, **changes) -> PreTrainedModel:
        model, config, special = FAMILIES[family]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = model(config(vocab_size=vocabulary, **{**COMMON, **special, **changes})).float()
            for parameter in made.parameters():
                if parameter.ndim > 1:
                    torch.nn.init.normal_(parameter, std=0.25)
        return made.train()

    return make
