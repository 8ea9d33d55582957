"""One round from this device's side, in the order of spec/PROTOCOL.md and resumable at each step.

A round works on a frozen snapshot of the device and commits once, before anything leaves. A crash
before that commit means that nothing happened; a crash after it means that the same bytes are sent
again.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from fedrap.errors import CoordinatorUnreachable, UpdateRefused
from fedrap.results import RoundReport
from fedrap.rounds import eligibility, ledger
from fedrap.rounds.enrolment import Membership, authority_of
from fedrap.rounds.ledger import Floor
from fedrap.rounds.prepare import LocalData, Prepared, prepare_update
from fedrap.rounds.state import RoundModel, RoundSnapshot, RoundState
from fedrap.rounds.sync import beside_successor, sync
from fedrap.trainers.protocol import Trainer
from fedrap.trainers.select import WORTH_AN_ACCELERATOR, work_of
from fedrap.transport import Transport
from fedrap.transport.credentials import Credentials, Signer
from fedrap_core.errors import (
    BrokenModel,
    Diverged,
    FedRapError,
    ForkedLog,
    MalformedMessage,
    SignatureInvalid,
)
from fedrap_core.paper.sampling import private_stream
from fedrap_core.plan import OFF, PaperMethod, PaperScoring, Plan, sequence_of, split_of
from fedrap_core.privacy.statement import state_policy
from fedrap_core.wire import problems
from fedrap_core.wire.authority import open_signed
from fedrap_core.wire.codec import decode_value
from fedrap_core.wire.messages import Accepted, Message, Offer, Signed
from fedrap_core.wire.shares import check_helper

LONGEST_WAIT = 60.0  # seconds for a slot; proxies cut longer requests off


@dataclass(frozen=True, eq=False)
class RoundTask:
    """One device's part of one round: all that its update follows from."""

    offer: Offer
    plan: Plan
    credentials: Credentials
    model: RoundModel
    local: LocalData
    now: float  # seconds of wall time, for the ledger


class RoundSteps(Protocol):
    """The two steps of a round that take a device's time. A simulation brings its own."""

    async def compute(self, task: RoundTask, trainer: Trainer) -> Prepared:
        """The sealed update; raises like `prepare_update`."""

    async def send(
        self, transport: Transport, signer: Signer, round_id: bytes, body: bytes
    ) -> Signed:
        """Hand the update in for a receipt; raises like `Transport.send_update`."""


class DeviceSteps:
    """Computes in a thread, off the event loop, and sends at once."""

    async def compute(self, task: RoundTask, trainer: Trainer) -> Prepared:
        # Keyed by the round: after a crash the device draws the same numbers again.
        uniform = private_stream(task.credentials.private_key, task.offer.round)
        device = task.credentials.device
        return await asyncio.to_thread(
            prepare_update, task.offer, task.plan, device, task.local, trainer, uniform, task.now
        )

    async def send(
        self, transport: Transport, signer: Signer, round_id: bytes, body: bytes
    ) -> Signed:
        return await transport.send_update(signer, round_id, body)


class RoundRunner:
    """Runs one round over a transport.

    `trainer` gives what computes so many products; `floor` is what this device insists on; `pinned`
    is the authority that the app pins, if it does; `helper` the second server, where the app
    demands private aggregation; `wait` is how many seconds to wait for a slot, where there is none
    at once.
    """

    def __init__(
        self,
        state: RoundState,
        transport: Transport,
        membership: Membership,
        trainer: Callable[[int], Trainer],
        floor: Floor,
        *,
        pinned: bytes | None = None,
        helper: bytes | None = None,
        wait: float = 0.0,
        steps: RoundSteps | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state = state
        self._pinned = pinned
        self._helper = helper
        self._transport = transport
        self._membership = membership
        self._trainer = trainer
        self._floor = floor
        self._wait = min(max(0.0, wait), LONGEST_WAIT)
        self._steps: RoundSteps = steps or DeviceSteps()
        self._clock = clock

    async def run(self, device: RoundSnapshot) -> RoundReport:
        """Join a round if there is one for this device; renews its certificate where need be.

        Raises:
            CoordinatorUnreachable, UpdateRefused, BrokenModel, AnotherAuthority, SignatureInvalid,
            ForkedLog: the caller makes a report of it.
        """
        authority_of(device.credentials, self._pinned)  # before anything is sent
        credentials = await self._membership.credentials(device)  # 3: enrol once, renew in time
        if credentials is None:
            return RoundReport(False, eligibility.NO_TOKEN)
        try:
            return await self._join(device, credentials)
        except UpdateRefused as refused:
            if refused.problem is not problems.CERTIFICATE_EXPIRED:
                raise
        renewed = await self._membership.renew(credentials)  # 3.6: the clock here may be wrong
        return await self._join(self._state.snapshot(), renewed)

    async def _join(self, device: RoundSnapshot, credentials: Credentials) -> RoundReport:
        signer = Signer(credentials, self._state.next_nonce)
        authority = authority_of(credentials, self._pinned)
        assert authority is not None  # an enrolled device has one
        for round_id, body in device.outbox:  # 7.7: what a crash left is sent first, and alone
            await self._send(signer, authority, round_id, body)
            return RoundReport(True, sent_bytes=len(body))
        device = replace(device, credentials=credentials)
        device = await sync(self._state, self._transport, device, authority)  # 7.2, 7.13, 9
        if device.model is not None and not len(device.history.rows):
            return RoundReport(False, eligibility.NOTHING_TO_SHARE)  # would cost a slot too
        device, offer = await self._request_offer(device, signer, authority)  # 7.1, 7.15, 9.1
        if device.model is None:
            return RoundReport(False, eligibility.NO_RELEASE)
        if offer.beside is not OFF:  # 9.8
            device = await beside_successor(self._transport, device, offer, authority)
        plan = read_plan(offer)  # 5.1
        now = self._clock()
        refused = why_refuse(offer, plan, credentials, device, self._floor, now)  # 7.1, 7.5
        refused = refused or why_another_mode(offer, plan, self._helper)  # 13.1
        if refused is not None:
            changed = refused == eligibility.POLICY_CHANGED
            offered = state_policy(plan.privacy) if changed else None
            return RoundReport(False, refused, step=offer.step, offered=offered)
        model = device.model
        assert model is not None  # `why_refuse` looked at it
        local = LocalData(model.common, model.gram, device.history, device.trained)
        task = RoundTask(offer, plan, credentials, model, local, now)
        prepared = await self._prepare(task)  # 5, 6, 4: train, clip, quantise, seal
        if isinstance(prepared, str):
            return RoundReport(False, prepared, step=offer.step)
        if not self._state.commit_round(offer.round, prepared):  # 7.7: kept before it leaves
            return RoundReport(False, eligibility.NO_CONSENT, step=offer.step)
        await self._send(signer, authority, offer.round, prepared.body)  # 7.8
        return RoundReport(True, step=offer.step, sent_bytes=len(prepared.body), loss=prepared.loss)

    async def _request_offer(
        self, device: RoundSnapshot, signer: Signer, authority: bytes
    ) -> tuple[RoundSnapshot, Offer]:
        """A slot, waited for; when a release came out in between, fetch it and ask again."""
        time_now = asyncio.get_running_loop().time
        until = time_now() + self._wait
        for last in (False, False, True) if self._wait else (False, True):
            left = max(0.0, until - time_now())
            try:
                signed = await self._transport.offer(signer, device.release_version or 0, left)
                return device, opened(authority, signed, Offer)
            except UpdateRefused as refused:
                if last or refused.problem is not problems.STALE_MODEL:
                    raise
            device = await sync(self._state, self._transport, device, authority)
        raise AssertionError("unreachable")

    async def _prepare(self, task: RoundTask) -> Prepared | str:
        """The update, or a word for why there is none."""
        work = work_of(task.plan.method, task.local.common.size)
        if work < WORTH_AN_ACCELERATOR:
            trainer = self._trainer(work)
        else:  # it may import torch
            trainer = await asyncio.to_thread(self._trainer, work)
        try:
            return await self._steps.compute(task, trainer)
        except BrokenModel:
            return eligibility.BROKEN_RELEASE
        except Diverged:
            self._state.count_dropped()
            return eligibility.DIVERGED
        except CoordinatorUnreachable:
            raise
        except FedRapError as error:  # such as a sealing key that is no point of the curve
            raise CoordinatorUnreachable(f"an offer that cannot be followed: {error}") from error

    async def _send(self, signer: Signer, authority: bytes, round_id: bytes, body: bytes) -> None:
        """Until the coordinator has said yes or a final no, the bytes stay in the outbox."""
        try:
            receipt = await self._steps.send(self._transport, signer, round_id, body)
        except UpdateRefused as refused:
            if refused.final:
                self._state.forget_outgoing(round_id)
            raise
        check_receipt(opened(authority, receipt, Accepted), round_id, body)
        self._state.forget_outgoing(round_id)


M = TypeVar("M", bound=Message)


def opened(authority: bytes, signed: Signed, kind: type[M]) -> M:
    """The message that the authority signed.

    Raises:
        SignatureInvalid: it did not.
        CoordinatorUnreachable: it signed something that this version cannot read.
    """
    try:
        return open_signed(authority, signed, kind)
    except SignatureInvalid as error:
        what = kind.__struct_config__.tag
        raise SignatureInvalid(f"the answer is no {what!r} of the task's authority") from error
    except FedRapError as error:
        raise CoordinatorUnreachable(f"not an answer of this protocol: {error}") from error


def read_plan(offer: Offer) -> Plan:
    """The plan of an offer.

    Raises:
        CoordinatorUnreachable: a plan of another version.
    """
    try:
        return decode_value(Plan, offer.plan)
    except FedRapError as error:
        raise CoordinatorUnreachable(f"a plan that this version cannot read: {error}") from error


def why_refuse(
    offer: Offer,
    plan: Plan,
    credentials: Credentials,
    device: RoundSnapshot,
    floor: Floor,
    now: float,
) -> str | None:
    """Why this device does not follow an offer, or None. Pure.

    Raises:
        ForkedLog: the offer names other numbers than this device holds under the same version.
    """
    if offer.task != credentials.task:
        return eligibility.ANOTHER_TASK
    model = device.model
    if model is None:
        return problems.STALE_MODEL.code
    if offer.release == model.common.version and offer.model != model.digest:
        raise ForkedLog(f"an offer for another C of release {offer.release} than the one in use")
    if offer.step <= model.step:  # 9.4: signed, but of a round that is over
        return eligibility.OLD_OFFER
    if offer.release != model.common.version or plan.method.dim != model.common.dim:
        return problems.STALE_MODEL.code
    if isinstance(plan.method, PaperMethod) != isinstance(model.scoring, PaperScoring):
        return problems.STALE_MODEL.code
    part, rows = sequence_of(plan.method), model.common.sequence
    if part is not None and (rows is None or rows.kernels.shape != (part.kernels, part.dim)):
        return problems.STALE_MODEL.code
    # An entry is written with the bytes to send, and those were answered: the outbox is empty.
    if any(entry.round == offer.round for entry in device.entries):
        return eligibility.ALREADY_IN_ROUND
    return ledger.why_not(device.entries, offer.step, plan, floor, now, device.consented_at)


def why_another_mode(offer: Offer, plan: Plan, helper: bytes | None) -> str | None:
    """Why this is not the aggregation that the app wants, or None. Pure."""
    if (split_of(plan) is None) != (helper is None):
        return eligibility.ANOTHER_AGGREGATION
    if helper is None:
        return None
    try:
        check_helper(offer, helper)
    except (SignatureInvalid, MalformedMessage):
        return eligibility.ANOTHER_HELPER
    return None


def check_receipt(receipt: Accepted, round_id: bytes, body: bytes) -> None:
    """Is this receipt for these bytes?

    Raises:
        CoordinatorUnreachable: it is for others.
    """
    if receipt.round != round_id or receipt.digest != hashlib.sha256(body).digest():
        raise CoordinatorUnreachable("the receipt is for other bytes")
