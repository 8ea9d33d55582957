"""What the SDK gives back: frozen values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from fedrap_core.privacy.statement import Statement


@dataclass(frozen=True)
class Reason:
    """How much one item of the user's own history adds to a score."""

    item: str
    shared: float  # through what all users together say of both items
    personal: float  # through what is true of this user alone
    sequence: float = 0.0  # through what usually comes next, where the task has that part


@dataclass(frozen=True)
class Recommendation:
    """One recommended item. Unpacks as `item, score`."""

    item: str
    score: float
    shared: float  # part of the score that the common items C give
    personal: float  # part of the score that the personal items D give
    # strongest first; they add up to all parts but popularity, trend and boost
    reasons: tuple[Reason, ...] = ()
    sequence: float = 0.0  # part that what usually comes next gives, where the task has it
    popularity: float = 0.0  # part that the item has for everybody
    boost: float = 0.0  # part of the score that the app added for the moment
    trend: float = 0.0  # part that it has because many touched it lately, where the task has that

    def __iter__(self) -> Iterator[str | float]:
        return iter((self.item, self.score))


POPULAR_LATELY = "popular lately"


@dataclass(frozen=True)
class Because:
    """What speaks for an item, for the user's eyes; `str()` of it is a sentence, or nothing."""

    reasons: tuple[Reason, ...]  # strongest first
    titles: Mapping[str, str] = field(default_factory=dict)  # of items that have a public title
    trend: float = 0.0  # part of the score that the item has because many touched it lately

    @property
    def items(self) -> tuple[str, ...]:
        """Of the user's own history, strongest first."""
        return tuple(one.item for one in self.reasons)

    def words(self, titles: Mapping[str, str] | None = None, most: int = 2) -> str:
        """Such as "because you liked A and B"; `titles` gives items other names than they have.

        "popular lately" where what others touched lately says more than the own history.
        """
        names = {**self.titles, **(titles or {})}
        named = [names.get(item, item) for item in self.items[:most]]
        own = sum(one.shared + one.personal + one.sequence for one in self.reasons)
        if self.trend > max(0.0, own):
            return POPULAR_LATELY
        if not named:
            return ""
        *first, last = named
        return (
            f"because you liked {', '.join(first)} and {last}"
            if first
            else (f"because you liked {last}")
        )

    def __str__(self) -> str:
        return self.words()


@dataclass(frozen=True)
class RoundReport:
    """What `run_round` did, and if nothing, why."""

    joined: bool
    blocked_by: str | None = None  # a word of docs/api.md, or a problem code of the coordinator
    retry_after: float | None = None  # seconds
    step: int | None = None
    sent_bytes: int = 0
    loss: float | None = None  # of this device's own history; it stays here
    offered: Statement | None = None  # `policy-changed`: what the user would agree to now


@dataclass(frozen=True)
class Status:
    """Where this device stands. Nothing in it leaves the device."""

    consented: bool  # the user agreed to train
    fetching: bool | None  # the user agreed that releases are fetched; None when never asked
    enrolled: bool
    interactions: int
    personal_items: int  # items with a row in D
    release: int | None  # version of C, if any
    rounds: int  # rounds that this device is charged for
    epsilon: float  # of those rounds and of answers, unamplified; infinite without noise
    pending: int  # updates that still have to be sent
    dropped: int  # local rounds that ran away and were dropped; the old state was kept
    trainer: str | None  # what computed the last round in this process: numpy, onnx or torch
    trainer_reason: str | None  # why that one
    blocked_by: str | None  # why a round would not run now
    privacy: Statement | None  # the guarantee of the last round's policy; None before one
    hidden: int  # items that are never recommended
    set_aside: tuple[str, ...]  # records that could not be read, each with a word for why
    measuring: bool = False  # the user agreed that questions about quality are answered
    answers: int = 0  # questions that this device answered
    answers_epsilon: float = 0.0  # of those alone
    aggregation: str = "sealed"  # or `split`: two servers, of which none reads an update
    helper: str | None = None  # the second server that the app pins, as hex
    experimental: bool = False  # this way of aggregation wants outside review


@dataclass(frozen=True)
class Exported:
    """What `export` wrote: the user's own data, readable, without any key."""

    path: Path
    files: tuple[str, ...]  # in the zip
    interactions: int
    size_bytes: int


@dataclass(frozen=True)
class Erased:
    """The receipt of `erase`."""

    deleted: tuple[str, ...]  # files of the store, and `key` for one kept elsewhere
    coordinator_confirmed: bool  # it has dropped this device's key and record, or never had them
    not_confirmed_because: str | None  # a word of docs/api.md, or a problem code
    note: str = (
        "What this device added to earlier rounds is part of sums with the updates of others, "
        "and cannot be taken back. Without the key, copies of the store in backups stay sealed."
    )


class Interaction(msgspec.Struct, frozen=True, array_like=True):
    """One thing the user did, for `record_many`."""

    item: str
    kind: str  # a word of the app's own; `record` says "view" where the app says nothing
    weight: float
    at: float  # seconds since 1970
