"""The scalars that matter most, one after the other: what is asked next, from what is in force.

A ladder: each rung asks about one scalar, all others as they are by then, and the winner by `pick`
is in force for the rungs after it. The simulation tunes by the same rungs as the product.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedrap_core.plan import OFF, Scoring, sequence_scoring
from fedrap_core.questions.estimates import BlockEstimate, pick

ADAPT = "sequence.adapt"  # is off at 0, and says nothing without order
# The scalar, and the values that are worth trying for it: recency first, then how small u is, how
# much what was not chosen weighs, how much D borrows, then the sequence part, popularity, and how
# far the query is adapted.
LADDER: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("tau", (2.0, 1.0, 4.0)),
    ("gamma", (0.1, 0.03, 0.3)),
    ("ridge", (60.0, 30.0, 120.0)),
    ("w0", (0.5, 0.2, 1.0)),
    # Large where neighbours know more than a rank: on tafeng 3 and 10 are worth 15 % over 0.3.
    ("rho", (0.3, 0.0, 0.1, 1.0, 3.0, 10.0)),
)
MIXTURE: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("sequence.solve", (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)),
    ("sequence.kappa", (0.5, 0.0, 1.0, 1.5)),
    (ADAPT, (0.0, 0.125, 0.25, 0.5, 1.0)),
)
RUNGS = (*LADDER, *MIXTURE)
_BOTH_WAYS = (0.5, 2.0)  # of a value that lies off its rung: what is in force may be far from usual
ORDER = ("gamma", "tau")  # say nothing where the order of a history means nothing


def rung_changes(scoring: Scoring, rung: int) -> list[dict[str, float]]:
    """What the candidates of a rung change; none where it says nothing of such a release."""
    name, values = RUNGS[rung]
    now = _value(scoring, name)
    part = sequence_scoring(scoring)
    if now is None or (name in ORDER and scoring.beta == 0.0):
        return []
    if name == ADAPT and part is not None and not part.ordered:
        return []
    if now not in values and now > 0:
        values = tuple(sorted({*values, *(now * way for way in _BOTH_WAYS)}))
    return [{name: value} for value in values if value != now]


def changed(scoring: Scoring, change: Mapping[str, float]) -> Scoring:
    """The scoring with other scalars, those of the sequence part named `sequence.kappa`.

    Raises:
        ValueError: there is no such scalar, or it cannot have that value.
    """
    fields = msgspec.to_builtins(scoring)
    for name, value in change.items():
        if _value(scoring, name) is None:
            raise ValueError(f"the release has no scalar {name!r}")
        section, _, inner = name.rpartition(".")
        (fields[section] if section else fields)[inner] = value
    try:
        return msgspec.convert(fields, Scoring)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _value(scoring: Scoring, name: str) -> float | None:
    """A scalar by its name; None where there is none, or where it belongs to how C was learnt."""
    section, _, inner = name.rpartition(".")
    place = sequence_scoring(scoring) if section == "sequence" else scoring
    if place is None or section not in ("", "sequence"):
        return None
    found = getattr(place, inner, None)
    if found is OFF and name == ADAPT:
        found = 0.0
    return found if type(found) is float else None


def winner(found: BlockEstimate | None) -> int:
    """Which candidate of a rung is in force from now on; 0 is the one that was."""
    if found is None:
        return 0
    devices = found.devices
    totals = [found.first.value * devices]
    totals += [totals[0] + one.value * devices for one in found.differences]
    noise = max((one.noise for one in found.differences), default=0.0) * devices
    return pick(totals, devices, noise)
