"""A run as one page of HTML that needs nothing else; its first screen answers the questions.

What quality, what epsilon, what traffic, how long per round, and what broke.

The plots of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import msgspec
import numpy as np
from matplotlib.axes import Axes

from fedrap_simulation.paper_report.plots import (
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
from fedrap_simulation.scenarios.outcome import Outcome
from fedrap_simulation.scenarios.quality import thirds

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


def _draw_quality(axes: Axes, o: Outcome) -> None:
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
    curves.append(Curve("popularity of late", day, [one.ndcg10_recent for one in o.looks]))
    old = [(one.day * scale(o), one.ndcg10_frozen) for one in o.looks if one.ndcg10_frozen]
    if old:
        words = f"frozen at {unit(o)} {old[0][0]:.0f}"
        curves.append(Curve(words, [d for d, _ in old], [q for _, q in old]))
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
    ("quality", "Quality", lambda o: len(o.looks) > 1, _draw_quality),
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


_CSS = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#d9dee5;--page:#fff;
--card:#f5f7f9}
@media (prefers-color-scheme:dark){:root{--ink:#e4e8ee;--soft:#9aa6b5;--line:#333c49;
--page:#14181e;--card:#1c222b}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:64rem;background:var(--page);color:var(--ink);
font:1rem/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:.4rem 0}h2{font-size:1rem;margin:0 0 .3rem;color:var(--soft)}
p{margin:.3rem 0}.soft{color:var(--soft);font-size:.9rem}
.answers{display:grid;grid-template-columns:repeat(auto-fit,minmax(11.5rem,1fr));gap:.7rem;
margin:1rem 0}
.card{padding:.8rem;border:1px solid var(--line);border-radius:.5rem;background:var(--card)}
.big{font-size:1.7rem;font-weight:650;font-variant-numeric:tabular-nums;line-height:1.2}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,28rem),1fr));gap:.7rem}
figure{margin:0}svg{display:block;width:100%;height:auto}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .7rem .2rem 0;border-bottom:1px solid var(--line);text-align:left}
td:last-child{text-align:right}.counts{margin:.7rem 0}
pre{overflow-x:auto;font-size:.8rem}summary{cursor:pointer;color:var(--soft)}
"""


def to_html(outcome: Outcome) -> str:
    """The whole page."""
    o = outcome
    about = (
        f"{o.people:,} people of {o.dataset}, {o.items:,} items, {_length(o)} on the "
        f"{o.clock} clock, seed {o.scenario.seed}; computed in {o.seconds:.0f} s."
    )
    answers = "".join(
        f'<div class="card"><h2>{escape(question)}</h2><div class="big">{escape(big)}</div>'
        f'<p class="soft">{escape(words)}</p></div>\n'
        for question, big, words in answer_all(o)
    )
    pictures = "".join(
        f'<figure class="card"><h2>{escape(title)}</h2>{svg}</figure>\n'
        for title, svg in draw_all(o)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(o.scenario.name)}</title><style>{_CSS}</style></head>\n<body>\n"
        f"<h1>{escape(o.scenario.name)}</h1>\n<p>{escape(o.scenario.about)}</p>\n"
        f'<p class="soft">{escape(about)}</p>\n<div class="answers">{answers}</div>\n'
        f'<div class="plots">{pictures}</div>\n'
        f"{_counts('What became of tries', o.reports)}{_counts('What the network did', o.trouble)}"
        f"{_counts('Checked, and held', o.checked)}"
        f"<details><summary>Scenario and settings</summary><pre>{escape(_settings(o))}</pre>"
        "</details>\n</body></html>\n"
    )


def _length(o: Outcome) -> str:
    days = o.scenario.days
    return f"{days:g} days" if days >= 1 else f"{days * 1440:.1f} minutes"


def answer_all(o: Outcome) -> list[tuple[str, str, str]]:
    """The five questions: in short, a number, and a few words."""
    return [_quality(o), _epsilon(o), _traffic(o), _rounds(o), _broken(o)]


def _quality(o: Outcome) -> tuple[str, str, str]:
    if not o.looks:
        return "Quality", "–", "nobody could be asked"
    later = o.looks[len(o.looks) // 2 :]
    ours = float(np.mean([one.ndcg10 for one in later]))
    popular = float(np.mean([one.ndcg10_popularity for one in later]))
    words = f"NDCG@10 of the next item, later half of the days; popularity {popular:.3f}"
    middle = [one.ndcg10_central for one in later if one.ndcg10_central is not None]
    words += f", of late {np.mean([one.ndcg10_recent for one in later]):.3f}"
    old = [one.ndcg10_frozen for one in later if one.ndcg10_frozen is not None]
    if old:
        words += f", a release of day {o.scenario.looks.frozen_day:g} {np.mean(old):.3f}"
    if middle:
        words += f", {o.central} with all histories in one place {np.mean(middle):.3f}"
    light, heavy = thirds(o.looks)
    return "Quality", f"{ours:.3f}", f"{words}. Light users {light:.3f}, heavy ones {heavy:.3f}."


def _epsilon(o: Outcome) -> tuple[str, str, str]:
    if o.epsilon is None:
        return "Epsilon", "none", "no noise is added, so nothing is guaranteed; set privacy.noise"
    words = f"charged to whoever took part most; median {o.epsilons[2]:.2g}" if o.epsilons else ""
    bound = f"; the policy guarantees at most {o.promised:.2g}" if o.promised else ""
    if bound and o.epsilon_window is not None and o.epsilon_window < o.epsilon:
        bound += f" in any window, and nobody spent more than {o.epsilon_window:.2g} in one"
    return "Epsilon", f"{o.epsilon:.2g}", words + bound


def _traffic(o: Outcome) -> tuple[str, str, str]:
    days, words = (1.0, "device and day") if o.scenario.days >= 1 else (o.scenario.days, "device")
    up, down = o.bytes_up_per_day * days / 1024, o.bytes_down_per_day * days / 1024
    return "Traffic", f"{up + down:.1f} kB", f"per {words}: {up:.1f} up, {down:.1f} down"


def _rounds(o: Outcome) -> tuple[str, str, str]:
    made = o.released
    minutes = [one.minutes for one in made if one.minutes is not None]
    if not minutes:
        return "A round", "–", "no round was released"
    took = float(np.median(minutes))
    shown = f"{took:.0f} min" if took < 180 else f"{took / 60:.1f} h"
    if took < 1:
        shown = f"{took * 60:.1f} s"
    mean = float(np.mean([one.updates for one in made]))
    return "A round", shown, f"median; {len(made)} rounds of {mean:.0f} updates on average"


def _broken(o: Outcome) -> tuple[str, str, str]:
    lost = len([one for one in o.rounds if one.phase == "abandoned"])
    refused = sum(count for word, count in o.reports.items() if word != "joined")
    tries = max(1, sum(o.reports.values()))
    words = (
        f"{lost} rounds abandoned, {refused / tries:.0%} of tries led to nothing; "
        f"{o.checked['updates']:,} updates counted, none lost, none twice"
    )
    if o.scenario.behaviours.poisoning and o.looks:
        words += f"; the promoted item is shown to {o.looks[-1].exposure:.1%} of people"
    return "What broke", str(lost), words


def _counts(title: str, counts: dict[str, int]) -> str:
    if not counts:
        return ""
    rows = "".join(f"<tr><td>{escape(k)}</td><td>{v:,}</td></tr>" for k, v in counts.items())
    return f'<div class="card counts"><h2>{escape(title)}</h2><table>{rows}</table></div>\n'


def _settings(o: Outcome) -> str:
    return msgspec.json.format(msgspec.json.encode(o.scenario), indent=1).decode()
