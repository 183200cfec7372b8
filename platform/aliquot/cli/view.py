"""A campaign's progress in a terminal: a live panel, or one line now and then where there is no terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from aliquot.campaigns.progress import Progress

TIERS = ("fresh", "moderate", "old", "ancient", "unused")
LINE_EVERY = 5.0
"""Seconds between lines where there is no terminal."""
DAY = 86_400.0


def facts(now: Progress) -> dict[str, str]:
    """What a person wants to know at a glance, by label."""
    e, proposed = now.experiments, now.proposals
    parts = [f"out {e.out}", f"partly back {e.partly_back}", f"back {e.back} of {e.budget}"]
    others = {"waiting": e.waiting, "failed": e.failed, "given up": e.given_up}
    parts += [f"{word} {count}" for word, count in others.items() if count]
    spent = [f"{line.unit} {line.spent + line.reserved:,.4g} of {line.limit:,.6g}" for line in now.budget]
    return {
        "Experiments": " · ".join(parts),
        "Best so far": "none yet" if now.best is None else f"{now.best.value:.3f}, experiment {now.best.experiment}",
        "Budget used": " · ".join(spent),
        "Proposals": f"{proposed.total} · invalid {proposed.invalid} · refused {proposed.refused}",
        "Policy": f"version {now.policy_version or 0} · step {now.trainer_step} · waiting to be learned {now.backlog}",
        "Samples": " · ".join(f"{tier} {now.dispositions.get(tier, 0)}" for tier in TIERS),
    }


def line(now: Progress) -> str:
    """The same on one line."""
    return f"day {now.elapsed_seconds / DAY:.1f} | " + " | ".join(f"{k}: {v}" for k, v in facts(now).items())


def panel(now: Progress) -> RenderableType:
    """The same for a terminal."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="ellipsis", no_wrap=True)
    for label, text in facts(now).items():
        table.add_row(label, text)
    if now.best is not None:
        table.add_row("", Text(now.best.design, style="cyan"))
    e = now.experiments
    head = Text.assemble((now.name, "bold"), f"  {now.state}  ", (f"lab day {now.elapsed_seconds / DAY:.1f}", "dim"))
    bar = ProgressBar(total=e.budget, completed=e.back + e.failed + e.given_up, width=60, complete_style="cyan")
    return Group(head, bar, table)


class ProgressView:
    """Shows each `Progress` it is called with. A context manager.

    Args:
        console: where to show it.
        quiet: show nothing.
    """

    def __init__(self, console: Console, quiet: bool):
        self.console, self.quiet = console, quiet
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal and not quiet else None
        self._last = -LINE_EVERY
        self._shown: Progress | None = None

    def __enter__(self) -> ProgressView:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, now: Progress) -> None:
        if self._live:
            self._live.update(panel(now), refresh=True)
        elif not self.quiet and now != self._shown and (self._due() or now.state != "running"):
            self._last, self._shown = time.monotonic(), now
            self.say(line(now))

    def _due(self) -> bool:
        return time.monotonic() - self._last >= LINE_EVERY

    def say(self, text: str) -> None:
        """One message, whole on its line, above the panel where there is one."""
        self.console.print(text, soft_wrap=True, markup=False, highlight=False)
