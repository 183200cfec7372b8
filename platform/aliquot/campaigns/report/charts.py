"""The charts of the page, each a pure function from numbers to one inline SVG."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aliquot.campaigns.baseline import Band
from aliquot.campaigns.report.theme import ACCENT, ALARM, FAINT, INK, MUTED, SERIES, WARNING, chart

WIDE, HALF, NARROW = 744.0, 440.0, 360.0
"""Two thirds of the page, half of it, and a third of it or a whole telephone; CSS pixels."""
Limits = tuple[float | None, float | None]
"""Of an axis; None: as the data have it."""


def best_so_far(
    x: Sequence[float],
    values: Sequence[float],
    uncertainties: Sequence[float | None],
    random: Band | None,
    pending: Sequence[tuple[float, float, float]],
    xlabel: str,
    width: float,
) -> str:
    """Running best against experiments or time, and the same pace at random.

    Args:
        x, values, uncertainties: of each complete experiment in order of completion; `x` does not fall.
        random: expected best after as many experiments, at least as long as `x` where it is drawn.
        pending: (x, estimate, standard deviation) of what is not complete yet.
        width: CSS pixels.
    """
    position, value = np.asarray(x, dtype=float), np.asarray(values, dtype=float)
    with chart(f"Best objective value so far against {xlabel}", width, 300, 24 if width > NARROW else 40) as (
        [axes],
        done,
    ):
        if random is not None and len(position):
            n = min(len(position), len(random.mean))
            axes.fill_between(position[:n], random.low[:n], random.high[:n], step="post", color=MUTED, alpha=0.16, lw=0)
            axes.step(position[:n], random.mean[:n], where="post", color=MUTED, lw=1.0, label="at random, 90 % band")
        if len(position):
            axes.plot(position, value, "o", color=ACCENT, ms=3.2, alpha=0.45, mew=0, label="measured")
            best = np.maximum.accumulate(value)
            holder = np.maximum.accumulate(np.where(value >= best, np.arange(len(value)), 0))
            spread = np.array([uncertainties[i] or 0.0 for i in holder], dtype=float)
            axes.fill_between(
                position, best - spread, np.minimum(best + spread, 1), step="post", color=ACCENT, alpha=0.16, lw=0
            )
            axes.step(position, best, where="post", color=ACCENT, lw=2.0, label="best so far, ± 1 sd")
        if pending:
            at, estimate, sd = np.array(pending, dtype=float).T
            axes.errorbar(
                at, estimate, sd, fmt="o", ms=4, mfc="none", color=WARNING, lw=0.8, label="estimated, still out"
            )
        axes.set(xlabel=xlabel, ylim=(0, 1.02), ylabel="objective value" if width > NARROW else None)
        axes.set_xlim(left=0)
        if len(position) or pending:
            axes.legend(
                loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4 if width > NARROW else 2, columnspacing=1.2
            )
    return done[0]


def series(title: str, values: Sequence[float], xlabel: str, limits: Limits) -> str:
    """One number over rounds or steps: each as a thin line, its trailing mean as a thick one."""
    value = np.asarray(values, dtype=float)
    window = max(1, len(value) // 12)
    x = np.arange(1, len(value) + 1)
    with chart(f"{title} against {xlabel}", NARROW, 190) as ([axes], done):
        axes.plot(x, value, color=ACCENT, lw=0.8, alpha=0.4)
        axes.plot(x, [_mean(value[max(0, i - window + 1) : i + 1]) for i in range(len(value))], color=ACCENT, lw=2.0)
        axes.set(title=title, xlabel=xlabel)
        axes.margins(x=0.02)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylim(*limits)
    return done[0]


def delay_histogram(hours: dict[str, list[float]], assays: Sequence[str]) -> str:
    """Hours from dispatch to result, one row and one colour for each assay, on a common logarithmic axis."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    shown = [assay for assay in assays if hours.get(assay)]
    least = max(0.1, min(min(hours[assay]) for assay in shown))
    most = max(max(hours[assay]) for assay in shown)
    edges = np.geomspace(least * 0.95, max(most * 1.05, least * 2), 36)
    height = 38 + 70 * len(shown)
    with chart("Hours from dispatch to result, by assay", HALF, height, rows=len(shown)) as (column, done):
        for axes, assay in zip(column, shown, strict=True):
            colour, median = SERIES[list(assays).index(assay) % len(SERIES)], float(np.median(hours[assay]))
            axes.hist(np.maximum(hours[assay], least), bins=edges, color=colour, alpha=0.75)
            axes.axvline(median, color=INK, lw=1.0, ls=(0, (3, 2)))
            axes.set_title(f"{assay}: median {median:.3g} h, {len(hours[assay])} results", color=INK)
            axes.set_xscale("log")
            axes.grid(axis="y", visible=False)
            axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.xaxis.set_minor_locator(NullLocator())
        column[-1].set_xlabel("hours to the last replicate (log scale; dashed: median)")
    return done[0]


TIER_COLOURS = {"fresh": ACCENT, "moderate": FAINT, "old": WARNING, "ancient": ALARM, "unused": MUTED}


def staleness(steps: Sequence[int], counts: dict[str, list[int]]) -> str:
    """Share of each tier over training steps, in at most 40 bins, stacked."""
    parts = np.array_split(np.arange(len(steps)), min(40, len(steps)))
    totals = np.array([max(1, sum(sum(c[i] for c in counts.values()) for i in part)) for part in parts])
    left = np.array([steps[part[0]] for part in parts], dtype=float)
    widths = np.diff([*left, steps[-1] + 1.0])
    bottom = np.zeros(len(parts))
    with chart("Share of each staleness tier over training steps", HALF, 250) as ([axes], done):
        for tier, colour in TIER_COLOURS.items():
            share = np.array([sum(counts[tier][i] for i in part) for part in parts]) / totals
            if share.any():
                axes.bar(left, 100 * share, widths, 100 * bottom, align="edge", color=colour, label=tier, lw=0)
                bottom = bottom + share
        axes.set(
            xlabel="training step", ylabel="% of coefficients", ylim=(0, 100), xlim=(left[0], left[-1] + widths[-1])
        )
        axes.grid(visible=False)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, columnspacing=1.0, handlelength=1.2)
    return done[0]


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
