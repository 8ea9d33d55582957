"""The device's own record of what it took part in, and its own floor.

A device does not have to trust the coordinator's bookkeeping: the entry is written before
anything is sent, and an offer that breaks the floor is refused here, whoever asks. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from fedrap import arguments
from fedrap.rounds import eligibility
from fedrap_core import participation
from fedrap_core.plan import DAY, Plan, Privacy
from fedrap_core.privacy.accounting import gaussian_epsilon
from fedrap_core.privacy.statement import Statement, state_policy
from fedrap_core.wire.messages import Question

FLOOR = "a number from 0 up is expected"
TRIES_PER_STEP = 3  # a step whose round was abandoned may be tried again, but not for ever


class Entry(msgspec.Struct, frozen=True):
    """One update, or one answer to a question, that was about to leave this device."""

    step: int
    round: bytes
    noise: float  # as charged: of a plan with bands or a clipping bit it is less than z
    delta: float
    at: float
    rule: Privacy | None = None  # what was agreed to; older entries have none
    question: bool = False  # `round` is the id of a question then, and there is no step


@dataclass(frozen=True)
class Floor:
    """The least that this device insists on, whatever an offer says; the defaults protect."""

    separation: int = 2
    cap: int = 100
    min_updates: int = 20
    min_noise: float = 0.0
    # Of what this device does in any window of `window_days`, or of the plan's if that is longer,
    # with the round that is offered; of all that it ever did where the plan has no window.
    max_epsilon: float = 10.0
    max_clip: float = 100.0
    window_days: float = 365.0  # the shortest in which `cap` and `max_epsilon` hold
    # Of all that this device ever did, where it is more than `max_epsilon`: some seven windows of
    # epsilon 8.
    max_lifetime_epsilon: float = 30.0
    max_question_epsilon: float = 2.0  # of all answers to questions in a window
    # Where a policy is offered that guarantees less than the last one that this device took part
    # under: wait until the app asked its user, and called `consent` again.
    ask_again: bool = False

    def __post_init__(self) -> None:
        for name in ("separation", "cap", "min_updates"):
            if arguments.count(name, getattr(self, name)) < 0:
                raise arguments.wrong(name, FLOOR)
        for name in (
            "min_noise", "max_epsilon", "max_clip", "window_days", "max_lifetime_epsilon",
            "max_question_epsilon",
        ):  # fmt: skip
            arguments.number(name, getattr(self, name), 0.0, math.inf, FLOOR)
        if not isinstance(self.ask_again, bool):
            raise arguments.wrong("ask_again", arguments.FLAG)

    @classmethod
    def without_privacy(
        cls,
        *,
        separation: int = 2,
        cap: int = 100,
        min_updates: int = 20,
        min_noise: float = 0.0,
        max_clip: float = 100.0,
        window_days: float = 365.0,
    ) -> Floor:
        """No bound on epsilon: for rounds without noise, where the user has no guarantee."""
        return cls(
            separation, cap, min_updates, min_noise, math.inf, max_clip, window_days,
            max_question_epsilon=math.inf,
        )  # fmt: skip


def why_not(
    entries: Sequence[Entry],
    step: int,
    plan: Plan,
    floor: Floor,
    now: float,
    consented_at: float = math.inf,
) -> str | None:
    """None when the device agrees to an offer; otherwise a word for what breaks the rule.

    `consented_at` is when the user was last asked: `ask_again` wants it after a change.
    """
    rule = plan.privacy
    if plan.min_updates < floor.min_updates:
        return eligibility.FLOOR_COHORT
    if rule.charged_noise < floor.min_noise:
        return eligibility.FLOOR_NOISE
    if rule.clip > floor.max_clip:
        return eligibility.FLOOR_CLIP
    added = Entry(step, b"", rule.charged_noise, rule.delta, now)
    since = now - max(rule.window, DAY * floor.window_days)
    recent = [entry for entry in entries if entry.at > since]
    if math.isfinite(floor.max_epsilon) and epsilon([*recent, added]) > floor.max_epsilon:
        return eligibility.FLOOR_EPSILON
    lifetime = max(floor.max_epsilon, floor.max_lifetime_epsilon)
    if math.isfinite(lifetime) and epsilon([*entries, added]) > lifetime:
        return eligibility.FLOOR_LIFETIME
    if floor.ask_again and guarantees_less(entries, rule):
        agreed = _last_agreed(entries)
        if agreed is not None and consented_at <= agreed.at:
            return eligibility.POLICY_CHANGED
    steps = charged_steps(entries)
    if step in steps:
        tries = sum(entry.step == step and not entry.question for entry in entries)
        return eligibility.LEDGER_TRIES if tries >= TRIES_PER_STEP else None
    # K holds in the plan's window; the floor's own cap in whichever is longer.
    in_window = [entry for entry in entries if entry.at > now - rule.window]
    if len(charged_steps(in_window)) >= rule.cap or len(charged_steps(recent)) >= floor.cap:
        return eligibility.LEDGER_CAP
    gap = max(rule.separation, floor.separation)
    if any(abs(step - taken) < gap for taken in steps):
        return eligibility.LEDGER_SEPARATION
    return None


def until_rested(entries: Sequence[Entry], now: float) -> float:
    """Seconds that this device still rests after its last round, by what it agreed to then."""
    last = _last_agreed(entries)
    if last is None or last.rule is None:
        return 0.0
    return participation.until_rested(now - last.at, last.rule)


def charged_steps(entries: Sequence[Entry]) -> frozenset[int]:
    """The steps this device is charged for; one that was tried twice counts once."""
    return frozenset(entry.step for entry in entries if not entry.question)


def answers(entries: Sequence[Entry]) -> list[Entry]:
    """The questions that this device has answered."""
    return [entry for entry in entries if entry.question]


def why_not_answer(
    entries: Sequence[Entry], question: Question, floor: Floor, now: float
) -> str | None:
    """None when the device agrees to a question; otherwise a word for what breaks the rule."""
    if any(one.round == question.question for one in answers(entries)):
        return eligibility.ALREADY_ANSWERED
    recent = [entry for entry in entries if entry.at > now - DAY * floor.window_days]
    given = answers(recent)
    if question.least < floor.min_updates:
        return eligibility.FLOOR_COHORT
    if len(given) >= question.budget:
        return eligibility.LEDGER_CAP
    added = Entry(0, question.question, question.noise, question.delta, now, question=True)
    if epsilon([*given, added]) > floor.max_question_epsilon:
        return eligibility.FLOOR_EPSILON
    if epsilon([*recent, added]) > floor.max_epsilon:
        return eligibility.FLOOR_EPSILON
    if epsilon([*entries, added]) > max(floor.max_epsilon, floor.max_lifetime_epsilon):
        return eligibility.FLOOR_LIFETIME
    return None


def guarantees_less(entries: Sequence[Entry], rule: Privacy) -> bool:
    """Is `rule` weaker than the one that this device agreed to last?"""
    agreed = privacy_guarantee(entries)
    if agreed is None:
        return False
    offered = state_policy(rule)
    windows = [one.window_days or math.inf for one in (offered, agreed)]
    return offered.epsilon > agreed.epsilon * (1 + 1e-9) or windows[0] < windows[1]


def privacy_guarantee(entries: Sequence[Entry]) -> Statement | None:
    """Of the policy that this device agreed to last."""
    agreed = _last_agreed(entries)
    return None if agreed is None or agreed.rule is None else state_policy(agreed.rule)


def _last_agreed(entries: Sequence[Entry]) -> Entry | None:
    """The newest that has a rule; answers to questions have none."""
    return next((entry for entry in reversed(entries) if entry.rule is not None), None)


def epsilon(entries: Sequence[Entry]) -> float:
    """What this device has spent: mu^2 adds up over steps and answers; at the smallest delta."""
    if not entries:
        return 0.0
    noises: dict[int | bytes, float] = {}
    for entry in entries:  # which try of a step was released is not known here: assume the worst
        what = entry.round if entry.question else entry.step
        noises[what] = min(entry.noise, noises.get(what, math.inf))
    if any(noise == 0 for noise in noises.values()):
        return math.inf
    mu = math.sqrt(sum(noise**-2 for noise in noises.values()))
    return gaussian_epsilon(mu, min(entry.delta for entry in entries))
