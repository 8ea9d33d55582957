"""Fetching what is new of C: only what the task's authority signed, and only what follows.

A release is an entry of the authority's log. This device keeps the entry of the release that it
holds, and takes a newer one where the log leads from the one to the other. So nobody, the
coordinator included, can show it one history and then go on with another.
"""

from __future__ import annotations

import asyncio

from fedrap.rounds.state import RoundSnapshot, RoundState
from fedrap.transport import Transport
from fedrap_core.errors import BrokenModel, ForkedLog
from fedrap_core.wire.authority import (
    check_leads,
    check_release,
    entry_digest,
    follows_at_once,
    is_signed_by,
    read_entry,
)
from fedrap_core.wire.messages import Delta, Release

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
    check_release(authority, message)
    held = trusted_entry(device, authority)
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
