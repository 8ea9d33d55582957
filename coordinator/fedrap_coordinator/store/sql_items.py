"""The item catalogue in SQL: an item keeps its row for ever, a row is never given twice."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.protocol import CatalogueView, Extent


def add(db: sa.Connection, items: Sequence[str]) -> int:
    """Rows for new items; retired ones among `items` come back. Returns how many are new."""
    _one_at_a_time(db)
    found = db.execute(sa.select(t.item.c.item_id, t.item.c.retired))
    known = {row.item_id: row.retired for row in found}
    fresh = [name for name in dict.fromkeys(items) if name not in known]
    if fresh:
        rows = [{"row": len(known) + place, "item_id": name} for place, name in enumerate(fresh)]
        db.execute(t.item.insert(), rows)
    back = _mark(db, [name for name in items if known.get(name)], retired=False)
    if fresh or back:
        _raise_version(db)
    return len(fresh)


def retire(db: sa.Connection, items: Sequence[str]) -> int:
    """Mark items as not to be shown. Returns how many were shown before."""
    _one_at_a_time(db)
    count = _mark(db, items, retired=True)
    if count:
        _raise_version(db)
    return count


def view(db: sa.Connection, start: int) -> CatalogueView:
    """The items from row `start` on, and all retired rows."""
    names = sa.select(t.item.c.item_id).where(t.item.c.row >= start).order_by(t.item.c.row)
    items = list(db.scalars(names))
    gone = sa.select(t.item.c.row).where(t.item.c.retired).order_by(t.item.c.row)
    retired = list(db.scalars(gone))
    return CatalogueView(_version(db), items, retired)


def extent(db: sa.Connection) -> Extent:
    """Size and version of the catalogue."""
    items = db.scalar(sa.select(sa.func.count()).select_from(t.item)) or 0
    return Extent(int(items), _version(db))


def _one_at_a_time(db: sa.Connection) -> None:
    """Rows are counted, so two who add items must not count at the same time."""
    if db.dialect.name == "postgresql":  # SQLite has one writer anyway
        db.execute(sa.text("LOCK TABLE item IN SHARE ROW EXCLUSIVE MODE"))


def _mark(db: sa.Connection, items: Sequence[str], *, retired: bool) -> int:
    count = 0
    for name in items:
        changed = db.execute(
            t.item.update()
            .where(t.item.c.item_id == name, t.item.c.retired == (not retired))
            .values(retired=retired)
        )
        count += changed.rowcount
    return count


def _version(db: sa.Connection) -> int:
    value = db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == "catalogue"))
    return 0 if value is None else int(value)


def _raise_version(db: sa.Connection) -> None:
    version = _version(db)
    if version == 0:
        db.execute(t.meta.insert().values(name="catalogue", value=b"1"))
    else:
        db.execute(
            t.meta.update().where(t.meta.c.name == "catalogue").values(value=b"%d" % (version + 1))
        )
