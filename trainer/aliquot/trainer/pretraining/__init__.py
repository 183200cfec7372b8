"""Pretraining: from a corpus of molecules to a prior with a model card."""

from aliquot.trainer.pretraining.config import PretrainConfig
from aliquot.trainer.pretraining.driver import run_pretraining
from aliquot.trainer.pretraining.evaluate import Evaluation

__all__ = ["Evaluation", "PretrainConfig", "run_pretraining"]
