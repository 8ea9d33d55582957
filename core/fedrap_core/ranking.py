"""From scores to a list: the best n items, what to leave out, and why each is there.

Ranking is in two steps, because D's part costs m·|H|·k: the shared view picks the best
`SHORTLIST`, then D re-ranks those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedrap_core.model import CommonItems, Floats, Rows
from fedrap_core.plan import Scoring, sequence_scoring, trend_weight
from fedrap_core.sequence.user import SequenceUser, sequence_reasons
from fedrap_core.solve.user import UserRepresentation, shared_parts, smoothed

SHORTLIST = 1000


Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ranked:
    """Items in order, each with its score in parts; those of the sequence part where it has one."""

    rows: Rows  # (n,)
    shared: Vector  # (n,)
    personal: Vector  # (n,)
    sequence: Vector | None = None  # (n,)
    popularity: Vector | None = None  # (n,)
    trend: Vector | None = None  # (n,) where the release has one that counts

    @property
    def scores(self) -> Vector:
        """z, the sum of the parts: (n,)."""
        scores = self.shared + self.personal
        if self.sequence is not None and self.popularity is not None:
            scores = scores + (self.sequence + self.popularity)
        return scores if self.trend is None else scores + self.trend

    def taken(self, places: Sequence[int] | Rows) -> Ranked:
        """Some of them, in that order."""
        where = np.asarray(places, dtype=np.int64)
        return Ranked(
            self.rows[where],
            self.shared[where],
            self.personal[where],
            None if self.sequence is None else self.sequence[where],
            None if self.popularity is None else self.popularity[where],
            None if self.trend is None else self.trend[where],
        )

    def joined(self, other: Ranked) -> Ranked:
        """These, and others behind them; both have the same parts."""
        sequence, popularity, trend = None, None, None
        if self.sequence is not None and other.sequence is not None:
            sequence = np.concatenate([self.sequence, other.sequence])
        if self.popularity is not None and other.popularity is not None:
            popularity = np.concatenate([self.popularity, other.popularity])
        if self.trend is not None and other.trend is not None:
            trend = np.concatenate([self.trend, other.trend])
        return Ranked(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.shared, other.shared]),
            np.concatenate([self.personal, other.personal]),
            sequence,
            popularity,
            trend,
        )


@dataclass(frozen=True, eq=False)
class Reasons:
    """One item's score, split exactly over the user's own items: the parts add up to it."""

    items: Rows  # (n,) the history, newest first
    shared: Vector  # (n,)
    personal: Vector  # (n,)
    sequence: Vector | None = None  # (n,)
    popularity: float = 0.0  # what the item has whatever the history is
    trend: float = 0.0  # what it has because it was touched lately


def top_k(scores: Floats, k: int) -> Rows:
    """Indices of the k largest scores, best first; equal scores in order of index, NaN last."""
    chosen = _largest(scores, k)
    best = scores[chosen]
    order = np.lexsort((-best, np.isnan(best)))  # stable, and `chosen` rises: ties by index
    return chosen[order]


def _largest(scores: Floats, k: int) -> Rows:
    """Indices of the k that `top_k` gives, in order of index."""
    if k >= len(scores):
        return np.arange(len(scores), dtype=np.int64)
    if k <= 0:
        return np.zeros(0, dtype=np.int64)
    limit = np.partition(-scores, k - 1)[k - 1]  # NaN is sorted behind all numbers
    if np.isnan(limit):
        chosen = ~np.isnan(scores)
        ties = np.flatnonzero(~chosen)
    else:
        chosen = scores > -limit
        ties = np.flatnonzero(scores == -limit)
    chosen[ties[: k - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def allowed_rows(
    shown: npt.NDArray[np.bool_], candidates: Iterable[int] | None, seen: Rows | None
) -> npt.NDArray[np.bool_]:
    """Rows that a list may have: (m,) those shown at all, among the candidates, and not seen."""
    allowed = shown.copy()
    if candidates is not None:
        wanted = np.zeros_like(allowed)
        wanted[list(candidates)] = True
        allowed &= wanted
    if seen is not None:
        allowed[seen] = False
    return allowed


def best_rows(
    blocks: Iterable[tuple[int, npt.NDArray[np.float32]]], n: int, allowed: npt.NDArray[np.bool_]
) -> Rows:
    """`top_k` over the allowed rows of scores that come in blocks, in memory that stays small."""
    rows, scores = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
    limit = -np.inf  # a row of a later block must beat this: at a tie the lower row is first
    for start, block in blocks:
        found = np.flatnonzero(allowed[start : start + len(block)] & (block > limit))
        rows = np.concatenate([rows, found + start])
        scores = np.concatenate([scores, block[found]])
        if len(rows) > 2 * n:
            kept = _largest(scores, n)  # in order of row, so that ties stay as they are
            rows, scores = rows[kept], scores[kept]
            limit = float(scores.min()) if n else np.inf
    return rows[top_k(scores, n)]


def rank(
    common: CommonItems,
    taste: UserRepresentation,
    scoring: Scoring,
    n: int,
    allowed: npt.NDArray[np.bool_],
    part: SequenceUser | None = None,
) -> Ranked:
    """The n best of the allowed items: (m,) booleans say which rows may be shown.

    `part` is the same user of the sequence part, where the release has one.
    """
    blocks = _score_blocks(common, taste, scoring, part)
    found = _reranked(common, taste, scoring, best_rows(blocks, max(n, SHORTLIST), allowed), part)
    return found.taken(top_k(found.scores, n))


def rank_of(
    common: CommonItems,
    taste: UserRepresentation,
    scoring: Scoring,
    row: int,
    allowed: npt.NDArray[np.bool_],
    part: SequenceUser | None = None,
) -> int:
    """How many of the allowed items stand before `row`, an allowed one, in the list of `rank`."""
    blocks = _score_blocks(common, taste, scoring, part)
    scores = np.concatenate([block for _, block in blocks])  # (m,)
    above = int(np.count_nonzero(allowed & (scores > scores[row])))
    if above >= SHORTLIST:  # D has no word there
        return above
    short = best_rows([(0, scores)], SHORTLIST, allowed)
    found = _reranked(common, taste, scoring, short, part)
    place = np.flatnonzero(found.rows[top_k(found.scores, SHORTLIST)] == row)
    return int(place[0]) if len(place) else above


Blocks = Iterable[tuple[int, npt.NDArray[np.float32]]]


def _score_blocks(
    common: CommonItems, taste: UserRepresentation, scoring: Scoring, part: SequenceUser | None
) -> Blocks:
    """The scores of all rows without D, in blocks."""
    mix = sequence_scoring(scoring)
    if mix is None or part is None or common.sequence is None:
        blocks: Blocks = common.score_blocks(taste.user)
    else:
        query, popularity = mix.sequence * part.query, mix.sequence * mix.kappa
        blocks = common.mixed_blocks(mix.solve * taste.user, query, popularity)
    return _with_trend(common, blocks, trend_weight(scoring))


def _with_trend(common: CommonItems, blocks: Blocks, weight: float) -> Blocks:
    if common.trend is None or weight == 0:
        yield from blocks
        return
    trend, scale = common.trend.values[0], np.float32(weight * common.trend.scales[0])
    for start, scores in blocks:
        yield start, scores + scale * trend[start : start + len(scores)]


def _reranked(
    common: CommonItems,
    taste: UserRepresentation,
    scoring: Scoring,
    short: Rows,
    part: SequenceUser | None,
) -> Ranked:
    """These items, in the order given, with all parts of their scores."""
    mix, weight = sequence_scoring(scoring), trend_weight(scoring)
    if mix is None or part is None or common.sequence is None:
        found = _scored(common, taste, scoring, short, 1.0)
    else:
        query, popularity = mix.sequence * part.query, mix.sequence * mix.kappa
        found = replace(
            _scored(common, taste, scoring, short, mix.solve),
            sequence=common.sequence.take(short) @ query,  # (s,)
            popularity=popularity * common.sequence.bias[short].astype(np.float64),
        )
    if common.trend is not None and weight > 0:
        found = replace(found, trend=weight * common.lately(short))
    return found


def _scored(
    common: CommonItems, taste: UserRepresentation, scoring: Scoring, rows: Rows, share: float
) -> Ranked:
    """These items with `solve`'s part of their scores, times `share`."""
    theirs = common.take(rows)  # (s, k)
    shared = theirs @ taste.user  # (s,) float64, so that reasons add up to it
    personal = smoothed(taste, rows, theirs, scoring).sum(axis=1)  # (s,)
    return Ranked(rows, share * shared, share * personal)


def explain(
    common: CommonItems,
    taste: UserRepresentation,
    scoring: Scoring,
    row: int,
    part: SequenceUser | None = None,
) -> Reasons:
    """Why this item has its score: a number for each part and each item of the history."""
    rows = np.array([row], dtype=np.int64)
    theirs = common.take(rows)  # (1, k)
    personal = np.zeros(len(taste.items))
    owed = smoothed(taste, rows, theirs, scoring)[0]  # (n_personal,)
    personal[: len(owed)] = owed
    shared = shared_parts(taste, common.take(taste.items), theirs)[0]  # (n,)
    mix = sequence_scoring(scoring)
    trend = trend_weight(scoring) * float(common.lately(rows)[0])
    if mix is None or part is None or common.sequence is None:
        return Reasons(taste.items, shared, personal, trend=trend)
    places = {int(item): place for place, item in enumerate(taste.items)}
    sequence = np.zeros(len(taste.items))  # items that are too old for the window have none
    why = sequence_reasons(part, common.sequence, rows, mix.kappa)
    sequence[[places[int(item)] for item in part.items]] = mix.sequence * why.history[0]
    popularity = mix.sequence * float(why.popularity[0])
    return Reasons(
        taste.items, mix.solve * shared, mix.solve * personal, sequence, popularity, trend
    )


def similar(
    common: CommonItems, row: int, n: int, allowed: npt.NDArray[np.bool_]
) -> tuple[Rows, npt.NDArray[np.float64]]:
    """The n allowed items most like `row` in the shared view, and their cosine with it.

    An item that nobody taught anything about (a row of zeros) is like nothing.
    """
    (mine,) = common.take(np.array([row], dtype=np.int64))  # (k,)
    norms = common.norms()  # (m,)
    length = float(np.linalg.norm(mine))
    if length == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    products = common.scores(mine).astype(np.float64)  # (m,)
    cosine = np.divide(products, norms * length, out=np.zeros_like(products), where=norms > 0)
    open_to = allowed & (norms > 0)
    open_to[row] = False
    scores = np.where(open_to, cosine, -np.inf)
    best = top_k(scores, n)
    best = best[np.isfinite(scores[best])]
    return best, np.clip(cosine[best], -1.0, 1.0)


def diversified(rows: Floats, scores: Floats, n: int, diversity: float) -> Rows:
    """Places of n of these items, in the order of maximal marginal relevance.

        next = argmax_j (1 - delta)·r_j - delta·max_{i chosen} cos(C_i, C_j)

    (Carbonell & Goldstein 1998), r being the scores (m,) brought to [0, 1] and `rows` (m, k) the
    rows of C. delta 0 is the order of the scores; equal ones in the order given.
    """
    count = min(n, len(scores))
    if count <= 0:
        return np.zeros(0, dtype=np.int64)
    lowest, span = float(np.min(scores)), float(np.ptp(scores))
    relevance = (np.asarray(scores, dtype=np.float64) - lowest) / (span or 1.0)  # (m,)
    norms = np.linalg.norm(rows, axis=1)[:, None]
    units = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)  # (m, k)
    near = np.zeros(len(scores))  # (m,) largest cosine with a chosen one; none is below 0
    left = np.zeros(len(scores))  # (m,) -inf once chosen
    chosen = np.empty(count, dtype=np.int64)
    for place in range(count):
        chosen[place] = int(np.argmax((1.0 - diversity) * relevance - diversity * near + left))
        left[chosen[place]] = -np.inf
        near = np.maximum(near, units @ units[chosen[place]])
    return chosen
