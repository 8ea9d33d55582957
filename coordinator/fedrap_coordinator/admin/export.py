"""A task as files for other programs: C, items, rounds, releases, ledger, privacy. No device."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedrap_coordinator.admin import documents
from fedrap_coordinator.admin.actions import ALL_ROUNDS, AdminActions
from fedrap_coordinator.domain.policy import read_policy
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.privacy.statement import privacy_document
from fedrap_coordinator.rounds.releases import load_model, plan_after
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.plan import Plan
from fedrap_core.wire.codec import decode_value

_ROWS = 10_000  # items read at once


async def statement_of(store: Store, settings: Settings, sources: Sources) -> dict[str, Any]:
    """The privacy statement as database and settings have it, served or not."""
    task, stored = await store.task_id(sources.token_bytes(16)), await store.release(None)
    raw = await store.policy()
    if raw is not None:  # what the shell that asks is set to does not matter
        settings = settings.under(read_policy(raw))
    found = await store.current_round()
    if found is not None:  # a round keeps the rules that it was opened with
        plan = decode_value(Plan, found[1])
    else:
        plan = settings.plan() if stored is None else plan_after(load_model(stored), settings)
    released = 0 if stored is None else stored.step
    states = await store.device_states(released + 1, plan.privacy, sources.clock())
    return privacy_document(plan, settings.round, task, released, states, settings.questions)


async def export(admin: AdminActions, folder: Path, version: int | None) -> dict[str, str]:
    """Write everything into `folder`; returns what each file is.

    Raises:
        ConfigError: the folder is not empty, or there is no such release.
    """
    store, settings = admin.store, admin.settings
    stored = await store.release(version)
    if stored is None:
        which = "yet" if version is None else f"{version}, or its body was dropped"
        raise ConfigError(f"there is no release {which}")
    _make_empty(folder)
    model = await asyncio.to_thread(load_model, stored)
    common = model.common.items.to_float().astype("<f4")
    np.save(folder / "common.npy", common)
    part = model.common.sequence
    if part is not None:
        np.savez(
            folder / "sequence.npz",
            outputs=part.outputs.to_float(),
            offsets=part.offsets.to_float(),
            bias=part.bias,
            kernels=part.kernels,
        )
    await _items(store, folder / "items.csv")
    message = model.message
    head = {
        "task": message.task.hex(), "version": stored.version, "step": stored.step,
        "devices": stored.devices, "items": model.common.size, "dim": model.common.dim,
        "model": message.model.hex(), "scoring": msgspec.to_builtins(message.scoring),
        "common_sha256": hashlib.sha256((folder / "common.npy").read_bytes()).hexdigest(),
    }  # fmt: skip
    _write(folder / "release.json", head)
    _write(
        folder / "releases.json", documents.release_lines(await store.release_history(ALL_ROUNDS))
    )
    rows, refused = await store.rounds(ALL_ROUNDS), await store.refusals(ALL_ROUNDS)
    _write(folder / "rounds.json", documents.round_lines(rows, refused))
    _write(folder / "quality.json", documents.quality_lines(await store.quality(ALL_ROUNDS)))
    _write(folder / "privacy.json", await statement_of(store, settings, admin.sources))
    _write(folder / "ledger.json", await admin.ledger())
    words = f"the sequence part of release {stored.version}: outputs, offsets, bias, kernels"
    return {
        "common.npy": f"C of release {stored.version}: float32 {common.shape}",
        **({} if part is None else {"sequence.npz": words}),
        "items.csv": "row, item, retired, and attributes as JSON",
        "release.json": "version, step, hash, scoring",
        "releases.json": "all versions there were",
        "rounds.json": "all rounds, with refusals by reason",
        "quality.json": "what was measured elsewhere",
        "privacy.json": "the privacy guarantee in force",
        "ledger.json": "what was charged, checked against the guarantee",
    }


def _make_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already and not empty")
    folder.mkdir(parents=True, exist_ok=True)


async def _items(store: Store, path: Path) -> None:
    start = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "item", "retired", "attributes"])
        while some := await store.items(start, _ROWS):
            for one in some:
                attributes = json.dumps(dict(one.attributes), ensure_ascii=False)
                writer.writerow([one.row, one.id, int(one.retired), attributes])
            start = some[-1].row + 1


def _write(path: Path, value: object) -> None:
    text = json.dumps(msgspec.to_builtins(value), indent=2)
    path.write_text(text + "\n", encoding="utf-8")
