"""Progress on stderr: bars with a few words, a line of log where there is no terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


class ProgressBars:
    """Some bars under each other, from 0 to 1, on stderr: a pipe gets nothing of them."""

    def __init__(self, bars: int = 1, *, width: int | None = None, record: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, record=record, width=width)
        self._bars = Progress(
            TextColumn("{task.fields[what]:<24}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[words]}"),
            TimeElapsedColumn(),
            console=self.console,
        )
        self._tasks = [self._bars.add_task("", total=1.0, what="", words="") for _ in range(bars)]

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def update(
        self, done: float, *, what: str | None = None, words: str | None = None, bar: int = 0
    ) -> None:
        """How far a bar is; what is not said stays as it was."""
        task = self._bars.tasks[self._tasks[bar]]
        what = task.fields["what"] if what is None else what
        words = task.fields["words"] if words is None else words
        self._bars.update(self._tasks[bar], completed=done, what=what, words=words)

    def print(self, text: str) -> None:
        """A line above the bars, which stays; square brackets are markup."""
        self.console.print(text)
