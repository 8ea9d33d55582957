"""What must hold while a scenario runs. Devices tell their side; the database tells the other.

A round is checked when it was released: who was counted, how often, and whether the release is
what the bytes of those devices give when they are opened, summed and learnt from once more.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedrap.rounds import ledger
from fedrap_coordinator.domain.records import RoundRow, StoredRelease
from fedrap_coordinator.domain.rounds import Phase
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.releases import load_model, next_model, unscaled, with_state
from fedrap_coordinator.rounds.sealed_aggregator import SealedAggregator
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.protocol import Store
from fedrap_core.plan import Plan
from fedrap_core.privacy.accounting import charged_epsilon
from fedrap_core.privacy.statement import state_policy
from fedrap_core.quantize import QuantizedRows
from fedrap_core.wire.codec import decode_value
from fedrap_core.wire.messages import Offer
from fedrap_simulation.scenarios.device_memory import DeviceMemory

HISTORY = 1_000_000  # rounds that are read at once: all of them


def _alike(mine: QuantizedRows, theirs: QuantizedRows) -> bool:
    """The same numbers, but for what a step of int8 may be rounded to."""
    found, expected = mine.to_float(), theirs.to_float()
    return np.allclose(found, expected, atol=1e-6 + 1e-3 * float(np.abs(expected).max(initial=0)))


def most_in_a_window(entries: Sequence[ledger.Entry], window: float) -> float:
    """Epsilon of the window in which a device spent most; windows end where something was spent."""
    ends = sorted({entry.at for entry in entries})
    held = ([entry for entry in entries if end - window < entry.at <= end] for end in ends)
    return max((ledger.epsilon(some) for some in held), default=0.0)


class InvariantBroken(Exception):
    """An invariant does not hold; the run is worth nothing and ends here.

    Not a FedRapError: those are part of a device's life, and it goes on after them.
    """


@dataclass
class Checked:
    """What was checked, for the report."""

    rounds: int = 0
    updates: int = 0
    sums: int = 0  # releases that were computed once more
    ledgers: int = 0


@dataclass
class _Sent:
    """A round from the devices' side."""

    bodies: dict[bytes, bytes] = field(default_factory=dict)  # by device: what it sends
    accepted: set[bytes] = field(default_factory=set)


class InvariantChecker:
    """Hears of every step of every device; satisfies behaviours.Told."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[bytes, _Sent] = {}
        # by device: charged steps and when, by the database
        self._steps: dict[bytes, dict[int, float]] = {}
        self._done: set[bytes] = set()
        self._counted: dict[bytes, int] = {}  # by device: the last step that counted it
        self._ended: set[int] = set()
        self._running: set[int] = set()
        self._lost: set[int] = set()  # steps that a database collected before it was lost
        self._version = 0
        self.checked = Checked()

    def placed(self, device: bytes, offer: Offer) -> None:
        """A device was given a place."""
        self._open.setdefault(offer.round, _Sent())

    def prepared(self, device: bytes, offer: Offer, body: bytes) -> None:
        """What a device sends in a round is written once."""
        sent = self._open.setdefault(offer.round, _Sent())
        if sent.bodies.setdefault(device, body) != body:
            raise InvariantBroken("a device wrote two different updates for one round")

    def accepted(self, device: bytes, round_id: bytes) -> None:
        """The coordinator said yes."""
        self._open.setdefault(round_id, _Sent()).accepted.add(device)

    async def check(self, store: Store, keyring: Keyring) -> None:
        """Every round that ended since the last time.

        Raises:
            InvariantBroken: says which one.
        """
        latest = await store.release(None)
        if latest is not None:
            if latest.version < self._version:
                raise InvariantBroken(f"release {latest.version} came after {self._version}")
            self._version = latest.version
        rows = await store.rounds(HISTORY)
        over = (Phase.RELEASED, Phase.ABANDONED)
        # A step whose first round was abandoned has ended once, and yet is collected again.
        self._running = {row.step for row in rows if row.phase not in over}
        for row in reversed(rows):
            if row.id in self._done or row.phase not in over:
                continue
            await self._check_round(row, store, keyring)
            self._done.add(row.id)
            self._open.pop(row.id, None)

    def succeeded(self, settings: Settings) -> None:
        """Rounds learn by other settings from now on."""
        self._settings = settings

    def restored(self) -> None:
        """A database of an earlier day takes the place of this one: what is not done is lost."""
        self._open.clear()
        self._lost |= self._running

    async def _check_round(self, row: RoundRow, store: Store, keyring: Keyring) -> None:
        rule = decode_value(Plan, row.plan).privacy
        charged: list[bytes] = []
        came: list[bytes] = []
        async for some in store.charges(row.id):
            charged += [one.device for one in some]
            came += [one.device for one in some if one.came]
        if len(set(charged)) != len(charged):
            raise InvariantBroken(f"step {row.step}: a device has two places in one round")
        since = (row.closed_at or row.opened_at) - rule.window
        for device in charged:  # the cap is about places, also those that led to nothing
            steps = self._steps.setdefault(device, {})
            # A step that was abandoned and tried again is charged once.
            steps.setdefault(row.step, row.opened_at)
            if sum(at > since for at in steps.values()) > rule.cap:
                raise InvariantBroken(
                    f"step {row.step}: a device took part more than {rule.cap} times"
                )
        self._ended.add(row.step)
        sent = self._open.get(row.id, _Sent())
        if row.phase is Phase.ABANDONED:
            return
        lost = sent.accepted - set(came)
        if lost:
            raise InvariantBroken(f"step {row.step}: {len(lost)} accepted updates were lost")
        for device in came:  # the separation is about what was released
            last = self._counted.get(device)
            if last is not None and row.step - last < rule.separation:
                raise InvariantBroken(
                    f"step {row.step}: a device again within {rule.separation} steps"
                )
            self._counted[device] = row.step
        self.checked.rounds += 1
        self.checked.updates += len(came)
        await self._check_sum(row, sorted(came), sent, store, keyring)

    async def _check_sum(
        self, row: RoundRow, came: list[bytes], sent: _Sent, store: Store, keyring: Keyring
    ) -> None:
        """The release of this round once more, from the devices' own bytes."""
        before, after = await store.release(row.release), await _release_of(store, row)
        if before is None or after is None:
            return  # retention has dropped it
        if after.devices != len(came):
            raise InvariantBroken(
                f"step {row.step}: {after.devices} updates summed, {len(came)} came"
            )
        unknown = [device for device in came if device not in sent.bodies]
        if unknown:
            raise InvariantBroken(f"step {row.step}: {len(unknown)} updates that no device wrote")
        task = await store.task_id(bytes(16))
        model, plan = load_model(before), decode_value(Plan, row.plan)
        bodies = _one_by_one([sent.bodies[device] for device in came])
        settings = self._settings
        aggregator = SealedAggregator(keyring, settings.serve.max_body_bytes, settings.learning)
        sets = await store.update_sets()
        summed = await aggregator.total(bodies, model.common, plan, task, row.step, sets)
        size = load_model(after).common.size
        extent = await store.extent()
        if size != model.common.size or extent.items != size:
            return  # items came meanwhile; the rows they start with are drawn elsewhere
        state, total = await store.learner(before.version), unscaled(summed.total, plan.method)
        model = with_state(model, state)
        at = row.opened_at
        made = next_model(task, model, total, extent, self._settings, summed.clip, (), at)
        theirs = load_model(after).common
        pairs = [(made.common.items, theirs.items)]
        mine, part = made.common.sequence, theirs.sequence
        if mine is not None and part is not None:
            pairs += [(mine.outputs, part.outputs), (mine.offsets, part.offsets)]
        if made.common.trend is not None and theirs.trend is not None:
            pairs.append((made.common.trend, theirs.trend))
        if (mine is None) != (part is None) or not all(_alike(*pair) for pair in pairs):
            raise InvariantBroken(
                f"step {row.step}: the release is not what the devices' updates give"
            )
        self.checked.sums += 1

    def check_ledgers(self, states: list[DeviceMemory]) -> None:
        """Devices and database agree on what was spent.

        A place costs from the moment it is given; the device writes when it sends. So every step
        of a device is in the database, and where every place led to an update epsilon is equal.

        And what a device spent in any window is within what the policy guarantees for one.

        Raises:
            InvariantBroken: they do not.
        """
        for state in states:
            known = state.credentials()
            if known is None:
                continue
            mine = ledger.charged_steps(state.entries()) & (self._ended - self._running)
            ids = (*state.former, known.device)
            theirs = {step for one in ids for step in self._steps.get(one, [])} - self._running
            if mine - theirs - self._lost:  # a device remembers what a lost database does not
                raise InvariantBroken(
                    f"a device is charged for {sorted(mine - theirs)}, the database not"
                )
            unsent = theirs - mine  # places that led to nothing: the database is on the safe side
            noises = {entry.noise for entry in state.entries()}
            if not unsent and len(noises) == 1 and mine and mine <= theirs:
                (noise,) = noises
                entries = [one for one in state.entries() if one.step in mine]
                told = charged_epsilon(len(theirs), noise, entries[0].delta) if noise else math.inf
                if not math.isclose(ledger.epsilon(entries), told, rel_tol=1e-6):
                    raise InvariantBroken("a device and the database disagree on epsilon")
            rule = self._settings.privacy
            spent = most_in_a_window(state.entries(), rule.window)
            if rule.noise and spent > state_policy(rule).epsilon * (1 + 1e-9):
                raise InvariantBroken(f"a device spent epsilon {spent:.3g} in one window")
            self.checked.ledgers += 1

    @property
    def last_step(self) -> int:
        """The newest step that was released and checked; 0 before the first."""
        return max(self._counted.values(), default=0)


async def _one_by_one(bodies: Sequence[bytes]) -> AsyncIterator[Sequence[bytes]]:
    for body in bodies:
        yield [body]


async def _release_of(store: Store, row: RoundRow) -> StoredRelease | None:
    """The release that a round made."""
    found = await store.release(row.release + 1)
    return found if found is not None and found.step == row.step else None
