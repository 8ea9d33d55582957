"""The life of a sealing key: next -> active -> retired -> destroyed. Pure.

A round names the key that was active when it was opened, and keeps it for all of its life; a
rotation is for the rounds to come. A retired key is destroyed when no open round names it: who
steals the machine later cannot open updates that were captured before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class KeyState(StrEnum):
    """Where a sealing key is in its life."""

    NEXT = "next"  # made early, so that a backup of the keys has it before a round needs it
    ACTIVE = "active"
    RETIRED = "retired"
    DESTROYED = "destroyed"


@dataclass(frozen=True)
class SealKey:
    """The public half of a sealing key, and its state."""

    id: bytes
    point: bytes
    state: KeyState
    made_at: float
    since: float  # when it came into this state


def first_keys(active: SealKey, following: SealKey) -> list[SealKey]:
    """A ring that was never rotated."""
    return [
        replace(active, state=KeyState.ACTIVE),
        replace(following, state=KeyState.NEXT),
    ]


def active_key(keys: Sequence[SealKey]) -> SealKey:
    """The key that the next round names."""
    return next(key for key in keys if key.state is KeyState.ACTIVE)


def is_due(keys: Sequence[SealKey], now: float, seconds: float) -> bool:
    """Has the active key been so for longer than `seconds`? 0 means never."""
    return bool(seconds) and now - active_key(keys).since >= seconds


def rotated(keys: Sequence[SealKey], fresh: SealKey, now: float) -> list[SealKey]:
    """The ring after one turn; `fresh` is the new next key."""
    after = {KeyState.ACTIVE: KeyState.RETIRED, KeyState.NEXT: KeyState.ACTIVE}
    turned = [
        replace(key, state=after[key.state], since=now) if key.state in after else key
        for key in keys
    ]
    return [*turned, replace(fresh, state=KeyState.NEXT, made_at=now, since=now)]


def unused(keys: Sequence[SealKey], named: Collection[bytes]) -> list[bytes]:
    """The retired keys that no open round names."""
    return [key.id for key in keys if key.state is KeyState.RETIRED and key.id not in named]


def without(keys: Sequence[SealKey], gone: Collection[bytes], now: float) -> list[SealKey]:
    """The ring after the destruction of the keys `gone`."""
    return [
        replace(key, state=KeyState.DESTROYED, since=now) if key.id in gone else key for key in keys
    ]


def violation(keys: Sequence[SealKey]) -> str | None:
    """What is wrong with a ring, or None."""
    states = [key.state for key in keys]
    if states.count(KeyState.ACTIVE) != 1 or states.count(KeyState.NEXT) != 1:
        return "there must be one active and one next sealing key"
    if len({key.id for key in keys}) != len(keys):
        return "a sealing key is listed twice"
    return None
