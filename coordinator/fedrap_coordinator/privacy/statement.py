"""The privacy statement that a coordinator serves and its operator reads: one document."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict
from typing import Any

from fedrap_coordinator.domain.rounds import RoundLimits
from fedrap_core.plan import Plan
from fedrap_core.privacy.statement import state_policy
from fedrap_core.wire.codec import encode_value


def privacy_document(plan: Plan, limits: RoundLimits, task: bytes, released: int) -> dict[str, Any]:
    """The privacy guarantee under `plan`, as JSON can carry it: unbounded numbers are null."""
    stated = asdict(state_policy(plan.privacy))
    for name in ("mu", "epsilon"):
        stated[name] = stated[name] if math.isfinite(stated[name]) else None
    return {
        "task": task.hex(),
        "policy": hashlib.sha256(encode_value(plan.privacy)).hexdigest(),
        "method": plan.method.__struct_config__.tag,
        "mode": "sealed",
        "rounds": {
            "released": released,
            "total": limits.total,
            "min_updates": plan.min_updates,
            "max_updates": limits.max_updates,
        },
        **stated,
        "amplified_epsilon": None,  # nothing is claimed from sampling
    }
