"""The user's own data as a zip of readable JSON: all that the device knows, but no key."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from fedrap.results import Exported, Status
from fedrap.storage.device_state import DeviceContents
from fedrap.storage.moving import seal

_README = """What this app's recommender keeps of you, on this device only.

interactions.json    what you did: item, kind, weight and time
hidden.json          items that are never to be recommended
consents.json        what you agreed to, under which policy, and when
ledger.json          the rounds this device took part in, written before anything was sent
personal_items.json  how your own history moves the score of items; your user vector, if kept
identity.json        the random number by which the coordinator knows this device
status.json          where the device stands

Keys are not in here. Times are in UTC.
"""


def write_export(
    path: Path, known: DeviceContents, status: Status, passphrase: str | None = None
) -> Exported:
    """Write the zip, readable by its owner only; there is the whole file, or the old one.

    With a passphrase it is sealed, and `moving.read_export` opens it.
    """
    texts = {"README.txt": _README}
    for name, value in _documents(known, status).items():
        texts[name] = json.dumps(_plain(value), indent=2, ensure_ascii=False) + "\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    raw = made.getvalue() if passphrase is None else seal(made.getvalue(), passphrase)
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    try:
        with open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return Exported(path, tuple(texts), len(known.interactions), path.stat().st_size)


def _documents(known: DeviceContents, status: Status) -> dict[str, object]:
    who = known.credentials
    return {
        "interactions.json": [
            {
                "item": one.item,
                "kind": one.kind,
                "weight": one.weight,
                "at": _time(one.at),
                "seconds": one.at,  # exactly, for another device
            }
            for one in known.interactions
        ],
        "hidden.json": list(known.hidden),
        "consents.json": [
            {
                "recommend": one.fetches,
                "train": one.train,
                "measure": one.measure,
                "policy": one.policy,
                "at": _time(one.at),
            }
            for one in known.consents
        ],
        "ledger.json": [
            {
                "step": one.step,
                "round": one.round,
                "question": one.question,
                "noise": one.noise,
                "delta": one.delta,
                "at": _time(one.at),
            }
            for one in known.entries
        ],
        "personal_items.json": _personal(known),
        "identity.json": {} if who is None else {"device": who.device, "task": who.task},
        "status.json": dataclasses.asdict(status),
    }


def _personal(known: DeviceContents) -> dict[str, object]:
    """D as the last round left it; from `paper` also u, which `solve` derives when needed."""
    found: dict[str, object] = {"score_parts": dict(known.personal)}
    trained = known.trained
    if trained is not None:
        found["user_vector"] = trained.user.tolist()
        found["bias"] = trained.bias
        found["rows"] = dict(zip(map(str, trained.rows), trained.personal.tolist(), strict=True))
    return found


def _time(at: float) -> str | float:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat()
    except (ValueError, OverflowError, OSError):  # an app may give any number
        return at


def _plain(value: object) -> object:
    """JSON has no bytes and no infinity."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
