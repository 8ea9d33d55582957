"""How a coordinator is, in one word and two sentences: what is wrong, and what would help. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fedrap_coordinator.admin.documents import Health
from fedrap_coordinator.domain.records import DeviceStates, ReleaseRow, RoundRow
from fedrap_coordinator.domain.rollouts import Rollout
from fedrap_coordinator.domain.rounds import OVER, Phase, RoundLimits
from fedrap_core.plan import DAY

# Every word that a state can be; the page has a colour for each.
STATES = (
    "live", "database-away", "disk-full", "empty", "rolling-out", "task-over", "helper-away",
    "stopped", "restored",
)  # fmt: skip
_FULL = ("disk is full", "no space left", "disk full")  # of SQLite, PostgreSQL and systems
_SAID = 300  # characters of what a helper said
_TOLD_DAYS = 30.0  # for so long it is said that a backup came back
_IN_A_ROW = 3  # rounds that were abandoned: then it is no accident


@dataclass(frozen=True)
class Seen:
    """What health is judged by."""

    trouble: str  # what the database said last; empty when it serves
    has_release: bool
    over: bool
    total: int  # rounds of the task
    limits: RoundLimits
    states: DeviceStates
    rows: Sequence[RoundRow]  # the newest first
    rollout: Rollout | None = None  # that goes on
    helper: str = ""  # why the helper of private aggregation does not serve; empty: it does
    releases: Sequence[ReleaseRow] = ()  # the newest first
    now: float = 0.0


def health(seen: Seen) -> Health:
    """The first thing that is wrong, in the order in which it would have to be mended."""
    if seen.trouble:
        return of_the_database(seen.trouble)
    if not seen.has_release:
        return Health(
            "empty",
            "There is no release: the catalogue is empty.",
            "`fedrap-coordinator items add FILE` brings items; the first release follows at once.",
        )
    if seen.rollout is not None and seen.rollout.is_staged and not seen.rollout.is_learnt:
        return Health(
            "rolling-out",
            f"Release {seen.rollout.version} is with {seen.rollout.share:.3g} of the devices. "
            "Rounds and new items wait for the end of its roll-out.",
            "`fedrap-coordinator rollout status` says how it stands; `rollout halt` and `rollout "
            "promote` end it now.",
        )
    if seen.over:
        return Health(
            "task-over",
            f"All {seen.total} rounds of this task were made. Devices keep recommending, and new "
            "items still get releases.",
            "More rounds: a larger `total` with `fedrap-coordinator policy change`, which says "
            "what that costs devices.",
        )
    if seen.helper:
        return Health(
            "helper-away",
            "The helper of private aggregation does not serve, so no round can be made: "
            f"{seen.helper[:_SAID]}",
            "Ask whoever runs it; it is tried again by itself, and what devices sent is kept.",
        )
    found = _of_learning(seen)
    return found if found.state != "live" else _of_restoring(seen) or found


def _of_restoring(seen: Seen) -> Health | None:
    """What was lost, where a backup came back lately: versions that the log has and nobody else."""
    known = {row.version: row for row in seen.releases}
    for row in seen.releases:
        before = known.get(row.restores or 0)
        gone = row.version - 1 - max((v for v in known if v < row.version), default=row.version)
        if before is None or gone <= 0 or seen.now - row.facts.made_at > _TOLD_DAYS * DAY:
            continue
        came, made = _date(row.facts.made_at), _date(before.facts.made_at)
        return Health(
            "restored",
            f"A backup came back on {came}. Its last release, {before.version}, was made on "
            f"{made}; {gone} made after it ({before.version + 1} to {row.version - 1}) are lost, "
            "and so are devices that enrolled since, charges and what else was written. Steps up "
            f"to {row.step} are not made again.",
            "Nothing has to be done: devices stop at K by their own ledgers, and those that are "
            "not known enrol anew where their app brings tokens. Import items and tokens again "
            "that were added since.",
        )
    return None


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def of_the_database(said: str) -> Health:
    """What a database that does not serve means, by what it said last."""
    if any(words in said.lower() for words in _FULL):
        return Health(
            "disk-full",
            "The disk of the database is full. Nothing is accepted; what was accepted is kept.",
            "Make room, and it goes on by itself; `fedrap-coordinator maintain` shrinks SQLite.",
        )
    return Health(
        "database-away",
        "The database does not answer. Devices are told to come back; what was accepted is kept.",
        "See to the database: it is tried again every half second, and it goes on by itself.",
    )


def _of_learning(seen: Seen) -> Health:
    s, least = seen.states, seen.limits.min_updates
    able = s.ready + s.resting
    if able + s.waiting + s.spent + s.expired == 0:
        return Health(
            "stopped",
            "No device is enrolled.",
            "Your app's backend hands out tokens: `fedrap-coordinator tokens 100` makes some.",
        )
    if able < least:
        return Health(
            "stopped",
            f"Learning has stopped: {_who(s)}, and a round needs {least} devices.",
            "More devices; or a larger `cap` with `fedrap-coordinator policy change`, which says "
            "what that costs; or a smaller `min_updates`, which devices may refuse.",
        )
    over = [row for row in seen.rows if row.phase in OVER][:_IN_A_ROW]
    if len(over) == _IN_A_ROW and all(row.phase is Phase.ABANDONED for row in over):
        most = max(row.accepted for row in over)
        return Health(
            "stopped",
            f"The last {_IN_A_ROW} rounds were abandoned: they had {most} updates at the most, and "
            f"need {least} within {seen.limits.max_seconds:.0f} seconds.",
            "A longer `max_seconds`, so that more devices are ready once while a round is open.",
        )
    return Health()


def _who(s: DeviceStates) -> str:
    """Who could take part, and why the others cannot."""
    parts = [f"{_devices(s.ready + s.resting)} can take part"]
    if s.spent:
        parts.append(f"{_devices(s.spent)} {'has' if s.spent == 1 else 'have'} spent the budget")
    if s.waiting:
        parts.append(
            f"{_devices(s.waiting)} {'waits' if s.waiting == 1 else 'wait'} as new"
            + (f" until step {s.first_free}" if s.first_free else "")
        )
    if s.expired:
        parts.append(f"{_devices(s.expired)} let the certificate run out")
    return "; ".join(parts)


def _devices(count: int) -> str:
    return f"{count} device{'' if count == 1 else 's'}" if count else "no device"
