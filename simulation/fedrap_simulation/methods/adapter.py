"""Somebody else's method: a Python file with `fit` and `scores`, as docs/benchmark.md describes.

    def fit(train, items, ordered, seed, **settings): ...    # -> anything
    def scores(model, users): ...                            # -> (len(users), items), high is good

`train` has one array of item numbers for each user, oldest first. The file gets nothing else: no
held-out item, no negatives. `SETTINGS`, if it has one, is a list of dicts; the one that does best
on validation is kept.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import numpy as np

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import FREE, Cost, OnProgress, Scores
from fedrap_simulation.methods.tuning import choose


@dataclass(frozen=True, eq=False)
class FileFitted:
    """What `fit` gave back, asked by `scores`."""

    name: str
    ask: Callable[[Any, Rows], Any]
    model: Any
    items: int
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        """(len(users), m).

        Raises:
            BadData: what came back has another shape, or is no array of numbers.
        """
        try:
            found = np.asarray(self.ask(self.model, users.copy()), dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise BadData(f"{self.name}: scores must give an array of numbers: {error}") from error
        if found.shape != (len(users), self.items):
            raise BadData(
                f"{self.name}: scores gave {found.shape} for {len(users)} users and {self.items} "
                f"items, not {(len(users), self.items)}"
            )
        return found


@dataclass(frozen=True)
class FileMethod:
    """A method of a file; its settings are what the file says."""

    path: str
    digest: str = ""  # of the file: another file is another method
    chosen: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(path: str) -> FileMethod:
        """Read a file and see that it can be used.

        Raises:
            BadData: it can't be read, or lacks `fit` or `scores`.
        """
        try:
            digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
        except OSError as error:
            raise BadData(f"{path} can't be read: {error.strerror}") from error
        method = FileMethod(path, digest)
        tries = method._settings()
        return replace(method, chosen=tries[0])

    @property
    def name(self) -> str:
        """That of the file, without its ending."""
        return Path(self.path).stem

    @property
    def settings(self) -> dict[str, Any]:
        """What was chosen of SETTINGS, and which file it was."""
        return {"file": self.digest, **self.chosen}

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """The best of SETTINGS on validation."""
        tries = [replace(self, chosen=one) for one in self._settings()]
        return choose(tries, task, seed, on_progress) if len(tries) > 1 else self

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> FileFitted:
        """Call the file's own."""
        module = _load(self.path)
        train = [task.train.of(user).copy() for user in range(task.users)]
        model = module.fit(train, task.items, task.ordered, seed, **self.chosen)
        on_progress(1.0, self.name)
        return FileFitted(self.name, module.scores, model, task.items)

    def _settings(self) -> list[dict[str, Any]]:
        found = getattr(_load(self.path), "SETTINGS", [{}])
        if not (isinstance(found, list) and found and all(isinstance(one, dict) for one in found)):
            raise BadData(f"{self.path}: SETTINGS must be a list of dicts")
        return found


def _load(path: str) -> ModuleType:
    """The file as a module of its own.

    Raises:
        BadData: it does not run, or lacks a function.
    """
    spec = importlib.util.spec_from_file_location(f"fedrap_benchmark_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise BadData(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadData(f"{path} does not run: {type(error).__name__}: {error}") from error
    for needed in ("fit", "scores"):
        if not callable(getattr(module, needed, None)):
            raise BadData(f"{path} has no function {needed!r}; docs/benchmark.md says what it does")
    return module
