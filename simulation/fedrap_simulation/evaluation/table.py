"""What `evaluate` shows: a bar while it works, a line per row, a table at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.table import Table

from fedrap_simulation.evaluation.compare import Mean
from fedrap_simulation.evaluation.fairness import ACTIVITY, POPULARITY
from fedrap_simulation.evaluation.results import Row
from fedrap_simulation.evaluation.runner import Evaluation, Request
from fedrap_simulation.progress import ProgressBars

LEAKY = "LEAKY: the sampler knows the held-out items, and the best test round is kept"


AFTER = ("head/middle/tail", "few/some/many", "coverage, Gini")  # the first two NDCG@10 full


class EvaluationScreen:
    """Progress on stderr, the table on stdout."""

    def __init__(self, evaluation: Evaluation, request: Request) -> None:
        self._bars = ProgressBars()
        # Into a file or a pipe the table goes as wide as it needs to be.
        self._out = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
        self._request, self._kind = request, evaluation.kind
        self._warnings = evaluation.warnings()
        self._bars.update(0.0, what="reading")

    def __enter__(self) -> EvaluationScreen:
        request = self._request
        seeds = f"{request.first_seed}..{request.first_seed + request.seeds - 1}"
        self._bars.print(
            f"[bold]{request.data}[/bold], protocol {request.protocol}"
            + (f" ([red]{LEAKY}[/red])" if request.protocol == "paper" else "")
            + f", split {self._kind}, users with at least {request.least} interactions, "
            f"seeds {seeds}, ties count against a method"
        )
        for words in self._warnings:
            self._bars.print(f"[yellow]warning[/yellow] {request.data}: {words}")
        self._bars.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.__exit__(kind, error, trace)

    def on_progress(self, method: str, seed: int, done: float, words: str) -> None:
        """How far a method is."""
        self._bars.update(done, what=f"{method}, seed {seed}", words=words)

    def row(self, row: Row) -> None:
        """One row is done."""
        self._bars.print(
            f"{row.method:<16} seed {row.seed}   99 negatives {row.hr10:.3f}/{row.ndcg10:.3f}   "
            f"full {row.hr10_full:.3f}/{row.ndcg10_full:.3f}   {row.seconds:.1f} s"
        )

    def table(self, means: Sequence[Mean]) -> None:
        """Mean and deviation over the seeds."""
        table = Table(title=self._title(), title_justify="left")
        table.add_column("method")
        for name in ("HR@10", "NDCG@10", "HR@10 full", "NDCG@10 full", *AFTER):
            table.add_column(name, justify="right")
        compared = any(one.against for one in means)
        if compared:
            table.add_column("NDCG full, difference (95 %)", justify="right")
        for one in means:
            cells = [
                f"{one.mean[name]:.3f}" + (f" ± {one.deviation[name]:.3f}" if one.seeds > 1 else "")
                for name in ("hr10", "ndcg10", "hr10_full", "ndcg10_full")
            ]
            cells += [_groups(one, POPULARITY), _groups(one, ACTIVITY)]
            cells.append(f"{one.mean['coverage']:.2f} {one.mean['gini']:.2f}")
            if compared:
                against = one.against
                cells.append(
                    f"{against['ndcg10_full']:+.4f} ({against['low']:+.4f} … "
                    f"{against['high']:+.4f}) vs {against['method']}"
                    if against
                    else ""
                )
            table.add_row(one.method, *cells)
        self._out.print(table)

    def _title(self) -> str:
        request = self._request
        leaky = " — LEAKY" if request.protocol == "paper" else ""
        return (
            f"{request.data}, protocol {request.protocol}{leaky}, split {self._kind}, "
            f"{request.seeds} seed(s); first two columns against 99 negatives"
        )


def _groups(one: Mean, names: Sequence[str]) -> str:
    found = (one.mean.get(f"ndcg10_{name}") for name in names)
    return "/".join("–" if value is None else f"{value:.3f}"[1:] for value in found)
