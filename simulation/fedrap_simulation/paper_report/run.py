"""Section by section: compute or take from the cache, draw, and write the report each time.

The report is written after every section, so that a run that is stopped leaves what it has.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.paper_report.bench import Bench, OnProgress
from fedrap_simulation.paper_report.document import Part, Report, Section, to_json
from fedrap_simulation.paper_report.html import to_html
from fedrap_simulation.paper_report.markdown import put_between_marks, to_markdown
from fedrap_simulation.paper_report.request import ReportRequest
from fedrap_simulation.paper_report.sections import choose_sections

OnSection = Callable[
    [Section, int, int], None
]  # the section that starts, its place, and of how many


@dataclass(frozen=True)
class ReportOutcome:
    """What a run did."""

    report: Report
    computed: int  # rows and pieces that were not known before
    failed: tuple[str, ...]  # what could not be done, and why


def reproduce(
    request: ReportRequest, command: str, on_progress: OnProgress, on_section: OnSection
) -> ReportOutcome:
    """Do the order and write report.html, results.json and tables.md into its folder.

    Raises:
        BadData: there is no such section, or the data can't be read.
    """
    sections = choose_sections(request.only)
    bench = Bench(request, on_progress)
    request.out.mkdir(parents=True, exist_ok=True)
    parts: list[Part] = []
    for place, section in enumerate(sections):
        on_section(section, place, len(sections))
        parts.append(_part(section, bench))
        report = _report(bench, command, parts)
        _write(request.out / "results.json", to_json(report))
        _write(request.out / "report.html", to_html(report).encode())
        _write(request.out / "tables.md", to_markdown(report).encode())
    if request.docs is not None:
        page = request.docs.read_text(encoding="utf-8") if request.docs.is_file() else ""
        made = put_between_marks(page, request.data, to_markdown(report))
        request.docs.parent.mkdir(parents=True, exist_ok=True)
        _write(request.docs, made.encode())
    sections_failed = [f"{part.name}: {part.failed}" for part in parts if part.drawn is None]
    return ReportOutcome(report, bench.computed, (*sections_failed, *bench.failures))


def _part(section: Section, bench: Bench) -> Part:
    started = time.perf_counter()
    try:
        found = section.compute(bench)
    except BadData as error:  # such as a D that does not fit into memory: the others still can
        seconds = time.perf_counter() - started
        return Part(name=section.name, title=section.title, seconds=seconds, failed=str(error))
    return Part(
        name=section.name,
        title=section.title,
        seconds=time.perf_counter() - started,
        found=found,
        drawn=section.draw(found, bench.frame),
    )


def _report(bench: Bench, command: str, parts: list[Part]) -> Report:
    frame = bench.frame
    return Report(
        data=frame.request.data,
        users=frame.users,
        items=frame.items,
        split=frame.split,
        seeds=frame.seeds,
        quick=frame.request.quick,
        command=command,
        parts=list(parts),
    )


def _write(path: Path, raw: bytes) -> None:
    """Whole or not at all."""
    half = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    half.write_bytes(raw)
    half.replace(path)
