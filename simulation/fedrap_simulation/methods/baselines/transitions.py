"""Counts of what followed what: the strongest simple opponent where order means something.

    T[i, j]  = sum over users, over pairs with j at place t and i at t - 1 - l, of exp(-l/reach)
    score_j  = sum over the history, newest l = 0, of exp(-l/tau)·T[i_l, j]/(n_i + smooth)
               + blend·p_j,       all of it over p_j^discount

n_i is the sum of row i, p_j the share of histories that hold j. `markov` looks at the last item
alone. A transition of one user to an item that the same user touched before is counted like any
other; what was touched is left out when it is ranked.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.recency import Fading, ages, weigh
from fedrap_simulation.methods.protocol import FREE, Cost, Floats, OnProgress, Scores
from fedrap_simulation.methods.tuning import quality, require_validation

NEGLIGIBLE = 0.02  # what counts less is left out, of pairs and of histories
DENSE = 8_000  # items up to which the table is dense: 256 MB, and ten times as fast


@dataclass(frozen=True, eq=False)
class CountedFitted:
    """Rows of the table, mixed by the history."""

    histories: Any  # CSR (U, m): weights of recent items
    table: Any  # (m, m) dense, or CSR where that is too large: share of what followed
    popular: Floats  # (m,) added to every score
    divisor: Floats  # (m,)
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        """(len(users), m)."""
        mixed = self.histories[users] @ self.table
        mixed = mixed.toarray() if sp.issparse(mixed) else mixed
        return np.asarray((mixed + self.popular) / self.divisor, dtype=np.float32)


@dataclass(frozen=True)
class Transitions:
    """A table of decayed transition counts; see the module."""

    reach: float = 2.0  # how far apart two items may be when a pair is counted
    tau: float = 1.0  # how fast the history fades when it is looked up
    smooth: float = 10.0  # counts that a row needs before it is believed
    blend: float = 0.1  # popularity beside the table
    discount: float = 0.0  # of popular items
    last_only: bool = False
    name: str = "transitions"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field but the name."""
        return {key: value for key, value in asdict(self).items() if key != "name"}

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """One setting after the other, twice over; the table is counted once per reach."""
        require_validation(task)
        best, tables = self, dict[float, Any]()
        ladder = {
            "reach": (0.3, 1.0, 2.0, 4.0, 8.0, 16.0), "tau": (0.3, 0.6, 1.0, 2.0, 4.0, 8.0, 16.0),
            "smooth": (0.0, 3.0, 10.0, 30.0, 100.0), "blend": (0.0, 0.03, 0.1, 0.3, 1.0),
            "discount": (0.0, 0.1, 0.2, 0.3, 0.5),
        }  # fmt: skip
        if self.last_only:
            del ladder["reach"], ladder["tau"]

        def reached(one: Transitions) -> float:
            if one.reach not in tables:
                tables[one.reach] = count_transitions(task, one.reach)
            return quality(one._mixed(task, tables[one.reach]), task)

        score = reached(best)
        steps = [(name, values) for _ in range(2) for name, values in ladder.items()]
        for done, (name, values) in enumerate(steps):
            for value in values:
                tried = replace(best, **{name: value})  # type: ignore[arg-type]
                if tried != best and (found := reached(tried)) > score:
                    best, score = tried, found
            on_progress((done + 1) / len(steps), f"{self.name}: {name} {getattr(best, name)}")
        return best

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> CountedFitted:
        """Count."""
        fitted = self._mixed(task, count_transitions(task, self.reach))
        on_progress(1.0, self.name)
        return fitted

    def _mixed(self, task: Task, counts: Any) -> CountedFitted:
        total = np.asarray(counts.sum(axis=1)).ravel()  # (m,)
        table = sp.diags(1.0 / np.maximum(total + self.smooth, 1e-9)) @ counts
        share = task.counts() / max(1, task.users)  # (m,)
        divisor = np.maximum(share, 1.0 / max(1, task.users)) ** self.discount
        table = table.tocsr().astype(np.float32)
        return CountedFitted(
            self._looked_up(task), table.toarray() if task.items <= DENSE else table,
            (self.blend * share).astype(np.float32), divisor.astype(np.float32),
        )  # fmt: skip

    def _looked_up(self, task: Task) -> Any:
        if not self.last_only:
            recent = weigh(task, Fading(self.tau, 0.0))
            recent.data[recent.data < NEGLIGIBLE] = 0.0
            recent.eliminate_zeros()
            return recent
        newest = np.flatnonzero(ages(task.train) == 0)
        ones = np.ones(len(newest), dtype=np.float32)
        cells = (task.train.owners[newest], task.train.items[newest])
        return sp.csr_matrix((ones, cells), shape=(task.users, task.items))


MARKOV = Transitions(reach=0.05, last_only=True, name="markov")


def count_transitions(task: Task, reach: float) -> Any:
    """The table: CSR (m, m). A pair at distance l + 1 counts exp(-l/reach)."""
    items, owner = task.train.items, task.train.owners
    far = max(1, int(np.ceil(reach * np.log(1.0 / NEGLIGIBLE))))
    shape, table = (task.items, task.items), None
    for distance in range(1, far + 1):
        same = owner[distance:] == owner[:-distance]  # both of one user
        weight: npt.NDArray[np.float32] = np.full(
            int(same.sum()), np.exp(-(distance - 1) / reach), dtype=np.float32
        )
        cells = (items[:-distance][same], items[distance:][same])
        added = sp.coo_matrix((weight, cells), shape=shape).tocsr()  # equal cells add up
        table = added if table is None else table + added
    return table
