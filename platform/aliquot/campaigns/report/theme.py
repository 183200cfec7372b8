"""How charts look: quiet, transparent, and coloured by the page's own CSS variables, so they follow light and dark.

A chart is drawn with stand-in colours; in the SVG each of them becomes `var(--name)`. Text stays text, in the page's
font. A chart is shown at about the size it is drawn, so 11 points here are 11 pixels there.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

INK, MUTED, FAINT = "#101113", "#606163", "#d0d1d3"
ACCENT, WARNING, ALARM = "#0f766e", "#b45309", "#b91c1c"
BLUE, VIOLET = "#3b6fd4", "#8b5cc6"
SERIES = (ACCENT, WARNING, BLUE, VIOLET, MUTED)
"""One colour for each assay, in the order of the objective; beyond five they repeat, told apart by their labels."""

VARIABLES = {
    INK: "ink", MUTED: "muted", FAINT: "faint", ACCENT: "accent", WARNING: "warning", ALARM: "alarm",
    BLUE: "blue", VIOLET: "violet",
}  # fmt: skip

LEFT, RIGHT, BOTTOM, GAP = 46, 8, 38, 28
"""Room around and between axes, in CSS pixels; fixed, so that charts beside one another stand in line."""
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 10,
}


@contextmanager
def chart(label: str, width: float, height: float, top: float = 24, rows: int = 1) -> Iterator[tuple[list, list[str]]]:
    """Draw on the axes that this yields; the finished SVG is appended to the list beside them.

    Args:
        label: what the chart shows, for those who cannot see it; also makes its internal names unique on the page.
        width, height: in CSS pixels.
        top: room above the axes, for a title or a legend.
        rows: axes under one another, x shared.
    """
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = SETTINGS | {"svg.hashsalt": label}
    done: list[str] = []
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(width / 72, height / 72))
        axes = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
        row = (height - top - BOTTOM - (rows - 1) * GAP) / rows
        figure.subplots_adjust(LEFT / width, BOTTOM / height, 1 - RIGHT / width, 1 - top / height, hspace=GAP / row)
        yield list(axes), done
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    done.append(_inline(file.getvalue(), label))


def _inline(svg: str, label: str) -> str:
    """A stand-alone SVG as an element of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    for colour, name in VARIABLES.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg.replace("<svg", f'<svg class="chart" role="img" aria-label="{escape(label, quote=True)}"', 1)
