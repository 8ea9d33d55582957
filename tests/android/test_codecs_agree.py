"""Whatever the bytes are, Java reads what Python reads and refuses what Python refuses.

Honest messages of the golden vectors with bytes changed and with fields changed, a few thousand of
them, through both codecs.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from typing import Any

import msgpack
import pytest

from fedrap_core.errors import FedRapError
from fedrap_core.plan import Plan, Scoring
from fedrap_core.wire import codec, messages
from tests.android.java_build import BRIDGE, ROOT, build_java

# Read by a device. Of a plan of `paper` Java looks at nothing but its name, to refuse it.
TYPES = ("enrolled", "certificate", "renewed", "offer", "accepted", "release", "delta", "catalogue",
         "forgotten", "plan", "scoring", "offer-request")  # fmt: skip
KINDS: dict[str, Any] = {
    **{str(kind.__struct_config__.tag): kind for kind in messages.Message.__subclasses__()},
    "plan": Plan,
    "scoring": Scoring,
}
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 3, 127, 128, 512, 513, 2**31, 2**31 + 1, 2**63 - 1, 2**64 - 1,
    -(2**63), 0.0, -0.0, 0.5, 1.0, 3.0, 1e-320, 1e6, 1.0000001e6, 1e12, 1e300, float("nan"),
    float("inf"), "", "solve", "paper", "é" * 40, "é" * 41, "𝄞" * 40, b"", bytes(8), bytes(16),
    bytes(32), bytes(65), bytes(1025), [], [1.0], [1, 0.5], [1.0, 0.75, 0.5], [1.0, 0.5, 0.75],
    [True], [2**64 - 1], {}, {"name": "solve"}, {"name": "solve", "dim": 3}, {"name": "guess"},
    {"dim": 3}, {b"x": 1}, {"a": {"b": [None]}}, msgpack.ExtType(5, b"odd"),
]  # fmt: skip


def _honest() -> list[tuple[str, bytes]]:
    file = json.loads((ROOT / "spec" / "vectors" / "codec.json").read_text("utf-8"))
    valid = [case for case in file["cases"] if case["valid"] and case["type"] in TYPES]
    return [(case["type"], bytes.fromhex(case["bytes"])) for case in valid]


def _changed_bytes(raw: bytes, rng: random.Random) -> bytes:
    out = bytearray(raw)
    for _ in range(rng.randint(1, 3)):
        if out:
            out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out[: rng.randrange(len(out) + 1)] if rng.random() < 0.1 else out)


def _changed_fields(raw: bytes, rng: random.Random) -> bytes:
    """One field, of the message or of a map in it, taken away, odd, or one too many."""
    top = here = msgpack.unpackb(raw)
    while (inner := [v for v in here.values() if isinstance(v, dict)]) and rng.random() < 0.6:
        here = rng.choice(inner)
    name, value = rng.choice([*here, "colour"]), rng.choice(ODD)
    if rng.random() < 0.1 and name in here:
        del here[name]
    else:
        here[name] = value
    return bytes(msgpack.packb(top))


def _python_says(kind: str, raw: bytes) -> str:
    inside = kind in ("plan", "scoring")
    try:
        (codec.decode_value if inside else codec.decode)(KINDS[kind], raw)
    except FedRapError as error:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).upper()
    return "ok"


def _is_of_paper(raw: bytes) -> bool:
    return b"\xa5paper" in raw


@pytest.fixture(scope="module")
def cases() -> list[tuple[str, bytes]]:
    rng, found = random.Random(10), []
    for kind, raw in _honest():
        found.append((kind, raw))
        found += [(kind, _changed_bytes(raw, rng)) for _ in range(100)]
        found += [(kind, _changed_fields(raw, rng)) for _ in range(200)]
    return [(kind, raw) for kind, raw in found if not (kind == "plan" and _is_of_paper(raw))]


@pytest.mark.spec("1.2", "1.3", "1.4", "1.5", "1.6", "5.1", "5.5")
def test_both_languages_read_and_refuse_the_same(cases: list[tuple[str, bytes]]) -> None:
    built = build_java()
    assert built.status == 0, built.said[-6000:]
    places = [str(BRIDGE / "core" / "target" / part) for part in ("classes", "test-classes")]
    done = subprocess.run(
        ["java", "-cp", ":".join(places), "io.fedrap.core.CodecOnStdin"],
        input="".join(f"{kind} {raw.hex()}\n" for kind, raw in cases),
        capture_output=True,
        text=True,
        check=True,
    )
    theirs, ours = done.stdout.split(), [_python_says(kind, raw) for kind, raw in cases]
    assert len(theirs) == len(ours)
    differ = [
        f"{kind} {raw.hex()[:400]}: Python says {mine}, Java {yours}"
        for (kind, raw), mine, yours in zip(cases, ours, theirs, strict=True)
        if mine != yours
    ]
    assert not differ, f"{len(differ)} of {len(cases)}\n" + "\n".join(differ[:10])
    assert 0.1 < ours.count("ok") / len(ours) < 0.9  # both answers were asked for
