"""The checks of one decoded update against its round. Pure: what, not where or when."""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_coordinator.errors import Refusal
from fedrap_core.sparse import RowUpdate
from fedrap_core.wire import problems
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Offer, Update
from fedrap_core.wire.seal import open_update
from fedrap_core.wire.share import decode_share


def check_envelope(update: Update, offer: Offer, device: bytes) -> None:
    """The update is this device's answer to this offer.

    Raises:
        Refusal: signed by another device, or made for another task, round, model or plan.
    """
    if update.device != device:
        raise Refusal(problems.BAD_SIGNATURE, "the update names another device than its signature")
    if update.task != offer.task or update.round != offer.round:
        raise Refusal(problems.STALE_MODEL, "the update was made for another round")
    same = (
        update.step == offer.step
        and update.model == offer.model
        and update.plan == hashlib.sha256(offer.plan).digest()
        and update.seal_id == offer.seal_id
    )
    if not same:
        raise Refusal(problems.STALE_MODEL, "the update was made for another model or plan")


def open_share(
    update: Update, private: ec.EllipticCurvePrivateKey, size: int, dim: int
) -> RowUpdate:
    """The plaintext share, checked against the model's shape.

    Raises:
        MalformedMessage, UnsupportedVersion, WrongShape, NotFinite: it cannot be counted.
    """
    share = decode_share(open_update(update, private), dim)
    share.check(size, dim)
    return share


def read_update(raw: bytes, max_bytes: int) -> Update:
    """The envelope in a request's body; raises like `codec.decode`."""
    return decode(Update, raw, max_bytes)
