"""Small tasks whose right answers are known, and every method in a size that takes no time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from fedrap_core.plan import SequenceMethod, SolveMethod
from fedrap_simulation.data.interactions import Interactions, Rows, make_histories
from fedrap_simulation.data.synthetic import Shape, make_population
from fedrap_simulation.engine.solve_rounds import Schedule
from fedrap_simulation.evaluation.splits import Split, make_split
from fedrap_simulation.evaluation.task import ProtocolName, Task
from fedrap_simulation.methods.baselines.dpals import DpAls
from fedrap_simulation.methods.baselines.ease import Ease
from fedrap_simulation.methods.baselines.fedmf import FedMf
from fedrap_simulation.methods.baselines.fedncf import FedNcf
from fedrap_simulation.methods.baselines.gru4rec import Gru4Rec
from fedrap_simulation.methods.baselines.ials import Ials
from fedrap_simulation.methods.baselines.itemknn import ItemKNN
from fedrap_simulation.methods.baselines.lightgcn import LightGcn
from fedrap_simulation.methods.baselines.ncf import Ncf
from fedrap_simulation.methods.baselines.pfedrec import PFedRec
from fedrap_simulation.methods.baselines.popularity import Frequency, Popularity
from fedrap_simulation.methods.baselines.recency import (
    EASE_RECENCY,
    IALS_RECENCY,
    ITEMKNN_RECENCY,
)
from fedrap_simulation.methods.baselines.sasrec import SasRec
from fedrap_simulation.methods.baselines.slist import Slist
from fedrap_simulation.methods.baselines.stan import Stan
from fedrap_simulation.methods.baselines.transitions import MARKOV, Transitions
from fedrap_simulation.methods.protocol import Fitted, Method
from fedrap_simulation.methods.sequence import FEDRAP_SEQUENCE, Sequence

FEDERATED: list[Method] = [
    FedMf(width=8, rate=0.05, epochs=50),
    FedNcf(width=8, rate=0.02, epochs=50),
    PFedRec(width=8, rate=0.5, epochs=80),
]
LEARNERS: list[Method] = [
    Ials(factors=8, regularization=3.0, alpha=5.0, epochs=6),
    Ncf(width=16, rate=0.02, batch=2_048, epochs=10),
    LightGcn(width=16, rate=0.02, steps=5, epochs=12),
    SasRec(width=32, heads=1, longest=40, rate=5e-3, dropout=0.1, epochs=12),
    Gru4Rec(width=32, longest=40, rate=1e-2, epochs=20),
    *FEDERATED,
]
BY_ORDER: list[Method] = [
    MARKOV,
    Transitions(),
    Slist(ridge=20.0),
    Stan(neighbours=30),
    replace(EASE_RECENCY, inner=Ease(ridge=20.0)),
    replace(ITEMKNN_RECENCY, inner=ItemKNN(neighbours=20, shrinkage=5.0)),
    replace(IALS_RECENCY, inner=LEARNERS[0]),
]
_SMALL = Sequence(
    method=SequenceMethod(dim=16, targets=8),
    capacity=False,
    schedule=Schedule(rounds=20, part=0.5),
)
OURS: list[Method] = [
    _SMALL,
    replace(
        _SMALL,
        name=FEDRAP_SEQUENCE.name,
        mixed=True,
        solve=replace(FEDRAP_SEQUENCE.solve, method=SolveMethod(dim=16, prefixes=8)),
    ),
]
TUNED: list[Method] = [
    ItemKNN(neighbours=20, shrinkage=5.0),
    Ease(ridge=20.0),
    DpAls(dim=8, steps=3, ridge=3.0, scale=1.0),
    *BY_ORDER,
    *OURS,
    *LEARNERS,
]
ALL: list[Method] = [Popularity(), Frequency(), *TUNED]


def named(method: Method) -> str:
    return method.name


@cache
def planted_split(protocol: ProtocolName = "clean") -> Split:
    """Two hundred users of six tastes; each one's newest item is mostly of the last taste."""
    shape = Shape(users=200, items=240, tastes=6, tastes_per_user=2, shortest=15, longest=30)
    population = make_population(shape, seed=5)
    whole = [
        np.append(history, last)
        for history, last in zip(population.histories, population.held_out, strict=True)
    ]
    user = np.repeat(np.arange(shape.users), [len(one) for one in whole])
    item = np.concatenate(whole)
    names = tuple(str(one) for one in range(shape.users))
    time = np.arange(len(user), dtype=np.float64)
    data = Interactions("planted", names, tuple(population.items), user, item, time=time)
    return make_split(data, seed=0, protocol=protocol)


_FITTED: dict[str, tuple[Fitted, list[float]]] = {}


def fit_once(method: Method) -> tuple[Fitted, list[float]]:
    """A method fitted to the planted test with seed 3, and the shares of work it told of."""
    if method.name not in _FITTED:
        told: list[float] = []
        fitted = method.fit(planted_split().test, 3, lambda share, _words: told.append(share))
        _FITTED[method.name] = fitted, told
    return _FITTED[method.name]


def by_hand(pairs: list[tuple[int, int]], users: int, items: int, targets: Rows) -> Task:
    """A task of a few pairs, oldest first; nobody is ranked among anything."""
    user, item = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    train = make_histories(user, item, users)
    nothing = np.zeros((users, 0), dtype=np.int64)
    return Task("by hand", "clean", "validation", items, train, True, targets, nothing, train)
