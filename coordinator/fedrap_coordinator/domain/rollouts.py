"""Roll-outs: a release to a share of the devices first, and to all only if it does no harm. Pure.

    waiting -> running -> promoting -> promoted
                       -> halting   -> halted          waiting -> halted, where nothing was staged
    waiting -> learning -> promoting, halting          a successor, which rounds learn meanwhile
                        -> judging -> waiting          it is staged as an earlier version then

`waiting` is for a release that can be staged. While one runs a question is asked at each stage:
where the mean lead of the staged release lies below zero beyond its interval it is halted, else the
next share follows, and after the last one everybody. In `promoting` and `halting` the decision is
made and its release is not published yet; it goes on from there after a crash.

A successor is a model of another shape, or learnt otherwise, that begins with the C of the latest
release. Its versions are staged and no device uses them: rounds learn from them while the release
before serves, until somebody says that it is everybody's, or has it judged by devices.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum

from fedrap_core.questions.estimates import Estimate, Verdict, judge

NEXT = "next"  # the source of a roll-out of what the next round learns
VERSION, SCALARS = "version ", "scalars "  # others, each before its argument
SUCCESSOR = "successor "  # and its k
MOST_TRIES = 2  # of one stage, where too few devices answered
ARM = 0.2  # of the least number of answers: as many devices of the share must have had a say


class RolloutState(StrEnum):
    """Where a roll-out is."""

    WAITING = "waiting"
    LEARNING = "learning"
    JUDGING = "judging"
    RUNNING = "running"
    PROMOTING = "promoting"
    HALTING = "halting"
    PROMOTED = "promoted"
    HALTED = "halted"


OVER = frozenset({RolloutState.PROMOTED, RolloutState.HALTED})
STAGED = frozenset(RolloutState) - OVER - {RolloutState.WAITING}


@dataclass(frozen=True)
class Rollout:
    """A roll-out as the store keeps it."""

    id: bytes
    source: str  # NEXT, VERSION and a number, SCALARS and JSON, or SUCCESSOR and k
    shares: tuple[float, ...]  # of the stages, in order; everybody comes after them
    tolerance: float  # lead below zero that is no harm
    started_at: float
    state: RolloutState = RolloutState.WAITING
    base: int | None = None  # the full release that the staged one is beside
    version: int | None = None  # of the staged one
    stage: int = 0
    tries: int = 0  # of this stage that too few answered
    reason: str = ""  # of the last decision, in words
    ended_at: float | None = None

    @property
    def is_over(self) -> bool:
        """Is nothing left to be done?"""
        return self.state in OVER

    @property
    def is_staged(self) -> bool:
        """Is a release in the hands of some devices only?"""
        return self.state in STAGED

    @property
    def share(self) -> float:
        """Of the stage that it is at."""
        return self.shares[min(self.stage, len(self.shares) - 1)]

    def question(self, stage: int | None = None, tries: int | None = None) -> bytes:
        """The id of a stage's question: the same whoever asks it, so that it is asked once."""
        at = self.stage if stage is None else stage
        again = self.tries if tries is None else tries
        text = b"fedrap/1 rollout" + self.id + bytes([at, again])
        return hashlib.sha256(text).digest()[:16]

    @property
    def is_learnt(self) -> bool:
        """Do rounds learn from what is staged?"""
        return self.state is RolloutState.LEARNING

    @property
    def successor_dim(self) -> int | None:
        """k of the successor; None where this is about something else."""
        is_one = self.source.startswith(SUCCESSOR)
        return int(self.source.removeprefix(SUCCESSOR)) if is_one else None

    def begun(self, base: int, version: int) -> Rollout:
        """Its release is staged beside `base`."""
        learnt = self.successor_dim is not None
        state = RolloutState.LEARNING if learnt else RolloutState.RUNNING
        return replace(self, state=state, base=base, version=version)

    def learnt(self, version: int) -> Rollout:
        """A round made the next version of the successor."""
        return replace(self, version=version)

    def judged(self) -> Rollout:
        """The release before is everybody's again: the successor is staged as an earlier one."""
        source = f"{VERSION}{self.version}"
        return replace(
            self, source=source, state=RolloutState.WAITING, base=None, version=None, reason=""
        )

    def ended(self, now: float) -> Rollout:
        """What was decided is published."""
        promoted = self.state is RolloutState.PROMOTING
        state = RolloutState.PROMOTED if promoted else RolloutState.HALTED
        return replace(self, state=state, ended_at=now)

    def halted(self, reason: str, now: float) -> Rollout:
        """To be taken back; where nothing was staged there is nothing to take back."""
        if self.state is RolloutState.WAITING:
            return replace(self, state=RolloutState.HALTED, reason=reason, ended_at=now)
        return replace(self, state=RolloutState.HALTING, reason=reason)

    def promoted(self, reason: str) -> Rollout:
        """To be for everybody."""
        return replace(self, state=RolloutState.PROMOTING, reason=reason)


def arm_of(least: int) -> int:
    """Devices of a share below which nothing is said of it.

    All answers of a question are in its sum, `least` of them, and most say that they have no part
    in it; so this is no border of privacy but one of sense.
    """
    return max(2, round(ARM * least))


def decide(row: Rollout, answered: bool, lead: Estimate | None, now: float) -> Rollout:
    """What becomes of a roll-out whose stage has ended.

    `answered`: did enough devices answer? `lead` is None where too few of the share did. What
    nobody could see is not rolled out to everybody: the last stage must have been seen.
    """
    at, last = f"at {row.share:.3g} of the devices", row.stage == len(row.shares) - 1
    if not answered:
        if row.tries + 1 < MOST_TRIES:
            return replace(row, tries=row.tries + 1, reason=f"too few answers {at}; asked again")
        return row.halted(f"too few answers {at}, {MOST_TRIES} times", now)
    if lead is None:
        if last:
            return row.halted(f"too few devices with something to say {at}", now)
        return replace(row, stage=row.stage + 1, tries=0, reason=f"nothing to be seen {at}")
    figure = f"lead {lead.value:+.3f} ({lead.low:+.3f} to {lead.high:+.3f}) {at}"
    verdict = judge(lead, row.tolerance)
    if verdict is Verdict.WORSE:
        return row.halted(f"worse: {figure}", now)
    words = "no harm" if verdict is Verdict.SAFE else "no evidence of harm"
    if last:
        return row.promoted(f"{words}: {figure}")
    return replace(row, stage=row.stage + 1, tries=0, reason=f"{words}: {figure}")
