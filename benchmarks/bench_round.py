"""What one update costs, step by step, on the device and on the coordinator; ratios in one run.

python benchmarks/bench_round.py [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedrap_core.aggregate import Accumulator
from fedrap_core.model import CommonItems, History
from fedrap_core.plan import Plan, Scoring, SolveMethod
from fedrap_core.privacy.mechanisms import clip_to_norm
from fedrap_core.quantize import quantize_rows
from fedrap_core.solve.device_share import compute_share, pose_share
from fedrap_core.solve.user import derive_user, follow_user
from fedrap_core.wire.codec import decode, encode, encode_value
from fedrap_core.wire.keys import new_private_key, public_point
from fedrap_core.wire.messages import Offer, Update
from fedrap_core.wire.releases import model_hash
from fedrap_core.wire.seal import open_update, seal_id, seal_update
from fedrap_core.wire.share import decode_share, encode_share, uniform_count
from fedrap_core.wire.signing import sign, signed_bytes, verify

ITEMS, DIM, OWN, SEED, REPEATS = 1682, 32, 100, 0, 200


def _microseconds(action: Callable[[], object]) -> float:
    """Median of many calls, after a few to warm up."""
    for _ in range(5):
        action()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return 1e6 * float(np.median(times))


def _interactions(rng: np.random.Generator, count: int) -> dict[str, float]:
    """u and D after one more interaction with a history of `count`: followed, and from scratch."""
    common = CommonItems(1, quantize_rows(rng.normal(0, 0.3, (5000, 64))))
    gram, scoring = common.gram(), Scoring()
    whole = History(rng.choice(5000, count, replace=False), np.ones(count))
    older = History(whole.rows[1:], whole.weights[1:])
    before = derive_user(common, gram, older, scoring)
    follow = _microseconds(lambda: follow_user(before, common, gram, whole, scoring))
    anew = _microseconds(lambda: derive_user(common, gram, whole, scoring))
    return {"follow_us": follow, "anew_us": anew, "follow_over_anew": follow / anew}


def measure() -> dict[str, object]:
    """Microseconds of each step of one update, and its bytes against dense float32 C."""
    rng = np.random.default_rng(SEED)
    common = CommonItems(1, quantize_rows(rng.normal(0, 0.3, (ITEMS, DIM))))
    gram = common.gram()
    history = History(rng.choice(ITEMS, OWN, replace=False), np.ones(OWN))
    plan = Plan(method=SolveMethod(dim=DIM))
    method = SolveMethod(dim=DIM)
    private, device_key = new_private_key(), new_private_key()
    public = private.public_key()
    offer = Offer(
        task=bytes(16), round=bytes(16), step=1, plan=encode_value(plan), release=1,
        model=model_hash(common.items), seal_key=public_point(public), seal_id=seal_id(public),
    )  # fmt: skip
    share = compute_share(pose_share(common, gram, history, method)).update
    clipped = clip_to_norm(share, plan.privacy.clip)
    uniform = rng.random(uniform_count(clipped))
    plaintext = encode_share(clipped, uniform)
    update = seal_update(offer, bytes(16), plaintext)
    body = encode(update)
    message = signed_bytes("POST", "/v1/rounds/x/updates", body, bytes(16), 1)
    signature = sign(device_key, message)
    accumulator = Accumulator(ITEMS, DIM, plan.privacy.clip)
    device = {
        "solve": _microseconds(lambda: compute_share(pose_share(common, gram, history, method))),
        "clip": _microseconds(lambda: clip_to_norm(share, 1.0)),
        "quantise_and_encode": _microseconds(lambda: encode_share(clipped, uniform)),
        "seal": _microseconds(lambda: encode(seal_update(offer, bytes(16), plaintext))),
        "sign": _microseconds(lambda: sign(device_key, message)),
    }
    coordinator = {
        "verify": _microseconds(lambda: verify(device_key.public_key(), message, signature)),
        "decode_and_unseal": _microseconds(lambda: open_update(decode(Update, body), private)),
        "decode_share": _microseconds(lambda: decode_share(plaintext, DIM)),
        "add": _microseconds(lambda: accumulator.add(clipped)),
    }
    dense = 4 * ITEMS * DIM
    interactions = {str(count): _interactions(rng, count) for count in (100, 1000, 3000)}
    return {
        "settings": {"items": ITEMS, "dim": DIM, "own": OWN, "seed": SEED, "repeats": REPEATS},
        "device_us": device,
        "coordinator_us": coordinator,
        "device_us_total": sum(device.values()),
        "coordinator_us_total": sum(coordinator.values()),
        "one_more_tap": interactions,
        "update_bytes": len(body),
        "dense_bytes": dense,
        "update_over_dense": len(body) / dense,
    }


def main(argv: list[str] | None = None) -> int:
    """Print the result as JSON, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    text = json.dumps(measure(), indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
