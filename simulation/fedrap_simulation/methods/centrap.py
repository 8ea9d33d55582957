"""CentRAP, the centralised twin of FedRAP: the same objective with all data in one place.

In each step every user moves u and D once, and C moves by the mean of the users' steps, as in
fedrap_core.paper.centralised; devices, of which there are none, pay nothing. FedRAP takes ten
local steps before C is averaged, so there are ten times as many steps here as rounds there, and
each has a tenth of the decay.
"""

from __future__ import annotations

import msgspec

from fedrap_simulation.methods.paper import PLAN, FedRap

CENTRAP = FedRap(
    "centrap",
    plan=msgspec.structs.replace(PLAN, round_decay=PLAN.round_decay ** (1.0 / PLAN.epochs)),
    epochs=40 * PLAN.epochs,  # steps
    longest=100 * PLAN.epochs,
    look=5 * PLAN.epochs,
)
