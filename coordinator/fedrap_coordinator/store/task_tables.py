"""Several tasks in one database: the tables of each have its name before theirs.

`device` of the task `music` is the table `music__device`; the task without a name has the plain
names, as every database had before there were several. All statements are written once, for the
plain tables: an engine of a task (`of_task`) puts the name into each of them as it goes to the
database. So no statement can meet two tasks, and none has to say of which task it is.

A name has no underscore, and no plain table has two in a row: no table belongs to two tasks.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from fedrap_coordinator.store import schema as t

_TASK = "fedrap_task_name"  # the option of a connection that says whose tables it means
_MARK = "fedrap_task"  # stands as a schema before each plain table until the name takes its place
_OWN = "fedrap_own"  # of tables that bear the name already
_MARKED = re.compile(rf'\b{_MARK}\.("?)')


def of_task(engine: sa.Engine, task: str) -> sa.Engine:
    """The same connections, for statements about this task's tables alone."""
    if not task:
        return engine
    own = engine.execution_options(
        **{_TASK: task, "schema_translate_map": {None: _MARK, _OWN: None}}
    )
    sa.event.listen(own, "before_cursor_execute", _puts_in(_before(task)), retval=True)
    return own


def named(db: sa.Connection, table: sa.Table) -> str:
    """What a plain table is called here, for statements that are written as text."""
    return f"{_before(task_of(db))}{table.name}"


def task_of(db: sa.Connection) -> str:
    """Whose tables this connection means."""
    return str(db.get_execution_options().get(_TASK, ""))


def make_tables(db: sa.Connection) -> None:
    """Those that are not there yet, with indices and triggers."""
    _tables(task_of(db)).create_all(db)


def lock_of(db: sa.Connection, number: int) -> int:
    """An advisory lock of PostgreSQL that tasks do not take from each other."""
    task = task_of(db)
    return number if not task else number << 31 | zlib.crc32(task.encode()) >> 1


def _before(task: str) -> str:
    return f"{task}__" if task else ""


def _puts_in(name: str) -> Callable[..., tuple[str, Any]]:
    @functools.lru_cache(maxsize=1024)
    def named_in(statement: str) -> str:
        return _MARKED.sub(rf"\1{name}", statement)

    def before(
        _db: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> tuple[str, Any]:
        return named_in(statement), parameters

    return before


@functools.cache
def _tables(task: str) -> sa.MetaData:
    if not task:
        return t.metadata
    own, name = sa.MetaData(), _before(task)
    for table in t.metadata.tables.values():
        copy = table.to_metadata(own, schema=_OWN, name=f"{name}{table.name}")
        for index in copy.indexes:
            if name not in str(index.name):
                index.name = sa.quoted_name(f"{name}{index.name}", quote=None)
    return own
