"""Gains on the device: how good the lists were, seen from what the user touched next. Pure.

Every interaction is looked at once, under the release that was in use when it was recorded and
before any other is adopted, with the history as it was before it. So no list ever knew its answer.
What is kept are a few sums for each of the last releases; they leave only in answers to questions.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fedrap.recommend.local_model import LocalModel
from fedrap.results import Interaction
from fedrap_core.paper.problem import PaperState
from fedrap_core.plan import AnyScoring, PaperScoring, Scoring
from fedrap_core.questions.gains import METRICS, MOST_COUNTED, Metric, ReleaseGains, gains_of

KEPT_RELEASES = 8  # whose sums are kept: the newest may be asked about for a while
MOST_LOOKED_AT = 2 * MOST_COUNTED  # interactions at once, the newest; a history may be imported
Numbered = Sequence[tuple[int, Interaction]]  # oldest first, each with its number in the store


class Gains(msgspec.Struct, frozen=True):
    """What a device knows of the quality of its lists."""

    mark: int = -1  # number of the last interaction that was looked at
    since: int = -1  # of the last one when the release in use was adopted
    releases: tuple[ReleaseGains, ...] = ()  # oldest first

    def of(self, version: int) -> ReleaseGains:
        """The sums under a release; empty where there are none."""
        return next((one for one in self.releases if one.version == version), ReleaseGains(version))

    def adopted(self, newest: int) -> Gains:
        """After another release came into use; what was not looked at by then never counts."""
        return Gains(max(self.mark, newest), newest, self.releases)


def measured(
    gains: Gains, model: LocalModel, numbered: Numbered, trained: PaperState | None
) -> Gains:
    """With all interactions looked at that were not; some 5 ms each at 32,000 items."""
    fresh = [place for place, (number, _) in enumerate(numbered) if number > gains.mark]
    if not fresh:
        return gains
    sums = gains.of(model.common.version)
    interactions = [one for _, one in numbered]
    look = model.anew()
    for place in fresh[-MOST_LOOKED_AT:]:
        if sums.is_full:
            break
        ranks = look.ranks_of(interactions[:place], trained, interactions[place])
        if ranks is not None:
            sums = sums.with_ranks(*ranks)
    others = tuple(one for one in gains.releases if one.version != sums.version)
    newest = max(number for number, _ in numbered)
    return Gains(newest, gains.since, (*others, sums)[-KEPT_RELEASES:])


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
