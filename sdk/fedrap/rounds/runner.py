"""One round from this device's side, resumable at each step.

enrol once, renew in time -> send what is left over -> sync -> ask for a place -> check the own
ledger -> prepare -> one transaction -> send. A crash before the transaction means that nothing
happened; a crash after it means that the same bytes are sent again.
"""

from __future__ import annotations

import asyncio
import hashlib
import time

from fedrap.errors import CoordinatorUnreachable, UpdateRefused
from fedrap.results import RoundReport
from fedrap.rounds import eligibility, ledger
from fedrap.rounds.enrolment import Attest, Membership
from fedrap.rounds.ledger import Floor
from fedrap.rounds.prepare import LocalData, Prepared, prepare_update
from fedrap.rounds.state import RoundModel, RoundState
from fedrap.trainers.protocol import Trainer
from fedrap.transport import Transport
from fedrap.transport.credentials import Credentials, Signer
from fedrap_core.errors import BrokenModel, Diverged, FedRapError
from fedrap_core.paper.sampling import Uniform, private_stream
from fedrap_core.plan import PaperMethod, PaperScoring, Plan
from fedrap_core.wire import problems
from fedrap_core.wire.codec import decode_value
from fedrap_core.wire.messages import Delta, Offer, Release

LONGEST_WAIT = 60.0  # seconds for a place; proxies cut longer requests off


class RoundRunner:
    """Runs one round over a transport. `token` is only needed to enrol.

    `wait`: seconds to wait for a place, where there is none at once.
    """

    def __init__(
        self,
        state: RoundState,
        transport: Transport,
        trainer: Trainer,
        floor: Floor,
        token: str | None,
        attest: Attest | None = None,
        wait: float = 0.0,
    ) -> None:
        self._state = state
        self._transport = transport
        self._trainer = trainer
        self._floor = floor
        self._wait = min(max(0.0, wait), LONGEST_WAIT)
        self._membership = Membership(state, transport, token, attest)

    async def run(self) -> RoundReport:
        """Join a round if there is one for this device; renews its certificate where need be.

        Raises:
            CoordinatorUnreachable, UpdateRefused: for the caller to turn into a report.
        """
        credentials = await self._membership.credentials()
        if credentials is None:
            return RoundReport(False, eligibility.NO_TOKEN)
        try:
            return await self._join(credentials)
        except UpdateRefused as refused:
            if refused.problem is not problems.CERTIFICATE_EXPIRED:
                raise
        return await self._join(await self._membership.renew(credentials))

    async def _join(self, credentials: Credentials) -> RoundReport:
        signer = Signer(credentials, self._state.next_nonce)
        for round_id, body in self._state.outbox():
            await self._send(signer, round_id, body)
            return RoundReport(True, sent_bytes=len(body))
        await sync(self._state, self._transport)
        held = self._state.model()
        if held is not None and not len(self._state.history().rows):
            return RoundReport(
                False, eligibility.NOTHING_TO_SHARE
            )  # an empty share costs a place too
        offer = await self._ask(signer)
        model = self._state.model()
        if model is None:
            return RoundReport(False, eligibility.NO_RELEASE)
        plan, refused = self._judge(offer, credentials, model)
        if refused is not None:
            return RoundReport(False, refused, step=offer.step)
        try:
            prepared = await self._compute(offer, plan, credentials, model)
        except BrokenModel:
            return RoundReport(False, eligibility.BROKEN_RELEASE, step=offer.step)
        except Diverged:
            self._state.count_dropped()
            return RoundReport(False, eligibility.DIVERGED, step=offer.step)
        except FedRapError as error:  # such as a sealing key that is no point of the curve
            raise CoordinatorUnreachable(f"an offer that cannot be followed: {error}") from error
        if not self._state.consented():  # taken back while the round was being computed
            return RoundReport(False, eligibility.NO_CONSENT, step=offer.step)
        self._state.commit_round(offer.round, prepared)
        await self._send(signer, offer.round, prepared.body)
        return RoundReport(True, step=offer.step, sent_bytes=len(prepared.body), loss=prepared.loss)

    async def _ask(self, signer: Signer) -> Offer:
        """A place, waited for; when a release came out in between, fetch it and ask again."""
        until = time.monotonic() + self._wait
        for last in (False, False, True) if self._wait else (False, True):
            left = max(0.0, until - time.monotonic())
            try:
                return await self._transport.offer(signer, self._held(), left)
            except UpdateRefused as refused:
                if last or refused.problem is not problems.STALE_MODEL:
                    raise
            await sync(self._state, self._transport)
        raise AssertionError("unreachable")

    def _held(self) -> int:
        model = self._state.model()
        return 0 if model is None else model.common.version

    def _judge(
        self, offer: Offer, credentials: Credentials, model: RoundModel
    ) -> tuple[Plan, str | None]:
        """The plan, and why this device does not follow it, if so."""
        try:
            plan = decode_value(Plan, offer.plan)
        except FedRapError as error:
            raise CoordinatorUnreachable(
                f"a plan that this version cannot read: {error}"
            ) from error
        if offer.task != credentials.task:
            return plan, "another-task"
        paper = isinstance(plan.method, PaperMethod)
        same = paper == isinstance(model.scoring, PaperScoring)
        if offer.model != model.digest or plan.method.dim != model.common.dim or not same:
            return plan, problems.STALE_MODEL.code
        entries = self._state.entries()
        # An entry is written with the bytes to send, and those were answered: the outbox is empty.
        if any(entry.round == offer.round for entry in entries):
            return plan, eligibility.ALREADY_IN_ROUND
        return plan, ledger.why_not(entries, offer.step, plan, self._floor)

    async def _compute(
        self, offer: Offer, plan: Plan, credentials: Credentials, model: RoundModel
    ) -> Prepared:
        """The local part, off the event loop."""
        return await asyncio.to_thread(self._prepare, offer, plan, credentials, model)

    def _prepare(
        self, offer: Offer, plan: Plan, credentials: Credentials, model: RoundModel
    ) -> Prepared:
        state = self._state
        local = LocalData(model.common, model.gram, state.history(), state.trained())
        device, now, uniform = credentials.device, state.now(), self._uniform(offer, credentials)
        return prepare_update(offer, plan, device, local, self._trainer, uniform, now)

    def _uniform(self, offer: Offer, credentials: Credentials) -> Uniform:
        """Keyed by the round: after a crash the device draws the same numbers again."""
        return private_stream(credentials.private_key, offer.round)

    async def _send(self, signer: Signer, round_id: bytes, body: bytes) -> None:
        """Until the coordinator has said yes or a final no, the bytes stay in the outbox."""
        try:
            answer = await self._transport.send_update(signer, round_id, body)
        except UpdateRefused as refused:
            if refused.final:
                self._state.forget_outgoing(round_id)
            raise
        if answer.digest != hashlib.sha256(body).digest():
            raise CoordinatorUnreachable("the receipt is for other bytes")
        self._state.forget_outgoing(round_id)


async def sync(state: RoundState, transport: Transport) -> None:
    """Fetch what is new of C and, with it, of the catalogue: items get numbers with a release.

    A delta that does not fit is made good by fetching the whole.

    Raises:
        BrokenModel: the new release is damaged or hostile; the old one stays in use.
    """
    message = await transport.release(state.release_version())
    if message is None:
        return
    try:
        await _adopt(state, transport, message)
    except BrokenModel:
        if not isinstance(message, Delta):
            raise
        whole = await transport.release(None)
        if whole is not None:
            await _adopt(state, transport, whole)


async def _adopt(state: RoundState, transport: Transport, message: Release | Delta) -> None:
    credentials, held = state.credentials(), state.release_version()
    if credentials is not None and message.task != credentials.task:
        raise BrokenModel("a release of another task")
    if held is not None and message.version < held:
        raise BrokenModel(f"release {message.version} is older than {held}, which is in use")
    catalogue = state.catalogue()
    if catalogue.version < message.catalogue:
        catalogue = catalogue.extended(await transport.catalogue(catalogue.count))
    await asyncio.to_thread(state.adopt, message, catalogue)
