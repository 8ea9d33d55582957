"""What a release and a catalogue cost: bytes a device fetches, and time on the coordinator.

`whole`, `delta`: compressed bytes as served, with a bitmap of the non-zero entries and those
alone. `plain`: what the whole would take with all int8 values instead, compressed the same way.

    python benchmarks/bench_release.py [--json PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np

from fedrap_coordinator.domain.records import Extent, NewItem, StoredRelease
from fedrap_coordinator.rounds.releases import Model, encode_since, first_model, load_model
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.model import CommonItems
from fedrap_core.quantize import QuantizedRows, quantize_rows
from fedrap_core.solve.server_step import zero_smallest
from fedrap_core.wire.codec import encode
from fedrap_core.wire.releases import pack_release

SEED = 7
DIM = 32


def _model(rows: QuantizedRows, version: int, base: Model) -> Model:
    common, m = CommonItems(version, rows), base.message
    message = pack_release(m.task, version, common, m.catalogue, m.scoring)
    return load_model(StoredRelease(version, version, 1, encode(message), None))


def sizes(items: int, zeros: float, changed: float) -> dict[str, float]:
    """A C of Laplace entries with exact zeros, and a later one with some rows changed."""
    rng = np.random.default_rng(SEED)
    base = first_model(b"t" * 16, Extent(items, 1), msgspec.structs.replace(Settings(), seed=SEED))
    dense = zero_smallest(rng.laplace(0, 0.1, (items, DIM)), zeros)
    old = _model(quantize_rows(dense), 2, base)
    rows = rng.choice(items, int(changed * items), replace=False)
    moved = dense.copy()
    moved[rows] += np.where(moved[rows] != 0, rng.laplace(0, 0.01, (len(rows), DIM)), 0.0)
    started = time.perf_counter()
    new = _model(quantize_rows(moved), 3, base)
    delta = encode_since(old.stored, new)
    seconds = time.perf_counter() - started
    whole, plain = len(new.encoded.gzipped), _plain_bytes(new)
    return {
        "items": items, "zeros": zeros, "changed_rows": changed,
        "whole_bytes": whole, "delta_bytes": len(delta.gzipped), "plain_bytes": plain,
        "saved": round(1 - whole / plain, 3), "seconds": round(seconds, 3),
    }  # fmt: skip


def _plain_bytes(model: Model) -> int:
    values = model.common.items.values.tobytes()
    plain = msgspec.structs.replace(model.message, bitmap=b"", values=values)
    return len(gzip.compress(encode(plain), 6, mtime=0))


async def catalogue(items: int) -> dict[str, float]:
    """Import a catalogue with two attributes each, then look at it as the page does."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqlStore(f"sqlite:///{Path(folder) / 'c.sqlite'}")
        await store.open()
        rows = [
            NewItem(f"item-{n}", {"category": f"c{n % 50}", "title": f"t{n}"}) for n in range(items)
        ]
        took = {}
        for name, act in (
            ("import", lambda: store.import_items(rows)),
            ("import_again", lambda: store.import_items(rows)),
            ("search", lambda: store.items(0, 100, "t9999")),
            ("categories", lambda: store.categories(12)),
            ("alike_of_100_new", lambda: store.shared_attributes(items - 100)),
        ):  # fmt: skip
            started = time.perf_counter()
            await act()
            took[f"{name}_seconds"] = round(time.perf_counter() - started, 3)
        await store.close()
    return {"items": items, **took}


def main() -> None:
    """Print the table as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result = {
        "seed": SEED, "dim": DIM,
        "releases": [
            sizes(items, zeros, changed)
            for items in (1682, 32266)
            for zeros in (0.0, 0.5, 0.9)
            for changed in (0.01, 0.3)
        ],
        "catalogue": asyncio.run(catalogue(100_000)),
    }  # fmt: skip
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
