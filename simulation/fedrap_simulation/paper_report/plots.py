"""Drawings that follow the page: text and axes take its colour, so they read on light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#010203"  # becomes the page's own colour of text
BLUE, GREEN, AMBER, VIOLET, GREY = "#3f86d0", "#2f9e6e", "#cf8419", "#8f72d8", "#8a9099"
LEAKY_RED = "#d9485f"
PALETTE = (BLUE, GREEN, AMBER, VIOLET, GREY)
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fedrap",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.8,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK
    ),
}


class Curve(NamedTuple):
    """A line with its name at the end."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    leaky: bool = False


def new_axes(
    rows: int = 1, columns: int = 1, height: float = 3.2, width: float = 5.6
) -> tuple[Figure, list[Axes]]:
    """A figure without pyplot, and its axes row by row."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [one for row in axes for one in row]


def colours(leaky: Sequence[bool]) -> list[str]:
    """Red for what leaks, and one colour after the other for the rest."""
    clean = iter(PALETTE * (1 + len(leaky) // len(PALETTE)))
    return [LEAKY_RED if one else next(clean) for one in leaky]


def draw_curves(axes: Axes, curves: Sequence[Curve], x: str, y: str) -> None:
    """Lines with their names at their ends; leaky ones red and dashed."""
    ends: list[tuple[float, float, str, str]] = []
    for curve, colour in zip(curves, colours([one.leaky for one in curves]), strict=True):
        dashes = (0, (5, 2)) if curve.leaky else "-"
        axes.plot(curve.x, curve.y, color=colour, linestyle=dashes, marker="o", markersize=2.5)
        ends.append((curve.y[-1], curve.x[-1], curve.label, colour))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(bottom=0.0)
    axes.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    low, high = axes.get_ylim()
    places = apart([end[0] for end in ends], 0.09 * (high - low))
    right = max(end[1] for end in ends)
    for (_, _, label, colour), place in zip(ends, places, strict=True):
        axes.annotate(
            label, (right, place), (6, 0), textcoords="offset points", va="center", color=colour,
            annotation_clip=False,
        )  # fmt: skip


def apart(places: Sequence[float], gap: float) -> list[float]:
    """The same places, moved up as little as keeps `gap` between any two."""
    request = sorted(range(len(places)), key=lambda one: places[one])
    out = list(places)
    for below, above in pairwise(request):
        out[above] = max(out[above], out[below] + gap)
    return out


class Bar(NamedTuple):
    """A bar with its name and its value."""

    label: str
    value: float
    leaky: bool = False


def draw_bars(axes: Axes, bars: Sequence[Bar], x: str) -> None:
    """Lying bars from the top down with their values; leaky ones red and hatched."""
    top = max((bar.value for bar in bars), default=1.0) or 1.0
    for place, bar in enumerate(bars):
        colour = LEAKY_RED if bar.leaky else BLUE
        axes.barh(
            place, bar.value, height=0.72, edgecolor=colour, color="none" if bar.leaky else colour,
            hatch="////" if bar.leaky else None, linewidth=0.8,
        )  # fmt: skip
        axes.text(bar.value + 0.01 * top, place, f" {bar.value:.3f}", va="center", fontsize=8.5)
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0.0, 1.18 * top)
    axes.set_xlabel(x)
    axes.tick_params(axis="y", length=0)


def to_svg(figure: Figure, name: str) -> str:
    """The drawing as an element of a page; its ids start with `name`, so that none comes twice."""
    raw = io.StringIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context(_STYLE):
        figure.savefig(raw, format="svg", transparent=True, dpi=130, metadata=metadata)
    text = raw.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    text = text.replace("url(#", f"url(#{name}-").replace(INK, "currentColor")
    # The page says how large it is; the drawing only its proportions.
    head, tail = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f'{head} role="img">{tail}'.strip()
