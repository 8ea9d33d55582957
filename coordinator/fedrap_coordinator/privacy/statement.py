"""The privacy statement that a coordinator serves and its operator reads: one document."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict
from typing import Any

from fedrap_coordinator.domain.records import DeviceStates
from fedrap_coordinator.domain.rounds import RoundLimits
from fedrap_core.plan import Plan, split_of
from fedrap_core.privacy.accounting import gaussian_epsilon
from fedrap_core.privacy.statement import TRUSTED_PAIR, epsilon_against, state_policy
from fedrap_core.wire.codec import encode_value


def privacy_document(
    plan: Plan, limits: RoundLimits, task: bytes, released: int, states: DeviceStates
) -> dict[str, Any]:
    """The privacy guarantee, as JSON can carry it: unbounded numbers are null.

    Of the steps to come it goes by `plan`, of those that were made by the rules of then.
    """
    stated = asdict(state_policy(plan.privacy, states.most_promised))
    most = max(states.charged, default=0)
    spent = gaussian_epsilon(math.sqrt(states.most_spent), plan.privacy.delta)
    for name in ("mu", "epsilon"):
        stated[name] = stated[name] if math.isfinite(stated[name]) else None
    return {
        "task": task.hex(),
        "policy": hashlib.sha256(encode_value(plan.privacy)).hexdigest(),
        "method": plan.method.__struct_config__.tag,
        "mode": "sealed" if split_of(plan) is None else "split",
        "rounds": {
            "released": released,
            "total": limits.total,
            "min_updates": plan.min_updates,
            "max_updates": limits.max_updates,
        },
        **stated,
        "spent": {"most": most, "epsilon": spent if math.isfinite(spent) else None},
        "amplified_epsilon": None,  # nothing is claimed from sampling
        **_two_servers(plan, states),
    }


def _two_servers(plan: Plan, states: DeviceStates) -> dict[str, Any]:
    """What two servers change: against whom which epsilon holds. Empty where there is one."""
    if split_of(plan) is None:
        return {}
    against = epsilon_against(plan.privacy, states.most_promised)
    return {
        "experimental": "two servers: no formal proof of the whole exists; wants outside review",
        "against": {who: value if math.isfinite(value) else None for who, value in against.items()},
        "trusted": [asdict(one) for one in TRUSTED_PAIR],
    }
