"""Reports as messages: who can open which share, and whom a device takes for its helper."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec
import pytest

from fedrap_core.errors import MalformedMessage, SignatureInvalid
from fedrap_core.plan import OFF
from fedrap_core.wire.codec import decode, encode, encode_value
from fedrap_core.wire.keys import new_private_key, public_point
from fedrap_core.wire.messages import HelperKey, Offer
from fedrap_core.wire.seal import seal_id
from fedrap_core.wire.shares import (
    SEALED_HELPER_BYTES,
    HelperReport,
    OpenRound,
    SplitUpdate,
    check_helper,
    open_helper,
    open_leader,
    seal_report,
    set_digest,
    sign_round,
)
from tests.core.split.made import ROUND, some_report, some_terms

LEADER, HELPER, IDENTITY = new_private_key(), new_private_key(), new_private_key()
TERMS = some_terms()
PINNED = public_point(IDENTITY.public_key())


def some_offer() -> Offer:
    plan, model = encode_value(TERMS.plan), hashlib.sha256(b"a model").digest()
    point = public_point(HELPER.public_key())
    opened = OpenRound(
        task=b"t" * 16, round=ROUND, step=3, model=model, plan=plan, items=TERMS.items, ends_at=1.0
    )
    helper = HelperKey(
        name="a partner",
        seal_key=point,
        seal_id=seal_id(HELPER.public_key()),
        signature=sign_round(IDENTITY, opened, point),
    )
    return Offer(
        task=b"t" * 16, round=ROUND, step=3, plan=plan, release=2, model=model,
        seal_key=public_point(LEADER.public_key()), seal_id=seal_id(LEADER.public_key()),
        helper=helper,
    )  # fmt: skip


def sealed() -> SplitUpdate:
    offer = some_offer()
    assert offer.helper is not OFF
    return seal_report(offer, offer.helper, b"d" * 16, some_report(TERMS, 1))


def for_helper(update: SplitUpdate) -> HelperReport:
    return HelperReport(report=update.report, public=update.public, helper=update.helper, seen=b"")


@pytest.mark.spec("13.3")
def test_each_server_opens_its_own_share_and_no_other() -> None:
    update, report = sealed(), some_report(TERMS, 1)
    update = decode(SplitUpdate, encode(update))
    assert len(update.helper) == SEALED_HELPER_BYTES == 145
    assert open_leader(update, LEADER) == report.leader
    asked = (update.task, update.plan, update.round, for_helper(update))
    assert open_helper(*asked, HELPER) == report.helper
    wrongs: list[Callable[[], bytes]] = [
        lambda: open_leader(update, HELPER),
        lambda: open_helper(*asked, LEADER),
        lambda: open_leader(msgspec.structs.replace(update, leader=update.helper), HELPER),
        lambda: open_leader(msgspec.structs.replace(update, report=bytes(16)), LEADER),
        lambda: open_leader(msgspec.structs.replace(update, round=bytes(16)), LEADER),
        lambda: open_leader(msgspec.structs.replace(update, plan=bytes(32)), LEADER),
    ]
    for wrong in wrongs:
        with pytest.raises(MalformedMessage):
            wrong()


@pytest.mark.spec("13.1")
def test_a_helper_is_who_the_app_pins_and_signed_this_very_round() -> None:
    offer = some_offer()
    helper = check_helper(offer, PINNED)
    assert helper == offer.helper
    assert check_helper(decode(Offer, encode(offer)), PINNED) == offer.helper
    change = msgspec.structs.replace
    other = public_point(LEADER.public_key())
    swapped = change(helper, seal_key=other, seal_id=seal_id(LEADER.public_key()))
    for wrong in (
        change(offer, helper=OFF),
        change(offer, helper=swapped),
        change(offer, helper=change(helper, seal_id=bytes(8))),
        change(offer, helper=change(helper, signature=bytes(64))),
        change(offer, task=bytes(16)),
        change(offer, round=bytes(16)),
        change(offer, step=4),
        change(offer, model=bytes(32)),
        change(offer, plan=offer.plan + b" "),
    ):
        with pytest.raises(SignatureInvalid):
            check_helper(wrong, PINNED)
    with pytest.raises(SignatureInvalid):
        check_helper(offer, public_point(LEADER.public_key()))


def test_the_name_of_a_set_does_not_depend_on_its_order() -> None:
    ids = [bytes([i]) * 16 for i in range(3)]
    assert set_digest(set(ids)) == set_digest({*ids[1:], ids[0]})
    assert set_digest(set(ids)) != set_digest(set(ids[:2]))
