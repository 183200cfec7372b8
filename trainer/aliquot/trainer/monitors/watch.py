"""All monitors of a run: what they say of each step, and when an action has to become a stronger one.

Each step has two phases. `before` judges the gradient, while it can still be thrown away; `after` judges what the step
and the laboratory have left. An action that does not help is not asked for again and again: skips in a row become what
the monitor wants then, and a roll-back from where the last one came from becomes a pause, so no alarm can hold a
trainer in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aliquot.trainer.monitors.base import Action, Alarm, GradientMonitor, Reading
from aliquot.trainer.monitors.config import MonitorsConfig
from aliquot.trainer.monitors.memory import Memory


class Watch:
    """Watches one run."""

    def __init__(self, config: MonitorsConfig):
        self.config = config
        self.learning_rate_scale = 1.0
        """What the learning rate is to be multiplied by."""
        self._memories = {name: Memory() for name in config.monitors}
        self._skips = 0
        self._rolled_back_at = -1
        """The last step at which a roll-back was asked for; −1: none was."""

    def before(self, step: int, reading: Reading) -> list[Alarm]:
        """Judge a gradient that is about to be followed.

        Args:
            step: the number that the step will have.
            reading: its metrics as they are, infinite ones too.
        """
        alarms = self._judge(step, reading, before=True)
        skips = any(alarm.action is Action.SKIP_STEP for alarm in alarms)
        self._skips = self._skips + 1 if skips else 0
        if self._skips > self.config.most_skips:
            said = f"{self.config.most_skips} skipped steps in a row have not helped"
            alarms = [_instead(alarm, Action.SKIP_STEP, self._then(alarm), said) for alarm in alarms]
            self._skips = 0
        return self._settle(step, alarms)

    def after(self, step: int, reading: Reading) -> list[Alarm]:
        """Judge what a step has left behind, and what has come in since the last one."""
        alarms = self._settle(step, self._judge(step, reading, before=False))
        if not alarms:
            self.learning_rate_scale = min(1.0, self.learning_rate_scale * 2 ** (1 / self.config.recovery))
        return alarms

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {
            "memories": {name: memory.state() for name, memory in self._memories.items()},
            "learning_rate_scale": self.learning_rate_scale,
            "rolled_back_at": self._rolled_back_at,
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        """Take what `state` gave; None: as before the first step.

        What a roll-back taught stays: the lowered learning rate, and where it came from.
        """
        state = state or Watch(self.config).state()
        for name in self._memories:
            self._memories[name] = Memory.of(state["memories"][name]) if name in state["memories"] else Memory()
        self.learning_rate_scale = min(self.learning_rate_scale, state["learning_rate_scale"])
        self._rolled_back_at = max(self._rolled_back_at, state["rolled_back_at"])
        self._skips = 0

    def _judge(self, step: int, reading: Reading, before: bool) -> list[Alarm]:
        watching = [(name, monitor) for name, monitor in self.config.monitors.items() if monitor.before is before]
        alarms = [monitor.watch(name, step, reading, self._memories[name]) for name, monitor in watching]
        return [alarm for alarm in alarms if alarm is not None]

    def _then(self, alarm: Alarm) -> Action:
        monitor = self.config.monitors[alarm.monitor]
        return monitor.then if isinstance(monitor, GradientMonitor) else alarm.action

    def _settle(self, step: int, alarms: list[Alarm]) -> list[Alarm]:
        """Pause instead of rolling back in a circle; lower the learning rate where that is asked for or implied."""
        config, asked = self.config, {alarm.action for alarm in alarms}
        if Action.ROLL_BACK in asked:
            if self._rolled_back_at >= 0 and step <= self._rolled_back_at + config.settle:
                said = f"the roll-back at step {self._rolled_back_at} has not helped"
                alarms = [_instead(alarm, Action.ROLL_BACK, Action.PAUSE, said) for alarm in alarms]
            self._rolled_back_at = step
        if asked & {Action.LOWER_LEARNING_RATE, Action.ROLL_BACK}:
            self.learning_rate_scale = max(config.least_rate, config.lowering * self.learning_rate_scale)
        return alarms


def strongest(alarms: Sequence[Alarm]) -> Alarm | None:
    """The alarm whose action is to be taken; it stands for the others of its step."""
    return max(alarms, key=lambda alarm: alarm.action.strength, default=None)


def _instead(alarm: Alarm, weak: Action, strong: Action, why: str) -> Alarm:
    if alarm.action is not weak:
        return alarm
    return alarm.model_copy(update={"action": strong, "message": f"{alarm.message} ({why}.)"})
