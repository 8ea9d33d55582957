"""What one device knows, in memory and in its store: `DeviceState` is the one owner of both.

Every method is synchronous and takes the same lock, so that an app may call from any thread. To
look at more than one thing, take `contents()` (for recommending, `status` and `export`) or
`snapshot()` (for a round): both are frozen, and need the lock once.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

import msgspec
import numpy as np

from fedrap.errors import StoreBusy, StoreClosed
from fedrap.recommend.local_model import LocalModel
from fedrap.recommend.release import ItemList, ReleaseHeader, head_of, read_release
from fedrap.results import Interaction
from fedrap.rounds.ledger import Entry
from fedrap.rounds.prepare import Prepared
from fedrap.rounds.state import RoundSnapshot
from fedrap.storage.database import DeviceStore
from fedrap.storage.history import InteractionLog, Retention
from fedrap.storage.release_codec import (
    CatalogueHead,
    TrainedBlock,
    catalogue_blocks,
    keep_rows,
    kept_blocks,
    load_catalogue,
    load_common,
    pack_trained,
    unpack_trained,
)
from fedrap.transport.credentials import Credentials
from fedrap_core.errors import BrokenModel, MalformedMessage
from fedrap_core.model import History
from fedrap_core.paper.problem import PaperState
from fedrap_core.wire.keys import new_private_key, private_to_bytes
from fedrap_core.wire.messages import Delta, Release


class StateLock:
    """A re-entrant lock that runs `check` on entering; what it raises, the caller gets."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._check = check

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._check()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def acquire(self, seconds: float) -> bool:
        """Take the lock without the check; False when others hold it for that long."""
        return self._lock.acquire(timeout=max(0.0, seconds))

    def release(self) -> None:
        """Give it back after `acquire`."""
        self._lock.release()


log = logging.getLogger(__name__)


class Consent(msgspec.Struct, frozen=True):
    """What the user agreed to, under which policy, and when."""

    train: bool
    policy: str
    at: float


@dataclass(frozen=True, eq=False)
class DeviceContents:
    """Everything a device knows at one moment, for recommending, for `status` and for `export`."""

    interactions: Sequence[Interaction]  # oldest first
    consents: Sequence[Consent]  # everything the user ever answered, oldest first
    credentials: Credentials | None
    entries: Sequence[Entry]  # the ledger
    pending: int  # updates that still have to be sent
    model: LocalModel | None  # the release in use
    personal: Mapping[str, float]  # D as it was kept with the last round
    trained: PaperState | None  # u and D as rounds of `paper` left them
    dropped: int  # local rounds that ran away

    @property
    def consented(self) -> bool:
        """Did the user agree to train, and not take it back?"""
        return bool(self.consents) and self.consents[-1].train


E = TypeVar("E")


class DeviceState:
    """The history, the consent, the identity, the ledger and the model of this device."""

    def __init__(
        self, store: DeviceStore, clock: Callable[[], float], retention: Retention | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._retention = retention or Retention()
        self._closed = False
        self._process = os.getpid()
        self._lock = StateLock(self._check_usable)
        self._load()
        self._expire()

    def _load(self) -> None:
        """Read everything from the store."""
        store = self._store
        self._interactions = InteractionLog(store.numbered_interactions())
        self._consents = tuple(store.get("consents", list[Consent]) or ())
        self._credentials = store.get("credentials", Credentials)
        self._entries = tuple(store.get("ledger", list[Entry]) or ())
        self._outbox = tuple(store.outbox())
        if self._outbox and not self._consents_now():  # version 0.1 left it at a withdrawal
            store.withdraw({})
            self._outbox = ()
        self._nonce = store.get("nonce", int) or 0
        head = store.get("catalogue", CatalogueHead)
        self._catalogue = load_catalogue(head, lambda name: store.get(name, bytes))
        self._personal = store.get("personal", dict[str, float]) or {}
        self._trained = unpack_trained(store.get("trained", TrainedBlock))
        self._dropped = store.get("dropped", int) or 0
        self._model: LocalModel | None = None
        header = store.get("held", ReleaseHeader)
        if header is not None:
            common = load_common(header, self._catalogue, lambda name: store.get(name, bytes))
            self._model = LocalModel(header, common, self._catalogue)

    def now(self) -> float:
        """Seconds of wall time."""
        return self._clock()

    def check_usable(self) -> None:
        """Does nothing but raise what every other call would, such as StoreClosed."""
        with self._lock:
            pass

    def contents(self) -> DeviceContents:
        """Everything the device knows, as it is now."""
        with self._lock:
            return DeviceContents(
                tuple(self._interactions.interactions),
                self._consents,
                self._credentials,
                self._entries,
                len(self._outbox),
                self._model,
                self._personal,
                self._trained,
                self._dropped,
            )

    def snapshot(self) -> RoundSnapshot:
        """What a round needs, as it is now; what the retention does not allow is gone first."""
        with self._lock:
            self._expire()
            model, interactions = self._model, tuple(self._interactions.interactions)
            return RoundSnapshot(
                at=self._clock(),
                consented=self._consents_now(),
                recorded=len(interactions),
                credentials=self._credentials,
                entries=self._entries,
                outbox=self._outbox,
                model=model,
                release_version=_version(model),
                catalogue=self._catalogue,
                trained=self._trained,
                read_history=lambda: _history(model, interactions),
            )

    def close(self, seconds: float = 2.0) -> None:
        """Give the store back, within that time; from now on every other call raises."""
        self._end(self._store.close, seconds)

    def erase(self, seconds: float = 2.0) -> tuple[str, ...]:
        """Delete the store; the names of what there was."""
        gone = self._end(self._store.destroy, seconds)
        if gone is None:
            raise StoreBusy("the store is still being written; open it again and erase it then")
        return gone

    def _end(self, act: Callable[[], E], seconds: float) -> E | None:
        self._closed = True  # before the lock: nobody enters any more
        if self._process != os.getpid():
            return None  # in a forked child: all of it is the parent's
        if not self._lock.acquire(seconds):
            log.warning("the store is still being written; it is given back when this process ends")
            return None
        try:
            return act()
        finally:
            self._lock.release()

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreClosed("this device was closed or erased; open it again")
        if self._process != os.getpid():
            self._store.abandon()
            self._store.reopen()
            self._load()
            self._process = os.getpid()

    def before_fork(self) -> bool:
        """Let no other thread be in the middle of something, and SQLite have nothing open."""
        taken = self._lock.acquire(2.0)
        if taken:
            self._store.rest()
        return taken

    def after_fork_in_parent(self, taken: bool) -> None:
        """Go on."""
        if taken:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """The store is the parent's. The next use takes it, if the parent has given it back."""
        self._lock = StateLock(self._check_usable)
        self._store.abandon()

    def record(self, interactions: Sequence[Interaction]) -> None:
        """Durable first, all or none, then known. What is older than the newest goes in between.

        Nothing happened later than now; where the clock was set back, than the newest so far.
        """
        with self._lock:
            if not interactions:
                return
            latest = max(self._clock(), self._interactions.newest_at)
            dated = [
                one if one.at <= latest else msgspec.structs.replace(one, at=latest)
                for one in interactions
            ]
            in_order = self._interactions.add(self._store.add_interactions(dated), dated)
            if not in_order and self._model is not None:
                self._model = self._model.anew()
            self._expire()

    def _expire(self) -> None:
        """Forget what the retention does not allow any more, and the rows of D that go with it."""
        now = self._clock()
        if not self._interactions.due(self._retention, now):
            return
        left, gone = self._interactions.allowed(self._retention, now)
        model = None if self._model is None else self._model.anew()
        trained = self._trained
        if model is not None and trained is not None:
            trained = keep_rows(trained, model.history(left.interactions).rows)
        items = {one.item for one in left.interactions}
        personal = {item: part for item, part in self._personal.items() if item in items}
        blocks: dict[str, object] = {"personal": personal}
        if trained is not None:
            blocks["trained"] = pack_trained(trained)
        self._store.forget_interactions(gone, blocks)
        self._interactions, self._model = left, model
        self._personal, self._trained = personal, trained

    def keep_consent(self, consent: Consent) -> None:
        """Add to the consent log; a withdrawal empties the outbox in the same transaction."""
        with self._lock:
            consents = (*self._consents, consent)
            if consent.train:
                self._store.put("consents", consents)
            else:
                self._store.withdraw({"consents": consents})
                self._outbox = ()
            self._consents = consents

    def consented(self) -> bool:
        """Has the user agreed to train, and not taken it back?"""
        with self._lock:
            return self._consents_now()

    def _consents_now(self) -> bool:
        return bool(self._consents) and self._consents[-1].train

    def enrolling_key(self) -> bytes:
        """The private key to enrol with, the same one until enrolled."""
        with self._lock:
            key = self._store.get("enrolling", bytes)
            if not key:
                key = private_to_bytes(new_private_key())
                self._store.put("enrolling", key)
            return key

    def keep_credentials(self, credentials: Credentials) -> None:
        """Remember who this device is."""
        with self._lock:
            self._store.put_all({"credentials": credentials, "enrolling": b""})
            self._credentials = credentials

    def next_nonce(self) -> int:
        """A number larger than every one before, also after a restart or a clock set back."""
        with self._lock:
            self._nonce = max(self._nonce + 1, int(self._clock() * 1e6))
            self._store.put("nonce", self._nonce)
            return self._nonce

    def count_dropped(self) -> None:
        """A local round ran away and was dropped; the old state stays."""
        with self._lock:
            self._store.put("dropped", self._dropped + 1)
            self._dropped += 1

    def commit_round(self, round_id: bytes, prepared: Prepared) -> bool:
        """D, the ledger entry and the outgoing bytes in one transaction, before anything leaves.

        False, and nothing is kept, when the user has taken the consent back meanwhile.
        """
        with self._lock:
            if not self._consents_now():
                return False
            entries = (*self._entries, prepared.entry)
            interactions = self._interactions.interactions
            personal: dict[str, float] = {}
            trained = prepared.trained
            if self._model is not None:  # what was forgotten during the round does not come back
                trained = keep_rows(trained, self._model.history(interactions).rows)
                personal = self._model.personal(interactions, trained)
            blocks: dict[str, object] = {"ledger": entries, "personal": personal}
            if trained is not None:
                blocks["trained"] = pack_trained(trained)
            self._store.commit_round(round_id, prepared.body, blocks)
            self._entries, self._personal, self._trained = entries, personal, trained
            self._outbox = (*self._outbox, (round_id, prepared.body))
            return True

    def forget_outgoing(self, round_id: bytes) -> None:
        """An update that was answered for good."""
        with self._lock:
            self._store.forget_outgoing(round_id)
            self._outbox = tuple(one for one in self._outbox if one[0] != round_id)

    def adopt(self, base: RoundSnapshot, message: Release | Delta, catalogue: ItemList) -> None:
        """Use a new release and catalogue from now on; both are swapped in one transaction.

        `base` is what the message was asked for with. Where another one was adopted meanwhile,
        that one stays: chunks of two are never mixed.

        Raises:
            BrokenModel: the release is damaged or hostile; the old one stays in use.
        """
        before = self._model
        if _version(before) != base.release_version:
            return
        common = read_release(message, None if before is None else before.common, catalogue)
        known = before.ids if before is not None and catalogue is base.catalogue else None
        try:
            model = LocalModel(head_of(message), common, catalogue, known)
        except MalformedMessage as error:
            raise BrokenModel("a catalogue that is not a list of ids") from error
        with self._lock:
            if _version(self._model) != _version(before) or self._catalogue is not base.catalogue:
                return
            blocks = kept_blocks(message, common)
            if known is None:
                blocks |= catalogue_blocks(catalogue)
            self._store.put_all(blocks)
            self._model, self._catalogue = model, catalogue


def _history(model: LocalModel | None, interactions: Sequence[Interaction]) -> History:
    if model is None:
        return History(np.zeros(0, dtype=np.int64), np.zeros(0))
    return model.history(interactions)


def _version(model: LocalModel | None) -> int | None:
    return None if model is None else model.common.version
