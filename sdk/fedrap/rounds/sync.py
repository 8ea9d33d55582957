"""Fetching what is new of C: only what the task's authority signed, and only what follows.

A release is an entry of the authority's log. This device keeps the entry of the release that it
holds, and takes a newer one where the log leads from the one to the other. So nobody, the
coordinator included, can show it one history and then go on with another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedrap.errors import UpdateRefused
from fedrap.recommend.attributes import AttributesHead, ItemAttributes
from fedrap.recommend.release import read_release
from fedrap.rounds.state import RoundSnapshot, RoundState
from fedrap.transport import Transport
from fedrap_core.errors import BrokenModel, ForkedLog, SignatureInvalid
from fedrap_core.model import CommonItems
from fedrap_core.plan import OFF, AnyScoring
from fedrap_core.wire import problems
from fedrap_core.wire.attributes import check_attributes, check_page, page_digests
from fedrap_core.wire.authority import (
    check_leads,
    check_release,
    entry_digest,
    follows_at_once,
    is_signed_by,
    read_entry,
)
from fedrap_core.wire.messages import Delta, Offer, Release

MOST_PAGES = 500  # of the log, each of up to 200 releases; a device that slept longer starts anew


async def sync(
    state: RoundState, transport: Transport, device: RoundSnapshot, authority: bytes | None
) -> RoundSnapshot:
    """Fetch what is new of C and, with it, of the catalogue: items get rows with a release.

    A delta that does not fit is made good by fetching the whole. Returns the device as it is then.

    Raises:
        BrokenModel: the new release is damaged or hostile; the old one stays in use.
        SignatureInvalid: it is not what the authority signed; the old one stays in use.
        ForkedLog: it does not follow from the old one, which stays in use.
    """
    held = trusted_entry(device, authority)
    have = device.release_version if held else None
    message = await transport.release(have)
    if message is None:
        return device
    try:
        return await _adopt(state, transport, device, message, authority)
    except BrokenModel:
        if not isinstance(message, Delta):
            raise
    whole = await transport.release(None)
    return device if whole is None else await _adopt(state, transport, device, whole, authority)


def trusted_entry(device: RoundSnapshot, authority: bytes | None) -> bytes:
    """The entry of the release in use, where this authority signed it; otherwise nothing.

    A release of before releases were signed, or of before this device was enrolled, vouches for
    nothing, and the first one that the authority signed takes its place.
    """
    entry = b"" if device.model is None else device.model.entry
    return entry if entry and (authority is None or is_signed_by(authority, entry)) else b""


async def _adopt(
    state: RoundState,
    transport: Transport,
    device: RoundSnapshot,
    message: Release | Delta,
    authority: bytes | None,
) -> RoundSnapshot:
    credentials = device.credentials
    if credentials is not None and message.task != credentials.task:
        raise BrokenModel("a release of another task")
    if check_release(authority, message).staged is not OFF:
        raise SignatureInvalid(f"release {message.version} is staged, and not for every device")
    held = trusted_entry(device, authority)
    if held and device.staged:  # what was seen of the log since
        held = device.staged
    if held and entry_digest(held) != entry_digest(message.entry):
        await _check_follows(transport, held, message.entry)
    catalogue = device.catalogue
    if catalogue.version < message.catalogue:
        catalogue = catalogue.extended(await transport.catalogue(catalogue.count))
    await asyncio.to_thread(state.adopt, device, message, catalogue)
    return state.snapshot()


async def _check_follows(transport: Transport, held: bytes, signed: bytes) -> None:
    """Does the log lead from the entry that is held to this one? Raises ForkedLog."""
    last, wanted = held, read_entry(signed).version
    for _ in range(MOST_PAGES):
        if follows_at_once(last, signed):
            check_leads(last, [signed])
            return
        version = read_entry(last).version
        page = (await transport.log(version)).entries
        between = [one for one in page if version < read_entry(one).version < wanted]
        if not between:
            break
        check_leads(last, between)
        last = between[-1]
    raise ForkedLog(
        f"the log does not lead from release {read_entry(held).version}, which is held, to "
        f"release {wanted}: this device was shown another history than others"
    )


@dataclass(frozen=True, eq=False)
class SuccessorModel:
    """A release that is trained against and not used for lists."""

    common: CommonItems
    message: Release

    @cached_property
    def gram(self) -> npt.NDArray[np.float64]:
        """C'C."""
        rows = self.common.items.to_float().astype(np.float64)
        return rows.T @ rows

    @property
    def digest(self) -> bytes:
        """The hash of C that offers name."""
        return self.message.model

    @property
    def step(self) -> int:
        """The step that made it."""
        return self.message.step

    @property
    def entry(self) -> bytes:
        """Its entry of the log."""
        return self.message.entry

    @property
    def scoring(self) -> AnyScoring:
        """How devices will recommend from it."""
        return self.message.scoring


async def beside_successor(
    transport: Transport, device: RoundSnapshot, offer: Offer, authority: bytes
) -> RoundSnapshot:
    """The device with the successor that an offer is about, for this round alone.

    Raises:
        SignatureInvalid, BrokenModel: it is not what the authority staged beside the release that
            is held.
    """
    held = device.model
    assert held is not None
    message = await transport.release_of(offer.release)
    entry = check_release(authority, message)
    ours = (entry.task, entry.version, entry.model) == (offer.task, offer.release, offer.model)
    if offer.beside != held.common.version or not ours or entry.staged is OFF:
        raise SignatureInvalid(f"release {offer.release} is no successor of the one in use")
    if message.size != held.common.size:  # the history has rows of the one in use
        raise BrokenModel("a successor of other items than the release in use")
    common = await asyncio.to_thread(read_release, message, None, device.catalogue)
    return replace(device, model=SuccessorModel(common, message))


class AttributeState(Protocol):
    """Where a device keeps the items' public attributes. Each call is durable when it returns."""

    def attributes(self) -> ItemAttributes:
        """Those that are held."""

    def adopt_attributes(self, head: AttributesHead, pages: Sequence[bytes]) -> None:
        """Use these from now on."""


async def sync_attributes(
    state: AttributeState, transport: Transport, task: bytes | None, authority: bytes | None
) -> None:
    """Fetch the pages of public attributes that changed; all of them or, on any fault, none.

    Raises:
        BrokenModel, SignatureInvalid: they are damaged or hostile; the old ones stay in use.
    """
    held = state.attributes()
    try:
        message = await transport.attributes()
    except UpdateRefused as refused:
        if refused.problem is problems.NOT_FOUND:  # a coordinator of before there were any
            return
        raise
    entry = check_attributes(authority, message)
    if task is not None and entry.task != task:
        raise BrokenModel("attributes of another task")
    if not held.head.gives_way_to(entry):
        return
    known = dict(zip(page_digests(held.head.pages), held.pages, strict=True))
    pages, size = [], 0
    for number, digest in enumerate(page_digests(message.pages)):
        raw = known.get(digest)
        if raw is None:
            raw = await transport.attribute_page(digest)
            check_page(entry, number, digest, raw)
        size += len(raw)
        if size > entry.size_bytes:
            raise BrokenModel("pages of attributes with more bytes than were signed")
        pages.append(raw)
    head = AttributesHead(
        entry.release, entry.version, entry.count, entry.rows, entry.names, message.pages
    )
    if head != held.head:
        await asyncio.to_thread(state.adopt_attributes, head, pages)
