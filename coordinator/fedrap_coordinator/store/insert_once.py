"""INSERT that leaves an existing row alone, in the words of either database."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite


def insert_once(db: sa.Connection, table: sa.Table, **values: Any) -> bool:
    """Add a row; False when its key was there. Waits for a rival's transaction to end."""
    insert = postgresql.insert if db.dialect.name == "postgresql" else sqlite.insert
    # RETURNING, for a rowcount of an insert is not to be relied on.
    done = db.execute(
        insert(table).values(values).on_conflict_do_nothing().returning(sa.literal(1))
    )
    return done.first() is not None
