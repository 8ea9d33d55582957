"""Columns of any file into Interactions; the one place where rows are checked and clicks kept.

Words into numbers and times, each distinct word once: a million ratings have ten words.

Which column of a file plays which part, by the names that people give to columns.

Names are compared without case, blanks, dashes and underscores, so `userId`, `user_id` and
`USER ID` are one. The type that RecBole writes behind a name (`user_id:token`) is cut off. Only a
whole name counts: `item_score1` is not a score.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from fedrap_simulation.data.content import Content
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions, Numbers, Rows
from fedrap_simulation.data.selection import select

Role = Literal["user", "item", "rating", "time", "click"]
Places = dict[Role, int]  # the place of each part among the columns

# In order of preference: a file may well have both `timestamp` and `date`.
ALIASES: dict[Role, tuple[str, ...]] = {
    "user": (
        "user_id", "user", "uid", "reviewerID", "customer_id", "customer", "member_id",
        "visitor_id", "account_id",
    ),
    "item": (
        "item_id", "item", "iid", "movie_id", "movie", "asin", "parent_asin", "product_id",
        "product", "artist_id", "artist", "book_id", "isbn", "song_id", "track_id", "game_id",
        "article_id", "news_id", "business_id", "venue_id",
    ),
    "rating": (
        "rating", "ratings", "weight", "count", "score", "stars", "overall", "plays",
        "play_count", "amount", "quantity",
    ),
    "time": (
        "timestamp", "time", "datetime", "ts", "unixReviewTime", "unix_timestamp", "event_time",
        "created_at", "date", "transaction_dt",
    ),
    "click": ("click",),
}  # fmt: skip

_TYPE = re.compile(r":(token|float|token_seq|float_seq)$")


def plain(name: str) -> str:
    """A column's name as it is compared."""
    return re.sub(r"[\s_-]", "", _TYPE.sub("", name.strip())).lower()


def is_typed(name: str) -> bool:
    """Whether a name carries a type, as in RecBole's files."""
    return _TYPE.search(name.strip()) is not None


def find_places(names: list[str]) -> Places:
    """The place of every part that has a column.

    A file with clicks lists what was shown; its other numbers are about the item, not about this
    user, so no rating is taken from it.
    """
    known: dict[str, int] = {}
    for place, name in enumerate(names):
        known.setdefault(plain(name), place)
    found: Places = {}
    for role, aliases in ALIASES.items():
        place_of = [known[plain(alias)] for alias in aliases if plain(alias) in known]
        if place_of:
            found[role] = place_of[0]
    if "click" in found:
        found.pop("rating", None)
    return found


def missing_words(names: list[str], found: Places) -> str:
    """What to say when there is no user or no item among the columns."""
    lacking: list[Role] = [role for role in ("user", "item") if role not in found]
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    accepted = "; ".join(f"{role}: {', '.join(ALIASES[role])}" for role in lacking)
    return (
        f"no column for the {' and the '.join(lacking)}. Columns found: {shown}. "
        f"Names accepted for the {accepted}. Rename the column"
    )


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


@dataclass(frozen=True, eq=False)
class RawTable:
    """The columns that matter, as the file has them."""

    content: Content
    columns: dict[Role, Words | Numbers]
    form: str
    where: Callable[[int], str]  # "line 7" of a row, for messages
    month_first: bool = False


def make_interactions(table: RawTable, name: str) -> Interactions:
    """Interactions out of a table, in the order of the file.

    Raises:
        BadData: with the line of the first row that can't be used.
    """
    form = table.form + (", gzip" if table.content.gzipped else "")
    try:
        user, item = _ids(table, "user"), _ids(table, "item")
        data = Interactions(
            name,
            tuple(user.distinct),
            tuple(item.distinct),
            user.codes,
            item.codes,
            _numbers(table, "rating"),
            _times(table),
            form,
        )
        clicks = _numbers(table, "click")
    except Fault as fault:
        path = table.content.path
        raise BadData(f"{path}, {table.where(fault.row)}: {fault.reason}") from None
    if clicks is None:
        return data
    if not np.any(clicks > 0):
        raise table.content.bad("no row has a click, and only clicks are interactions")
    return select(data, clicks > 0)


def _ids(table: RawTable, role: Role) -> Words:
    column = table.columns[role]
    assert isinstance(column, Words)  # readers give ids as words, whatever the file has
    check_ids(column, role)
    return column


def _numbers(table: RawTable, role: Role) -> Numbers | None:
    column = table.columns.get(role)
    if isinstance(column, Words):
        return to_numbers(column, role)
    return _finite(column, role)


def _times(table: RawTable) -> Numbers | None:
    column = table.columns.get("time")
    if isinstance(column, Words):
        return to_times(column, month_first=table.month_first)
    return _finite(column, "time")


def _finite(column: Numbers | None, role: str) -> Numbers | None:
    if column is not None and not np.all(np.isfinite(column)):
        row = int(np.argmin(np.isfinite(column)))
        reason = f"the {role} is empty, NaN or infinite. Give a number, or leave the column out"
        raise Fault(row, reason)
    return column
