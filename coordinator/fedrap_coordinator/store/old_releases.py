"""Releases that were stored before they had bitmaps (schema 4 and older), written anew."""

from __future__ import annotations

import msgpack
import numpy as np
import sqlalchemy as sa

from fedrap_coordinator.store import schema as t
from fedrap_core.wire.bitmaps import pack_entries


def give_bitmaps(db: sa.Connection) -> None:
    """Write every stored release in the form that devices read now; C and its hash stay."""
    r = t.release.c
    for version in list(db.scalars(sa.select(r.version))):  # one at a time: they are large
        body = bytes(db.scalar(sa.select(r.body).where(r.version == version)) or b"")
        db.execute(t.release.update().where(r.version == version).values(body=with_bitmap(body)))


def with_bitmap(body: bytes) -> bytes:
    """The bytes of a release with a bitmap, from those of one that has all its values.

    What is no such release stays as it is: whoever loads it says what is wrong with it.
    """
    try:
        fields = msgpack.unpackb(body)
        values = np.frombuffer(fields["values"], dtype=np.int8)
    except Exception:  # damaged bytes can fail in a dozen ways
        return body
    if "bitmap" in fields:
        return body
    bitmap, others = pack_entries(values)
    return bytes(msgpack.packb({**fields, "bitmap": bitmap, "values": others}, use_bin_type=True))
