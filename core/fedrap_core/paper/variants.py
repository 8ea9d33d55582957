"""Every variant of the paper, by name, as settings of the one method.

| name | what is different |
|---|---|
| fedrap | tanh curriculum, L1 on C |
| fedrap-c | no personal items D |
| fedrap-d | no shared items C, so nothing of C ever leaves |
| fedrap-no | no L1 norm |
| fedrap-l2 | Frobenius norm instead of L1 |
| fedrap-fixed, -sin, -square, -frac | another curriculum |
| fedrap-noise | clipped and noised: tau 0.1, z 1 |
| centrap | one step between two averages, everybody in it: centralised.py |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fedrap_core.plan import PaperMethod, Privacy

TAU = 0.1  # the paper's bound on a gradient
NOISE = 1.0  # its z


@dataclass(frozen=True)
class Variant:
    """A variant ready to run: the plan's two halves, and where it runs."""

    name: str
    method: PaperMethod
    privacy: Privacy
    centralised: bool = False


def _changed(**fields: object) -> Callable[[PaperMethod], PaperMethod]:
    return lambda method: msgspec.structs.replace(method, **fields)


_CHANGES: dict[str, Callable[[PaperMethod], PaperMethod]] = {
    "fedrap": _changed(),
    "fedrap-c": _changed(personal=False),
    "fedrap-d": _changed(common=False),
    "fedrap-no": _changed(penalty="none"),
    "fedrap-l2": _changed(penalty="l2"),
    "fedrap-fixed": _changed(curriculum="fixed"),
    "fedrap-sin": _changed(curriculum="sin"),
    "fedrap-square": _changed(curriculum="square"),
    "fedrap-frac": _changed(curriculum="frac"),
    "fedrap-noise": _changed(),
    "centrap": _changed(epochs=1),
}

NAMES: tuple[str, ...] = tuple(_CHANGES)


def make_variant(
    name: str, method: PaperMethod | None = None, privacy: Privacy | None = None
) -> Variant:
    """The variant with this name, changed from `method` and `privacy`.

    fedrap-noise clips the whole round's delta of C once, to eta·tau: clipping each of ten
    gradients to tau would let a round move C by up to ten times that (erratum 8).

    Raises:
        ValueError: there is no such variant; the message lists those there are.
    """
    if name not in _CHANGES:
        raise ValueError(f"no variant {name!r}; there are {', '.join(NAMES)}")
    changed = _CHANGES[name](PaperMethod() if method is None else method)
    privacy = Privacy() if privacy is None else privacy
    if name == "fedrap-noise":
        privacy = msgspec.structs.replace(privacy, clip=changed.rate * TAU, noise=NOISE)
    return Variant(name, changed, privacy, centralised=name == "centrap")
