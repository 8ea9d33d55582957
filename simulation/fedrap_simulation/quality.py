"""How good recommendations are: HR@10 of one held-out item, beside what they must beat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedrap import FedRap
from fedrap.views import PaperView, SolveView
from fedrap_core.metrics import hit, rank_of
from fedrap_core.model import History
from fedrap_core.paper.problem import first_state
from fedrap_core.plan import PaperScoring
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import unpack_release
from fedrap_simulation.synthetic import Population


def device_hit_rate(devices: Sequence[FedRap], population: Population) -> float:
    """HR@10 of what the SDK recommends: full ranking without the items already seen."""
    hits = [
        population.items[target] in {one.item for one in device.recommend(10)}
        for device, target in zip(devices, population.held_out, strict=True)
    ]
    return float(np.mean(hits))


def frozen_hit_rate(release: Release, population: Population) -> float:
    """HR@10 of a C as it was before the first round, solved and scored like any other.

    Devices do not recommend from such a C; they show the first of the catalogue.
    """
    common, gram = unpack_release(release), unpack_release(release).gram()
    hits = []
    for history, target in zip(population.histories, population.held_out, strict=True):
        allowed = np.ones(common.size, dtype=np.bool_)
        allowed[history] = False
        if isinstance(release.scoring, PaperScoring):
            start = first_state(release.scoring.seed, common.dim)
            best = PaperView(common, start).rank(10, allowed)
        else:
            taps = History(history[::-1].copy(), np.ones(len(history)))
            best = SolveView(common, gram, taps, release.scoring).rank(10, allowed)
        hits.append(target in best.rows)
    return float(np.mean(hits))


def popularity_hit_rate(population: Population) -> float:
    """HR@10 of the most popular items the user has not seen."""
    counts = population.popularity().astype(np.float64)
    return _table_hit_rate(np.tile(counts, (len(population.histories), 1)), population)


def planted_hit_rate(population: Population) -> float:
    """HR@10 of the true chances: nobody can do better but by luck."""
    return _table_hit_rate(population.planted, population)


def _table_hit_rate(table: npt.NDArray[np.float64], population: Population) -> float:
    hits = []
    for scores, history, target in zip(
        table, population.histories, population.held_out, strict=True
    ):
        shown = scores.copy()
        shown[history] = -np.inf
        hits.append(hit(rank_of(shown, int(target))))
    return float(np.mean(hits))
