"""The one way in which kernels are compiled, typed so that mypy sees through it.

Arrays as kernels see them.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be taken in another order, so that they use the whole width of the processor. NaN and
# infinity keep their meaning: kernels must notice when numbers run away.
_LOOSE = {"reassoc", "contract", "nsz"}


def code_folder(sources: Path, given: str = "") -> Path:
    """Where machine code of the kernels in `sources` is kept: another folder when one changes.

    Numba looks at the file of the compiled function alone. A kernel that calls one of another
    file would go on with the old one, and give yesterday's numbers without a word.
    """
    digest = sha256()
    for path in sorted(sources.glob("*.py")):
        digest.update(path.read_bytes())
    root = Path(given) if given else sources / "__pycache__"
    return root / f"kernels-{digest.hexdigest()[:16]}"


_FOLDER = code_folder(Path(__file__).parent, numba.config.CACHE_DIR)  # type: ignore[attr-defined]


def compiled(parallel: bool = False, exact: bool = False) -> Callable[[F], F]:
    """Compile a function to machine code at its first call, and keep the code on disk.

    With `parallel` its `numba.prange` loops run on all cores. With `exact` no sum is taken in
    another order and no product fused with one: the compiler makes use of that freedom in one
    process and not in the next, and where draws follow from a result a last digit is another run.
    """

    def compile_later(function: F) -> F:
        others = numba.config.CACHE_DIR  # type: ignore[attr-defined]
        numba.config.CACHE_DIR = str(_FOLDER)  # type: ignore[attr-defined]
        try:
            loose = False if exact else _LOOSE
            made = numba.njit(cache=True, fastmath=loose, parallel=parallel)(function)
        finally:
            numba.config.CACHE_DIR = others  # type: ignore[attr-defined]
        return cast("F", made)

    return compile_later


Floats = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
