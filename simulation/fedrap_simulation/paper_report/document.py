"""What a section hands to the report: tables of plain values, pictures, and a few sentences.

What a run found, as a whole: what is written to results.json and shown in the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from fedrap_simulation.paper_report.request import Frame

if TYPE_CHECKING:
    from fedrap_simulation.paper_report.bench import Bench

Cell = str | int | float | tuple[float, float] | None  # a pair is a mean and its deviation
LEAKY = "LEAKY"
LEAK = (
    "LEAKY: the sampler of negatives knows the held-out items, and the round that did best on "
    "the test is kept, as in the published code. These numbers show the leak, not quality."
)


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Values with all that is needed to make them again."""

    title: str
    protocol: Literal["clean", "paper"]
    columns: tuple[str, ...]
    rows: list[list[Cell]]
    command: str
    seeds: tuple[int, ...]
    settings: dict[str, Any] = {}
    note: str = ""
    digits: dict[str, int] = {}  # decimal places by column, 3 unless said

    @property
    def leaky(self) -> bool:
        """Whether the label has to stand on it."""
        return self.protocol == "paper"

    @property
    def heading(self) -> str:
        """The title, with the label where it belongs."""
        return f"{self.title} — {LEAKY}" if self.leaky else self.title

    def text(self, column: int, cell: Cell) -> str:
        """A cell as it is printed, in the page and in the markdown."""
        digits = self.digits.get(self.columns[column], 3)
        if cell is None:
            return "–"
        if isinstance(cell, tuple):
            mean, deviation = cell
            spread = f" ± {deviation:.{digits}f}" if len(self.seeds) > 1 else ""
            return f"{mean:.{digits}f}{spread}"
        return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A drawing that stands for itself."""

    title: str
    svg: str
    leaky: bool = False  # whether any of it was measured with the leak


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """A section as it is shown."""

    words: list[str]
    tables: list[Table]
    pictures: list[Picture]


@dataclass(frozen=True)
class Section:
    """One part of the report: what computes it and what draws it."""

    name: str
    title: str
    compute: Callable[[Bench], Any]  # gives a struct of plain values
    draw: Callable[[Any, Frame], Drawn]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One section of the report."""

    name: str
    title: str
    seconds: float  # of this run; next to nothing when all was known
    found: Any = None  # the section's own struct
    drawn: Drawn | None = None
    failed: str = ""  # why there is nothing


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All sections with what they were made from."""

    data: str
    users: int
    items: int
    split: str
    seeds: tuple[int, ...]
    quick: bool
    command: str
    parts: list[Part]

    @property
    def title(self) -> str:
        """What it is about."""
        return f"FedRAP reproduced on {self.data}"

    @property
    def about(self) -> str:
        """The setting in one sentence."""
        return (
            f"{self.users} users with at least 10 interactions, {self.items} items, split "
            f"{self.split}, seeds {', '.join(map(str, self.seeds))}; ties in time are broken at "
            "random, ties in score count against a method."
            + (" A quick run: far too small to judge quality by." if self.quick else "")
        )


def to_json(report: Report) -> bytes:
    """Everything but the pictures; NaN and infinity become null."""
    parts = {
        part.name: {
            "title": part.title,
            "failed": part.failed,
            "found": part.found,
            "tables": [_plain(table) for table in part.drawn.tables] if part.drawn else [],
        }
        for part in report.parts
    }
    whole = {
        "data": report.data,
        "users": report.users,
        "items": report.items,
        "split": report.split,
        "seeds": report.seeds,
        "quick": report.quick,
        "command": report.command,
        "sections": parts,
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n"


def _plain(table: Table) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(table)
    return fields | {"leaky": table.leaky}
