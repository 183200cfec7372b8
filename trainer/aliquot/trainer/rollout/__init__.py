"""Rollout engines: they draw trajectories from the newest policy and seal what the trainer will need."""

from aliquot.trainer.rollout.protocol import RolloutEngine, RolloutError, RolloutRequest
from aliquot.trainer.rollout.torch_engine import TorchRolloutEngine

__all__ = ["RolloutEngine", "RolloutError", "RolloutRequest", "TorchRolloutEngine"]
