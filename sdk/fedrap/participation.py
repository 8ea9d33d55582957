"""From local data to what the device keeps and what it sends: one pure function.

solve -> rows and triangle -> clip -> quantise -> encode -> pad -> seal
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap.ledger import Entry
from fedrap_core.learn import compute_share, pose_share
from fedrap_core.model import CommonItems, History
from fedrap_core.plan import Plan, SolveMethod
from fedrap_core.privacy import clip_to_norm
from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import Offer
from fedrap_core.wire.seal import seal_update
from fedrap_core.wire.share import encode_share, uniform_shape


@dataclass(frozen=True, eq=False)
class Prepared:
    """An update ready to leave, the ledger entry that must be written first, and the loss."""

    body: bytes
    entry: Entry
    loss: float


def prepare_update(
    offer: Offer,
    plan: Plan,
    device: bytes,
    common: CommonItems,
    gram: npt.NDArray[np.float64],
    history: History,
    rng: np.random.Generator,
    now: float,
) -> Prepared:
    """This device's sealed answer to an offer. `gram` is C'C of `common`; `rng` rounds.

    Raises:
        BrokenModel: C gives no finite solution; nothing must be sent.
    """
    assert isinstance(plan.method, SolveMethod)
    share = compute_share(pose_share(common, gram, history, plan.method))
    update = clip_to_norm(share.update, plan.privacy.clip)
    plaintext = encode_share(update, rng.random(uniform_shape(update)))
    body = encode(seal_update(offer, device, plaintext))
    entry = Entry(offer.step, offer.round, plan.privacy.noise, plan.privacy.delta, now)
    return Prepared(body, entry, share.loss)
