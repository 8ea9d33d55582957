"""What the demo shows: a progress bar, then a table and one device's reasons."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fedrap import Recommendation
from fedrap_core.accounting import charged_epsilon
from fedrap_simulation.demo import DemoPlan, DemoResult, RoundLine


class Screen:
    """Progress on stderr, so that a pipe gets nothing but what was asked for."""

    def __init__(self, plan: DemoPlan, width: int | None = None) -> None:
        self.console = Console(stderr=True, highlight=False, record=True, width=width)
        self._plan = plan
        self._bytes = 0
        self._bar = Progress(
            TextColumn("round {task.completed:>3}/{task.total}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=self.console,
        )
        self._task = self._bar.add_task("rounds", total=plan.rounds, note="devices are enrolling …")

    def __enter__(self) -> Screen:
        shape = self._plan.shape
        self.console.print(
            f"[bold]FedRAP demo[/bold]: 1 coordinator (HTTP on loopback, SQLite), {shape.users} "
            f"devices of the real SDK, {shape.items} items, {self._plan.rounds} rounds of "
            f"{self._plan.method}, seed {self._plan.seed}"
        )
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def line(self, line: RoundLine) -> None:
        """One round is over."""
        self._bytes += line.upload_bytes
        note = (
            f"{line.participants} devices   loss {line.loss:.3f}   "
            f"{self._bytes / 1e6:.2f} MB up in all"
        )
        self._bar.update(self._task, completed=line.round, note=note)
        if not self.console.is_terminal:  # a log gets a line a round instead of a bar
            self.console.print(f"round {line.round:>3}/{self._plan.rounds}  {note}")

    def result(self, result: DemoResult) -> None:
        """The table and the example."""
        self.console.print(_summary(result))
        self.console.print(_example(result))

    def save_picture(self, path: Path) -> None:
        """Everything shown so far as an SVG picture that fetches nothing from anywhere."""
        picture = self.console.export_svg(title="make demo")
        path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))


def _summary(result: DemoResult) -> Table:
    table = Table(title="what the devices got", title_justify="left", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    table.add_column(justify="left", style="dim")
    table.add_row(
        "HR@10, held-out item",
        f"{result.hr10:.3f}",
        "of `recommend(10)`, full ranking, unseen",
    )
    table.add_row("  popularity", f"{result.hr10_popularity:.3f}", "the same list for everybody")
    table.add_row("  C that never learnt", f"{result.hr10_frozen:.3f}", "no federation")
    table.add_row("  planted truth", f"{result.hr10_planted:.3f}", "knows how users were drawn")
    share = result.upload_bytes_per_update / result.dense_bytes
    table.add_row(
        "upload per device and round",
        f"{result.upload_bytes_per_update / 1000:.1f} kB",
        f"{share:.0%} of C as dense float32 ({result.dense_bytes / 1000:.1f} kB); sealed, padded",
    )
    table.add_row("zeros in C", f"{result.zeros_in_c:.0%}", "exact: the smallest entries")
    table.add_row("epsilon charged", *_epsilon_words(result))
    return table


def _epsilon_words(result: DemoResult) -> tuple[str, str]:
    rounds = f"{result.participations} rounds a device"
    if result.epsilon is None:
        return "infinite", f"no noise, so nothing is promised ({rounds})"
    words = [f"delta {result.delta:.0e}, noise {result.noise:g} x clip, {rounds}, unamplified"]
    # At equal noise per device the noise of the sum grows with the crowd, and epsilon falls.
    for crowd in (10, 100):
        spent = charged_epsilon(result.participations, result.noise * crowd, result.delta)
        words.append(f"{result.devices * crowd:,} devices, same noise per device: {spent:.1f}")
    return f"{result.epsilon:.1f}", "\n".join(words)


def _example(result: DemoResult) -> Table:
    newest = ", ".join(result.example_history[:3])
    table = Table(
        title=f"one device's top ten, computed on it (newest items: {newest})",
        title_justify="left",
    )
    table.add_column("item")
    for name in ("score", "shared view", "personal view"):
        table.add_column(name, justify="right")
    table.add_column("because of", style="dim")
    for one in result.example:
        table.add_row(
            one.item,
            f"{one.score:+.3f}",
            f"{one.shared:+.3f}",
            f"{one.personal:+.3f}",
            _because(one),
        )
    return table


def _because(one: Recommendation) -> str:
    strongest = one.reasons[:2]
    return ", ".join(f"{why.item} {why.shared + why.personal:+.3f}" for why in strongest)
