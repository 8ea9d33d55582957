"""How good recommendations are at a moment of the scenario, for the people who are there.

Each person is asked for the next item that they will really touch, with the release that their
own device holds at that moment, among everything in the catalogue that they have not seen. Beside
it: popularity of all times and of late, a centralised model that sees every history, and, from a
day on, the release of that day for everybody: what there would be if learning had ended then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_core.plan import Scoring, SequenceMethod, sequence_scoring, trend_weight
from fedrap_core.sequence.model import from_rows
from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.engine.sequence_rounds import derive_queries
from fedrap_simulation.engine.solve_scoring import derive_users
from fedrap_simulation.evaluation.metrics import gains, hits
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import no_progress
from fedrap_simulation.methods.registry import make_method
from fedrap_simulation.scenarios.device_memory import SharedModel
from fedrap_simulation.scenarios.population import Population
from fedrap_simulation.scenarios.scenario import Looks

Scores = npt.NDArray[np.float32]
BLOCK = 256  # people at once
LARGE = 6000  # items above which EASE takes too long here


class EvaluationSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Quality at one moment."""

    day: float
    asked: int  # people with a next item
    hr10: float
    ndcg10: float
    ndcg10_popularity: float
    ndcg10_central: float | None
    ndcg10_recent: float = 0.0  # popularity of late
    ndcg10_frozen: float | None = None  # the release of an earlier day
    light: float  # NDCG@10 of the third with the shortest histories
    heavy: float  # and of the third with the longest
    exposure: float  # share of people who would be shown the promoted item among ten
    exposure_popularity: float  # the same if everybody were shown what is popular


@dataclass(frozen=True, eq=False)
class PersonQuestion:
    """Who is asked what."""

    people: Rows  # (A,)
    histories: Histories
    targets: Rows  # (A,) places in the data
    listed: npt.NDArray[np.bool_]  # (m,) items in the catalogue, not retired


def central_name(items: int, looks: Looks) -> str:
    """The centralised model that is beside ours; EASE takes m^3."""
    return looks.method or ("ease" if items <= LARGE else "itemknn")


def take_snapshot(
    population: Population,
    question: PersonQuestion,
    models: Mapping[int, SharedModel | None],
    now: float,
    promoted: int,
    looks: Looks,
    frozen: SharedModel | None = None,
) -> EvaluationSnapshot | None:
    """Quality now; None when there is nobody to ask."""
    if not len(question.people):
        return None
    ours, shown = _ours(question, models, len(population.items), promoted)
    counts = population.counts(now)
    popular = _ranks(question, _everybody(counts))
    recent = _ranks(question, _everybody(population.recent(now, looks.recent_days)))
    above = question.listed & (counts > counts[promoted])
    middle, before = None, None
    if looks.central:
        name = central_name(len(population.items), looks)
        middle = float(gains(_central(population, question, now, name)).mean())
    if frozen is not None:
        held = dict.fromkeys(question.people.tolist(), frozen)
        old, _ = _ours(question, held, len(population.items), promoted)
        before = float(gains(old).mean())
    lengths = question.histories.lengths
    low, high = np.quantile(lengths, [1 / 3, 2 / 3])
    gain = gains(ours)
    return EvaluationSnapshot(
        day=now / 86_400.0,
        asked=len(question.people),
        hr10=float(hits(ours).mean()),
        ndcg10=float(gain.mean()),
        ndcg10_popularity=float(gains(popular).mean()),
        ndcg10_central=middle,
        ndcg10_recent=float(gains(recent).mean()),
        ndcg10_frozen=before,
        light=float(gain[lengths <= low].mean()),
        heavy=float(gain[lengths >= high].mean()),
        exposure=shown,
        exposure_popularity=float(above.sum() < 10),
    )


def _everybody(liked: npt.NDArray[Any]) -> Callable[[Rows], Scores]:
    """The same scores for all."""
    row = liked.astype(np.float32)[None, :]
    return lambda some: np.repeat(row, len(some), axis=0)


def _ours(
    question: PersonQuestion, models: Mapping[int, SharedModel | None], items: int, promoted: int
) -> tuple[Rows, float]:
    """Ranks of the targets by what each device holds, and how many see the promoted item."""
    ranks = np.full(len(question.people), items, dtype=np.int64)
    shown = np.zeros(len(question.people), dtype=np.bool_)
    groups: dict[int, tuple[SharedModel, list[int]]] = {}
    for place, person in enumerate(question.people.tolist()):
        model = models.get(person)
        if model is not None and model.step > 0 and isinstance(model.scoring, Scoring):
            groups.setdefault(id(model), (model, []))[1].append(place)
    for model, places in groups.values():
        where = np.array(places)
        scores = _model_scores(model, question.histories.some(where), items)
        some = PersonQuestion(
            question.people[where],
            question.histories.some(where),
            question.targets[where],
            question.listed,
        )
        ranks[where] = _ranks(some, scores.__getitem__)
        shown[where] = _shows(some, scores, promoted)
    return ranks, float(shown.mean())


def _model_scores(model: SharedModel, histories: Histories, items: int) -> Scores:
    """Scores of all items of the data, by this release: (A, m); -inf where it has no row."""
    assert isinstance(model.scoring, Scoring)
    rows = model.rows[histories.items]
    known = rows >= 0
    owners = histories.owners[known]
    lengths = np.bincount(owners, minlength=len(histories))
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    mine = Histories(starts, rows[known])
    common = model.common.items.to_float().astype(np.float64)
    tastes = derive_users(common, mine, model.scoring)
    next_of = _sequence_scores(model, mine)
    weight = trend_weight(model.scoring)
    lately = np.float32(weight) * model.common.lately(np.arange(model.common.size))  # (size,)
    out = np.full((len(histories), items), -np.inf, dtype=np.float32)
    served = (model.rows >= 0) & model.shown[np.maximum(model.rows, 0)]
    for start in range(0, len(histories), BLOCK):
        users = np.arange(start, min(start + BLOCK, len(histories)))
        shared = tastes.shared(users)
        shared += tastes.personal(users, shared)
        if next_of is not None:
            shared = next_of(users, shared)
        shared += lately
        out[np.ix_(users, np.flatnonzero(served))] = shared[:, model.rows[served]]
    return out


def _sequence_scores(
    model: SharedModel, histories: Histories
) -> Callable[[Rows, Scores], Scores] | None:
    """Adds the sequence part to `solve`'s scores of some people; None without one."""
    mix, rows = sequence_scoring(model.scoring), model.common.sequence
    if mix is None or rows is None:
        return None
    items = from_rows(rows)
    method = SequenceMethod(
        dim=rows.dim, longest=mix.longest, ordered=mix.ordered, taus=mix.taus, targets=1
    )
    queries = derive_queries(items, histories, method, mix.adapts)  # (A, k)
    outputs, bias = items.outputs.astype(np.float32), items.bias.astype(np.float32)

    def both(users: Rows, solved: Scores) -> Scores:
        matched = queries[users] @ outputs.T + np.float32(mix.kappa) * bias  # (b, m)
        scores = np.float32(mix.solve) * solved + np.float32(mix.sequence) * matched
        return np.asarray(scores, dtype=np.float32)

    return both


def _ranks(question: PersonQuestion, scores_of: Callable[[Rows], Scores]) -> Rows:
    """Rank of each target among listed items not seen; ties count against us: (A,)."""
    ranks = np.empty(len(question.people), dtype=np.int64)
    for start in range(0, len(ranks), BLOCK):
        some = np.arange(start, min(start + BLOCK, len(ranks)))
        scores = np.array(scores_of(some), dtype=np.float32)
        scores[:, ~question.listed] = -np.inf
        part = question.histories.some(some)
        scores[part.owners, part.items] = -np.inf
        target = scores[np.arange(len(some)), question.targets[some]]  # (b,)
        better = (scores >= target[:, None]).sum(axis=1) - 1
        ranks[some] = np.where(np.isfinite(target), better, scores.shape[1])
    return ranks


def _shows(question: PersonQuestion, scores: Scores, promoted: int) -> npt.NDArray[np.bool_]:
    """Whether the promoted item is among a person's ten: (A,)."""
    own = question.histories
    seen = np.zeros(len(scores), dtype=np.bool_)
    seen[own.owners[own.items == promoted]] = True
    masked = np.where(question.listed, scores, -np.inf)
    masked[own.owners, own.items] = -np.inf
    mine = masked[:, promoted]
    above = (masked > mine[:, None]).sum(axis=1)  # (A,)
    return np.asarray(~seen & np.isfinite(mine) & (above < 10))


def _central(population: Population, question: PersonQuestion, now: float, name: str) -> Rows:
    """Ranks by a centralised model that learns from everything done by now."""
    everybody = np.arange(len(population))
    parts = [population.of(person, now) for person in everybody.tolist()]
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    train = Histories(starts, np.concatenate(parts))
    none = np.zeros(len(population), dtype=np.int64)
    task = Task(
        population.dataset, "clean", "test", len(population.items), train, True, none,
        np.zeros((len(population), 0), dtype=np.int64), train,
    )  # fmt: skip
    fitted = make_method(name, {}).fit(task, 0, no_progress)
    return _ranks(question, lambda some: fitted.scores(question.people[some]))


def pick_people(population: Population, count: int, seed: int) -> Rows:
    """Whom to ask; the same people each time."""
    order = np.random.default_rng([seed, 0xA5C]).permutation(len(population))
    return np.sort(order[:count])


def thirds(looks: Sequence[EvaluationSnapshot]) -> tuple[float, float]:
    """Mean NDCG@10 of light and heavy users over the later half of the looks."""
    later = looks[len(looks) // 2 :]
    return (
        float(np.mean([one.light for one in later])) if later else 0.0,
        float(np.mean([one.heavy for one in later])) if later else 0.0,
    )
