"""One result is a row; rows are kept by their configuration, so a run can be resumed.

A row says what was asked (method, data, split, protocol, seed), with which settings, and what came
out. `full` ranks of every user are kept beside it, so that two methods can be compared user by
user later.
"""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import msgspec
import numpy as np
import numpy.typing as npt

Ranks = npt.NDArray[np.int64]
RESULT_VERSION = 4  # raise it when a method or a measure changes what a row means


class PrivacyTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The guarantee to every user: epsilon over all rounds, without amplification."""

    epsilon: float
    delta: float = 1e-5
    banded: bool = True  # correlated noise, else independent


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """All that decides a row."""

    method: str
    dataset: str
    split: str
    protocol: str
    seed: int
    least: int = 10
    changes: dict[str, Any] = {}  # settings that were changed by hand
    tune: bool = True
    target: PrivacyTarget | None = None  # of differential privacy
    version: int = RESULT_VERSION

    def key(self) -> str:
        """A name for a file: the same question has the same one."""
        raw = msgspec.json.encode(self, order="deterministic")
        return hashlib.sha256(raw).hexdigest()[:20]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. The field names are those of the JSON."""

    method: str
    dataset: str
    split: str
    protocol: str
    leaky: bool
    seed: int
    users: int
    items: int
    hr10: float
    ndcg10: float
    hr10_full: float
    ndcg10_full: float
    hr20_full: float
    ndcg20_full: float
    mrr_full: float
    coverage: float
    gini: float
    ndcg10_head: float | None  # full ranking, by popularity of the target; fairness.py has the cuts
    ndcg10_middle: float | None
    ndcg10_tail: float | None
    ndcg10_few: float | None  # by length of the history
    ndcg10_some: float | None
    ndcg10_many: float | None
    seconds: float
    seconds_tuning: float
    rounds: int
    bytes_up: float
    bytes_down: float
    zeros: float | None
    epsilon: float | None = (
        None  # charged to a user who was asked as often as anybody; None: no guarantee
    )
    settings: dict[str, Any]
    note: str = ""


@dataclass(frozen=True, eq=False)
class Answer:
    """A row with the ranks it was made of."""

    row: Row
    full: Ranks  # (U,)
    sampled: Ranks  # (U,)


class FileCache:
    """Results in a folder by their key; one that is broken or half-written counts as absent.

    Without a folder nothing is kept.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        """What was kept under this name."""
        try:
            return None if self._folder is None else (self._folder / name).read_bytes()
        except OSError:
            return None

    def write(self, name: str, raw: bytes) -> None:
        """Keep it; it is there whole or not at all."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / name
        half = path.with_suffix(f".{os.getpid()}.tmp")
        half.write_bytes(raw)
        half.replace(path)


class AnswerCache:
    """Answers by exactly the question they were given to."""

    def __init__(self, folder: Path | None) -> None:
        self._files = FileCache(folder)

    def get(self, question: Question) -> Answer | None:
        """The answer to exactly this question, if it was given before."""
        raw = self._files.read(f"{question.key()}.npz")
        if raw is None:
            return None
        try:
            with np.load(io.BytesIO(raw), allow_pickle=False) as kept:
                row = msgspec.json.decode(bytes(kept["row"]), type=Row)
                return Answer(row, kept["full"], kept["sampled"])
        except (OSError, ValueError, KeyError, msgspec.MsgspecError, EOFError, BadZipFile):
            return None

    def put(self, question: Question, answer: Answer) -> None:
        """Keep an answer."""
        row = np.frombuffer(msgspec.json.encode(answer.row), dtype=np.uint8)
        with io.BytesIO() as file:
            np.savez_compressed(file, row=row, full=answer.full, sampled=answer.sampled)
            self._files.write(f"{question.key()}.npz", file.getvalue())
