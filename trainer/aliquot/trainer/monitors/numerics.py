"""Monitors of the arithmetic: is this gradient one to follow, and do sampler and trainer compute the same?"""

from __future__ import annotations

import math
from statistics import median
from typing import ClassVar

from pydantic import Field

from aliquot.trainer.monitors.base import Action, GradientMonitor, Judgement, Monitor, Reading, known, worst
from aliquot.trainer.monitors.memory import Memory, level


class NonFinite(GradientMonitor):
    """A loss or gradient that is infinite or not a number. No statistics: once is enough."""

    meaning: ClassVar[str] = (
        "the step would have destroyed the policy. If it comes again, lower `learning.learning_rate` or compute in "
        "float32."
    )
    then: Action = Action.ROLL_BACK

    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        return worst(
            [
                Judgement(name, reading[name], None, not math.isfinite(reading[name]))
                for name in ("loss", "gradient_norm")
                if name in reading
            ]
        )


class GradientSpike(GradientMonitor):
    """A gradient far larger than the last ones, and than what is to be learned accounts for.

    Batches differ in what is due, so a norm g is judged per unit of what is to be learned, u = g / (mean |c| √n) with n
    coefficients c: a sum of n independent terms grows with √n. A spike has log u more than `width`
    spreads above the median of the last ones, and both u and g beyond `factor` medians (z-scores of recent norms:
    ZClip, Kumar et al. 2025, https://arxiv.org/abs/2504.02507; the logarithm, since norms are never negative and have a
    long tail). Spikes are not compared with. A batch that spikes at one set of parameters is harmless at another (PaLM,
    Chowdhery et al. 2022, section 5.1), which is why the step is skipped and what was due stays due; one that spikes
    again and again is followed in the end, clipped and with less learning rate, since it is no accident.
    """

    meaning: ClassVar[str] = (
        "the gradient is out of all proportion to what is to be learned, and following it could undo much. If it comes "
        "again, look at the rewards of the last results, and lower `learning.learning_rate`."
    )
    then: Action = Action.LOWER_LEARNING_RATE
    newest: int = Field(default=64, ge=8)
    """Norms that are compared with."""
    least: int = Field(default=16, ge=4)
    """Norms before anything is judged."""
    factor: float = Field(default=8.0, gt=1)
    width: float = Field(default=6.0, gt=0)

    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        values = known(reading, "gradient_norm", "coefficient_mean_abs", "due")
        if values is None or min(values) <= 0:
            return None
        norm, unit = values[0], values[0] / (values[1] * math.sqrt(values[2]))
        norms, units = memory.series.get("norm", []), memory.series.get("unit", [])
        judged = None
        if len(norms) >= self.least:
            centre, spread = level([math.log(one) for one in units])
            usual = math.exp(centre + max(math.log(self.factor), self.width * spread))
            limit = max(self.factor * median(norms), usual * norm / unit)
            judged = Judgement("gradient_norm", norm, limit, norm > limit)
        if judged is None or not judged.breach:
            memory.keep("norm", norm, self.newest)
            memory.keep("unit", unit, self.newest)
        return judged


class Precision(Monitor):
    """Sampler and trainer disagree about samples of the very same weights, or gradients vanish.

    KL(μ‖π) over samples of the newest version (`kl_fresh`) is zero but for rounding (Qi et al. 2025, "Defeating the
    training–inference mismatch via FP16", https://arxiv.org/abs/2510.26788): in bfloat16 prime-rl measured 1.5e-3 nats
    per token on a large mixture of experts, and a third of it or less with router replay (its pull request 2808). A
    loss that is not zero with a gradient that is says that it underflows.
    """

    meaning: ClassVar[str] = (
        "sampler and trainer do not compute the same policy from the same weights, or the gradient underflows. Check "
        "that published weights reach the rollout engine, keep logits in float32 on both sides, and replay routed "
        "experts."
    )
    breaches: int = 2
    out_of: int = 3
    limit: float = Field(default=0.01, gt=0)
    """Nats per token."""

    def judge(self, reading: Reading, memory: Memory) -> Judgement | None:
        found = []
        if fresh := known(reading, "kl_fresh"):
            found.append(Judgement("kl_fresh", fresh[0], self.limit, fresh[0] > self.limit))
        if (values := known(reading, "gradient_norm", "loss")) and values[1] != 0:
            found.append(Judgement("gradient_norm", values[0], 0.0, values[0] == 0))
        return worst(found)
