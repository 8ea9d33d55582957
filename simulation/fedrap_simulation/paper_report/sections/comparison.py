"""The paper's main table, ours beside it: once with its leak and once without."""

from __future__ import annotations

import msgspec

from fedrap_simulation.paper_report.bench import Bench, Line
from fedrap_simulation.paper_report.document import LEAK, Cell, Drawn, Section, Table
from fedrap_simulation.paper_report.published import CITATION, NOT_THE_SAME_DATA, published
from fedrap_simulation.paper_report.request import Ask, Frame
from fedrap_simulation.paper_report.tables import line_picture, line_table


class Comparison(msgspec.Struct, frozen=True):
    """All methods under the protocol that is honest, and the paper's under its own."""

    clean: list[Line]
    paper: list[Line]


def compute(bench: Bench) -> Comparison:
    """Settings are chosen on validation under `clean`; under `paper` they are as published."""
    scale = bench.frame.scale
    return Comparison(
        bench.lines([Ask(name) for name in scale.clean], "clean"),
        bench.lines([Ask(name) for name in scale.leaky], "paper"),
    )


def _table(lines: list[Line], frame: Frame) -> Table:
    protocol = lines[0].protocol
    known = [published(frame.request.data, line.method) for line in lines]
    columns: dict[str, list[Cell]] = {}
    if any(known):
        columns = {
            "HR@10 published, LEAKY": [one and one.hr10 for one in known],
            "NDCG@10 published, LEAKY": [one and one.ndcg10 for one in known],
        }
    asks = [Ask(line.method) for line in lines]
    command = frame.evaluate(asks, protocol)
    table = line_table(lines, frame, f"All methods on {frame.request.data}", command, columns)
    notes = [table.note, f"Published: {CITATION}." if columns else ""]
    if columns:
        notes.append(NOT_THE_SAME_DATA.get(frame.request.data, ""))
    return msgspec.structs.replace(table, note=" ".join(note for note in notes if note))


def draw(found: Comparison, frame: Frame) -> Drawn:
    """Two tables and the bars of both."""
    return Drawn(
        words=[
            "Under clean a sampler of negatives sees the training history and nothing else, "
            "settings are chosen on validation, and the test is looked at once. Ties count "
            "against a method.",
            LEAK,
            "Methods that draw no negatives do not see this leak: popularity, itemknn, ease, "
            "ials, c-only and fedrap learn the same under both protocols, so of these only "
            "popularity is shown under paper, as a line to compare with.",
        ],
        tables=[_table(lines, frame) for lines in (found.clean, found.paper) if lines],
        pictures=[
            line_picture([*found.clean, *found.paper], "comparison", "Without the leak and with it")
        ],
    )


SECTION = Section("comparison", "Comparison of methods", compute, draw)
