"""The seam between the coordinator and its database, in domain verbs.

Each method is one transaction: it happens whole or not at all, also across a kill -9. A body may
run more than once, so none has effects elsewhere. tests/contracts runs one suite over all stores.
Here are verbs only; the values they take and give are in `domain`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from fedrap_coordinator.domain.decisions import (
    SlotRequest,
    SlotResult,
    SlotRule,
    Submission,
    SubmissionResult,
)
from fedrap_coordinator.domain.questions import GivenAnswer, QuestionRow, QuestionState
from fedrap_coordinator.domain.records import (
    AT_ONCE,
    AdminRecord,
    Attribute,
    AuditEntry,
    AuditRow,
    CataloguePage,
    Charge,
    Counts,
    DeviceRecord,
    DeviceStates,
    EnrolmentOutcome,
    Extent,
    Imported,
    Issuer,
    ItemRow,
    NewItem,
    Quality,
    ReleaseRow,
    RoundRow,
    StoredRelease,
    Terms,
    Ticket,
)
from fedrap_coordinator.domain.rollouts import Rollout
from fedrap_coordinator.domain.rounds import Phase, Round, RoundCounts
from fedrap_core.plan import Privacy
from fedrap_core.wire.problems import Problem


class Store(Protocol):
    """All durable state of a coordinator.

    Where a method takes an `audit`, that entry is written in the same transaction, its outcome
    "refused" when the answer is False.
    """

    serves: bool  # does the database, as far as was last seen? Its owner logs every change
    trouble: str  # what it said when it did not; empty while it serves

    def probe(self) -> Awaitable[None]:
        """Write a little and take it back; raises StoreGone while the database does not serve."""
        ...

    def give_back(self) -> Awaitable[None]:
        """Give some of the room that nothing is kept in any more back to the disk."""
        ...

    async def open(self) -> None:
        """Ready for use; refuses a database of another schema with StoreUnavailable."""
        ...

    async def close(self) -> None:
        """Give everything back."""
        ...

    def alone(self) -> AbstractAsyncContextManager[bool]:
        """Held by one process at a time, and freed when it dies; False when another has it.

        What is done under it is conditional all the same: a database that went away and came back
        may have given it to somebody else meanwhile.
        """
        ...

    def task_id(self, fresh: bytes) -> Awaitable[bytes]:
        """The task's id; `fresh` is kept if there was none."""
        ...

    def policy(self, fresh: bytes | None = None) -> Awaitable[bytes | None]:
        """The policy in force; `fresh` is that from now on where there is none."""
        ...

    def change_policy(
        self, policy: bytes, *, was: bytes, audit: AuditEntry | None = None
    ) -> Awaitable[bool]:
        """Another policy is in force from now on; False when `was` is not in force any more."""
        ...

    def adopted(self) -> Awaitable[bytes | None]:
        """The scalars that votes chose last, as the coordinator wrote them down."""
        ...

    def adopt(self, scalars: bytes, audit: AuditEntry | None = None) -> Awaitable[None]:
        """These are chosen from now on."""
        ...

    def secret(self, name: str, fresh: bytes) -> Awaitable[bytes]:
        """A value that all processes share; `fresh` is kept if there was none."""
        ...

    def counts(self) -> Awaitable[Counts]:
        """Totals."""
        ...

    # Enrolment and devices.

    def add_tokens(
        self, digests: Sequence[bytes], now: float, audit: AuditEntry | None = None
    ) -> Awaitable[None]:
        """Keep the SHA-256 of some one-time enrolment tokens.

        Raises:
            TokenExists: one was added before; none was added now.
        """
        ...

    def enrol(
        self, token: bytes, device: bytes, public_key: bytes, now: float, terms: Terms = AT_ONCE
    ) -> Awaitable[bool]:
        """Use up a token and add the device; False when the token is unknown or used.

        Raises:
            DeviceExists: there is a device of that id; the token is not used up.
        """
        ...

    def enrol_signed(
        self, ticket: Ticket, device: bytes, public_key: bytes, now: float, terms: Terms = AT_ONCE
    ) -> Awaitable[EnrolmentOutcome]:
        """Use up a signed token's one-time id, count it for its account, and add the device.

        Raises:
            DeviceExists: there is a device of that id; nothing is used up or counted.
        """
        ...

    def device(self, device: bytes) -> Awaitable[DeviceRecord | None]:
        """A device's record."""
        ...

    def devices(self, after: bytes, count: int) -> Awaitable[Sequence[DeviceRecord]]:
        """Up to `count` devices beyond the id `after`, in order of id."""
        ...

    def device_keys(self, devices: Sequence[bytes]) -> Awaitable[Sequence[bytes | None]]:
        """The public keys of these devices; None for those that are not known."""
        ...

    def use_nonce(self, device: bytes, nonce: int) -> Awaitable[bool]:
        """Remember a nonce; False when it is not larger than all before."""
        ...

    def renew_device(self, device: bytes, valid_until: float, level: str) -> Awaitable[None]:
        """Keep the end of a device's new certificate."""
        ...

    def revoke_device(
        self, device: bytes, now: float, audit: AuditEntry | None = None
    ) -> Awaitable[bool]:
        """No slot for this device any more; False when it is not known or was revoked before."""
        ...

    def forget_device(self, device: bytes) -> Awaitable[None]:
        """Drop a device's key, nonce and record. Its id stays in rounds it took part in.

        Of a device that was revoked the id stays, so that its key never enrols again.
        """
        ...

    # Rounds.

    def open_round(self, round_: Round, plan: bytes) -> Awaitable[bool]:
        """Keep a new round; False when its step is open, released, or behind us."""
        ...

    def current_round(self) -> Awaitable[tuple[Round, bytes] | None]:
        """The round that is neither released nor abandoned, with its counts and its plan."""
        ...

    def progress(self) -> Awaitable[tuple[tuple[Round, bytes] | None, int | None]]:
        """The current round, and the latest release that is for everybody; in one look."""
        ...

    def set_phase(
        self, round_id: bytes, phase: Phase, was: Phase | None = None, now: float | None = None
    ) -> Awaitable[bool]:
        """Keep a round's new phase, with the time where that is its end.

        False when it is not in the phase `was` any more.

        An abandoned round's sealed bodies are destroyed.
        """
        ...

    def assign_slots(
        self, round_id: bytes, requests: Sequence[SlotRequest], rule: SlotRule, now: float
    ) -> Awaitable[tuple[Sequence[SlotResult], RoundCounts]]:
        """Count the nonces of these requests, give slots and charge for them."""
        ...

    def add_updates(
        self, round_id: bytes, submissions: Sequence[Submission], max_updates: int, now: float
    ) -> Awaitable[tuple[Sequence[SubmissionResult], RoundCounts]]:
        """Count the nonces of these requests and keep their sealed updates, so many in all."""
        ...

    def rounds(self, count: int) -> Awaitable[Sequence[RoundRow]]:
        """The last `count` rounds, the newest first."""
        ...

    def charges(self, round_id: bytes) -> AsyncIterator[Sequence[Charge]]:
        """Who had a slot in a round, in order of device, in bounded chunks."""
        ...

    def sealed_updates(self, round_id: bytes) -> AsyncIterator[Sequence[bytes]]:
        """The sealed bodies of a round in order of device, in bounded chunks."""
        ...

    def add_release(
        self,
        release: StoredRelease,
        round_id: bytes | None,
        rollout: Rollout | None = None,
    ) -> Awaitable[None]:
        """Keep a version of C; its round is released and the sealed bodies are destroyed.

        `rollout`, where it is staged by one, is kept as it is given, in the same transaction.

        Raises:
            AlreadyReleased: its step or version was released before, or another release follows
                the same entry of the log; nothing was changed.
        """
        ...

    # Releases.

    def release(self, version: int | None) -> Awaitable[StoredRelease | None]:
        """A version of C, or the latest that is for everybody."""
        ...

    def update_sets(self) -> Awaitable[Mapping[int, bytes]]:
        """By step: the digest of the updates that it was made from, where that is known."""
        ...

    def learner(self, version: int) -> Awaitable[bytes | None]:
        """The state of the sequence part that was kept with a release; None: none, or dropped."""
        ...

    def sign_release(self, release: StoredRelease) -> Awaitable[None]:
        """Begin the log with a release that was made before there was one: its body and entry.

        Raises:
            AlreadyReleased: the log has begun; nothing was changed.
        """
        ...

    def log(self, since: int, count: int) -> Awaitable[tuple[Sequence[bytes], bytes]]:
        """At most `count` signed entries beyond version `since`, and the last of all, or b""."""
        ...

    def release_history(self, count: int) -> Awaitable[Sequence[ReleaseRow]]:
        """The last `count` releases, the newest first; also those whose bodies were dropped."""
        ...

    def roll_back(
        self,
        release: StoredRelease,
        audit: AuditEntry | None = None,
        lost: Sequence[bytes] = (),
        rollout: Rollout | None = None,
    ) -> Awaitable[None]:
        """Publish an earlier C again: the open round is abandoned and the release added, at once.

        `lost` are entries before it that the log does not have any more; `rollout` is kept as it
        is given, where it begins or ends with this release.

        Raises:
            AlreadyReleased: there is a release of that version already; nothing was changed.
        """
        ...

    def prune_releases(self, keep: int, states: int = 1) -> Awaitable[int]:
        """Drop the bodies of all but the last `keep` releases; returns how many were dropped.

        Of their states of the sequence part the last `states` stay.
        """
        ...

    def add_quality(self, quality: Quality, audit: AuditEntry | None = None) -> Awaitable[None]:
        """Note a number; the same metric of the same version is replaced."""
        ...

    def quality(self, count: int) -> Awaitable[Sequence[Quality]]:
        """The last numbers, the newest version first."""
        ...

    # Roll-outs.

    def add_rollout(self, row: Rollout, audit: AuditEntry | None = None) -> Awaitable[bool]:
        """Keep a new one; False while another one goes on."""
        ...

    def rollouts(self, count: int) -> Awaitable[Sequence[Rollout]]:
        """The last ones, the newest first."""
        ...

    def rollout(self) -> Awaitable[Rollout | None]:
        """The one that goes on."""
        ...

    def move_rollout(
        self, row: Rollout, was: Rollout, audit: AuditEntry | None = None
    ) -> Awaitable[bool]:
        """Keep it as it is now; False when state, stage and tries are not those of `was`."""
        ...

    # Questions about quality.

    def add_question(self, row: QuestionRow, audit: AuditEntry | None = None) -> Awaitable[bool]:
        """Keep a new question, open from now on; False, and nothing, where its id was there."""
        ...

    def questions(self, count: int, only_open: bool = False) -> Awaitable[Sequence[QuestionRow]]:
        """The last questions, the newest first; or only those that are not over."""
        ...

    def question(self, question_id: bytes) -> Awaitable[QuestionRow | None]:
        """One of them."""
        ...

    def question_keys(self) -> Awaitable[frozenset[bytes]]:
        """The sealing keys that questions name which are not over."""
        ...

    def add_answer(
        self, question_id: bytes, given: GivenAnswer, now: float, since: float = 0.0
    ) -> Awaitable[Problem | None]:
        """Count the nonce and keep the sealed answer, or say why not; the same again is fine.

        Answers to questions that were asked before `since` are no longer in the device's budget.
        """
        ...

    def note_question(self, question_id: bytes, purpose: str, was: str) -> Awaitable[bool]:
        """Another word for why it was asked; False when `was` is not its word any more."""
        ...

    def sealed_answers(self, question_id: bytes) -> AsyncIterator[Sequence[bytes]]:
        """The sealed answers to a question in order of device, in bounded chunks."""
        ...

    def open_question(self, question_id: bytes, signed: bytes) -> Awaitable[bool]:
        """Open one that waits for its helper, as it is signed now; False when it is open."""
        ...

    def end_question(
        self,
        question_id: bytes,
        state: QuestionState,
        was: QuestionState,
        total: bytes = b"",
        now: float | None = None,
    ) -> Awaitable[bool]:
        """Move a question on; False when it is not in `was` any more.

        At its end the noised sum is kept and the sealed answers are destroyed.
        """
        ...

    # The catalogue.

    def add_items(self, items: Sequence[str]) -> Awaitable[int]:
        """Give each new item the next row; known ones keep theirs, retired ones come back.

        Returns how many rows were added.
        """
        ...

    def import_items(
        self, items: Sequence[NewItem], audit: AuditEntry | None = None
    ) -> Awaitable[Imported]:
        """Give each new item the next row; known ones keep theirs and get these attributes."""
        ...

    def retire_items(self, items: Sequence[str]) -> Awaitable[int]:
        """Take items out of recommendations; their rows stay theirs. Returns how many."""
        ...

    def catalogue(self, start: int) -> Awaitable[CataloguePage]:
        """The items of row `start` and beyond."""
        ...

    def extent(self) -> Awaitable[Extent]:
        """Size and version of the catalogue."""
        ...

    def items(self, start: int, count: int, search: str = "") -> Awaitable[Sequence[ItemRow]]:
        """Up to `count` items from row `start` on whose id or an attribute contains `search`."""
        ...

    def shared_attributes(self, start: int) -> Awaitable[Sequence[Attribute]]:
        """Attributes of the items from row `start` on, and of all that share one with them."""
        ...

    def public_attributes(self, names: Sequence[str]) -> Awaitable[Sequence[Mapping[str, str]]]:
        """These attributes of all items, row 0 first."""
        ...

    def categories(self, count: int) -> Awaitable[Sequence[tuple[str, int]]]:
        """The values of the attribute `category` that most shown items have."""
        ...

    # Admins, the audit and the dashboard.

    def add_issuer(self, issuer: Issuer, audit: AuditEntry | None = None) -> Awaitable[bool]:
        """Let a backend sign tokens; False when there is one of that name."""
        ...

    def remove_issuer(self, name: str, audit: AuditEntry | None = None) -> Awaitable[bool]:
        """Its tokens are refused from now on; False when there is none."""
        ...

    def issuers(self) -> Awaitable[Sequence[Issuer]]:
        """All of them, in order of name."""
        ...

    def add_admin(
        self, admin: AdminRecord, digest: bytes, audit: AuditEntry | None = None
    ) -> Awaitable[bool]:
        """Give somebody permissions; False when there is one of that name."""
        ...

    def remove_admin(self, name: str, audit: AuditEntry | None = None) -> Awaitable[bool]:
        """Take the permissions back; False when there is none."""
        ...

    def admins(self) -> Awaitable[Sequence[AdminRecord]]:
        """All of them, in order of name."""
        ...

    def admin_of(self, digest: bytes) -> Awaitable[AdminRecord | None]:
        """Whose bearer token has this SHA-256?"""
        ...

    def end_session(self, session: bytes, until: float, now: float) -> Awaitable[None]:
        """No cookie with this id is good any more; kept until it would have ended by itself."""
        ...

    def session_ended(self, session: bytes) -> Awaitable[bool]:
        """Did somebody sign out of it?"""
        ...

    def write_audit(self, entry: AuditEntry) -> Awaitable[None]:
        """Append to the audit."""
        ...

    def audit_rows(self, after: int, count: int) -> Awaitable[Sequence[AuditRow]]:
        """Up to `count` rows beyond number `after`, in order."""
        ...

    def add_refusals(self, round_id: bytes, counts: Mapping[str, int]) -> Awaitable[None]:
        """Add to what was refused while a round was open, by problem."""
        ...

    def refusals(self, rounds: int) -> Awaitable[Mapping[bytes, Mapping[str, int]]]:
        """What was refused in the last rounds."""
        ...

    def device_states(self, step: int, rule: Privacy, now: float) -> Awaitable[DeviceStates]:
        """Devices by what keeps them from a slot in `step`, and what they have spent at most."""
        ...
