"""What a section hands to the report: tables of plain values, pictures, and a few sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from fedrap_simulation.reproduce.order import Frame

if TYPE_CHECKING:
    from fedrap_simulation.reproduce.bench import Bench

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
