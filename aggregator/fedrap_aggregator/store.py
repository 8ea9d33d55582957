"""What the helper keeps, in SQLite: open rounds with their sums, and a ledger of closed ones.

round_   one row for each open or closed round, by its id; no key is in here
report   which reports of a round came, and whether they were counted; no device is known here
sum_     the running share of an open round's sum: random numbers without the leader's
closed   for each task and step the one set that was ever summed, and the bytes that were given
question one row for each question, open or closed, by its id; reports and sums as of a round
answered for each question the one set that was ever summed, and the bytes that were given
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedrap_aggregator.errors import ConfigError

SCHEMA = 2  # 2: questions; tables that are missing are made
_TABLES = """
CREATE TABLE IF NOT EXISTS round_ (
    id BLOB PRIMARY KEY, task BLOB NOT NULL, step INTEGER NOT NULL, model BLOB NOT NULL,
    plan BLOB NOT NULL, items INTEGER NOT NULL, opened_at REAL NOT NULL, ends_at REAL NOT NULL,
    seal_key BLOB NOT NULL, signature BLOB NOT NULL, verify_key BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS report (
    round_id BLOB NOT NULL, id BLOB NOT NULL, digest BLOB NOT NULL, counted INTEGER NOT NULL,
    PRIMARY KEY (round_id, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sum_ (round_id BLOB PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS closed (
    task BLOB NOT NULL, step INTEGER NOT NULL, round_id BLOB NOT NULL, digest BLOB NOT NULL,
    count INTEGER NOT NULL, at REAL NOT NULL, share BLOB,
    PRIMARY KEY (task, step)
);
CREATE TABLE IF NOT EXISTS question (
    id BLOB PRIMARY KEY, task BLOB NOT NULL, numbers INTEGER NOT NULL, squares INTEGER NOT NULL,
    noise REAL NOT NULL, least INTEGER NOT NULL, opened_at REAL NOT NULL, ends_at REAL NOT NULL,
    seal_key BLOB NOT NULL, signature BLOB NOT NULL, verify_key BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS answered (
    question_id BLOB PRIMARY KEY, digest BLOB NOT NULL, count INTEGER NOT NULL, at REAL NOT NULL,
    share BLOB NOT NULL
);
"""


@dataclass(frozen=True, eq=False)
class StoredRound:
    """A round as it was opened."""

    id: bytes
    task: bytes
    step: int
    model: bytes
    plan: bytes
    items: int
    opened_at: float
    ends_at: float
    seal_key: bytes
    signature: bytes
    verify_key: bytes


@dataclass(frozen=True, eq=False)
class StoredQuestion:
    """A question as it was opened."""

    id: bytes
    task: bytes
    numbers: int
    limit: int  # Q
    noise: float
    least: int
    opened_at: float
    ends_at: float
    seal_key: bytes
    signature: bytes
    verify_key: bytes


@dataclass(frozen=True, eq=False)
class Given:
    """A set of reports that was summed once and for all, and what was given away of it."""

    digest: bytes  # of the set of reports
    count: int
    at: float
    share: bytes | None  # None once a later step of the task was closed


@dataclass(frozen=True, eq=False)
class ClosedRound(Given):
    """A step that was summed."""

    task: bytes
    step: int
    round_id: bytes


class Store:
    """One connection; whoever uses it comes alone."""

    def __init__(self, path: str | Path) -> None:
        """Raises ConfigError: not a helper's database, or of a newer program."""
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")  # what was answered stays
            (number,) = self._db.execute("PRAGMA user_version").fetchone()
            if not 0 <= number <= SCHEMA:
                raise ConfigError(f"{path} has schema {number}, this program knows {SCHEMA}")
            self._db.executescript(_TABLES)
            self._db.execute(f"PRAGMA user_version = {SCHEMA}")
        except sqlite3.Error as error:
            raise ConfigError(f"database {path}: {error}") from error

    def close(self) -> None:
        """Nothing is open afterwards."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def add_round(self, round_: StoredRound) -> None:
        """A round that begins."""
        self._db.execute(
            "INSERT INTO round_ VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            (
                round_.id, round_.task, round_.step, round_.model, round_.plan, round_.items,
                round_.opened_at, round_.ends_at, round_.seal_key, round_.signature,
                round_.verify_key,
            ),
        )  # fmt: skip

    def round(self, round_id: bytes) -> StoredRound | None:
        """The round of that id, open or closed."""
        found = self._db.execute("SELECT * FROM round_ WHERE id = ?", (round_id,)).fetchone()
        return None if found is None else StoredRound(*found)

    def open_rounds(self) -> list[StoredRound]:
        """Those that were not closed, whether or not their time is over."""
        rows = self._db.execute(
            "SELECT * FROM round_ WHERE id NOT IN (SELECT round_id FROM closed) ORDER BY opened_at"
        )
        return [StoredRound(*row) for row in rows]

    def forget_round(self, round_id: bytes) -> None:
        """A round that is over without a sum, or that nobody asks for any more."""
        for table, column in (("round_", "id"), ("report", "round_id"), ("sum_", "round_id")):
            self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (round_id,))

    def reports(self, round_id: bytes) -> dict[bytes, tuple[bytes, bool]]:
        """Reports of a round by id: digest, and whether it was counted."""
        rows = self._db.execute(
            "SELECT id, digest, counted FROM report WHERE round_id = ?", (round_id,)
        )
        return {row[0]: (row[1], bool(row[2])) for row in rows}

    def add_reports(self, round_id: bytes, came: dict[bytes, tuple[bytes, bool]]) -> None:
        """Reports that were looked at."""
        self._db.executemany(
            "INSERT INTO report VALUES (?,?,?,?)",
            [(round_id, one, digest, int(counted)) for one, (digest, counted) in came.items()],
        )

    def running_sum(self, round_id: bytes) -> bytes | None:
        """The share of the sum so far."""
        found = self._db.execute("SELECT body FROM sum_ WHERE round_id = ?", (round_id,)).fetchone()
        return None if found is None else bytes(found[0])

    def keep_sum(self, round_id: bytes, body: bytes) -> None:
        """In the transaction of the reports that it has."""
        self._db.execute("INSERT OR REPLACE INTO sum_ VALUES (?,?)", (round_id, body))

    def closed(self, task: bytes, step: int) -> ClosedRound | None:
        """What was summed for a step."""
        found = self._db.execute(
            "SELECT digest, count, at, share, task, step, round_id FROM closed "
            "WHERE task = ? AND step = ?",
            (task, step),
        ).fetchone()
        return None if found is None else ClosedRound(*found)

    def last_step(self, task: bytes) -> int:
        """The last step of a task that was summed; 0 before the first."""
        (found,) = self._db.execute(
            "SELECT MAX(step) FROM closed WHERE task = ?", (task,)
        ).fetchone()
        return int(found or 0)

    def sets(self, task: bytes) -> dict[int, bytes]:
        """The digests of what steps were summed from."""
        rows = self._db.execute("SELECT step, digest FROM closed WHERE task = ?", (task,))
        return {int(row[0]): bytes(row[1]) for row in rows}

    def close_round(self, closed: ClosedRound) -> None:
        """Write down what is given away; the share of the step before is not asked for again."""
        self._db.execute(
            "INSERT INTO closed VALUES (?,?,?,?,?,?,?)",
            (
                closed.task, closed.step, closed.round_id, closed.digest, closed.count, closed.at,
                closed.share,
            ),
        )  # fmt: skip
        self._db.execute("DELETE FROM sum_ WHERE round_id = ?", (closed.round_id,))
        older = self._db.execute(  # also rounds that the leader opened and never heard of
            "SELECT id FROM round_ WHERE task = ? AND step <= ? AND id != ?",
            (closed.task, closed.step, closed.round_id),
        ).fetchall()
        for (round_id,) in older:
            self.forget_round(round_id)
        self._db.execute(
            "UPDATE closed SET share = NULL WHERE task = ? AND step < ?", (closed.task, closed.step)
        )

    def add_question(self, question: StoredQuestion) -> None:
        """A question that begins."""
        self._db.execute(
            "INSERT INTO question VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            (
                question.id, question.task, question.numbers, question.limit, question.noise,
                question.least, question.opened_at, question.ends_at, question.seal_key,
                question.signature, question.verify_key,
            ),
        )  # fmt: skip

    def question(self, question_id: bytes) -> StoredQuestion | None:
        """The question of that id, open or closed; what was summed is never forgotten."""
        found = self._db.execute("SELECT * FROM question WHERE id = ?", (question_id,)).fetchone()
        return None if found is None else StoredQuestion(*found)

    def open_questions(self) -> list[StoredQuestion]:
        """Those that were not closed, whether or not their time is over."""
        rows = self._db.execute(
            "SELECT * FROM question WHERE id NOT IN (SELECT question_id FROM answered)"
        )
        return [StoredQuestion(*row) for row in rows]

    def forget_question(self, question_id: bytes) -> None:
        """A question that is over without a sum."""
        for table, column in (("question", "id"), ("report", "round_id"), ("sum_", "round_id")):
            self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (question_id,))

    def forget_reports(self, before: float) -> None:
        """Those of summed questions whose time was over by then: nobody asks for them again."""
        self._db.execute(
            "DELETE FROM report WHERE round_id IN (SELECT id FROM question JOIN answered "
            "ON id = question_id WHERE ends_at < ?)",
            (before,),
        )

    def answered(self, question_id: bytes) -> Given | None:
        """What was summed for a question."""
        found = self._db.execute(
            "SELECT digest, count, at, share FROM answered WHERE question_id = ?", (question_id,)
        ).fetchone()
        return None if found is None else Given(*found)

    def close_question(self, question_id: bytes, given: Given) -> None:
        """Write down what is given away."""
        self._db.execute(
            "INSERT INTO answered VALUES (?,?,?,?,?)",
            (question_id, given.digest, given.count, given.at, given.share),
        )
        self._db.execute("DELETE FROM sum_ WHERE round_id = ?", (question_id,))

    def counts(self) -> dict[str, int]:
        """For status and metrics."""
        names = {
            "open_rounds": "SELECT COUNT(*) FROM round_ WHERE id NOT IN "
            "(SELECT round_id FROM closed)",
            "closed_rounds": "SELECT COUNT(*) FROM closed",
            "open_questions": "SELECT COUNT(*) FROM question WHERE id NOT IN "
            "(SELECT question_id FROM answered)",
            "closed_questions": "SELECT COUNT(*) FROM answered",
            "reports_counted": "SELECT COUNT(*) FROM report WHERE counted = 1",
            "reports_refused": "SELECT COUNT(*) FROM report WHERE counted = 0",
            "last_step": "SELECT COALESCE(MAX(step), 0) FROM closed",
        }
        return {name: int(self._db.execute(sql).fetchone()[0]) for name, sql in names.items()}
