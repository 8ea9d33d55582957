"""Gains on the device: how good the lists were, seen from what the user touched next. Pure.

Every interaction is looked at once, under the release that was in use when it was recorded and
before any other is adopted, with the history as it was before it. So no list ever knew its answer.
What is kept are a few sums for each of the last releases; they leave only in answers to questions.
Where a staged release is in use beside the full one, each interaction is looked at under both.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fedrap.recommend.local_model import LocalModel
from fedrap.results import Interaction
from fedrap_core.paper.problem import PaperState
from fedrap_core.plan import AnyScoring, PaperScoring, Scoring
from fedrap_core.questions.gains import (
    METRICS,
    MOST_COUNTED,
    Metric,
    PairedGains,
    ReleaseGains,
    gains_of,
)

KEPT_RELEASES = 8  # whose sums are kept: the newest may be asked about for a while
KEPT_PAIRS = 2  # staged releases whose leads are kept
MOST_LOOKED_AT = 2 * MOST_COUNTED  # interactions at once, the newest; a history may be imported
Numbered = Sequence[tuple[int, Interaction]]  # oldest first, each with its number in the store


class Gains(msgspec.Struct, frozen=True):
    """What a device knows of the quality of its lists."""

    mark: int = -1  # number of the last interaction that was looked at
    since: int = -1  # of the last one when the release in use was adopted
    releases: tuple[ReleaseGains, ...] = ()  # oldest first
    pairs: tuple[PairedGains, ...] = ()  # of staged releases, oldest first

    def of(self, version: int) -> ReleaseGains:
        """The sums under a release; empty where there are none."""
        return next((one for one in self.releases if one.version == version), ReleaseGains(version))

    def pair(self, version: int) -> PairedGains:
        """The leads of a staged release; none where it was not in use here."""
        return next((one for one in self.pairs if one.version == version), PairedGains(version))

    def adopted(self, newest: int) -> Gains:
        """After another release came into use; what was not looked at by then never counts."""
        return Gains(max(self.mark, newest), newest, self.releases, self.pairs)


def measured(
    gains: Gains,
    model: LocalModel,
    numbered: Numbered,
    trained: PaperState | None,
    beside: LocalModel | None = None,
) -> Gains:
    """With all interactions looked at that were not; some milliseconds each at 32,000 items.

    `beside` is the full release where `model`, which is in use, is a staged one.
    """
    fresh = [place for place, (number, _) in enumerate(numbered) if number > gains.mark]
    if not fresh:
        return gains
    sums = gains.of(model.common.version)
    interactions = [one for _, one in numbered]
    pair, look = gains.pair(model.common.version), model.anew()
    full = None if beside is None else beside.anew()
    for place in fresh[-MOST_LOOKED_AT:]:
        if sums.is_full:
            break
        ranks = look.ranks_of(interactions[:place], trained, interactions[place])
        if ranks is not None:
            sums = sums.with_ranks(*ranks)
        if full is not None:
            before = full.ranks_of(interactions[:place], trained, interactions[place])
            pair = pair.with_ranks(before and before[0], ranks and ranks[0])
    others = tuple(one for one in gains.releases if one.version != sums.version)
    newest, pairs = max(number for number, _ in numbered), gains.pairs
    if pair.count:
        pairs = (*(one for one in pairs if one.version != pair.version), pair)[-KEPT_PAIRS:]
    return Gains(newest, gains.since, (*others, sums)[-KEPT_RELEASES:], pairs)


def variant_gains(
    gains: Gains,
    model: LocalModel,
    numbered: Numbered,
    trained: PaperState | None,
    variants: Sequence[AnyScoring],
    metric: Metric,
) -> list[float] | None:
    """The mean gain that each scoring would have had under the release in use.

    Of the newest interactions since it was adopted; None where there are none that count, or where
    a scoring is not one of this release's kind.
    """
    kind = PaperScoring if isinstance(model.scoring, PaperScoring) else Scoring
    if not all(isinstance(one, kind) for one in variants):
        return None
    place_of = METRICS.index(metric)
    interactions = [one for _, one in numbered]
    fresh = [place for place, (number, _) in enumerate(numbered) if number > gains.since]
    means = []
    for scoring in variants:
        look, found = model.with_scoring(scoring), []
        for place in fresh[-MOST_COUNTED:]:
            ranks = look.ranks_of(interactions[:place], trained, interactions[place])
            if ranks is not None:
                found.append(gains_of(ranks[0])[place_of])
        if not found:
            return None
        means.append(sum(found) / len(found))
    return means
