"""What one device knows, in memory and in its store: `DeviceState` is the one owner of both.

Every method is synchronous and takes the same lock, so that an app may call from any thread. To
look at more than one thing, take `contents()` (for recommending, `status` and `export`) or
`snapshot()` (for a round): both are frozen, and need the lock once.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

import msgspec
import numpy as np

from fedrap.errors import InvalidArgument, StoreBusy, StoreClosed, StoreDamaged
from fedrap.recommend.attributes import NO_ATTRIBUTES, AttributesHead, ItemAttributes
from fedrap.recommend.kinds import Kinds
from fedrap.recommend.local_model import LocalModel, Wish
from fedrap.recommend.measuring import Gains, measured, variant_gains
from fedrap.recommend.release import ItemList, ReleaseHeader, head_of, read_release
from fedrap.results import Interaction
from fedrap.rounds.ledger import Entry
from fedrap.rounds.prepare import Prepared
from fedrap.rounds.state import RoundSnapshot, Wait
from fedrap.storage import consents
from fedrap.storage.consents import Consent
from fedrap.storage.database import LEDGER, LEDGER_LOST, DeviceStore
from fedrap.storage.history import InteractionLog, Retention
from fedrap.storage.moving import Moved
from fedrap.storage.release_codec import (
    ATTRIBUTES,
    STAGED,
    CatalogueHead,
    TrainedBlock,
    attribute_blocks,
    catalogue_blocks,
    keep_rows,
    kept_blocks,
    load_attributes,
    load_catalogue,
    load_common,
    pack_trained,
    staged_names,
    unpack_trained,
)
from fedrap.transport.credentials import Credentials
from fedrap_core.errors import BrokenModel, MalformedMessage
from fedrap_core.model import History
from fedrap_core.paper.problem import PaperState
from fedrap_core.plan import OFF
from fedrap_core.questions.answers import Vector
from fedrap_core.questions.lists import LONGEST, shares_of
from fedrap_core.wire.authority import entry_digest, read_entry
from fedrap_core.wire.keys import new_private_key, private_to_bytes
from fedrap_core.wire.messages import Delta, Question, Release
from fedrap_core.wire.question_layout import layout_of, variants_of


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


_ANSWER = b"answer "  # before the id of a question: what of the outbox answers one
log = logging.getLogger(__name__)
MOST_HIDDEN = 10_000


class Healed(msgspec.Struct, frozen=True):
    """A membership that the coordinator did not know any more, and that was given up."""

    at: float | None = None
    authority: bytes = b""  # whose the next one must be


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
    hidden: Collection[str] = ()  # items never to be recommended
    set_aside: Sequence[str] = ()  # records that cannot be read, each with a word for why
    ledger_lost: bool = False  # a part of the ledger is not there any more
    attributes: ItemAttributes = NO_ATTRIBUTES  # of the items, where the operator tells any

    @property
    def consented(self) -> bool:
        """Did the user agree to train, and not take it back?"""
        return consents.may_train(self.consents)

    @property
    def measuring(self) -> bool:
        """Did the user agree that questions about quality are answered?"""
        return consents.may_measure(self.consents)

    @property
    def fetching(self) -> bool | None:
        """Did the user agree that releases are fetched? None when never asked."""
        return consents.may_fetch(self.consents)


E = TypeVar("E")


class DeviceState:
    """The history, the consent, the identity, the ledger and the model of this device."""

    def __init__(
        self,
        store: DeviceStore,
        clock: Callable[[], float],
        retention: Retention | None = None,
        kinds: Kinds | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._retention = retention or Retention()
        self._kinds = kinds or Kinds.any_word()
        self._closed = False
        self._process = os.getpid()
        self._lock = StateLock(self._check_usable)
        self._load()
        self._expire()

    def _load(self) -> None:
        """Read everything from the store. What cannot be read is set aside, and is none."""
        store = self._store
        self._interactions = InteractionLog(store.numbered_interactions())
        answers = store.get_list("consents", Consent)
        self._consents = consents.readable(answers)
        if None in answers:
            store.put("consents", self._consents)
        self._credentials = store.get("credentials", Credentials)
        entries = store.get_list(LEDGER, Entry)
        self._entries = tuple(one for one in entries if one is not None)
        if None in entries:
            store.put(LEDGER, self._entries)
        self._ledger_lost = bool(store.get(LEDGER_LOST, bool))
        self._outbox = tuple(store.outbox())
        if self._outbox and not self._may_train():  # version 0.1 left it at a withdrawal
            store.withdraw({})
            self._outbox = ()
        self._nonce = store.get("nonce", int) or 0
        self._gains = store.get("gains", Gains) or Gains()
        self._personal = store.get("personal", dict[str, float]) or {}
        self._dropped = store.get("dropped", int) or 0
        self._healed = store.get("healed", Healed) or Healed()
        self._wait = store.get("wait", Wait) or Wait()
        self._hidden = dict.fromkeys(store.get("hidden", list[str]) or ())
        self._load_release()
        try:
            head = store.get(ATTRIBUTES, AttributesHead)
            self._attributes = load_attributes(head, lambda name: store.get(name, bytes))
        except StoreDamaged as error:
            store.set_block_aside(ATTRIBUTES, str(error))
            self._attributes = NO_ATTRIBUTES
        try:
            self._trained = unpack_trained(store.get("trained", TrainedBlock))
        except ValueError:
            store.set_block_aside("trained", "its parts have other sizes than it states")
            self._trained = None
        self._set_aside = tuple(store.set_aside())

    def _load_release(self) -> None:
        """C and the catalogue; where a part is missing, the next sync fetches them anew."""
        store = self._store
        self._catalogue, self._model, self._staged = ItemList(), None, None
        head = store.get("catalogue", CatalogueHead)
        header = store.get("held", ReleaseHeader)
        try:
            self._catalogue = load_catalogue(head, lambda name: store.get(name, bytes))
            if header is not None:
                common = load_common(header, self._catalogue, lambda name: store.get(name, bytes))
                self._model = LocalModel(header, common, self._catalogue, kinds=self._kinds)
                self._staged = self._load_staged(self._model)
        except (StoreDamaged, BrokenModel, MalformedMessage) as error:
            self._catalogue = ItemList()
            for name in ("held", "catalogue"):
                store.set_block_aside(name, f"the release cannot be used ({error})")

    def _load_staged(self, full: LocalModel) -> LocalModel | None:
        """The staged release beside the full one; where a part is missing there is none."""
        header = self._store.get(f"{STAGED}held", ReleaseHeader)
        if header is None or read_entry(header.entry).before != entry_digest(full.entry):
            return None
        try:
            common = load_common(
                header, self._catalogue, lambda name: self._store.get(STAGED + name, bytes)
            )
        except (StoreDamaged, BrokenModel) as error:
            self._store.set_block_aside(f"{STAGED}held", f"it cannot be used ({error})")
            return None
        return LocalModel(header, common, self._catalogue, full.ids, self._kinds)

    def _in_use(self) -> LocalModel | None:
        """What is recommended from: a staged release only while the user lets it be measured."""
        staged = self._staged is not None and consents.may_measure(self._consents)
        return self._staged if staged else self._model

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
            self._hear_withdrawal()
            return DeviceContents(
                tuple(self._interactions.interactions),
                self._consents,
                self._credentials,
                self._entries,
                len(self._outbox),
                self._in_use(),
                self._personal,
                self._trained,
                self._dropped,
                self._hidden,
                self._set_aside,
                self._ledger_lost,
                self._attributes,
            )

    def snapshot(self) -> RoundSnapshot:
        """What a round needs, as it is now; what the retention does not allow is gone first."""
        with self._lock:
            self._expire()
            model, interactions = self._model, tuple(self._interactions.interactions)
            return RoundSnapshot(
                at=self._clock(),
                consented=self._may_train(),
                consented_at=self._consents[-1].at if self._consents else 0.0,
                fetching=self._may_fetch(),
                recorded=len(interactions),
                credentials=self._credentials,
                entries=self._entries,
                ledger_lost=self._ledger_lost,
                healed_at=self._healed.at,
                remembered=self._healed.authority,
                wait=self._wait,
                outbox=tuple(one for one in self._outbox if not one[0].startswith(_ANSWER)),
                model=model,
                release_version=_version(model),
                catalogue=self._catalogue,
                trained=self._trained,
                read_history=lambda: _history(model, interactions),
                staged=b"" if self._staged is None else self._staged.entry,
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
                self._staged = None if self._staged is None else self._staged.anew()
            self._expire()

    def _expire(self) -> None:
        """Forget what the retention does not allow any more."""
        now = self._clock()
        if self._interactions.due(self._retention, now):
            self._forget(*self._interactions.allowed(self._retention, now))

    def _forget(
        self,
        left: InteractionLog,
        gone: Sequence[int],
        *,
        by_the_user: bool = False,
        everything: bool = False,
    ) -> None:
        """Only these interactions are left, and of D the rows that they need.

        Where it is the user's word, nothing that was made of the others is sent any more, either.
        """
        model = None if self._model is None else self._model.anew()
        trained = self._trained
        if model is not None and trained is not None:
            trained = keep_rows(trained, model.history(left.interactions).rows)
        items = {one.item for one in left.interactions}
        personal = {item: part for item, part in self._personal.items() if item in items}
        blocks: dict[str, object] = {"personal": personal}
        if trained is not None:
            blocks["trained"] = pack_trained(trained)
        if by_the_user:  # sums cannot be taken apart: those that know of the others go too
            blocks["gains"] = Gains().adopted(left.newest_number)
        if everything:
            blocks["hidden"] = []
        self._store.forget_interactions(gone, blocks, updates=by_the_user, aside=everything)
        self._interactions, self._model = left, model
        self._staged = None if self._staged is None else self._staged.anew()
        self._personal, self._trained = personal, trained
        if by_the_user:
            self._outbox = ()
            self._gains = Gains().adopted(left.newest_number)
        if everything:
            self._hidden = {}
            self._set_aside = tuple(self._store.set_aside())

    def remove(self, what: str | Interaction) -> int:
        """Forget one interaction, or all with an item; how many there were."""
        with self._lock:
            left, gone = self._interactions.without(what)
            if gone:
                self._forget(left, gone, by_the_user=True)
            return len(gone)

    def clear_history(self) -> int:
        """Forget all interactions and what was hidden; how many interactions there were."""
        with self._lock:
            left, gone = InteractionLog(()), self._interactions.numbers()
            self._forget(left, gone, by_the_user=True, everything=True)
            return len(gone)

    def take_over(self, moved: Moved) -> int:
        """Add what another device of the same person had; how many interactions were new."""
        with self._lock:
            here = set(self._interactions.interactions)
            fresh = list(dict.fromkeys(one for one in moved.interactions if one not in here))
            known = {(one.step, one.round) for one in self._entries}  # a question has step 0
            spent = [one for one in moved.entries if (one.step, one.round) not in known]
            if spent:  # first: a crash in between leaves too much charged, and not too little
                entries = (*self._entries, *spent)
                self._store.put(LEDGER, entries)
                self._entries = entries
            self.hide(moved.hidden)
            self.record(fresh)
            return len(fresh)

    def hide(self, items: Iterable[str]) -> None:
        """Never recommend these, until told otherwise."""
        with self._lock:
            hidden = {**dict.fromkeys(items), **self._hidden}
            if len(hidden) > MOST_HIDDEN:
                raise InvalidArgument(f"item: at most {MOST_HIDDEN} items can be hidden")
            self._keep_hidden(hidden)

    def unhide(self, item: str) -> bool:
        """Recommend it again; False when it was not hidden."""
        with self._lock:
            if item not in self._hidden:
                return False
            self._keep_hidden({one: None for one in self._hidden if one != item})
            return True

    def _keep_hidden(self, hidden: dict[str, None]) -> None:
        if hidden.keys() != self._hidden.keys():
            self._store.put("hidden", list(hidden))
            self._hidden = hidden

    def keep_consent(self, consent: Consent) -> None:
        """Add to the consent log; a withdrawal empties the outbox in the same transaction."""
        with self._lock:
            self._keep_consent(consent)
            self._store.clear_withdrawn()  # this answer is newer

    def _keep_consent(self, consent: Consent) -> None:
        answers = (*self._consents, consent)
        if consent.train and (consent.measure or not self.pending_answers()):
            self._store.put("consents", answers)
        else:
            self._store.withdraw({"consents": answers})
            self._outbox = ()
        self._consents = answers

    def consented(self) -> bool:
        """Has the user agreed to train, and not taken it back?"""
        with self._lock:
            return self._may_train()

    def may_measure(self) -> bool:
        """Has the user agreed that this device answers questions, and not taken it back?"""
        with self._lock:
            self._hear_withdrawal()
            return consents.may_measure(self._consents)

    def fetching(self) -> bool | None:
        """Has the user agreed that releases are fetched? None when never asked."""
        with self._lock:
            return self._may_fetch()

    def _may_train(self) -> bool:
        self._hear_withdrawal()
        return consents.may_train(self._consents)

    def _may_fetch(self) -> bool | None:
        self._hear_withdrawal()
        return consents.may_fetch(self._consents)

    def _hear_withdrawal(self) -> None:
        """Another process took the consent back: it holds from now on, also if the disk is full."""
        if not self._store.is_withdrawn():
            return
        answer = consents.refusal("taken back by another process", self._clock())
        self._consents = (*self._consents, answer)
        self._store.withdraw({"consents": self._consents})
        self._outbox = ()
        self._store.clear_withdrawn()

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

    def keep_wait(self, wait: Wait) -> None:
        """What the coordinator said, for this process and the next."""
        with self._lock:
            self._store.put("wait", wait)
            self._wait = wait

    def forget_credentials(self) -> None:
        """The coordinator does not know this device: its updates go, history and ledger stay."""
        with self._lock:
            known = self._credentials
            authority = self._healed.authority if known is None else known.authority
            healed = Healed(self._clock(), authority)
            self._store.withdraw({"credentials": None, "enrolling": b"", "healed": healed})
            self._credentials, self._healed, self._outbox = None, healed, ()

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
            if not self._may_train():
                return False
            entries = (*self._entries, prepared.entry)
            interactions = self._interactions.interactions
            personal: dict[str, float] = {}
            trained = prepared.trained
            if self._model is not None:  # what was forgotten during the round does not come back
                trained = keep_rows(trained, self._model.history(interactions).rows)
                personal = self._model.personal(interactions, trained)
            blocks: dict[str, object] = {LEDGER: entries, "personal": personal}
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
            model = LocalModel(head_of(message), common, catalogue, known, self._kinds)
        except MalformedMessage as error:
            raise BrokenModel("a catalogue that is not a list of ids") from error
        with self._lock:
            if _version(self._model) != _version(before) or self._catalogue is not base.catalogue:
                return
            blocks = kept_blocks(message, common)
            gains = self._gains.adopted(self._interactions.newest_number)
            blocks["gains"] = gains
            if known is None:
                blocks |= catalogue_blocks(catalogue)
            if self._staged is not None:  # promoted or taken back: either way it is over
                blocks |= dict.fromkeys(staged_names(self._staged.common))
            self._store.put_all(blocks)
            self._model, self._catalogue, self._gains = model, catalogue, gains
            self._staged = None

    def staged_version(self) -> int | None:
        """The version of the staged release that is held beside the full one, if any."""
        with self._lock:
            return _version(self._staged)

    def adopt_staged(self, base: RoundSnapshot, message: Release) -> None:
        """Use a staged release beside the full one of `base`, if that is still held.

        Raises:
            BrokenModel: it is damaged, hostile, or not of the same items as the full one.
        """
        full = self._model
        if full is None or _version(full) != base.release_version:
            return
        if message.size != full.common.size:
            raise BrokenModel("a staged release of other items than the full one")
        common = read_release(message, None, base.catalogue)
        staged = LocalModel(head_of(message), common, base.catalogue, full.ids, self._kinds)
        with self._lock:
            if _version(self._model) != base.release_version:
                return
            gains = self._gains.adopted(self._interactions.newest_number)
            kept = kept_blocks(message, common)
            blocks = {STAGED + name: block for name, block in kept.items()}
            self._store.put_all({**blocks, "gains": gains})
            self._staged, self._gains = staged, gains

    def measure(self) -> None:
        """Look at the interactions that were not looked at yet, if the user agreed to that.

        The lock is not held meanwhile; what was forgotten or adopted by then wins.
        """
        with self._lock:
            if self._model is None or not self.may_measure():
                return
            full, model = self._model, self._in_use() or self._model
            gains, trained = self._gains, self._trained
            numbered = self._interactions.numbered()
        beside = None if model is full else full
        found = measured(gains, model, numbered, trained, beside)
        with self._lock:
            if found is gains or self._gains is not gains or self._model is not full:
                return
            self._store.put("gains", found)
            self._gains = found

    def answer(self, question: Question) -> Vector:
        """What this device has to say; zeros where that is nothing."""
        with self._lock:
            model, gains, trained = self._model, self._gains, self._trained
            numbered = self._interactions.numbered()
        layout, variants = layout_of(question), variants_of(question)
        group = int(layout.groups > 1 and len(numbered) > question.light)
        if question.trial is not OFF:
            lead = gains.pair(question.releases[0]).mean
            return layout.vector([None if lead is None else (lead,)], group)
        if question.lists is not OFF:
            return layout.vector([self._list_now(question, question.lists)], group)
        if not variants:
            lines = [gains.of(one).means(question.metric) for one in question.releases]
            return layout.vector([one and one[: 1 + layout.compared] for one in lines], group)
        if model is None or [model.common.version] != question.releases:
            return layout.vector([None], group)
        means = variant_gains(gains, model, numbered, trained, variants, question.metric)
        return layout.vector([means], group)

    def _list_now(self, question: Question, buckets: int) -> list[float] | None:
        """How popular the first of this device's list are, and which buckets they fall into."""
        known = self.contents()
        if known.model is None or [known.model.common.version] != question.releases:
            return None
        wish = Wish(LONGEST, hidden=known.hidden)
        found = known.model.recommend(known.interactions, known.trained, wish)
        items = [one.item for one in found]
        if not items or not known.model.step > 0:
            return None
        shares = shares_of(items, question.question, buckets)
        return [known.model.popular_share(items), *shares.tolist()]

    def pending_answers(self) -> Sequence[tuple[bytes, bytes]]:
        """Answers that were prepared and not yet received: (question, bytes)."""
        with self._lock:
            found = [one for one in self._outbox if one[0].startswith(_ANSWER)]
            return [(name.removeprefix(_ANSWER), body) for name, body in found]

    def commit_answer(self, question: bytes, body: bytes, entry: Entry) -> bool:
        """The ledger's entry and the outgoing bytes at once; False without consent."""
        with self._lock:
            if not self.may_measure():
                return False
            entries, name = (*self._entries, entry), _ANSWER + question
            self._store.commit_round(name, body, {LEDGER: entries})
            self._entries, self._outbox = entries, (*self._outbox, (name, body))
            return True

    def forget_answer(self, question: bytes) -> None:
        """An answer that was received, or refused for good."""
        self.forget_outgoing(_ANSWER + question)

    def attributes(self) -> ItemAttributes:
        """The public attributes of the items that are held."""
        with self._lock:
            return self._attributes

    def adopt_attributes(self, head: AttributesHead, pages: Sequence[bytes]) -> None:
        """Use these public attributes from now on."""
        with self._lock:
            self._store.put_all(attribute_blocks(head, pages, self._attributes))
            self._attributes = ItemAttributes(head, pages)


def _history(model: LocalModel | None, interactions: Sequence[Interaction]) -> History:
    if model is None:
        return History(np.zeros(0, dtype=np.int64), np.zeros(0))
    return model.history(interactions).liked()  # what speaks against an item stays here


def _version(model: LocalModel | None) -> int | None:
    return None if model is None else model.common.version
