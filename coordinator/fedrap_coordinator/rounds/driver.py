"""Rounds from one to the next: open, end, sum, release. The only owner of round state.

The database has the truth; what is here is a view of it. Every process may be the one that steps:
whoever finds that something is due takes the store's lock, looks again, and does it. Each change is
conditional, so that nothing is done twice, not even by a process that lost the lock unawares.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
from collections.abc import Awaitable, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from fedrap_coordinator.domain.fault_points import Reached, pass_by
from fedrap_coordinator.domain.over_selection import SlotPacing
from fedrap_coordinator.domain.policy import differences, in_words, read_policy
from fedrap_coordinator.domain.records import Attribute, AuditEntry, DeviceStates, Extent
from fedrap_coordinator.domain.retry_hints import REMEMBERED, RoundTiming
from fedrap_coordinator.domain.rollouts import NEXT, VERSION, Rollout
from fedrap_coordinator.domain.rounds import Phase, Round, RoundCounts
from fedrap_coordinator.errors import (
    AlreadyReleased,
    ConfigError,
    HelperAway,
    HelperRefused,
    StoreGone,
)
from fedrap_coordinator.keyring import Keyring, RoundKeys
from fedrap_coordinator.rounds.aggregation import HELPER_SECONDS, Aggregator
from fedrap_coordinator.rounds.releases import (
    Model,
    check_settings,
    first_model,
    grown_model,
    is_stale,
    load_model,
    next_model,
    plan_after,
    publish,
    rescored_model,
    unscaled,
    with_state,
    without_state,
)
from fedrap_coordinator.rounds.rollouts import due_release, is_due
from fedrap_coordinator.settings import Adopted, Settings, adopted_settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.errors import BrokenModel
from fedrap_core.plan import Plan, Scoring
from fedrap_core.privacy.mechanisms import NO_SETS
from fedrap_core.solve.server_step import RoundSum
from fedrap_core.wire.authority import is_signed_by, read_entry
from fedrap_core.wire.codec import decode_value, encode_value
from fedrap_core.wire.keys import public_point
from fedrap_core.wire.messages import MOST_ENTRIES, Offer

log = logging.getLogger(__name__)
TICK_SECONDS = 0.5  # rounds end by the clock too, not only when an update comes
ITEM_SECONDS = 10.0  # between two looks for items that no release has yet
HELPER_RETRY_SECONDS = 5.0  # between two tries where the helper is away
PATIENCE = 2.0  # seconds that a request waits for a round that is being summed


class Learn(Protocol):
    """The step from one release to the next: `releases.next_model`, or what a test puts there."""

    def __call__(
        self,
        task: bytes,
        model: Model,
        total: RoundSum,
        extent: Extent,
        settings: Settings,
        clip: float,
        attributes: Sequence[Attribute],
        at: float,
        /,
    ) -> Model:
        """The version after `model`, of a round opened `at`.

        Raises BrokenModel when the sum gives no usable C.
        """
        ...


class RoundDriver:
    """Drives the rounds of one task. Others read its attributes, and only it writes them."""

    task: bytes  # the id of the task; known after `start`
    started: bool
    model: Model | None  # the latest release
    successor: Model | None  # what rounds learn instead, while the latest release serves
    round: Round | None  # the open one, as a value
    plan: Plan  # of the open round, or of the next
    due: asyncio.Event  # set when something may have to be done before the next tick
    changed: asyncio.Event  # of now; it is set, and another follows it, at changes
    rollout: Rollout | None  # the one that goes on, as last seen
    helper_trouble: str  # why the helper of private aggregation does not serve; empty: it does

    def __init__(
        self,
        store: Store,
        keyring: Keyring,
        settings: Settings,
        aggregator: Aggregator,
        sources: Sources,
        *,
        learn: Learn = next_model,
        reached: Reached = pass_by,
    ) -> None:
        self.task, self.model, self.round, self.rollout = b"", None, None, None
        self.successor = None
        self.started = False
        self.due, self.changed = asyncio.Event(), asyncio.Event()
        self._store = store
        self._keyring = keyring
        self._settings = settings
        self._aggregator = aggregator
        self._sources = sources
        self._learn = learn
        self._reached = reached
        self._turn = asyncio.Lock()
        self._keys = RoundKeys(keyring, settings.sealing.rotate_hours, sources.clock, reached)
        self._pacing, self._told_slots = SlotPacing(), 0
        self._next_look = -math.inf  # for items that no release has yet
        self.helper_trouble, self._helper_again = "", -math.inf
        self._timing = RoundTiming(settings.round, sources.clock, sources.monotonic)
        self._follow(settings.plan())

    def _follow(self, plan: Plan) -> None:
        """The rules from now on; the minimum that a plan told its devices holds."""
        self.plan, self.limits = plan, self._settings.round.with_at_least(plan.min_updates)

    @property
    def slots(self) -> int:
        """How many devices may have a slot in the open round by now."""
        return self._pacing.slots(
            self.round, self.limits, self._sources.monotonic(), self.paced_age
        )

    @property
    def paced_age(self) -> float | None:
        """Seconds since the open round was opened, where its slots come evenly; else None."""
        if self.round is None or self.plan.privacy.rest <= 0:
            return None
        return self._timing.now(self.round) - self.round.opened_at

    @property
    def settings(self) -> Settings:
        """Under the policy in force."""
        return self._settings

    @property
    def expected(self) -> float:
        """How long a round takes, in seconds."""
        return self._timing.expected

    @property
    def is_over(self) -> bool:
        """The budget of rounds is spent; no settings but `total` open another one."""
        learnt = self.learns_from
        return learnt is not None and learnt.stored.step >= self._settings.round.total

    @property
    def learns_from(self) -> Model | None:
        """What the open round, or the next one, is learnt from."""
        return self.successor or self.model

    def now(self, round_: Round) -> float:
        """Wall time as the open round has it: see `RoundTiming.now`."""
        return self._timing.now(round_)

    def device_states(self, step: int, now: float) -> Awaitable[DeviceStates]:
        """How many devices could take part in `step`, and why the others could not."""
        return self._store.device_states(step, self.plan.privacy, now)

    def see(self, round_id: bytes, counts: RoundCounts) -> None:
        """What a transaction found the round to be; counts only grow."""
        round_ = self.round
        if round_ is None or round_.id != round_id or counts.phase is None:
            return
        self._pacing.see(round_, self._sources.monotonic())
        if counts.assigned <= round_.assigned and counts.accepted <= round_.accepted:
            return  # a batch says the same to all that are in it
        self.round = replace(
            round_,
            assigned=max(round_.assigned, counts.assigned),
            accepted=max(round_.accepted, counts.accepted),
        )
        self._pacing.see(self.round, self._sources.monotonic())
        if counts.accepted > round_.accepted and self.is_due():
            self.due.set()

    async def start(self) -> None:
        """Take up where the store left off: the latest release, and the round that was open.

        Raises:
            ConfigError: nothing was changed.
        """
        self.task = await self._store.task_id(self._sources.token_bytes(16))
        self._timing.remember(await self._store.rounds(REMEMBERED + 1))
        async with self._turn:
            await self._refresh()
            self.rollout = await self._store.rollout()
            await self._load_successor(self.rollout)
            newest = self.learns_from
            if self.model is not None and newest is not None:
                check_settings(self._settings, self.model, await self._next_dim())
                self._check_authority(self.model)
                self._check_steps(newest)
            await self._check_policy()
            if self.model is not None:
                await self._take_up_log(self.model)
            await self._step()
        self.started = True

    async def _next_dim(self) -> int | None:
        """k of the successor that waits, is learnt or is judged, if any."""
        row, other = self.rollout, self.successor
        if row is None or row.successor_dim is not None:
            return None if row is None else row.successor_dim
        if other is None and row.source.startswith(VERSION):
            stored = await self._store.release(int(row.source.removeprefix(VERSION)))
            other = None if stored is None else await asyncio.to_thread(load_model, stored)
        return None if other is None else other.common.dim

    async def _load_successor(self, row: Rollout | None) -> None:
        """What rounds learn from, where that is not the latest release."""
        version = row.version if row is not None and row.is_learnt else None
        if version is None:
            self.successor = None
        elif self.successor is None or self.successor.stored.version != version:
            stored = await self._store.release(version)
            assert stored is not None  # nothing is dropped while it goes on
            self.successor = await asyncio.to_thread(load_model, stored)

    async def _check_policy(self) -> None:
        """A task keeps its policy until somebody changes it; settings alone do not.

        Raises:
            ConfigError: the settings have another one.
        """
        raw = await self._store.policy(self._settings.policy().encoded())
        assert raw is not None
        in_force = read_policy(raw)
        other = differences(in_force, self._settings.policy())
        if other:
            raise ConfigError(
                f"these settings are not the policy in force: they change {in_words(other)}. Set "
                "them back, or take that step with `fedrap-coordinator policy change`, which says "
                "what it does to devices"
            )

    async def _follow_policy(self) -> None:
        """Take up a policy that was changed while this process serves."""
        raw = await self._store.policy()
        if raw is None or raw == self._settings.policy().encoded():
            return
        other = differences(self._settings.policy(), in_force := read_policy(raw))
        if other:
            log.warning("the policy was changed", extra={"changes": in_words(other)})
            self._settings = self._settings.under(in_force)

    def _check_authority(self, model: Model) -> None:
        """Other keys would sign what no device of this task trusts, and draw noise anew.

        Raises:
            ConfigError: the keys are not those that signed the release in this database.
        """
        entry = model.message.entry
        point = public_point(self._keyring.authority.public_key())
        if entry and not is_signed_by(point, entry):
            raise ConfigError(
                f"the keys in {self._settings.keys} are not those of this database: they did not "
                f"sign release {model.stored.version}. Put the keys of this task back from their "
                "backup; devices trust no others"
            )

    def _check_steps(self, model: Model) -> None:
        """A database that is older than its keys would publish steps a second time.

        Raises:
            ConfigError: it is, by more than a round that was being released.
        """
        made = self._keyring.last_step(self.task)
        if model.stored.step + 1 < made:
            raise ConfigError(
                f"these keys have made steps up to {made}, and this database ends with step "
                f"{model.stored.step}: a backup came back. Run `fedrap-coordinator releases "
                f"recover`, so that no step is published twice"
            )
        head = self._keyring.last_entry(self.task)
        last = read_entry(head) if head else None
        # An entry is copied after its release was stored, so a head beyond the log is no crash.
        if last is not None and max(self.newest, model.stored.version) < last.version:
            raise ConfigError(
                f"these keys have signed releases up to {last.version}, and this database ends "
                f"with release {model.stored.version}: a backup came back. Run "
                "`fedrap-coordinator releases recover`"
            )

    async def _take_up_log(self, model: Model) -> None:
        """Begin the log where releases were not signed yet, and bring its copy up to date."""
        if not model.message.entry:
            signed = await asyncio.to_thread(publish, model, None, self._keyring.authority, 0.0)
            with contextlib.suppress(AlreadyReleased):  # another process began it
                await self._store.sign_release(signed.stored)
            self.model = None
            await self._refresh()
        head = self._keyring.last_entry(self.task)
        last = read_entry(head).version if head else -1
        while entries := (await self._store.log(last, MOST_ENTRIES))[0]:
            await asyncio.to_thread(self._keyring.keep_entries, self.task, entries)
            last = read_entry(entries[-1]).version

    async def sleep(self) -> None:
        """Put the open round to sleep; another process that still serves wakes it up again."""
        async with self._turn:
            if self.round is not None and self.round.phase is Phase.COLLECTING:
                await self._move(Phase.SHUTDOWN)

    async def advance(self) -> None:
        """Look at the store, and do everything that is due now."""
        async with self._turn:
            await self._refresh()
            await self._follow_rollout()
            await self._publish_items()
            await self._step()
        self._pacing.see(self.round, self._sources.monotonic())
        if self.slots > self._told_slots:  # somebody did not answer: who waits may take its slot
            self._announce()
        self._told_slots = self.slots

    async def publish_items(self) -> None:
        """Look for items that no release has yet, now."""
        self._next_look = -math.inf
        await self.advance()

    async def adopt_scoring(self, scoring: Scoring, entry: AuditEntry) -> None:
        """These scalars are in force from now on.

        Where no round is at work they are published at once, as a release of nothing else; else
        the round's own release brings them.
        """
        own = self._settings.released_scoring()
        assert isinstance(own, Scoring)
        await self._store.adopt(
            msgspec.json.encode(Adopted(instead_of=own, scoring=scoring)), entry
        )
        async with self._turn, self._store.alone() as mine:
            if not mine:
                return
            await self._refresh()
            if self.model is None or not self._may_publish():
                return
            if self.model.message.scoring == scoring:
                return
            model = self.model
            model = with_state(model, await self._store.learner(model.stored.version))
            made = await asyncio.to_thread(rescored_model, model, scoring)
            said = AuditEntry(self._sources.clock(), "coordinator", "publish-scalars", "", "done")
            await self._publish_again(made, model, said)

    async def _publish_items(self) -> None:
        """A release for a catalogue that changed, where no round will make one soon.

        Rounds bring new items with their releases. Where there is none, because the task is over,
        or nobody has a slot in the open one, what everybody knows is published again with rows for
        the new items, under a new version of the same step; it costs no device anything. The same
        where what was touched lately was long ago by now.
        """
        now = self._sources.monotonic()
        if self.model is None or now < self._next_look or not self._may_publish():
            return
        self._next_look = now + ITEM_SECONDS
        if not self._is_outdated(self.model, await self._store.extent()):
            return
        async with self._store.alone() as mine:
            if not mine:
                return
            await self._refresh()
            extent = await self._store.extent()
            if not (self._may_publish() and self._is_outdated(self.model, extent)):
                return
            await self._publish_grown(self.model, extent)

    def _is_outdated(self, model: Model, extent: Extent) -> bool:
        if extent.catalogue > model.message.catalogue:
            return True
        return is_stale(model, self._settings.method, self._sources.clock())

    def _may_publish(self) -> bool:
        """May a release be made without a round? Not while another one is only staged."""
        return self._is_idle() and not (self.rollout is not None and self.rollout.is_staged)

    def _is_idle(self) -> bool:
        """Is no release of a round to be expected, as far as one can tell?"""
        round_ = self.round
        return round_ is None or (round_.phase is Phase.COLLECTING and round_.assigned == 0)

    async def _publish_grown(self, model: Model, extent: Extent) -> None:
        attributes = await self._store.shared_attributes(model.common.size)
        model = with_state(model, await self._store.learner(model.stored.version))
        now, method = self._sources.clock(), self._settings.method
        made = await asyncio.to_thread(grown_model, model, extent, attributes, method, now)
        items = f"{extent.items - model.common.size} new"
        entry = AuditEntry(self._sources.clock(), "coordinator", "publish-items", items, "done")
        await self._publish_again(made, model, entry)

    async def _publish_again(
        self, made: Model, before: Model, entry: AuditEntry, rollout: Rollout | None = None
    ) -> None:
        """A new version of the same step: what everybody knows, and something beside C.

        `rollout` is one that begins or ends with it, as it is then.
        """
        staged = rollout.id if rollout is not None and rollout.is_staged else b""
        made = await asyncio.to_thread(self._published, made, before, self._sources.clock(), staged)
        try:
            await self._store.roll_back(made.stored, entry, rollout=rollout)
        except AlreadyReleased:  # another process was faster
            await self._refresh()
            return
        await self._keep_entry(made)
        if not staged:
            self.model, self.successor = without_state(made), None
        self.rollout = rollout if rollout is not None and staged else None
        self._adopt(None)
        said = {"version": made.stored.version, "items": made.common.size, "why": entry.action}
        log.info("released without a round", extra=said)

    @property
    def newest(self) -> int:
        """The last version of the log, which may be staged; 0 before the first."""
        last = 0 if self.model is None else self.model.stored.version
        return max(last, 0 if self.rollout is None else self.rollout.version or 0)

    async def _follow_rollout(self) -> None:
        """Stage the release of a roll-out that waits, or end one as it was decided."""
        self.rollout = await self._store.rollout()
        dim = self._settings.method.dim
        if self.rollout is None or not is_due(self.rollout, self._is_idle(), dim):
            return
        async with self._store.alone() as mine:
            if not mine:
                return
            await self._refresh()
            row = self.rollout = await self._store.rollout()
            if row is None or self.model is None or not is_due(row, self._is_idle(), dim):
                return
            now = self._sources.clock()
            next_ = await due_release(self._store, row, self.model, self._settings, now)
            if next_ is not None:
                await self._publish_again(next_.made, next_.before, next_.entry, next_.rollout)

    async def run(self, tick: float) -> None:
        """Step whenever that is due, until cancelled; a database that is away is tried again."""
        while True:
            try:
                async with asyncio.timeout(tick):
                    await self.due.wait()
            except TimeoutError:
                pass
            self.due.clear()
            try:
                if not self._store.serves:
                    await self._store.probe()  # nobody else may have anything to write
                await self.advance()
            except StoreGone:  # the store has said so, once
                await asyncio.sleep(TICK_SECONDS)
            except Exception:
                log.exception("the round could not go on; trying again")
                await asyncio.sleep(TICK_SECONDS)

    async def catch_up(self) -> None:
        """Like `advance`, for a request that met a view which is not true any more.

        A round that is just being summed is waited for a little: the next one follows at once.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                await self._turn.acquire()
        except TimeoutError:
            return
        try:
            await self._refresh()
            await self._step()
        finally:
            self._turn.release()

    def is_due(self) -> bool:
        """Would `_step` change anything?"""
        if self.model is None or self.round is None:
            return True
        moved = self.round.tick(self.limits, self._timing.now(self.round))
        return self.round.phase is not Phase.COLLECTING or moved.phase is not self.round.phase

    async def _refresh(self) -> None:
        """See what is in the store: another process may have gone on."""
        found, version = await self._store.progress()
        if version is not None and (self.model is None or self.model.stored.version != version):
            stored = await self._store.release(version)
            if stored is not None:
                self.model = await asyncio.to_thread(load_model, stored)
                self._announce()
        if found is None:
            self._adopt(None)
            return
        round_, raw = found
        if self.model is not None and round_.release != self.model.stored.version:
            await self._load_successor(await self._store.rollout())
        if not round_.seal_id:  # opened before keys were rotated
            round_ = replace(round_, seal_id=self._keyring.seal_id)
        if self.round is None or self.round.id != round_.id:
            self._follow(decode_value(Plan, raw))  # a round keeps the rules it was opened with
            await self._keys.refresh()
        self._adopt(round_)

    def _adopt(self, round_: Round | None) -> None:
        """Go on with this round; who waits for a change is told."""
        before, self.round = self.round, round_
        if before is not None and round_ is not None and before.id == round_.id:
            if before.phase is not round_.phase:
                self._announce()
            return
        if round_ is not None:
            self._timing.begin(before, round_)
        self._announce()

    def _announce(self) -> None:
        told, self.changed = self.changed, asyncio.Event()
        told.set()

    async def _step(self) -> None:
        """Everything that is due now, if no other process is at it. Only with `_turn` held."""
        if not self.is_due() or self._sources.monotonic() < self._helper_again:
            return
        async with self._store.alone() as mine:
            if not mine:
                return
            await self._refresh()
            if self.model is None:
                await self._make_first_release()
            if self.round is not None:
                await self._end_round()
            if self.round is None:
                await self._open_round()

    async def _end_round(self) -> None:
        assert self.round is not None
        if self.round.phase is Phase.SHUTDOWN and not await self._move(Phase.COLLECTING):
            return
        if not self._keys.has(self.round.seal_id):  # its updates cannot be opened any more
            if await self._move(Phase.ABANDONED):
                self._adopt(None)
            return
        # A kill -9 may have come before the last keys were destroyed.
        await self._tidy({self.round.seal_id})
        due = self.round.tick(self.limits, self._timing.now(self.round))
        if due.phase is not self.round.phase and not await self._move(due.phase):
            return
        if due.phase is Phase.SUMMING:
            await self._release_round()
        elif due.phase is Phase.ABANDONED:
            self._adopt(None)

    async def _make_first_release(self) -> None:
        extent = await self._store.extent()
        if extent.items:
            made = await asyncio.to_thread(first_model, self.task, extent, self._settings)
            model = await asyncio.to_thread(self._published, made, None, self._sources.clock())
            await self._store.add_release(model.stored, None)
            await self._keep_entry(model)
            self.model = without_state(model)

    def _published(
        self, made: Model, before: Model | None, now: float, staged: bytes = b""
    ) -> Model:
        """Signed, and held against what was published before; raises PublishedBefore."""
        model = publish(made, before, self._keyring.authority, now, staged=staged)
        self._keyring.check_entry(self.task, model.message.entry)
        return model

    async def _keep_entry(self, model: Model) -> None:
        await asyncio.to_thread(self._keyring.keep_entries, self.task, [model.message.entry])

    async def _open_round(self) -> None:
        await self._follow_policy()
        self.rollout = await self._store.rollout()
        await self._load_successor(self.rollout)
        model, waits = self.learns_from, self.rollout is not None and self._waits(self.rollout)
        if model is None or self.is_over or waits or model.common.dim != self._settings.method.dim:
            await self._tidy(set())
            return
        self._follow(plan_after(model, self._settings))
        stored, now = model.stored, self._sources.clock()
        seal = await self._keys.for_a_round()
        round_ = Round(
            self._sources.token_bytes(16), stored.step + 1, stored.version, now, seal_id=seal
        )
        try:
            round_ = await self._with_helper(round_)
        except (HelperAway, HelperRefused) as error:
            self._wait_for_helper(error)
            return
        if not await self._store.open_round(round_, encode_value(self.plan)):
            await self._refresh()
            return
        self.helper_trouble = ""
        self._adopt(round_)
        await self._tidy({seal})
        log.info("round opened", extra={"step": round_.step, "release": round_.release})

    def _waits(self, row: Rollout) -> bool:
        """Do rounds rest for it? What is staged is not learnt from, unless it is a successor."""
        return not row.is_learnt and (row.is_staged or row.source != NEXT)

    async def _tidy(self, named: set[bytes]) -> None:
        """Destroy sealing keys that neither the round nor an open question names."""
        if self._keys.has_retired:
            await self._keys.tidy(named | await self._store.question_keys())

    async def _with_helper(self, round_: Round) -> Round:
        """With what its offers say of a second server; raises HelperAway, HelperRefused."""
        model = self.learns_from
        assert model is not None
        offer = Offer(
            task=self.task,
            round=round_.id,
            step=round_.step,
            plan=encode_value(self.plan),
            release=round_.release,
            model=model.message.model,
            seal_key=self._keyring.point(round_.seal_id),
            seal_id=round_.seal_id,
        )
        ends_at = round_.opened_at + self.limits.max_seconds + HELPER_SECONDS
        items = model.common.size
        return replace(
            round_, helper=await self._aggregator.open_round(offer, self.plan, items, ends_at)
        )

    def _wait_for_helper(self, error: HelperAway | HelperRefused) -> None:
        """Nothing was changed; it is tried again in a while, and said once."""
        if not self.helper_trouble:
            log.warning("the helper does not serve; trying again", extra={"reason": str(error)})
        self.helper_trouble = str(error) or type(error).__name__
        self._helper_again = self._sources.monotonic() + HELPER_RETRY_SECONDS

    async def _move(self, phase: Phase) -> bool:
        """False when another process was faster; the view is fresh then."""
        assert self.round is not None
        round_ = self.round
        moved = round_.to(phase)
        now = self._timing.now(round_)
        if not await self._store.set_phase(moved.id, phase, was=round_.phase, now=now):
            await self._refresh()
            return False
        self._adopt(moved)
        log.log(
            logging.WARNING if phase is Phase.ABANDONED else logging.INFO,
            "round moved",
            extra={"step": moved.step, "phase": phase.value, "updates": moved.accepted},
        )
        return True

    async def _release_round(self) -> None:
        """Sum what was stored, learn, publish. Repeatable until the release is in the store."""
        assert self.round is not None
        round_, model, rollout = self.round, self.learns_from, await self._store.rollout()
        assert model is not None
        if rollout is not None and self.successor is None and rollout.source != NEXT:
            rollout = None  # it waits for this round's end
        try:
            made = await self._next_release(round_, model, b"" if rollout is None else rollout.id)
        except HelperAway as error:
            self._wait_for_helper(error)
            return
        except BrokenModel:
            log.exception("round abandoned", extra={"step": round_.step})
            if await self._move(Phase.ABANDONED):
                self._adopt(None)
            return
        try:
            if rollout is not None and self.successor is None:
                rollout = rollout.begun(model.stored.version, made.stored.version)
            elif rollout is not None:  # somebody may have decided what becomes of it
                rollout = (await self._store.rollout() or rollout).learnt(made.stored.version)
            await self._store.add_release(made.stored, round_.id, rollout)
        except AlreadyReleased:  # another process has released this step
            await self._refresh()
            return
        self.helper_trouble = ""
        await self._keep_entry(made)
        if rollout is None:
            self.model = without_state(made)
        elif self.successor is not None:
            self.successor = without_state(made)
        log.info("released", extra={"version": made.stored.version, "updates": made.stored.devices})
        self._timing.end(round_)
        self._adopt(None)
        if rollout is not None:  # both releases and their states are needed until its end
            return
        kept = self._settings.releases
        await self._store.prune_releases(kept.keep, kept.keep_states)
        await self._store.give_back()  # bodies of the round are gone, and an old release

    async def _next_release(self, round_: Round, model: Model, staged: bytes = b"") -> Model:
        """The version after `model`, from what the round collected. Nothing is written here.

        Asked again, it has the same numbers.

        Raises:
            BrokenModel: too few updates could be opened, or they give no usable C.
        """
        extent = await self._store.extent()
        if staged:  # it has the items of the release that it is beside; new ones come after it
            extent = Extent(model.common.size, model.message.catalogue)
        self._reached("summing")
        bodies = self._store.sealed_updates(round_.id)
        rule = self.plan.privacy
        reaches_back = rule.noise > 0 and len(rule.coefficients) > 1
        sets = await self._store.update_sets() if reaches_back else NO_SETS
        summed = await self._aggregator.total(
            bodies, model.common, self.plan, self.task, round_.step, sets
        )
        self._reached("summed")
        attributes = await self._store.shared_attributes(model.common.size)  # of items that are new
        model = with_state(model, await self._store.learner(model.stored.version))
        total = unscaled(summed.total, self.plan.method)
        settings = adopted_settings(self._settings, await self._store.adopted())
        made = await asyncio.to_thread(
            self._learn, self.task, model, total, extent, settings, summed.clip, attributes,
            round_.opened_at,
        )  # fmt: skip
        stored = dataclasses.replace(made.stored, updates=summed.updates)
        made = dataclasses.replace(made, stored=stored)
        self._reached("learnt")
        await asyncio.to_thread(self._keyring.claim_step, self.task, round_.step, summed.updates)
        self._reached("step claimed")
        now = self._timing.now(round_)
        return await asyncio.to_thread(self._published, made, model, now, staged)
