"""What `reproduce` shows while it works: a bar on stderr."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from fedrap_simulation.reproduce.document import Section


class ReproduceScreen:
    """One bar for the sections, one for what is being computed."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bar = Progress(
            TextColumn("{task.fields[what]:<14}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[words]}"),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._sections = self._bar.add_task("", total=1.0, what="sections", words="")
        self._piece = self._bar.add_task("", total=1.0, what="", words="reading data")
        self._now: str | None = None
        self._since = 0.0

    def __enter__(self) -> ReproduceScreen:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._ended()
            self._bar.update(self._sections, completed=1.0, words="done")
        self._bar.stop()

    def turn(self, section: Section, place: int, count: int) -> None:
        """A section starts."""
        self._ended()
        self._now, self._since = section.name, time.monotonic()
        words = f"{place + 1} of {count}"
        self._bar.update(self._sections, completed=place / count, words=words)
        self._bar.update(self._piece, completed=0.0, what=section.name, words="")

    def say(self, done: float, words: str) -> None:
        """How far the piece at hand is."""
        self._bar.update(self._piece, completed=done, words=words)

    def _ended(self) -> None:
        if self._now is not None:
            took = time.monotonic() - self._since
            self._console.print(f"{self._now:<14} {took:.1f} s", markup=False)
