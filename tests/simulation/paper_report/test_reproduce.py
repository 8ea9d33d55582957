"""`fedrap-sim reproduce`: one report, leaks labelled, a stopped run goes on."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedrap_simulation.commands import run
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.paper_report.markdown import put_between_marks
from fedrap_simulation.paper_report.request import ReportRequest
from fedrap_simulation.paper_report.run import ReportOutcome, reproduce
from fedrap_simulation.paper_report.sections import SECTIONS

DATA = "synthetic:users=36,items=145,seed=1"


def do(out: Path, only: tuple[str, ...] = ()) -> ReportOutcome:
    request = ReportRequest(data=DATA, out=out, only=only, quick=True)
    return reproduce(request, "fedrap-sim reproduce", lambda *_: None, lambda *_: None)


@dataclass(frozen=True)
class Whole:
    out: Path
    outcome: ReportOutcome


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    out = tmp_path_factory.mktemp("whole")
    return Whole(out, do(out))


def test_every_section_is_there_with_tables_commands_and_pictures(whole: Whole) -> None:
    assert whole.outcome.failed == ()
    found = json.loads((whole.out / "results.json").read_bytes())
    assert list(found["sections"]) == list(SECTIONS)
    page = (whole.out / "report.html").read_text("utf-8")
    tables = (whole.out / "tables.md").read_text("utf-8")
    for part in whole.outcome.report.parts:
        assert part.drawn is not None
        assert part.drawn.tables
        assert part.drawn.pictures
        for table in part.drawn.tables:
            assert table.command.startswith("fedrap-sim ")
            assert table.command in tables
    assert page.count("<svg") == sum(
        len(part.drawn.pictures) for part in whole.outcome.report.parts if part.drawn
    )
    assert not re.search(r"(src|href)=[\"']https?:", page)  # one file, nothing fetched


def test_every_leaky_number_is_called_leaky(whole: Whole) -> None:
    for part in whole.outcome.report.parts:
        assert part.drawn is not None
        for table in part.drawn.tables:
            assert ("LEAKY" in table.heading) == (table.protocol == "paper")


def test_a_second_run_computes_nothing_and_a_lost_piece_alone_is_made_again(whole: Whole) -> None:
    before = json.loads((whole.out / "results.json").read_bytes())["sections"]
    again = do(whole.out)
    assert whole.outcome.computed > 20
    assert again.computed == 0
    section_cache = sorted((whole.out / "cache" / "pieces").iterdir())
    section_cache[0].write_bytes(section_cache[0].read_bytes()[:20])
    assert do(whole.out).computed == 1
    after = json.loads((whole.out / "results.json").read_bytes())["sections"]
    assert after == before


def test_on_the_command_line_a_section_alone_and_a_page_of_the_docs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "results.md"
    docs.write_text("# Results\n\nBefore.\n", "utf-8")
    more = ["--only", "density", "--quick", "--out", str(tmp_path / "o"), "--docs", str(docs)]
    assert run(["reproduce", "--data", DATA, *more]) == 0
    assert capsys.readouterr().out.strip().endswith("report.html")
    page = docs.read_text("utf-8")
    assert page.startswith("# Results\n\nBefore.\n")
    assert "Quality by density" in page
    assert str(tmp_path) not in page
    assert run(["reproduce", "--data", DATA, *more]) == 0
    assert docs.read_text("utf-8") == page


def test_a_section_that_is_none_is_named_with_those_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "--data", DATA, "--only", "densty", "--out", str(tmp_path)]
    assert run(arguments) != 0
    assert "density" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_marks_that_are_no_pair_are_refused() -> None:
    page = put_between_marks("# Page", "ml-100k", "one")
    assert put_between_marks(page, "ml-100k", "two").count("two") == 1
    assert "one" not in put_between_marks(page, "ml-100k", "two")
    with pytest.raises(BadData, match="not a pair"):
        put_between_marks(page.replace("<!-- /", "<!-- "), "ml-100k", "two")
