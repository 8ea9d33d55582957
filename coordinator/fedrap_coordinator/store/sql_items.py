"""The item catalogue in SQL, with attributes: import, search, and which items are alike.

An item keeps its row for ever, and a row is never given twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from fedrap_coordinator.domain.records import (
    Attribute,
    AuditEntry,
    CataloguePage,
    Extent,
    Imported,
    ItemRow,
    NewItem,
)
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.sql_admin import audited
from fedrap_coordinator.store.task_tables import named


def add_items(db: sa.Connection, items: Sequence[str]) -> int:
    """Rows for new items; retired ones among `items` come back. Returns how many are new."""
    _one_at_a_time(db)
    found = db.execute(sa.select(t.item.c.item_id, t.item.c.retired))
    known = {row.item_id: row.retired for row in found}
    fresh = [name for name in dict.fromkeys(items) if name not in known]
    if fresh:
        rows = [{"row": len(known) + number, "item_id": name} for number, name in enumerate(fresh)]
        db.execute(t.item.insert(), rows)
    back = _mark(db, [name for name in items if known.get(name)], retired=False)
    if fresh or back:
        _raise_version(db)
    return len(fresh)


def retire_items(db: sa.Connection, items: Sequence[str]) -> int:
    """Mark items as not to be shown. Returns how many were shown before."""
    _one_at_a_time(db)
    count = _mark(db, items, retired=True)
    if count:
        _raise_version(db)
    return count


def catalogue(db: sa.Connection, start: int) -> CataloguePage:
    """The items from row `start` on, and all retired rows."""
    names = sa.select(t.item.c.item_id).where(t.item.c.row >= start).order_by(t.item.c.row)
    found = list(db.scalars(names))
    gone = sa.select(t.item.c.row).where(t.item.c.retired).order_by(t.item.c.row)
    retired = list(db.scalars(gone))
    return CataloguePage(_version(db), found, retired)


def _of_meta(name: str) -> sa.ScalarSelect[bytes]:
    return sa.select(t.meta.c.value).where(t.meta.c.name == name).scalar_subquery()


# Rows are 0 … m - 1, so the last one says how many without counting them: each device asks.
_EXTENT = sa.select(
    sa.select(sa.func.max(t.item.c.row)).scalar_subquery(),
    _of_meta("catalogue"),
    _of_meta("attributes"),
)


def extent(db: sa.Connection) -> Extent:
    """Size and version of the catalogue."""
    last, catalogue, attributes = db.execute(_EXTENT).one()
    return Extent(0 if last is None else last + 1, int(catalogue or 0), int(attributes or 0))


def _one_at_a_time(db: sa.Connection) -> None:
    """Rows are counted, so two who add items must not count at the same time."""
    if db.dialect.name == "postgresql":  # SQLite has one writer anyway
        db.execute(sa.text(f"LOCK TABLE {named(db, t.item)} IN SHARE ROW EXCLUSIVE MODE"))


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


def _version(db: sa.Connection, of: str = "catalogue") -> int:
    value = db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == of))
    return 0 if value is None else int(value)


def _raise_version(db: sa.Connection, of: str = "catalogue") -> None:
    version = _version(db, of)
    if version == 0:
        db.execute(t.meta.insert().values(name=of, value=b"1"))
    else:
        db.execute(t.meta.update().where(t.meta.c.name == of).values(value=b"%d" % (version + 1)))


_MANY = 500  # parameters of one statement


def import_items(
    db: sa.Connection, items: Sequence[NewItem], audit: AuditEntry | None = None
) -> Imported:
    """Rows for new items, attributes for all; the last line of an item counts."""
    wanted = {item.id: item for item in items}
    before = {row.item_id: row.retired for row in db.execute(t.item.select())}
    added = add_items(db, list(wanted))
    returned = sum(bool(before.get(name)) for name in wanted)
    a = t.item_attribute
    rows = {
        row.item_id: row.row
        for row in db.execute(sa.select(t.item.c.row, t.item.c.item_id))
        if row.item_id in wanted
    }
    known: dict[int, dict[str, str]] = {}
    for one in db.execute(a.select()):
        known.setdefault(one.row, {})[one.name] = one.value
    changed = [
        item
        for item in wanted.values()
        if item.attributes and dict(item.attributes) != known.get(rows[item.id], {})
    ]
    replaced = [rows[item.id] for item in changed]
    for start in range(0, len(replaced), _MANY):
        db.execute(a.delete().where(a.c.row.in_(replaced[start : start + _MANY])))
    fresh = [
        {"row": rows[item.id], "name": name, "value": value}
        for item in changed
        for name, value in item.attributes.items()
    ]
    if fresh:
        db.execute(a.insert(), fresh)
        _raise_version(db, "attributes")
    known_before = sum(item.id in before for item in changed)
    return audited(db, audit, Imported(added, returned, known_before))


def shared_attributes(db: sa.Connection, start: int) -> Sequence[Attribute]:
    """Attributes of rows from `start` on, and of all rows that share one with them."""
    a = t.item_attribute.c
    # The pairs of the new items first, then who has them, by the index: the other way round a
    # hundred new items among 100,000 took eight minutes.
    pairs = sa.select(a.name, a.value).where(a.row >= start).distinct().subquery()
    same = sa.and_(pairs.c.name == a.name, pairs.c.value == a.value)
    query = sa.select(a.row, a.name, a.value).join_from(pairs, t.item_attribute, same)
    return sorted((row.row, row.name, row.value) for row in db.execute(query))


def public_attributes(db: sa.Connection, names: Sequence[str]) -> Sequence[Mapping[str, str]]:
    """Of all items, row 0 first."""
    a = t.item_attribute.c
    count = db.scalar(sa.select(sa.func.count()).select_from(t.item)) or 0
    found: list[dict[str, str]] = [{} for _ in range(count)]
    for one in db.execute(t.item_attribute.select().where(a.name.in_(list(names)))):
        found[one.row][one.name] = one.value
    return found


def items(db: sa.Connection, start: int, count: int, search: str = "") -> Sequence[ItemRow]:
    """From row `start` on."""
    i, a = t.item.c, t.item_attribute.c
    query = t.item.select().where(i.row >= start).order_by(i.row).limit(count)
    if search:
        has = sa.exists().where(a.row == i.row, _contains(a.value, search))
        query = query.where(sa.or_(_contains(i.item_id, search), has))
    rows = list(db.execute(query))
    found: dict[int, dict[str, str]] = {row.row: {} for row in rows}
    if rows:
        theirs = t.item_attribute.select().where(a.row.in_(list(found))).order_by(a.row, a.name)
        for one in db.execute(theirs):
            found[one.row][one.name] = one.value
    return [ItemRow(row.row, row.item_id, bool(row.retired), found[row.row]) for row in rows]


def _contains(column: sa.ColumnElement[str], search: str) -> sa.ColumnElement[bool]:
    return sa.func.lower(column).contains(search.lower(), autoescape=True)


def categories(db: sa.Connection, count: int) -> Sequence[tuple[str, int]]:
    """The most frequent first."""
    a, n = t.item_attribute.c, sa.func.count().label("n")
    query = (
        sa.select(a.value, n)
        .join_from(t.item_attribute, t.item, t.item.c.row == a.row)
        .where(a.name == "category", t.item.c.retired.is_(False))
        .group_by(a.value)
        .order_by(n.desc(), a.value)
        .limit(count)
    )
    return [(row.value, int(row.n)) for row in db.execute(query)]
