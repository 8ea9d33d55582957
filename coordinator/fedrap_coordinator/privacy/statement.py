"""The privacy statement that a coordinator serves and its operator reads: one document."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict
from typing import Any

from fedrap_coordinator.domain.records import DeviceStates
from fedrap_coordinator.domain.rounds import RoundLimits
from fedrap_coordinator.settings import Questions
from fedrap_core.plan import Plan, split_of
from fedrap_core.privacy.accounting import charged_epsilon, gaussian_epsilon, step_cost
from fedrap_core.privacy.statement import TRUSTED_PAIR, epsilon_against, state_policy
from fedrap_core.wire.codec import encode_value


def privacy_document(
    plan: Plan,
    limits: RoundLimits,
    task: bytes,
    released: int,
    states: DeviceStates,
    asking: Questions,
) -> dict[str, Any]:
    """The privacy guarantee, as JSON can carry it: unbounded numbers are null.

    Of the steps to come it goes by `plan`, of those that were made by the rules of then.
    """
    questions = _questions(asking, plan)
    stated = asdict(state_policy(plan.privacy, states.most_promised))
    most = max(states.charged, default=0)
    spent = gaussian_epsilon(math.sqrt(states.most_spent), plan.privacy.delta)
    for name in ("mu", "epsilon"):
        stated[name] = stated[name] if math.isfinite(stated[name]) else None
    for one in stated["lifetime"]:
        one["epsilon"] = one["epsilon"] if math.isfinite(one["epsilon"]) else None
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
        "questions": questions | {"epsilon_with_rounds": _with_rounds(plan, states, questions)},
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


def _questions(asking: Questions, plan: Plan) -> dict[str, Any]:
    """What all answers of a device to questions about quality cost it, beside its rounds.

    With two servers each adds all of the noise: one of them has the epsilon that is charged against
    it, and the public, who sees both, less.
    """
    delta = plan.privacy.delta
    noise = asking.noise(delta)
    charged = charged_epsilon(asking.answers, noise, delta)
    found: dict[str, Any] = {
        "answers": asking.answers,
        "noise": noise,
        "least": asking.least,
        "epsilon": charged,
    }
    if split_of(plan) is not None:
        public = charged_epsilon(asking.answers, noise * math.sqrt(2.0), delta)
        found["against"] = {"leader": charged, "helper": charged, "public": public}
    return found


def _with_rounds(plan: Plan, states: DeviceStates, questions: dict[str, Any]) -> float | None:
    """Epsilon of a device that does all it may: Gaussian mechanisms add up in mu^2."""
    rounds = state_policy(plan.privacy, states.most_promised).mu ** 2
    answers = questions["answers"] * step_cost(questions["noise"])
    epsilon = gaussian_epsilon(math.sqrt(rounds + answers), plan.privacy.delta)
    return epsilon if math.isfinite(epsilon) else None
