"""Policies: causal language models over designs, where they come from, and what they say of a sequence."""

from aliquot.trainer.policies.architecture import Architecture, Dense, MoE, build_model
from aliquot.trainer.policies.distribution import legal_tokens, masked_log_softmax
from aliquot.trainer.policies.policy import Policy, PolicyError, load_policy, shipped_policies
from aliquot.trainer.policies.scoring import Scores, score
from aliquot.trainer.policies.storage import read_weights, save_policy, write_weights

__all__ = [
    "Architecture", "Dense", "MoE", "Policy", "PolicyError", "Scores", "build_model", "legal_tokens", "load_policy",
    "masked_log_softmax", "read_weights", "save_policy", "score", "shipped_policies", "write_weights",
]  # fmt: skip
