"""The one rule of b and K: who may take part in a step.

Pure; coordinator, stores, fakes and devices ask here.
"""

from __future__ import annotations

from fedrap_core.plan import Privacy
from fedrap_core.wire import problems
from fedrap_core.wire.problems import Problem


def why_not(
    last_step: int | None, participations: int, step: int, privacy: Privacy
) -> Problem | None:
    """None when the device may join; otherwise the problem that says why not."""
    if last_step == step:
        return None
    if participations >= privacy.cap:
        return problems.BUDGET_SPENT
    if last_step is not None and step - last_step < privacy.separation:
        return problems.TOO_SOON
    return None
