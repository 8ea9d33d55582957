"""The plots of a run."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.axes import Axes

from fedrap_simulation.field.outcome import Outcome
from fedrap_simulation.reproduce.plots import (
    AMBER,
    BLUE,
    GREY,
    Bar,
    Curve,
    draw_bars,
    draw_curves,
    new_axes,
    to_svg,
)

Draw = Callable[[Axes, Outcome], None]


def draw_all(outcome: Outcome) -> list[tuple[str, str]]:
    """(title, SVG) of every plot that has something to show."""
    out = []
    for name, title, has, draw in _PLOTS:
        if has(outcome):
            figure, axes = new_axes(height=2.9)
            draw(axes[0], outcome)
            out.append((title, to_svg(figure, f"field-{name}")))
    return out


def unit(o: Outcome) -> str:
    """What the time of this run is told in."""
    return "day" if o.scenario.days >= 1 else "minute"


def scale(o: Outcome) -> float:
    """Units in a day."""
    return 1.0 if o.scenario.days >= 1 else 1440.0


def _quality(axes: Axes, o: Outcome) -> None:
    day = [one.day * scale(o) for one in o.looks]
    curves = [
        Curve("fedrap", day, [one.ndcg10 for one in o.looks]),
        Curve("popularity", day, [one.ndcg10_popularity for one in o.looks]),
    ]
    middle = [
        (one.day * scale(o), one.ndcg10_central)
        for one in o.looks
        if one.ndcg10_central is not None
    ]
    if middle:
        curves.append(Curve(o.central, [d for d, _ in middle], [q for _, q in middle]))
    draw_curves(axes, curves, unit(o), "NDCG@10 of the next item")


def _fair(axes: Axes, o: Outcome) -> None:
    day = [one.day * scale(o) for one in o.looks]
    draw_curves(
        axes,
        [
            Curve("light users", day, [one.light for one in o.looks]),
            Curve("heavy users", day, [one.heavy for one in o.looks]),
        ],
        unit(o),
        "NDCG@10",
    )


def _exposure(axes: Axes, o: Outcome) -> None:
    day = [one.day * scale(o) for one in o.looks]
    curve = Curve("promoted", day, [one.exposure for one in o.looks])
    draw_curves(axes, [curve], unit(o), "share of people shown it")


def _participants(axes: Axes, o: Outcome) -> None:
    day = [one.day * scale(o) for one in o.rounds]
    curves = [
        Curve("places", day, [float(one.places) for one in o.rounds]),
        Curve("updates", day, [float(one.updates) for one in o.rounds]),
    ]
    draw_curves(axes, curves, unit(o), "devices in a round")


def _durations(axes: Axes, o: Outcome) -> None:
    for phase, colour in (("released", BLUE), ("abandoned", AMBER)):
        some = [one for one in o.rounds if one.phase == phase and one.minutes is not None]
        if some:
            minutes = [one.minutes or 0.0 for one in some]
            axes.scatter(
                [one.day * scale(o) for one in some], minutes, s=9, color=colour, label=phase
            )
    axes.set_xlabel(unit(o))
    axes.set_ylabel("minutes of a round")
    axes.set_ylim(bottom=0.0)
    axes.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    axes.legend(frameon=False, fontsize=9)


def _reports(axes: Axes, o: Outcome) -> None:
    total = max(1, sum(o.reports.values()))
    bars = [Bar(word, count / total) for word, count in list(o.reports.items())[:9]]
    draw_bars(axes, bars, "share of tries")


def _zeros(axes: Axes, o: Outcome) -> None:
    some = [one for one in o.released if one.zeros is not None]
    curve = Curve("zeros", [one.day * scale(o) for one in some], [one.zeros or 0.0 for one in some])
    draw_curves(axes, [curve], unit(o), "exact zeros in C")


def _epsilons(axes: Axes, o: Outcome) -> None:
    names = ("least", "a quarter", "half", "three quarters", "most")
    bars = [Bar(name, value) for name, value in zip(names, o.epsilons, strict=True)]
    draw_bars(axes, bars, "epsilon charged, over devices that took part")


def _bytes(axes: Axes, o: Outcome) -> None:
    each = 1024 if o.scenario.days >= 1 else 1024 / o.scenario.days
    bars = [Bar("up", o.bytes_up_per_day / each), Bar("down", o.bytes_down_per_day / each)]
    draw_bars(axes, bars, "kB per device" + (" and day" if o.scenario.days >= 1 else ""))


_PLOTS: tuple[tuple[str, str, Callable[[Outcome], bool], Draw], ...] = (
    ("quality", "Quality", lambda o: len(o.looks) > 1, _quality),
    ("people", "Participants", lambda o: bool(o.rounds), _participants),
    ("reports", "What became of tries", lambda o: bool(o.reports), _reports),
    ("durations", "How long rounds took", lambda o: len(o.rounds) > 1, _durations),
    ("epsilons", "Epsilon", lambda o: bool(o.epsilons), _epsilons),
    ("bytes", "Traffic", lambda o: True, _bytes),
    ("zeros", "Zeros in C", lambda o: len(o.released) > 1, _zeros),
    ("fair", "Light and heavy users", lambda o: len(o.looks) > 1, _fair),
    (
        "exposure",
        "Exposure of the promoted item",
        lambda o: len(o.looks) > 1 and o.scenario.behaviours.poisoning > 0,
        _exposure,
    ),
)
