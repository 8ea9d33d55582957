"""Columns of any file into Interactions; the one place where rows are checked and clicks kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedrap_simulation.data.columns import Role
from fedrap_simulation.data.content import Content
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions, Numbers
from fedrap_simulation.data.selection import select
from fedrap_simulation.data.values import Fault, Words, check_ids, to_numbers, to_times


@dataclass(frozen=True, eq=False)
class Table:
    """The columns that matter, as the file has them."""

    content: Content
    columns: dict[Role, Words | Numbers]
    form: str
    where: Callable[[int], str]  # "line 7" of a row, for messages
    month_first: bool = False


def make_interactions(table: Table, name: str) -> Interactions:
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


def _ids(table: Table, role: Role) -> Words:
    column = table.columns[role]
    assert isinstance(column, Words)  # readers give ids as words, whatever the file has
    check_ids(column, role)
    return column


def _numbers(table: Table, role: Role) -> Numbers | None:
    column = table.columns.get(role)
    if isinstance(column, Words):
        return to_numbers(column, role)
    return _finite(column, role)


def _times(table: Table) -> Numbers | None:
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
