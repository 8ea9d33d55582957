"""The answers of admin actions: what the API sends as JSON and `--json` prints, typed.

`http/openapi.py` makes the schemas of the OpenAPI document from these types. Below them stand the
functions that fill them from what the store gives.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fedrap_coordinator.domain.privacy_audit import PrivacyAudit, privacy_of
from fedrap_coordinator.domain.records import (
    AuditRow,
    DeviceRecord,
    DeviceStates,
    Quality,
    ReleaseRow,
    RoundRow,
)
from fedrap_coordinator.domain.rounds import Phase, Round, RoundLimits
from fedrap_coordinator.domain.sealing_keys import SealKey
from fedrap_coordinator.store.protocol import Store
from fedrap_core.plan import Privacy

ROUNDS = 60  # of the history that the dashboard shows
RELEASES = 60
CATEGORIES = 12


class Answer(msgspec.Struct):
    """Every document below is one."""


class OpenRoundCounts(Answer):
    """The open round in short."""

    step: int
    phase: str
    assigned: int
    accepted: int


class OpenRound(OpenRoundCounts):
    """The open round with its limits."""

    release: int
    opened_at: float
    slots: int
    min_updates: int
    max_updates: int
    min_seconds: float
    max_seconds: float


class RoundLine(Answer):
    """A round of the history, without any device; the rule is null where the plan is of old."""

    step: int
    phase: str
    opened_at: float
    closed_at: float | None
    summed_at: float | None  # when collecting ended; null where it is not known
    body_bytes: int  # of its sealed updates
    charged: int  # slots that were given
    updates: int
    refused: dict[str, int]  # by problem
    clip: float | None = None
    noise: float | None = None
    separation: int | None = None
    cap: int | None = None
    delta: float | None = None


class RoundList(Answer):
    """The newest first."""

    rounds: list[RoundLine]


class ReleaseLine(Answer):
    """A version of C; its body may have been dropped."""

    version: int
    step: int
    devices: int
    restores: int | None
    made_at: float
    items: int
    zeros: float
    whole_bytes: int
    delta_bytes: int | None
    kept: bool
    staged: bool = False  # to a share of the devices; it never was everybody's under this number


class ReleaseList(Answer):
    """The newest first."""

    releases: list[ReleaseLine]


class RolledBack(Answer):
    """A release that publishes an earlier C again."""

    version: int
    restores: int
    step: int


class PolicyChange(Answer):
    """The policy in force, another one if it was asked for, and what that does to devices."""

    policy: dict[str, Any]  # in force when this was answered
    changes: dict[str, list[Any]]  # by field: the old value and the new one
    effect: list[str]
    changed: bool


class Status(Answer):
    """What is in the database, in short."""

    devices: int
    unused_tokens: int
    items: int
    releases: int
    latest: ReleaseLine | None
    round: OpenRoundCounts | None


class DeviceLine(Answer):
    """A device: what it was charged for, and whether it may still take part."""

    device: str
    enrolled_at: float
    charged: int
    last_step: int | None
    level: str
    revoked: bool
    certificate: str  # valid or expired


class DeviceList(Answer):
    """In order of id."""

    devices: list[DeviceLine]


class Revoked(Answer):
    """The device is shut out."""

    revoked: bool = True


class TokenList(Answer):
    """Fresh enrolment tokens; only their hashes are kept."""

    tokens: list[str]


class ChargeLine(Answer):
    """A slot that was given; devices are numbers, anew in each export."""

    round: int  # its index in `rounds`
    device: int
    update: bool  # one came of it


class Ledger(Answer):
    """The privacy ledger: what was charged, and whether the history keeps the guarantee."""

    rounds_released: int
    rounds_total: int
    rounds_left: int
    cap: int
    devices_charged: int
    devices_spent: int
    devices_by_charges: dict[str, int]
    violations: list[str]
    rounds: list[RoundLine]


class LedgerWithCharges(Ledger):
    """With every slot."""

    charges: list[ChargeLine]


class IssuerLine(Answer):
    """A backend that signs enrolment tokens."""

    name: str
    public_key: str
    added_at: float


class IssuerList(Answer):
    """In order of name."""

    issuers: list[IssuerLine]


class AdminLine(Answer):
    """Somebody with a role."""

    name: str
    role: str
    added_at: float


class AdminList(Answer):
    """In order of name."""

    admins: list[AdminLine]


class NewAdmin(Answer):
    """The bearer token is shown once; only its hash is kept."""

    token: str


class Added(Answer):
    """It is there now."""

    added: bool = True


class Removed(Answer):
    """It is gone."""

    removed: bool = True


class KeyLine(Answer):
    """A sealing key without its secret."""

    id: str
    state: str
    made_at: float
    since: float


class KeyList(Answer):
    """All that ever were, oldest first."""

    keys: list[KeyLine]


class Rotated(Answer):
    """The key that is active from now on."""

    active: str


class AuditLine(Answer):
    """One thing that an admin did, or was refused."""

    number: int
    at: float
    who: str
    action: str
    target: str
    outcome: str


class AuditLog(Answer):
    """Everything, and the number of the first row that does not follow from the one before."""

    broken_at: int | None
    head: str
    rows: list[AuditLine]


class ItemLine(Answer):
    """An item of the catalogue."""

    row: int
    item: str
    retired: bool
    attributes: dict[str, str]


class ItemList(Answer):
    """In order of row."""

    items: list[ItemLine]


class ImportedItems(Answer):
    """What became of a catalogue file."""

    added: int
    returned: int
    changed: int


class RetiredItems(Answer):
    """How many are shown no more."""

    retired: int


class QualityLine(Answer):
    """A number that somebody measured of a release, elsewhere."""

    version: int
    metric: str
    value: float
    at: float
    note: str


class QualityList(Answer):
    """The newest version first."""

    quality: list[QualityLine]


class Figure(Answer):
    """An estimate with its 95 % interval, of sampling and noise together."""

    value: float
    low: float
    high: float


class QuestionResult(Answer):
    """What devices said of one release, or of the scalars in force; null where too few did."""

    release: int
    group: str  # all, light or heavy
    devices: float | None  # that had something to say; noised
    mean: Figure | None  # of their own lists, or under the scalars in force
    compared: list[Figure]  # each minus the mean: popular list and trend, or candidates


class ListFigures(Answer):
    """What lists consist of under a release."""

    release: int
    devices: float  # noised
    popular: Figure  # share of the first ten that is among the most popular tenth of the items
    items: Figure  # as many, all as frequent, would be as varied


class QuestionLine(Answer):
    """A question about quality, and what came of it."""

    id: str
    state: str
    purpose: str
    metric: str
    releases: list[int]
    variants: list[dict[str, Any]]
    share: float | None  # of the devices that a staged release is asked about of; null: all
    noise: float  # z
    epsilon: float | None  # that one answer costs, by itself; null without noise
    answers: int
    least: int
    most: int
    asked_at: float
    ends_at: float
    closed_at: float | None
    results: list[QuestionResult]
    lists: ListFigures | None = None  # where that was asked, and enough answered
    about_lists: bool = False


class QuestionList(Answer):
    """The newest first."""

    questions: list[QuestionLine]


class RolloutStage(Answer):
    """One stage: what devices of a share said of the staged release."""

    share: float
    state: str  # of its question; "waiting" before it is asked
    answers: int  # of all devices, most of which are not in the share
    ends_at: float | None
    devices: float | None  # of the share that had something to say; noised
    lead: Figure | None  # over the full release, in [-1, 1]; below 0 is worse


class RolloutLine(Answer):
    """A release that goes, or went, to some devices first."""

    id: str
    state: str
    source: str
    base: int | None  # the full release that it is beside
    version: int | None  # of the staged one
    stage: int  # the one it is at, 0 being the first
    tolerance: float
    reason: str  # of the last decision
    started_at: float
    ended_at: float | None
    stages: list[RolloutStage]


class RolloutList(Answer):
    """The newest first."""

    rollouts: list[RolloutLine]


class Noted(Answer):
    """It is written down."""

    noted: bool = True


class CatalogueFigures(Answer):
    """The catalogue in short, with its largest categories."""

    items: int = 0
    retired: int = 0
    version: int = -1
    categories: list[tuple[str, int]] = []


class DeviceFigures(Answer):
    """Devices by what keeps them from the open round."""

    total: int
    ready: int
    resting: int
    waiting: int
    spent: int
    expired: int
    revoked: int
    tokens: int


class Traffic(Answer):
    """Bodies of requests and answers since this process started."""

    bytes_up: int
    bytes_down: int


class Health(Answer):
    """Where the coordinator stands; `words` are what is so, `help` is what would change it."""

    state: str = "live"  # a word of health.py
    words: str = ""
    help: str = ""


class Dashboard(Answer):
    """Everything that the dashboard shows."""

    at: float  # when the facts below were true
    now: float  # when this was sent: later, where the database could not be asked since
    health: Health
    program: str
    task: str
    method: str
    dim: int
    over: bool
    round: OpenRound | None
    rounds: list[RoundLine]
    releases: list[ReleaseLine]
    quality: list[QualityLine]
    questions: list[QuestionLine]
    rollouts: list[RolloutLine]
    privacy: dict[str, Any]  # the statement of /v1/privacy, and what was spent
    devices: DeviceFigures
    catalogue: CatalogueFigures
    traffic: Traffic


def program_version() -> str:
    """Of the distribution that has this package; unknown when it runs from a bare folder."""
    for name in ("fedrap-coordinator", "fedrap"):  # as published, and all of a checkout
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "unknown"


def open_round(round_: Round, limits: RoundLimits, slots: int) -> OpenRound:
    """The open round with its limits."""
    return OpenRound(
        step=round_.step,
        phase=round_.phase.value,
        release=round_.release,
        opened_at=round_.opened_at,
        assigned=round_.assigned,
        accepted=round_.accepted,
        slots=slots,
        min_updates=limits.min_updates,
        max_updates=limits.max_updates,
        min_seconds=limits.min_seconds,
        max_seconds=limits.max_seconds,
    )


def round_lines(
    rows: Sequence[RoundRow], refused: Mapping[bytes, Mapping[str, int]]
) -> list[RoundLine]:
    """Rounds in the order of `rows`, with what was refused in each."""
    return [_round_line(row, privacy_of(row), dict(refused.get(row.id, {}))) for row in rows]


def _round_line(row: RoundRow, rule: Privacy | None, refused: dict[str, int]) -> RoundLine:
    return RoundLine(
        step=row.step,
        phase=row.phase.value,
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        summed_at=row.summed_at,
        body_bytes=row.body_bytes,
        charged=row.assigned,
        updates=row.accepted,
        refused=refused,
        clip=None if rule is None else rule.clip,
        noise=None if rule is None else rule.noise,
        separation=None if rule is None else rule.separation,
        cap=None if rule is None else rule.cap,
        delta=None if rule is None else rule.delta,
    )


def release_lines(rows: Sequence[ReleaseRow]) -> list[ReleaseLine]:
    """The history of C, in the order of `rows`."""
    return [
        ReleaseLine(
            version=row.version,
            step=row.step,
            devices=row.devices,
            restores=row.restores,
            made_at=row.facts.made_at,
            items=row.facts.items,
            zeros=row.facts.zeros,
            whole_bytes=row.facts.whole_bytes,
            delta_bytes=row.facts.delta_bytes,
            kept=row.kept,
            staged=bool(row.staged),
        )
        for row in rows
    ]


def quality_lines(found: Sequence[Quality]) -> list[QualityLine]:
    """What was measured elsewhere."""
    return [
        QualityLine(
            version=one.version, metric=one.metric, value=one.value, at=one.at, note=one.note
        )
        for one in found
    ]


def device_lines(records: Sequence[DeviceRecord], now: float) -> list[DeviceLine]:
    """Devices with what they were charged for."""
    return [
        DeviceLine(
            device=one.id.hex(),
            enrolled_at=one.enrolled_at,
            charged=one.participations,
            last_step=one.last_step,
            level=one.level,
            revoked=one.revoked_at is not None,
            certificate="expired" if one.valid_until <= now else "valid",
        )
        for one in records
    ]


def key_lines(keys: Sequence[SealKey]) -> list[KeyLine]:
    """Sealing keys without their secrets."""
    return [
        KeyLine(id=key.id.hex(), state=key.state.value, made_at=key.made_at, since=key.since)
        for key in keys
    ]


def audit_lines(rows: Sequence[AuditRow]) -> list[AuditLine]:
    """Rows of the audit."""
    return [
        AuditLine(
            number=row.number,
            at=row.entry.at,
            who=row.entry.who,
            action=row.entry.action,
            target=row.entry.target,
            outcome=row.entry.outcome,
        )
        for row in rows
    ]


def ledger(rows: Sequence[RoundRow], audit: PrivacyAudit, total: int, cap: int) -> Ledger:
    """The state of the budget, and whether the history keeps the guarantee."""
    released = sum(row.phase is Phase.RELEASED for row in rows)
    charged = audit.charged()
    return Ledger(
        rounds_released=released,
        rounds_total=total,
        rounds_left=max(0, total - released),
        cap=cap,
        devices_charged=sum(charged.values()),
        devices_spent=sum(count for times, count in charged.items() if times >= cap),
        devices_by_charges={str(times): count for times, count in charged.items()},
        violations=audit.violations,
        rounds=round_lines(rows, {}),
    )


def device_figures(states: DeviceStates, tokens: int) -> DeviceFigures:
    """Devices by state, and how many there are."""
    by_state = {
        name: getattr(states, name)
        for name in ("ready", "resting", "waiting", "spent", "expired", "revoked")
    }
    return DeviceFigures(total=sum(by_state.values()), **by_state, tokens=tokens)


def finite(value: float) -> float | None:
    """As JSON can carry it."""
    return value if math.isfinite(value) else None


async def catalogue_figures(store: Store) -> CatalogueFigures:
    """Size, version and the largest categories."""
    extent, retired = await store.extent(), (await store.catalogue(2**31 - 1)).retired
    return CatalogueFigures(
        items=extent.items,
        retired=len(retired),
        version=extent.catalogue,
        categories=list(await store.categories(CATEGORIES)),
    )
