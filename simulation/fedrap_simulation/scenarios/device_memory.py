"""What a simulated device keeps: its place in the population, a ledger, an outbox, a nonce.

Satisfies fedrap.rounds.state.RoundState, so the SDK's own rounds run on it. It survives whatever
happens to the coordinator, as a phone's store would.

What all simulated devices of a process share: releases and catalogues, read once.

A device still fetches and counts every byte itself and still checks what it got; only the memory
of equal results is shared, so that an idle device costs a few kB and not a copy of C.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedrap.recommend.release import ItemList, read_release
from fedrap.rounds.ledger import Entry
from fedrap.rounds.prepare import Prepared
from fedrap.rounds.state import RoundSnapshot, Wait
from fedrap.transport.credentials import Credentials
from fedrap_core.items import ItemIds
from fedrap_core.model import CommonItems, History
from fedrap_core.paper.problem import PaperState
from fedrap_core.plan import AnyScoring
from fedrap_core.wire.authority import entry_digest
from fedrap_core.wire.keys import new_private_key, private_to_bytes
from fedrap_core.wire.messages import Delta, Release
from fedrap_core.wire.releases import served_rows
from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.scenarios.population import Population

KEPT = 64  # releases; a device that holds an older one keeps it alive itself


@dataclass(frozen=True, eq=False)
class SharedModel:
    """One release with its catalogue; satisfies fedrap.rounds.state.RoundModel."""

    common: CommonItems
    digest: bytes
    scoring: AnyScoring
    step: int
    entry: bytes  # of the log, as signed
    rows: Rows  # (m of the data,) row of each item of the data in C, -1 where it has none
    shown: npt.NDArray[np.bool_]  # (size,) rows that may be recommended
    retired: Rows

    @cached_property
    def gram(self) -> npt.NDArray[np.float64]:
        """C'C without retired items: (k, k)."""
        return self.common.gram(self.retired)


class SharedReleases:
    """Releases by their entry of the log and catalogue; reading one twice gives the same object."""

    def __init__(self, items: tuple[str, ...]) -> None:
        self._items = items
        self._models: OrderedDict[tuple[bytes, int], SharedModel] = OrderedDict()
        self._catalogues: dict[tuple[int, bytes], Rows] = {}
        self._lists: dict[ItemList, ItemList] = {}

    def read(
        self, message: Release | Delta, held: SharedModel | None, catalogue: ItemList
    ) -> SharedModel:
        """The model of a message; its hash is checked the first time it is seen.

        Raises:
            BrokenModel: it is damaged, hostile, or a delta from something else.
        """
        key = (entry_digest(message.entry), catalogue.version)
        known = self._models.get(key)
        if known is None:
            common = read_release(message, None if held is None else held.common, catalogue)
            rows = self._rows(catalogue)
            shown = np.zeros(common.size, dtype=np.bool_)
            shown[: catalogue.count] = True
            retired = np.frombuffer(catalogue.retired, dtype="<u4").astype(np.int64)
            retired = retired[retired < common.size]
            shown[retired] = False
            shown &= served_rows(message.withheld, common.size)
            known = SharedModel(
                common,
                message.model,
                message.scoring,
                message.step,
                message.entry,
                np.where(rows < common.size, rows, -1),
                shown,
                retired,
            )
            self._models[key] = known
            while len(self._models) > KEPT:
                self._models.popitem(last=False)
        return known

    def one_list(self, catalogue: ItemList) -> ItemList:
        """The same list, as one object for all devices that have it."""
        if len(self._lists) > KEPT:
            self._lists.clear()
        return self._lists.setdefault(catalogue, catalogue)

    def _rows(self, catalogue: ItemList) -> Rows:
        key = (catalogue.version, catalogue.retired)
        if key not in self._catalogues:
            ids = ItemIds(catalogue.items)
            found = [ids.row(name) for name in self._items]
            self._catalogues = {
                key: np.array([-1 if row is None else row for row in found], dtype=np.int64)
            }
        return self._catalogues[key]


LIE = 1000.0  # weight that a liar gives its interactions


class DeviceMemory:
    """One device's memory. `clock` gives seconds of the scenario, `epoch` is when it began."""

    __slots__ = (
        "_catalogue",
        "_clock",
        "_consent",
        "_credentials",
        "_enrolling",
        "_entries",
        "_epoch",
        "_healed_at",
        "_model",
        "_nonce",
        "_outbox",
        "_person",
        "_population",
        "_releases",
        "_remembered",
        "_trained",
        "_wait",
        "_weight",
        "dropped",
        "former",
    )  # fmt: skip

    def __init__(
        self,
        person: int,
        population: Population,
        releases: SharedReleases,
        clock: Callable[[], float],
        epoch: float,
        *,
        consent: bool = True,
        weight: float = 1.0,
    ) -> None:
        self._person, self._population, self._releases = person, population, releases
        self._clock, self._epoch = clock, epoch
        self._consent, self._weight = consent, weight
        self._enrolling: bytes | None = None
        self._credentials: Credentials | None = None
        self._healed_at: float | None = None
        self._remembered = b""
        self._wait = Wait()
        self._entries: tuple[Entry, ...] = ()
        self._outbox: tuple[tuple[bytes, bytes], ...] = ()
        self._nonce = 0
        self._model: SharedModel | None = None
        self._catalogue = ItemList()
        self._trained: PaperState | None = None
        self.dropped = 0
        self.former: tuple[bytes, ...] = ()  # ids that this device had before

    def now(self) -> float:
        """Seconds of wall time, as this device's clock has it."""
        return self._epoch + self._clock()

    def snapshot(self) -> RoundSnapshot:
        model, items = self._model, self.items()
        return RoundSnapshot(
            at=self.now(),
            consented=self._consent,
            consented_at=self.now(),  # the people of a scenario agree to what they are shown
            fetching=self._consent,
            recorded=len(items),
            credentials=self._credentials,
            entries=self._entries,
            ledger_lost=False,
            healed_at=self._healed_at,
            remembered=self._remembered,
            wait=self._wait,
            outbox=self._outbox,
            model=model,
            release_version=None if model is None else model.common.version,
            catalogue=self._catalogue,
            trained=self._trained,
            read_history=lambda: _history(model, items, self._times(len(items)), self._weight),
        )

    def consented(self) -> bool:
        return self._consent

    def fetching(self) -> bool | None:
        return self._consent

    def keep_wait(self, wait: Wait) -> None:
        self._wait = wait

    def forget_credentials(self) -> None:
        known, self._credentials, self._enrolling = self._credentials, None, None
        self.former += () if known is None else (known.device,)
        self._healed_at = self.now()
        self._remembered = b"" if known is None else known.authority
        self._outbox = ()

    def items(self) -> Rows:
        """What the person did by now, oldest first, in places of the data."""
        return self._population.of(self._person, self._clock())

    def _times(self, count: int) -> npt.NDArray[np.float64]:
        """When the first `count` of them were touched, as this device's clock has it."""
        return self._epoch + self._population.times(self._person, self._clock())[:count]

    def enrolling_key(self) -> bytes:
        if self._enrolling is None:
            self._enrolling = private_to_bytes(new_private_key())
        return self._enrolling

    def credentials(self) -> Credentials | None:
        return self._credentials

    def keep_credentials(self, credentials: Credentials) -> None:
        self._credentials, self._enrolling = credentials, None

    def next_nonce(self) -> int:
        self._nonce += 1
        return self._nonce

    def entries(self) -> Sequence[Entry]:
        return self._entries

    def count_dropped(self) -> None:
        self.dropped += 1

    def commit_round(self, round_id: bytes, prepared: Prepared) -> bool:
        if not self._consent:
            return False
        self._entries = (*self._entries, prepared.entry)
        self._outbox = (*self._outbox, (round_id, prepared.body))
        self._trained = prepared.trained
        return True

    def forget_outgoing(self, round_id: bytes) -> None:
        self._outbox = tuple(one for one in self._outbox if one[0] != round_id)

    def model(self) -> SharedModel | None:
        return self._model

    def adopt(self, base: RoundSnapshot, message: Release | Delta, catalogue: ItemList) -> None:
        self._model = self._releases.read(message, self._model, catalogue)
        self._catalogue = self._releases.one_list(catalogue)


def _history(
    model: SharedModel | None, items: Rows, times: npt.NDArray[np.float64], weight: float
) -> History:
    """Those of the items that the release has a row for, newest first."""
    if model is None:
        return History(np.zeros(0, dtype=np.int64), np.zeros(0))
    rows, times = model.rows[items][::-1], times[::-1]
    known = rows >= 0
    return History(rows[known], np.full(int(known.sum()), weight), times[known])
