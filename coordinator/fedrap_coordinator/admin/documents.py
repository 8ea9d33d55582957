"""The one document that the operator's page draws, and `status --json` prints a part of."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedrap_coordinator.domain.records import DeviceStates, Quality, ReleaseRow, RoundRow
from fedrap_coordinator.domain.rounds import Round, RoundLimits
from fedrap_coordinator.store.protocol import Store
from fedrap_core.plan import Privacy
from fedrap_core.privacy.accounting import charged_epsilon

ROUNDS = 60  # of the history that the page shows
RELEASES = 60
CATEGORIES = 12
Document = dict[str, Any]


def program_version() -> str:
    """Of this distribution; unknown when it runs from a bare folder."""
    try:
        return importlib.metadata.version("fedrap")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def open_round_line(round_: Round, limits: RoundLimits) -> Document:
    """The open round with its limits."""
    return {
        "step": round_.step,
        "phase": round_.phase.value,
        "release": round_.release,
        "opened_at": round_.opened_at,
        "assigned": round_.assigned,
        "accepted": round_.accepted,
        "slots": limits.slots,
        "min_updates": limits.min_updates,
        "max_updates": limits.max_updates,
        "min_seconds": limits.min_seconds,
        "max_seconds": limits.max_seconds,
    }


def round_lines(
    rows: Sequence[RoundRow], refused: Mapping[bytes, Mapping[str, int]]
) -> list[Document]:
    """The history of rounds, the newest first, with what was refused in each."""
    return [
        {
            "step": row.step,
            "phase": row.phase.value,
            "opened_at": row.opened_at,
            "closed_at": row.closed_at,
            "charged": row.assigned,
            "updates": row.accepted,
            "refused": dict(refused.get(row.id, {})),
        }
        for row in rows
    ]


def release_lines(rows: Sequence[ReleaseRow]) -> list[Document]:
    """The history of C, the newest first."""
    return [
        {
            "version": row.version,
            "step": row.step,
            "devices": row.devices,
            "restores": row.restores,
            "made_at": row.facts.made_at,
            "items": row.facts.items,
            "zeros": row.facts.zeros,
            "whole_bytes": row.facts.whole_bytes,
            "delta_bytes": row.facts.delta_bytes,
            "kept": row.kept,
        }
        for row in rows
    ]


def quality_lines(found: Sequence[Quality]) -> list[Document]:
    """What was measured elsewhere."""
    return [
        {
            "version": one.version, "metric": one.metric, "value": one.value,
            "at": one.at, "note": one.note,
        }
        for one in found
    ]  # fmt: skip


def device_lines(states: DeviceStates, tokens: int) -> dict[str, int]:
    """Devices by state, and how many there are."""
    lines = {
        "ready": states.ready, "resting": states.resting, "waiting": states.waiting,
        "spent": states.spent, "expired": states.expired, "revoked": states.revoked,
    }  # fmt: skip
    return {"total": sum(lines.values()), **lines, "tokens": tokens}


def spent_lines(states: DeviceStates, rule: Privacy) -> Document:
    """What the device that was charged most has spent, by the rule in force."""
    most = max(states.charged, default=0)
    return {
        "most": most,
        "epsilon": finite(epsilon_after(most, rule)),
        "devices": {str(times): count for times, count in states.charged.items()},
    }


def epsilon_after(times: int, rule: Privacy) -> float:
    """Epsilon of a device after so many rounds, as it is charged."""
    return 0.0 if times == 0 else charged_epsilon(times, rule.charged_noise, rule.delta)


def finite(value: float) -> float | None:
    """As JSON can carry it."""
    return value if math.isfinite(value) else None


async def catalogue_lines(store: Store) -> Document:
    """Size, version and the largest categories."""
    extent, retired = await store.extent(), (await store.catalogue(2**31 - 1)).retired
    categories = await store.categories(CATEGORIES)
    return {
        "items": extent.items,
        "retired": len(retired),
        "version": extent.catalogue,
        "categories": [list(one) for one in categories],
    }
