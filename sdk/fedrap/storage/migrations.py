"""From an older schema of the store to this one, in numbered steps and one transaction.

A step changes tables; it never has to seal records anew, because the schema is no part of a seal.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from fedrap.errors import StoreDamaged

Step = Callable[[sqlite3.Connection], None]
# STEPS[n] makes schema n + 1 out of schema n. Schema 2 has a root, which the store itself writes;
# the number keeps a version from writing here that would not keep the root.
STEPS: Mapping[int, Step] = {1: lambda _: None}


def check_schema(have: int, want: int, steps: Mapping[int, Step]) -> None:
    """Can this version use a store of schema `have`?

    Raises:
        StoreDamaged: it is newer, or no steps lead here; the store was not touched.
    """
    if have > want:
        raise StoreDamaged(
            f"the store has schema {have}, this version reads {want}; update the app, "
            "or delete the store to start afresh"
        )
    missing = [version for version in range(have, want) if version not in steps]
    if missing:
        raise StoreDamaged(
            f"the store has schema {have}, and no step leads from {missing[0]} to {want}; "
            "export it with the older version, or delete it to start afresh"
        )


def migrate(db: sqlite3.Connection, have: int, want: int, steps: Mapping[int, Step]) -> None:
    """Take all steps, or none: a crash or an error leaves the old schema."""
    if have == want:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for version in range(have, want):
            steps[version](db)
        db.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (want,))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
