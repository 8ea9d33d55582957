"""A list of 20 items in both languages: the same C and the same history.

python ranking_cases.py ITEMS SECONDS     prints what RankingTimes prints in Java
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedrap_core.model import CommonItems, History
from fedrap_core.plan import Scoring
from fedrap_core.quantize import quantize_rows
from fedrap_core.ranking import rank
from fedrap_core.solve.user import derive_user

SEED, DIM, INTERACTIONS, LIST = 0, 32, 100, 20
CATALOGUES = (1_682, 32_266, 1_000_000)


def make_case(items: int) -> tuple[CommonItems, History]:
    """A C whose spectrum falls as a trained one's, and a history."""
    rng = np.random.default_rng(SEED)
    rows = rng.normal(0, 0.12, size=(items, DIM)).astype(np.float32) * np.geomspace(4, 0.25, DIM)
    interactions = rng.permutation(items)[:INTERACTIONS]
    return CommonItems(1, quantize_rows(rows)), History(interactions, np.ones(INTERACTIONS))


def write_case(path: Path, items: int) -> None:
    """As RankingTimes reads it: big-endian."""
    common, history = make_case(items)
    with path.open("wb") as file:
        file.write(struct.pack(">iii", items, DIM, INTERACTIONS))
        file.write(common.items.values.tobytes())
        file.write(common.items.scales.astype(">f4").tobytes())
        file.write(history.rows.astype(">i4").tobytes())


def quickest(work: Callable[[], object], seconds: float) -> float:
    """The shortest time in microseconds."""
    took: list[float] = []
    end = time.perf_counter() + seconds
    while len(took) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        took.append(1e6 * (time.perf_counter() - start))
    return min(took)


def main() -> int:
    """Times of Python."""
    items, seconds = int(sys.argv[1]), float(sys.argv[2])
    common, history = make_case(items)
    gram, scoring = common.gram(), Scoring()
    allowed = np.ones(items, dtype=np.bool_)
    allowed[history.rows] = False
    taste = derive_user(common, gram, history, scoring)
    found = {
        "taste_us": round(
            quickest(lambda: derive_user(common, gram, history, scoring), seconds), 1
        ),
        "list_us": round(quickest(lambda: rank(common, taste, scoring, LIST, allowed), seconds), 1),
        "rows": rank(common, taste, scoring, LIST, allowed).rows.tolist(),
    }
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
