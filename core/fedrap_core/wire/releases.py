"""A release of C as a message, and the hash that names its numbers."""

from __future__ import annotations

import hashlib
import struct

import numpy as np

from fedrap_core.errors import BrokenModel
from fedrap_core.model import CommonItems
from fedrap_core.plan import AnyScoring
from fedrap_core.quantize import QuantizedRows
from fedrap_core.wire.messages import Release

MAX_RELEASE_BYTES = 600 * 1024 * 1024


def model_hash(items: QuantizedRows) -> bytes:
    """SHA-256 of shape, scales and values; a device checks it before it uses a release."""
    size, dim = items.shape
    digest = hashlib.sha256(b"fedrap/1 model" + struct.pack("<II", size, dim))
    digest.update(items.scales.astype("<f4").tobytes())
    digest.update(np.ascontiguousarray(items.values).tobytes())
    return digest.digest()


def pack_release(
    task: bytes, step: int, common: CommonItems, catalogue: int, scoring: AnyScoring
) -> Release:
    """The message that carries this version of C."""
    return Release(
        task=task,
        version=common.version,
        step=step,
        size=common.size,
        dim=common.dim,
        catalogue=catalogue,
        scoring=scoring,
        model=model_hash(common.items),
        scales=common.items.scales.astype("<f4").tobytes(),
        values=np.ascontiguousarray(common.items.values).tobytes(),
    )


def unpack_release(release: Release) -> CommonItems:
    """C of a release, its hash checked.

    Raises:
        BrokenModel: sizes disagree, the hash is another, or the numbers are unusable.
    """
    if len(release.scales) != 4 * release.size or len(release.values) != release.size * release.dim:
        raise BrokenModel("a release whose arrays do not have the size that it states")
    items = QuantizedRows(
        np.frombuffer(release.values, dtype=np.int8).reshape(release.size, release.dim),
        np.frombuffer(release.scales, dtype="<f4").astype(np.float32),
    )
    if model_hash(items) != release.model:
        raise BrokenModel("a release whose numbers do not have the hash that it states")
    return CommonItems(release.version, items)
