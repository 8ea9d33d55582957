"""Which column of a file plays which part, by the names that people give to columns.

Names are compared without case, blanks, dashes and underscores, so `userId`, `user_id` and
`USER ID` are one. The type that RecBole writes behind a name (`user_id:token`) is cut off. Only a
whole name counts: `item_score1` is not a score.
"""

from __future__ import annotations

import re
from typing import Literal

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
