"""Small files for the tests of data."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from fedrap_simulation.data.interactions import Interactions


def put(path: Path, text: str | bytes) -> str:
    """Write a file, packed if its name ends in .gz, and give its path back as text."""
    raw = text.encode("utf-8") if isinstance(text, str) else text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return str(path)


def pairs(data: Interactions) -> list[tuple[str, str]]:
    """User and item ids of every interaction, in order."""
    return [(data.users[u], data.items[i]) for u, i in zip(data.user, data.item, strict=True)]


def ratings(data: Interactions) -> list[float] | None:
    """Ratings as a list."""
    return None if data.rating is None else data.rating.tolist()


def times(data: Interactions) -> list[float] | None:
    """Times as a list."""
    return None if data.time is None else data.time.tolist()


def interactions(
    rows: list[tuple[str, str]],
    rating: list[float] | None = None,
    time: list[float] | None = None,
    name: str = "made",
) -> Interactions:
    """Interactions out of pairs of ids."""
    users = list(dict.fromkeys(user for user, _ in rows))
    items = list(dict.fromkeys(item for _, item in rows))
    return Interactions(
        name,
        tuple(users),
        tuple(items),
        np.array([users.index(user) for user, _ in rows], dtype=np.int64),
        np.array([items.index(item) for _, item in rows], dtype=np.int64),
        None if rating is None else np.array(rating, dtype=np.float64),
        None if time is None else np.array(time, dtype=np.float64),
    )
