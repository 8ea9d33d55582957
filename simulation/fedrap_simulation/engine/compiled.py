"""The one way in which kernels are compiled, typed so that mypy sees through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be taken in another order, so that they use the whole width of the processor. NaN and
# infinity keep their meaning: kernels must notice when numbers run away.
_LOOSE = {"reassoc", "contract", "nsz"}


def compiled(parallel: bool = False) -> Callable[[F], F]:
    """Compile a function to machine code at its first call, and keep the code on disk.

    With `parallel` its `numba.prange` loops run on all cores.
    """
    return cast("Callable[[F], F]", numba.njit(cache=True, fastmath=_LOOSE, parallel=parallel))
