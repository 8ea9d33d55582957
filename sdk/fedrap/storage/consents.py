"""What the user agreed to: a log of answers, of which the newest counts. Pure.

An answer has three parts: may releases be fetched, so that there is something to recommend from;
may this device train; may it answer questions about quality. An answer that cannot be read counts
as no to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Consent(msgspec.Struct, frozen=True):
    """One answer, under which policy, and when."""

    train: bool
    policy: str
    at: float
    recommend: bool | None = None  # version 0.1 asked about training only
    measure: bool = False  # nobody was asked before there were questions

    @property
    def fetches(self) -> bool:
        """Did the user agree that releases are fetched?"""
        return self.train if self.recommend is None else self.recommend


def refusal(policy: str, at: float) -> Consent:
    """No to everything."""
    return Consent(False, policy, at, recommend=False)


def may_train(consents: Sequence[Consent]) -> bool:
    """Did the user agree to train, and not take it back?"""
    return bool(consents) and consents[-1].train


def may_measure(consents: Sequence[Consent]) -> bool:
    """Did the user agree that this device answers questions about quality?"""
    return may_train(consents) and consents[-1].measure


def may_fetch(consents: Sequence[Consent]) -> bool | None:
    """Did the user agree that releases are fetched? None when never asked."""
    return consents[-1].fetches if consents else None


def readable(answers: Sequence[Consent | None]) -> tuple[Consent, ...]:
    """The log, with a no in place of each answer that cannot be read."""
    return tuple(refusal("an answer that cannot be read", 0.0) if a is None else a for a in answers)
