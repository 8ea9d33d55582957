"""Small rounds of `split`, updates for them, and a pair of servers in one process."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from fedrap_core.plan import OFF, Adapt, Plan, Privacy, SequenceMethod, SolveMethod, Split
from fedrap_core.sparse import RowPart, RowUpdate, pack_gram
from fedrap_core.split.numbers import Numbers, Terms, to_numbers, uniform_count
from fedrap_core.split.report import HELPER, LEADER, Report, make_report
from fedrap_core.split.verify import Looked, RunningSum, accepts, read_seen

ROUND = b"a round of split"
KEY = b"both servers' ke"
SEQUENCE = SequenceMethod(dim=3, targets=4, longest=10)


def some_terms(
    items: int = 60, dim: int = 4, rows: int = 6, *, sequence: bool = False, noise: float = 0.0
) -> Terms:
    method = SolveMethod(dim=dim, sequence=SEQUENCE if sequence else OFF)
    rule = Privacy(clip=10.0, noise=noise, adapt=Adapt(noise=2.0))
    split = Split(rows=rows, gram_scale=8.0)
    return Terms(ROUND, Plan(method=method, privacy=rule, split=split), items)


def some_update(terms: Terms, seed: int, count: int | None = None, size: float = 1.0) -> RowUpdate:
    rng = np.random.default_rng(seed)
    count = min(terms.items, 4 if count is None else count)
    rows = np.sort(rng.choice(terms.items, count, replace=False))
    user = rng.normal(0.0, 0.3, terms.method.dim)
    more = []
    for part in terms.parts:
        mine = np.arange(part.rows) if part.whole else rows[::2]
        more.append(RowPart(mine, rng.normal(0.0, 0.3, (len(mine), part.width))))
    values = rng.normal(0.0, size, (count, terms.method.dim))
    return RowUpdate(rows, values, pack_gram(np.outer(user, user)), 0, tuple(more))


def some_numbers(terms: Terms, seed: int, count: int | None = None, size: float = 1.0) -> Numbers:
    uniform = np.random.default_rng(seed + 1).random(uniform_count(terms))
    return to_numbers(some_update(terms, seed, count, size), terms, uniform)


def some_report(terms: Terms, seed: int, count: int | None = None) -> Report:
    return make_report(terms, some_numbers(terms, seed, count), secret_of(seed))


def secret_of(seed: int) -> bytes:
    return hashlib.sha256(b"secret %d" % seed).digest()


@dataclass
class Pair:
    """Leader and helper, and what they say to each other."""

    terms: Terms
    leader: RunningSum = field(init=False)
    helper: RunningSum = field(init=False)

    def __post_init__(self) -> None:
        self.leader = RunningSum(self.terms, LEADER)
        self.helper = RunningSum(self.terms, HELPER)

    def look(self, report: Report) -> tuple[Looked, Looked]:
        """Both add it; raises MalformedMessage."""
        seen = self.leader.look(KEY, report.id, report.public, report.leader)
        return seen, self.helper.look(KEY, report.id, report.public, report.helper)

    def offer(self, report: Report) -> bool:
        """Counted, or refused and taken out again."""
        leader, helper = self.look(report)
        shown = read_seen(self.terms, leader.seen.encoded())
        if accepts(self.terms, shown, helper.seen, helper.joint):
            return True
        self.leader.take_out(leader)
        self.helper.take_out(helper)
        return False


def expected_sum(terms: Terms, many: list[Numbers]) -> np.ndarray:
    """What the shares of both servers must add up to, in the order of parts.py."""
    fits, whole = 0, np.zeros(terms.whole, np.int64)
    rows = np.zeros((terms.items, terms.shape.width), np.int64)
    for numbers in many:
        fits += numbers.fits
        whole += numbers.whole
        rows[numbers.rows] += numbers.values
    found, at = {}, 0
    for part in terms.row_parts:
        found[part.name] = rows[:, at : at + part.width]
        at += part.width
    at = 0
    for part in terms.whole_parts:
        found[part.name] = whole[at : at + part.numbers]
        at += part.numbers
    names = ["gram", "rows", *(part.name for part in terms.parts)]
    return np.concatenate([[fits], *(found[name].ravel() for name in names)])
