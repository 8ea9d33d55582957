"""`FedRap`, the class that an app embeds.

Opening it needs no network and starts no thread. Every method may be called from any thread. In a
forked child an open device still belongs to the parent: see background/process.py.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType

from fedrap import arguments
from fedrap.background import process
from fedrap.background.conditions import Conditions
from fedrap.background.process import DeviceProcess
from fedrap.background.scheduler import Pace
from fedrap.recommend.kinds import Kinds
from fedrap.recommend.local_model import Wish
from fedrap.results import (
    Because,
    Erased,
    Exported,
    Interaction,
    Recommendation,
    RoundReport,
    Status,
)
from fedrap.rounds import ledger
from fedrap.rounds.enrolment import Attest
from fedrap.rounds.ledger import Floor
from fedrap.rounds.session import (
    AGGREGATIONS,
    CONSENTED,
    FETCHES,
    SEALED,
    SPLIT,
    Access,
    OnError,
    RoundSession,
    Token,
)
from fedrap.storage.consents import Consent
from fedrap.storage.database import DeviceStore
from fedrap.storage.device_state import DeviceContents, DeviceState
from fedrap.storage.export import write_export
from fedrap.storage.files import PROFILE, leave_withdrawal
from fedrap.storage.history import Retention
from fedrap.storage.moving import read_export
from fedrap.storage.store_key import (
    DefaultKey,
    ErasableKey,
    KeptForProfiles,
    KeyProvider,
    WrappedKey,
)
from fedrap.trainers.select import NAMES as TRAINERS
from fedrap.transport import Transport
from fedrap.transport.address import check_address
from fedrap_core.errors import FedRapError
from fedrap_core.privacy.statement import TRUSTED_PAIR, Statement
from fedrap_core.wire.authority import read_authority


class FedRap:
    """One user's recommender on one device. Make it with `FedRap.open`."""

    def __init__(
        self,
        state: DeviceState,
        access: Access,
        on_error: OnError | None,
        kinds: Kinds,
        *,
        monotonic: Callable[[], float],
        uniform: Callable[[], float],
        attributes: bool = False,
    ) -> None:
        self._state = state
        self._kinds = kinds
        kept = state if attributes else None
        self._session = RoundSession(
            state, access, clock=state.now, attributes=kept, questions=state, uniform=uniform
        )
        self._process = DeviceProcess(
            state, self._session, on_error, monotonic=monotonic, uniform=uniform
        )

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        server: str | None = None,
        allow_http: bool = False,
        app: str = "app",
        profile: str | None = None,
        kinds: Kinds | None = None,
        fetch: str = CONSENTED,
        attributes: bool = False,
        token: Token | None = None,
        authority: bytes | str | None = None,
        aggregation: str = SEALED,
        helper: bytes | str | None = None,
        key: KeyProvider | None = None,
        floor: Floor | None = None,
        retention: Retention | None = None,
        offline: bool = False,
        on_error: OnError | None = None,
        transport: Transport | None = None,
        trainer: str | None = None,
        attest: Attest | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        uniform: Callable[[], float] = random.random,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> FedRap:
        """The recommender of this device, from the folder `path`/`app`, made on first use.

        Args:
            server: address of the coordinator; without it everything works but rounds.
            allow_http: take a server without TLS also where it is another machine.
            profile: whose store, where several people use the device; each has a key of its own.
            kinds: what the app's kinds of interactions count; by default each counts 1, but
                `dislike` counts against an item and `hide` hides it.
            fetch: `consented` fetches releases when the user agreed; `anonymous` also before they
                were asked, which shows the coordinator an address and no device id.
            attributes: fetch what the operator tells everybody of the items, too: titles,
                categories, addresses. Whoever fetches any fetches all of them.
            token: an enrolment token from the app's backend, or a callable that gets one.
            authority: the public key of the task's authority, as `fedrap-coordinator authority`
                prints it; without it the device keeps the one that it first enrols with.
            aggregation: `sealed` sends updates that the coordinator reads while it adds them;
                `split` sends shares for two servers of which none can read them, and refuses
                every coordinator that offers anything else. `split` is experimental.
            helper: with `split`, the identity of the second server, as `fedrap-aggregator status`
                prints it.
            key: gives the 32-byte key of the store; by default the system's keyring keeps it
                where the `keyring` library works, else a file that only its owner reads.
            floor: the least this device insists on, whatever a coordinator offers.
            retention: how much of the history is kept, and how long.
            offline: never open a socket, whatever else is asked for.
            on_error: called, in their thread, with errors that rounds in the background swallow.
            transport: another way to the coordinator than HTTP, for tests and simulations.
            trainer: `numpy`, `onnx` or `torch`; by default what fits (also FEDRAP_TRAINER).
            attest: gives the platform's `Proof` for 32 bytes, where a coordinator asks for one.
            clock: seconds since 1970; times of interactions, certificates and the ledger.
            monotonic: seconds that never go back; bounds how long `close` may take.
            uniform: a number in [0, 1); spreads devices that try again.
            random_bytes: so many bytes that nobody can guess; the store's key and nonces.

        Raises:
            StoreBusy, StoreLocked, StoreDamaged: the store cannot be used; nothing was changed.
            InvalidArgument: an argument is something else than it should be, such as a `server`
                that has no TLS and leads to another machine; nothing was touched.
        """
        folder = store_folder(path, app, profile)
        arguments.flag("allow_http", allow_http)
        arguments.flag("offline", offline)
        arguments.flag("attributes", attributes)
        arguments.one_of("fetch", fetch, FETCHES, arguments.FETCH)
        if trainer is not None:
            arguments.one_of("trainer", trainer, TRAINERS, arguments.TRAINER)
        if not isinstance(token, str | None) and not callable(token):
            raise arguments.wrong("token", arguments.TOKEN)
        arguments.function("key", key)
        arguments.function("on_error", on_error)
        arguments.function("attest", attest)
        for name, source in (
            ("clock", clock),
            ("monotonic", monotonic),
            ("uniform", uniform),
            ("random_bytes", random_bytes),
        ):
            if not callable(source):
                raise arguments.wrong(name, arguments.CALLABLE)
        arguments.instance("floor", floor, Floor)
        arguments.instance("retention", retention, Retention)
        meaning = arguments.instance("kinds", kinds, Kinds) or Kinds.any_word()
        try:
            pinned = None if authority is None else read_authority(authority)
        except (TypeError, AttributeError, ValueError, FedRapError) as error:
            raise arguments.wrong("authority", arguments.AUTHORITY) from error
        second = _pinned_helper(aggregation, helper)
        if server is not None:
            check_address(server, allow_http=allow_http)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        own_key = key or DefaultKey(folder, random_bytes)
        if key is not None and profile is not None:
            own_key = WrappedKey(folder, key, random_bytes)
        elif isinstance(key, ErasableKey):
            own_key = KeptForProfiles(folder, key)
        store = DeviceStore(folder, own_key, random_bytes)
        try:
            state = DeviceState(store, clock, retention, meaning)
        except BaseException:
            store.close()
            raise
        access = Access(
            server,
            token,
            transport,
            offline,
            floor or Floor(),
            trainer,
            attest,
            allow_http=allow_http,
            authority=pinned,
            fetch=fetch,
            helper=second,
        )
        return cls(
            state,
            access,
            on_error,
            meaning,
            monotonic=monotonic,
            uniform=uniform,
            attributes=attributes,
        )

    @staticmethod
    def withdraw(path: str | Path, *, app: str = "app", profile: str | None = None) -> None:
        """Take every consent back, also while another process has this store open.

        That process stops before its next request; it does not have to be asked, and neither the
        store's key nor its lock is needed. An answer that is given afterwards counts.
        """
        leave_withdrawal(store_folder(path, app, profile))

    def __enter__(self) -> FedRap:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> FedRap:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Give the store back within 2 seconds, also in the middle of a round in the background.

        A second call does nothing; every other call raises StoreClosed from now on.
        """
        self._process.close_within(process.CLOSE_SECONDS)

    def consent(
        self,
        *,
        policy: str,
        recommend: bool | None = None,
        train: bool | None = None,
        measure: bool | None = None,
    ) -> None:
        """Keep what the user agreed to; until then nothing ever leaves the device.

        Args:
            policy: the name of the text that the user saw.
            recommend: releases may be fetched, so that there is something to recommend from. Where
                it is not said, what `train` says.
            train: this device may join rounds. Where it is not said, it may not.
            measure: this device may answer questions about how good its lists were, summed up with
                those of others and noised. Where it is not said, it may not.

        Raises:
            InvalidArgument: an answer that is no bool, none at all, to train without fetching, or
                to measure without training.
        """
        fetches, trains, measures = arguments.answer(recommend, train, measure)
        arguments.text("policy", policy, 200, arguments.POLICY)
        self._state.keep_consent(Consent(trains, policy, self._state.now(), fetches, measures))
        self._process.wake()

    def record(
        self, item: str, *, kind: str = "view", weight: float = 1.0, at: float | None = None
    ) -> None:
        """Keep one interaction, on this device only; durable when this returns.

        A kind that counts against items makes this one and its neighbours score lower; a kind that
        hides is `hide(item)`.

        Raises:
            InvalidArgument: no item id, a kind that the app does not name, a weight that is not
                above 0, or a time that is none.
        """
        one = Interaction(item, kind, weight, at)  # type: ignore[arg-type]
        self._keep([arguments.interaction(one)])

    def record_many(self, interactions: Iterable[Interaction]) -> int:
        """Keep many interactions, all or none, in the order of their times. Returns how many.

        Raises:
            InvalidArgument: one of them is not valid; nothing was kept.
        """
        checked = arguments.interactions("interactions", interactions)
        self._keep(checked)
        return len(checked)

    def _keep(self, interactions: list[Interaction]) -> None:
        for one in interactions:
            self._kinds.check(one.kind)
        hidden = [one.item for one in interactions if self._kinds.hides(one.kind)]
        if hidden:
            self._state.hide(hidden)
            interactions = [one for one in interactions if not self._kinds.hides(one.kind)]
        self._state.record(interactions)

    def hide(self, item: str) -> None:
        """Never recommend this item again, until `unhide`; the history stays as it is."""
        self._state.hide([arguments.item("item", item)])

    def unhide(self, item: str) -> bool:
        """Recommend this item again; False when it was not hidden."""
        return self._state.unhide(arguments.item("item", item))

    def hidden(self) -> list[str]:
        """The items that were hidden."""
        return list(self._state.contents().hidden)

    def remove(self, what: str | Interaction) -> int:
        """Take back one interaction, or all with an item; returns how many there were.

        Recommendations follow at once, the rows of D that only they needed are gone, and so are
        updates that were still to be sent. What earlier rounds summed up cannot be taken back.
        """
        if isinstance(what, Interaction):
            what = arguments.interaction(what, "what ")
        else:
            arguments.item("what", what)
        return self._state.remove(what)

    def history(self) -> Iterator[Interaction]:
        """What this device keeps, oldest first; what is hidden is not part of it."""
        return iter(self._state.contents().interactions)

    def clear_history(self) -> int:
        """Take back everything that was recorded or hidden; returns how many interactions."""
        return self._state.clear_history()

    def recommend(
        self,
        n: int = 10,
        *,
        filter_seen: bool = True,
        candidates: Collection[str] | None = None,
        exclude: Collection[str] = (),
        filter: Callable[[str], object] | Mapping[str, str | Collection[str]] | None = None,
        diversity: float = 0.0,
        boost: Mapping[str, float] | None = None,
        explain: bool = False,
    ) -> list[Recommendation]:
        """The n best items for this user, best first. Offline; needs one earlier sync.

        Args:
            filter_seen: leave out items of the user's own history.
            candidates: only these items; those that the catalogue does not have are ignored.
            exclude: none of these.
            filter: a callable, asked with the id of the best items, in their order, until n may
                stay; or attributes with the value, or the values, that they may have, as in
                `{"category": "books", "language": ["de", "en"]}`. An item without an attribute
                has the value "".
            diversity: 0 ranks by score alone; towards 1 each item is to be less like those above.
            boost: what the moment adds to the scores of some items: season, place, stock.
            explain: fill `reasons`.
        """
        count = arguments.count("n", n)
        known = self._state.contents()
        wish = Wish(
            count,
            None if candidates is None else arguments.items("candidates", candidates),
            arguments.items("exclude", exclude),
            known.hidden,
            arguments.flag("filter_seen", filter_seen),
            diversity=arguments.number("diversity", diversity, 0.0, 1.0, arguments.SHARE),
            boost={} if boost is None else arguments.numbers_of("boost", boost),
            reasons=arguments.flag("explain", explain),
        )
        if filter is not None:
            test = arguments.attribute_test("filter", filter)
            if isinstance(test, Mapping):
                wish = replace(wish, passing=partial(known.attributes.passing, test))
            else:
                wish = replace(wish, test=test)
        if known.model is None or count <= 0:
            return []
        return known.model.recommend(known.interactions, known.trained, wish)

    def because(self, item: str) -> Because:
        """Which items of the user's own history speak for this one, in words for the user.

        Items have the names that their public attribute `title` gives them, where there is one.
        """
        arguments.item("item", item)
        known = self._state.contents()
        if known.model is None:
            return Because(())
        reasons = known.model.reasons(known.interactions, known.trained, item)
        liked = tuple(one for one in reasons if one.shared + one.personal > 0)
        titled = ((one.item, _attributes(known, one.item).get("title")) for one in liked)
        titles = {name: title for name, title in titled if title is not None}
        return Because(liked, titles, known.model.trend(item))

    def attributes(self, item: str) -> dict[str, str]:
        """What the operator tells everybody of this item, such as its title; offline.

        Empty where nothing is told, and on a device that was not opened with `attributes=True`.
        """
        return _attributes(self._state.contents(), arguments.item("item", item))

    def popular(self, n: int = 10) -> list[str]:
        """The first n items of the catalogue, which operators list with the most popular first.

        What is hidden or retired is left out. The same for every user, and offline.
        """
        count, known = arguments.count("n", n), self._state.contents()
        if known.model is None or count <= 0:
            return []
        return known.model.popular(count, lambda item: item not in known.hidden)

    def trending(self, n: int = 10) -> list[str]:
        """The n items that most devices touched lately, by the noised sums of rounds; offline.

        The same for every user, without what is hidden or retired. Empty where the task has no
        trend, where rounds said too little yet, and where noise drowns it.
        """
        count, known = arguments.count("n", n), self._state.contents()
        if known.model is None or count <= 0:
            return []
        return known.model.trending(count, known.hidden)

    def similar_items(self, item: str, n: int = 10) -> list[tuple[str, float]]:
        """The n items most like `item` in what everybody taught C, with their cosine. Offline."""
        arguments.item("item", item)
        count, model = arguments.count("n", n), self._state.contents().model
        return [] if model is None or count <= 0 else model.similar(item, count)

    def sync(self) -> None:
        """Fetch the latest catalogue and C; see `sync_async`."""
        process.run_blocking("sync", self.sync_async)

    async def sync_async(self) -> None:
        """Fetch the latest catalogue and C, if the user lets it be fetched.

        Raises:
            CoordinatorUnreachable, UpdateRefused, BrokenModel, AnotherAuthority, SignatureInvalid,
            ForkedLog: the old ones stay in use.
        """
        await self._session.sync()

    def run_round(self, wait: float = 0.0) -> RoundReport:
        """Join a round if there is one for this device; see `run_round_async`."""
        return process.run_blocking("run_round", partial(self.run_round_async, wait))

    async def run_round_async(self, wait: float = 0.0) -> RoundReport:
        """Join a round if there is one for this device. Never raises for network reasons.

        `wait`: where there is no slot now, wait up to so many seconds for one (60 at the most).
        """
        seconds = arguments.seconds("wait", wait)
        return await self._session.run_round(self._process.swallow, seconds)

    def answer_questions(self) -> int:
        """Answer the coordinator's questions about quality; see `answer_questions_async`."""
        return process.run_blocking("answer_questions", self.answer_questions_async)

    async def answer_questions_async(self) -> int:
        """Answer the coordinator's questions about quality; how many were answered now.

        Each is answered once, at a moment of its time that only this device knows, and only if the
        user agreed to `measure`. In the background this happens by itself. Never raises for network
        reasons.
        """
        return await self._session.answer_questions(self._process.swallow)

    def start(self, *, conditions: Conditions | None = None, pace: Pace | None = None) -> None:
        """Run rounds in the background from now on; a second call does nothing.

        Args:
            conditions: what must hold: by default charging, unmetered, idle, battery left.
            pace: how often to try, between the wishes of the coordinator.
        """
        arguments.instance("conditions", conditions, Conditions)
        arguments.instance("pace", pace, Pace)
        self._process.start(conditions or Conditions(), pace or Pace())

    def stop(self) -> None:
        """Run no more rounds in the background; one in flight ends, and is resumed another time."""
        self._process.stop()

    def status(self) -> Status:
        """Where this device stands."""
        return self._status(self._state.contents())

    def _status(self, known: DeviceContents) -> Status:
        choice, model = self._session.choice, known.model
        return Status(
            consented=known.consented,
            fetching=known.fetching,
            enrolled=known.credentials is not None,
            interactions=len(known.interactions),
            personal_items=len(known.personal),
            release=None if model is None else model.common.version,
            rounds=len(ledger.charged_steps(known.entries)),
            epsilon=ledger.epsilon(known.entries),
            measuring=known.measuring,
            answers=len(ledger.answers(known.entries)),
            answers_epsilon=ledger.epsilon(ledger.answers(known.entries)),
            pending=known.pending,
            dropped=known.dropped,
            trainer=None if choice is None else choice.name,
            trainer_reason=None if choice is None else choice.reason,
            blocked_by=self._process.blocked_by(),
            privacy=self._guarantee(known),
            hidden=len(known.hidden),
            set_aside=tuple(known.set_aside),
            aggregation=SEALED if self._session.helper is None else SPLIT,
            helper=None if self._session.helper is None else self._session.helper.hex(),
            experimental=self._session.helper is not None,
        )

    def _guarantee(self, known: DeviceContents) -> Statement | None:
        """Of the last round's policy, with those who are trusted in this way of aggregation."""
        stated = ledger.privacy_guarantee(known.entries)
        if stated is None or self._session.helper is None:
            return stated
        return replace(stated, trusted=TRUSTED_PAIR)

    def export(self, path: str | Path, *, passphrase: str | None = None) -> Exported:
        """Write the user's own data as a zip of readable JSON, without any key.

        With a passphrase the file is sealed, and nobody without it can read it.
        """
        file = arguments.path("path", path)
        if passphrase is not None:
            arguments.text("passphrase", passphrase, 1000, arguments.PASSPHRASE, least=8)
        known = self._state.contents()
        return write_export(file, known, self._status(known), passphrase)

    def import_export(self, path: str | Path, *, passphrase: str | None = None) -> int:
        """Take over the history of another device, from a file of its `export`.

        What is here stays, and what is in both is kept once. The ledger comes too: what was spent
        was spent by the same person. Consent does not: every device asks its own user. Returns how
        many interactions were new.

        Raises:
            BrokenExport: the file is no export, or needs another passphrase; nothing was changed.
            OSError: it cannot be read.
        """
        file = arguments.path("path", path)
        if passphrase is not None:
            arguments.text("passphrase", passphrase, 1000, arguments.PASSPHRASE, least=8)
        return self._state.take_over(read_export(file, passphrase))

    def erase(self) -> Erased:
        """Delete everything, here and at the coordinator; see `erase_async`."""
        return process.run_blocking("erase", self.erase_async)

    async def erase_async(self) -> Erased:
        """Delete store and key, ask the coordinator to forget this device, and close.

        Works offline too; the receipt says whether the coordinator confirmed.

        Raises:
            StoreDamaged: a file could not be deleted; it is named, and the rest is gone.
        """
        self._state.check_usable()
        await asyncio.to_thread(self.stop)
        try:
            reason = await self._session.forget()
        finally:  # whatever a transport does, the store goes
            deleted = self._state.erase()
        return Erased(deleted, reason is None, reason)


def _attributes(known: DeviceContents, item: str) -> dict[str, str]:
    row = None if known.model is None else known.model.ids.row(item)
    return {} if row is None else known.attributes.of(row)


def store_folder(path: object, app: object, profile: object) -> Path:
    """Where a store is. The name of a profile neither chooses a path nor can be read from one."""
    folder = arguments.path("path", path).absolute() / arguments.folder_name("app", app)
    if profile is None:
        return folder
    name = arguments.text("profile", profile, 200, arguments.PROFILE)
    return folder / f"{PROFILE}{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _pinned_helper(aggregation: str, helper: bytes | str | None) -> bytes | None:
    """The point of the second server, where an app demands one; raises like `open`."""
    if aggregation not in AGGREGATIONS or (aggregation == SPLIT) != (helper is not None):
        raise arguments.wrong("aggregation", arguments.AGGREGATION)
    try:
        return None if helper is None else read_authority(helper)
    except (TypeError, AttributeError, ValueError, FedRapError) as error:
        raise arguments.wrong("helper", arguments.HELPER) from error
