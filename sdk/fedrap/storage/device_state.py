"""What one device knows, in memory and in its store: the one owner of both.

Every method is synchronous and takes the same lock, so that an app may call from any thread.

The lock around a device's state: whoever enters is told when the state cannot be used.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
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
        self.expire()

    def _load(self) -> None:
        """Read everything from the store."""
        store = self._store
        self._taps = InteractionLog(store.numbered_interactions())
        self._consents = store.get("consents", list[Consent]) or []
        self._credentials = store.get("credentials", Credentials)
        self._entries = store.get("ledger", list[Entry]) or []
        self._nonce = store.get("nonce", int) or 0
        head = store.get("catalogue", CatalogueHead)
        self._catalogue = load_catalogue(head, lambda name: store.get(name, bytes))
        self._personal = store.get("personal", dict[str, float]) or {}
        self._trained = unpack_trained(store.get("trained", TrainedBlock))
        self._dropped = store.get("dropped", int) or 0
        self._model: LocalModel | None = None
        held = store.get("held", ReleaseHeader)
        if held is not None:
            common = load_common(held, lambda name: store.get(name, bytes))
            self._model = LocalModel(held, common, self._catalogue)

    def now(self) -> float:
        """Seconds of wall time."""
        return self._clock()

    def now_usable(self) -> None:
        """Does nothing but raise what every other call would, such as StoreClosed."""
        with self._lock:
            pass

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
        held = self._lock.acquire(2.0)
        if held:
            self._store.rest()
        return held

    def after_fork_in_parent(self, held: bool) -> None:
        """Go on."""
        if held:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """The store is the parent's. The next use takes it, if the parent has given it back."""
        self._lock = StateLock(self._check_usable)
        self._store.abandon()

    def record(self, interactions: Sequence[Interaction]) -> None:
        """Durable first, all or none, then known. What is older than the newest goes in between."""
        with self._lock:
            if not interactions:
                return
            in_order = self._taps.add(self._store.add_interactions(interactions), interactions)
            if not in_order and self._model is not None:
                self._model = self._model.anew()
            self.expire()

    def tap_time(self) -> float:
        """Now, or the time of the newest interaction when the clock was set back since."""
        with self._lock:
            return max(self.now(), self._taps.newest_at)

    def expire(self) -> None:
        """Forget what the retention does not allow any more, and the rows of D that go with it."""
        with self._lock:
            if not self._taps.due(self._retention, self.now()):
                return
            left, gone = self._taps.allowed(self._retention, self.now())
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
            self._taps, self._model = left, model
            self._personal, self._trained = personal, trained

    def interactions(self) -> Sequence[Interaction]:
        """Everything recorded, oldest first; a copy."""
        with self._lock:
            return list(self._taps.interactions)

    def recorded(self) -> int:
        """How many interactions there are."""
        with self._lock:
            return len(self._taps)

    def history(self) -> History:
        """Those with items that the release in use has a row for, newest first."""
        with self._lock:
            if self._model is None:
                return History(np.zeros(0, dtype=np.int64), np.zeros(0))
            return self._model.history(self._taps.interactions)

    def consented(self) -> bool:
        """Did the user agree to train, and not take it back?"""
        with self._lock:
            return bool(self._consents) and self._consents[-1].train

    def consents(self) -> Sequence[Consent]:
        """Everything the user ever answered, oldest first."""
        with self._lock:
            return list(self._consents)

    def keep_consent(self, consent: Consent) -> None:
        """Add to the consent log."""
        with self._lock:
            self._store.put("consents", [*self._consents, consent])
            self._consents.append(consent)

    def enrolling_key(self) -> bytes:
        """The private key to enrol with, the same one until enrolled."""
        with self._lock:
            key = self._store.get("enrolling", bytes)
            if not key:
                key = private_to_bytes(new_private_key())
                self._store.put("enrolling", key)
            return key

    def credentials(self) -> Credentials | None:
        """Who this device is, once enrolled."""
        with self._lock:
            return self._credentials

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

    def entries(self) -> Sequence[Entry]:
        """The ledger."""
        with self._lock:
            return list(self._entries)

    def personal(self) -> dict[str, float]:
        """D as it was kept with the last round."""
        with self._lock:
            return dict(self._personal)

    def trained(self) -> PaperState | None:
        """u and D as rounds of `paper` left them."""
        with self._lock:
            return self._trained

    def count_dropped(self) -> None:
        """A local round ran away and was dropped; the old state stays."""
        with self._lock:
            self._store.put("dropped", self._dropped + 1)
            self._dropped += 1

    def dropped(self) -> int:
        """How many local rounds ran away."""
        with self._lock:
            return self._dropped

    def commit_round(self, round_id: bytes, prepared: Prepared) -> None:
        """D, the ledger entry and the outgoing bytes in one transaction, before anything leaves."""
        with self._lock:
            entries = [*self._entries, prepared.entry]
            personal: dict[str, float] = {}
            trained = prepared.trained
            if self._model is not None:  # what was forgotten during the round does not come back
                trained = keep_rows(trained, self._model.history(self._taps.interactions).rows)
                personal = self._model.personal(self._taps.interactions, trained)
            blocks: dict[str, object] = {"ledger": entries, "personal": personal}
            if trained is not None:
                blocks["trained"] = pack_trained(trained)
            self._store.commit_round(round_id, prepared.body, blocks)
            self._entries, self._personal, self._trained = entries, personal, trained

    def outbox(self) -> Sequence[tuple[bytes, bytes]]:
        """Updates that still have to be sent."""
        with self._lock:
            return self._store.outbox()

    def forget_outgoing(self, round_id: bytes) -> None:
        """An update that was answered for good."""
        with self._lock:
            self._store.forget_outgoing(round_id)

    def model(self) -> LocalModel | None:
        """The release in use."""
        with self._lock:
            return self._model

    def release_version(self) -> int | None:
        """Its version."""
        with self._lock:
            return _version(self._model)

    def catalogue(self) -> ItemList:
        """The items this device knows of."""
        with self._lock:
            return self._catalogue

    def adopt(self, message: Release | Delta, catalogue: ItemList) -> None:
        """Use a new release and catalogue from now on; both are swapped in one transaction.

        Where another one was adopted meanwhile, that one stays: chunks of two are never mixed.

        Raises:
            BrokenModel: the release is damaged or hostile; the old one stays in use.
        """
        held, before = self.model(), self.catalogue()
        common = read_release(message, None if held is None else held.common)
        known = held.ids if held is not None and catalogue is before else None
        try:
            model = LocalModel(head_of(message), common, catalogue, known)
        except MalformedMessage as error:
            raise BrokenModel("a catalogue that is not a list of ids") from error
        with self._lock:
            if _version(self._model) != _version(held) or self._catalogue is not before:
                return
            blocks = kept_blocks(message, common)
            if known is None:
                blocks |= catalogue_blocks(catalogue)
            self._store.put_all(blocks)
            self._model, self._catalogue = model, catalogue


def _version(model: LocalModel | None) -> int | None:
    return None if model is None else model.common.version
