"""INSERT that leaves an existing row alone, in the words of either database."""

from __future__ import annotations

import functools
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite


def insert_once(db: sa.Connection, table: sa.Table, **values: Any) -> bool:
    """Add a row; False when its key was there. Waits for a rival's transaction to end."""
    # RETURNING, for a rowcount of an insert is not to be relied on.
    return db.execute(_statement(table, db.dialect.name), values).first() is not None


@functools.cache
def _statement(table: sa.Table, dialect: str) -> sa.Executable:
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return insert(table).on_conflict_do_nothing().returning(sa.literal(1))
