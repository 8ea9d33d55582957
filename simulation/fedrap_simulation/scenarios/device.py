"""One simulated device: the SDK's own way of joining rounds, and when it tries again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from fedrap.background.scheduler import Pace, is_trouble, next_delay
from fedrap.results import RoundReport
from fedrap.rounds import eligibility
from fedrap.rounds.ledger import Floor
from fedrap.rounds.session import Access, RoundSession
from fedrap_core.errors import FedRapError
from fedrap_core.wire import problems
from fedrap_simulation.scenarios.behaviours import DeviceTemper, Kind, SimulatedSteps
from fedrap_simulation.scenarios.device_memory import DeviceMemory
from fedrap_simulation.scenarios.network import SimulatedTransport

_OVER = frozenset({problems.BUDGET_SPENT.code, problems.TASK_OVER.code})
_WAITS = _OVER | {eligibility.TOLD_TO_WAIT}  # no round is due; releases come all the same
AWAY_SECONDS = 6 * 3600.0  # how long a device that vanishes stays away


def _one_by_one(tokens: Sequence[str]) -> Callable[[], str]:
    """Another one each time that the device has to enrol, and the last one as often as it asks.

    An answer that is lost takes one more.
    """
    left = list(tokens)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


class SimulatedDevice:
    """A person's phone. `turn` is one try; it says how long to wait for the next."""

    __slots__ = (
        "_failures",
        "_pace",
        "_refresh",
        "_session",
        "person",
        "state",
        "temper",
        "transport",
    )

    def __init__(
        self,
        person: int,
        state: DeviceMemory,
        transport: SimulatedTransport,
        temper: DeviceTemper,
        tokens: Sequence[str],
        pace: Pace,
        refresh: float,
    ) -> None:
        self.person, self.state, self.transport, self.temper = person, state, transport, temper
        access = Access(
            transport=transport,
            token=_one_by_one(tokens),
            trainer="numpy",
            floor=Floor.without_privacy(cap=10_000, min_updates=2),
        )
        self._session = RoundSession(
            state,
            access,
            clock=state.now,
            steps=SimulatedSteps(temper),
            uniform=lambda: float(temper.rng.random()),
        )
        self._pace, self._refresh = pace, refresh
        self._failures = 0

    async def open_app(self) -> None:
        """The person opens the app for the first time: it fetches the release, as apps should."""
        await self._sync()

    async def turn(self, reports: Counter[str]) -> float:
        """Try to join a round; seconds until the next try."""
        report = await self._session.run_round()
        reports["joined" if report.joined else str(report.blocked_by)] += 1
        delay = self._after(report)
        if report.blocked_by in _WAITS:
            await self._sync()
            return max(self._refresh, delay) if report.blocked_by in _OVER else delay
        return delay

    async def _sync(self) -> None:
        try:
            await self._session.sync()
        except FedRapError:
            self._failures += 1

    def _after(self, report: RoundReport) -> float:
        self._failures = self._failures + 1 if is_trouble(report) else 0
        if self.temper.kind is Kind.VANISHING:
            return AWAY_SECONDS
        return next_delay(report, self._failures, self._pace, float(self.temper.rng.random()))
