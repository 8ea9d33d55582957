"""Words into numbers and times, each distinct word once: a million ratings have ten words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from fedrap_simulation.data.interactions import Numbers, Rows

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*\Z", re.ASCII)
_MONTH_FIRST = re.compile(r"\s*(\d{1,2})/(\d{1,2})/(\d{4})\s*\Z", re.ASCII)


@dataclass(frozen=True, eq=False)
class Words:
    """A column of text: the distinct words in order of first appearance, and who has which."""

    distinct: list[str]
    codes: Rows  # (n,) places in `distinct`

    def first_row(self, place: int) -> int:
        """The first row with a word."""
        return int(np.argmax(self.codes == place))


class Fault(Exception):
    """A row that can't be used. The reader knows the line and says it."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


def looks_like_number(word: str) -> bool:
    """Whether a word is a plain decimal number."""
    return _NUMBER.match(word) is not None


def check_ids(column: Words, role: str) -> None:
    """Refuse ids of nothing but blanks; every other id stays exactly as it is.

    Raises:
        Fault: at the first such row.
    """
    for place, word in enumerate(column.distinct):
        if not word or word.isspace():
            raise Fault(
                column.first_row(place), f"the {role} id is empty. Fill it in or delete the line"
            )


def to_numbers(column: Words, role: str) -> Numbers:
    """Every word as a finite number: (n,).

    Raises:
        Fault: at the first word that is none.
    """
    values = np.empty(len(column.distinct))
    for place, word in enumerate(column.distinct):
        value = float(word) if looks_like_number(word) else math.nan
        if not math.isfinite(value):
            raise Fault(column.first_row(place), _not_a_number(word, role))
        values[place] = value
    return values[column.codes]


def to_times(column: Words, *, month_first: bool = False) -> Numbers:
    """Seconds since 1970 of ISO dates, or the numbers themselves where there are numbers: (n,).

    Dates without a zone are UTC. 11/1/2000 is read only where `month_first` says that the month
    comes first, as in Ta Feng; elsewhere nobody can know.

    Raises:
        Fault: at the first word that is no time, or of another kind than the first.
    """
    if column.distinct and looks_like_number(column.distinct[0]):
        return to_numbers(column, "time")
    values = np.empty(len(column.distinct))
    for place, word in enumerate(column.distinct):
        try:
            values[place] = _seconds(word, month_first)
        except ValueError:
            raise Fault(column.first_row(place), _not_a_time(word)) from None
    return values[column.codes]


def _seconds(word: str, month_first: bool) -> float:
    parts = _MONTH_FIRST.match(word) if month_first else None
    if parts:
        month, day, year = (int(one) for one in parts.groups())
        when = datetime(year, month, day, tzinfo=UTC)
    else:
        if looks_like_number(word):
            raise ValueError("a number among dates")
        when = datetime.fromisoformat(word.strip())
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _not_a_number(word: str, role: str) -> str:
    if not word.strip():
        return f"the {role} is empty. Fill it in, or leave the whole column out"
    if word.strip().lower().lstrip("+-") == "nan":
        return f"the {role} is NaN. Give a number, or leave the whole column out"
    return f'the {role} "{word[:40]}" is not a finite number such as 4 or 3.5'


def _not_a_time(word: str) -> str:
    if not word.strip():
        return "the time is empty. Fill it in, or leave the whole column out"
    return (
        f'the time "{word[:40]}" can\'t be read. Use numbers in all lines (seconds since 1970), '
        "or ISO dates in all lines (2000-11-01 or 2000-11-01T09:30:00Z)"
    )
