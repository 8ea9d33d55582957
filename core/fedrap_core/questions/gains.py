"""What one new interaction says about a release: the rank its item had before anybody knew of it.

Prequential: the device ranks all items it has not seen under the release it held, and looks where
the item stands that was touched next. With one relevant item of rank r (0 is the first)

    hr10 = [r < 10]     ndcg10 = hr10/log2(r + 2)     ndcg = 1/log2(r + 2)     mrr = 1/(r + 1)

Where a device holds two releases, each new interaction has a rank under both. Its lead is by how
much further up the later one had the item, on a logarithmic scale and within bounds:

    lead = log2((r_before + 2)/(r_after + 2))/2, within [-1, 1]

Chosen by measurement (`benchmarks/bench_rollouts.py`): differences of NDCG@10 are zero for most
devices and large for few; the mere sign is blind to a few items that are lost altogether.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, get_args

import msgspec

Metric = Literal["hr10", "ndcg10", "ndcg", "mrr"]
METRICS: tuple[Metric, ...] = get_args(Metric)
MOST_COUNTED = 20  # interactions of one device under one release that count: no device is a crowd
TOP = 10
LEAD_BITS = 2.0  # a rank that is four times another is as far apart as counts

Sum = Annotated[float, msgspec.Meta(ge=0, le=MOST_COUNTED)]
Sums = tuple[Sum, Sum, Sum, Sum]  # of each metric, in the order of METRICS
NOTHING: Sums = (0.0, 0.0, 0.0, 0.0)


def gains_of(rank: int) -> Sums:
    """Each metric of one item of that rank, 0 being the first; all within [0, 1]."""
    gain = 1.0 / math.log2(rank + 2.0)
    hit = 1.0 if rank < TOP else 0.0
    return (hit, hit * gain, gain, 1.0 / (rank + 1.0))


def lead_of(before: int | None, after: int | None) -> float:
    """By how much the later of two releases had an item further up; in [-1, 1].

    None where one of them does not show the item at all, which is as far down as can be.
    """
    if before is None or after is None:
        return float((before is None) - (after is None))
    bits = math.log2((before + 2.0) / (after + 2.0))
    return min(1.0, max(-1.0, bits / LEAD_BITS))


class PairedGains(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sum of one device's leads of a staged release over the one that it is beside."""

    version: int  # of the staged one
    count: Annotated[int, msgspec.Meta(ge=0, le=MOST_COUNTED)] = 0
    leads: Annotated[float, msgspec.Meta(ge=-MOST_COUNTED, le=MOST_COUNTED)] = 0.0

    def with_ranks(self, before: int | None, after: int | None) -> PairedGains:
        """One more interaction, whose item had these ranks; unchanged when full.

        And where neither release shows the item: it says nothing of them.
        """
        if self.count >= MOST_COUNTED or (before is None and after is None):
            return self
        lead = self.leads + lead_of(before, after)
        return PairedGains(self.version, self.count + 1, lead)

    @property
    def mean(self) -> float | None:
        """Within [-1, 1]; None where nothing was counted."""
        return self.leads / self.count if self.count else None


class ReleaseGains(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sums of one device under one release, for its own list and for those beside it."""

    version: int
    count: Annotated[int, msgspec.Meta(ge=0, le=MOST_COUNTED)] = 0
    own: Sums = NOTHING
    popular: Sums = NOTHING  # of the list that is the same for everybody
    lately: Sums = NOTHING  # of the one in the order of the release's trend

    @property
    def is_full(self) -> bool:
        """Does no further interaction count?"""
        return self.count >= MOST_COUNTED

    def with_ranks(self, own: int, popular: int, lately: int) -> ReleaseGains:
        """One more interaction, whose item had these ranks; unchanged when full."""
        if self.is_full:
            return self
        return msgspec.structs.replace(
            self,
            count=self.count + 1,
            own=_added(self.own, gains_of(own)),
            popular=_added(self.popular, gains_of(popular)),
            lately=_added(self.lately, gains_of(lately)),
        )

    def means(self, metric: Metric) -> tuple[float, float, float] | None:
        """Own, popular and lately, within [0, 1]; None where nothing was counted."""
        if not self.count:
            return None
        own, popular, lately = (
            sums[METRICS.index(metric)] / self.count
            for sums in (self.own, self.popular, self.lately)
        )
        return own, popular, lately


def _added(sums: Sums, gains: Sums) -> Sums:
    a, b, c, d = (one + other for one, other in zip(sums, gains, strict=True))
    return (a, b, c, d)
