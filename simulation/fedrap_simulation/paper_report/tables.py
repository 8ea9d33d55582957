"""Lines of results as tables and bars, the same in every section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedrap_simulation.evaluation.task import ProtocolName
from fedrap_simulation.paper_report.bench import Bench, Line
from fedrap_simulation.paper_report.document import LEAKY, Cell, Picture, Table
from fedrap_simulation.paper_report.plots import Bar, draw_bars, new_axes, to_svg
from fedrap_simulation.paper_report.request import Ask, Frame

MEASURES = {
    "hr10": "HR@10, 99 neg.",
    "ndcg10": "NDCG@10, 99 neg.",
    "hr10_full": "HR@10 full",
    "ndcg10_full": "NDCG@10 full",
}
PROTOCOLS: tuple[ProtocolName, ...] = ("clean", "paper")


def both_protocols(bench: Bench, asks: Sequence[Ask]) -> list[Line]:
    """The lines of all asks, without the leak and then with it."""
    return [line for protocol in PROTOCOLS for line in bench.lines(asks, protocol)]


def under(lines: Sequence[Line], protocol: ProtocolName) -> list[Line]:
    """The lines of one protocol."""
    return [line for line in lines if line.protocol == protocol]


def value(line: Line, measure: str) -> Cell:
    """Mean and deviation of a measure; None where the line could not be done."""
    if line.mean is None:
        return None
    return line.mean[measure], line.deviation[measure]


def line_table(
    lines: Sequence[Line],
    frame: Frame,
    title: str,
    command: str,
    more: Mapping[str, Sequence[Cell]] | None = None,
) -> Table:
    """A table of lines of one protocol; `more` columns stand between the names and the measures."""
    protocol = lines[0].protocol
    more = more or {}
    rows: list[list[Cell]] = [
        [line.label, *(column[place] for column in more.values())]
        + [value(line, measure) for measure in MEASURES]
        for place, line in enumerate(lines)
    ]
    failed = " ".join(f"{line.label}: {line.failed}." for line in lines if line.failed)
    return Table(
        title=f"{title}, protocol {protocol}",
        protocol=protocol,
        columns=("method", *more, *MEASURES.values()),
        rows=rows,
        command=command,
        seeds=frame.seeds,
        settings={line.label: line.settings for line in lines},
        note=failed,
    )


def line_tables(
    lines: Sequence[Line], frame: Frame, title: str, asks: Sequence[Ask]
) -> list[Table]:
    """One table for each protocol."""
    return [
        line_table(some, frame, title, frame.evaluate(asks, protocol))
        for protocol in PROTOCOLS
        if (some := under(lines, protocol))
    ]


def line_picture(lines: Sequence[Line], name: str, title: str) -> Picture:
    """Bars of all lines: against 99 negatives on the left, full ranking on the right."""
    done = [line for line in lines if line.mean is not None]
    figure, axes = new_axes(1, 2, height=0.9 + 0.24 * max(2, len(done)), width=7.0)
    for panel, (measure, words) in zip(
        axes, (("hr10", "HR@10, 99 negatives"), ("ndcg10_full", "NDCG@10, full ranking")),
        strict=True,
    ):  # fmt: skip
        bars = [
            Bar(label(line), line.mean[measure], line.leaky)
            for line in done
            if line.mean is not None
        ]
        draw_bars(panel, bars, words)
    axes[1].set_yticklabels([])
    leaky = any(line.leaky for line in done)
    return Picture(title=title, svg=to_svg(figure, name), leaky=leaky)


def label(line: Line) -> str:
    """The name of a line in a picture."""
    return f"{line.label} {LEAKY}" if line.leaky else line.label
