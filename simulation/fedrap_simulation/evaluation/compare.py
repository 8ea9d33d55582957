"""Means over seeds, and whether a difference is more than luck: paired bootstrap over users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from fedrap_simulation.evaluation.fairness import GROUPS
from fedrap_simulation.evaluation.metrics import gains
from fedrap_simulation.evaluation.results import Answer

MEASURES = (
    "hr10", "ndcg10", "hr10_full", "ndcg10_full", "coverage", "gini",
    *(f"ndcg10_{group}" for group in GROUPS),
)  # fmt: skip


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one set over its seeds."""

    method: str
    dataset: str
    split: str
    protocol: str
    leaky: bool
    seeds: int
    mean: dict[str, float]  # a measure that some seed has no number for is left out
    deviation: dict[str, float]  # between seeds, 0 with one seed
    against: dict[str, Any] | None = None


def means(answers: Sequence[Answer], against: str | None, draws: int = 2000) -> list[Mean]:
    """One entry per method, in the order of the answers; `against` is compared with each."""
    groups: dict[tuple[str, str, str, str], list[Answer]] = {}
    for answer in answers:
        row = answer.row
        groups.setdefault((row.dataset, row.split, row.protocol, row.method), []).append(answer)
    out = []
    for (dataset, split, protocol, method), group in groups.items():
        table = {
            name: np.array([getattr(one.row, name) for one in group], dtype=np.float64)
            for name in MEASURES
            if all(getattr(one.row, name) is not None for one in group)
        }
        other = groups.get((dataset, split, protocol, against or ""))
        compared = None
        if against is not None and other is not None and method != against:
            compared = bootstrap(group, other, against, draws)
        out.append(
            Mean(
                method=method,
                dataset=dataset,
                split=split,
                protocol=protocol,
                leaky=protocol == "paper",
                seeds=len(group),
                mean={name: float(values.mean()) for name, values in table.items()},
                deviation={
                    name: float(values.std(ddof=1)) if len(values) > 1 else 0.0
                    for name, values in table.items()
                },
                against=compared,
            )
        )
    return out


def bootstrap(
    ours: Sequence[Answer], theirs: Sequence[Answer], name: str, draws: int
) -> dict[str, Any] | None:
    """Difference in full-ranking NDCG@10 with a 95 % interval, users drawn with replacement.

    A user's gain is the mean over the seeds that both have. Where each seed asks other people, as
    cuts in time do, every question stands for itself. None if they share no seed.
    """
    by_seed = {one.row.seed: one for one in theirs}
    pairs = [(one, by_seed[one.row.seed]) for one in ours if one.row.seed in by_seed]
    pairs = [(a, b) for a, b in pairs if len(a.full) == len(b.full)]
    if not pairs:
        return None
    by_pair = [gains(a.full) - gains(b.full) for a, b in pairs]
    apart = ours[0].row.split.startswith("time") or len({len(one) for one in by_pair}) > 1
    gain = np.concatenate(by_pair) if apart else np.mean(by_pair, axis=0)  # (A,)
    rng = np.random.default_rng(0)
    drawn = np.array([gain[rng.integers(0, len(gain), len(gain))].mean() for _ in range(draws)])
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {
        "method": name,
        "ndcg10_full": float(gain.mean()),
        "low": float(low),
        "high": float(high),
        "seeds": len(pairs),
    }
