"""The store in memory, for simulations and tests. It passes the same contract suite as SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from msgspec import structs

from fedrap_coordinator.domain import decisions
from fedrap_coordinator.domain.charges import DIGITS, counted, edge, idle
from fedrap_coordinator.domain.decisions import (
    SlotRequest,
    SlotResult,
    SlotRule,
    Submission,
    SubmissionResult,
)
from fedrap_coordinator.domain.privacy_audit import with_costs
from fedrap_coordinator.domain.questions import (
    ENDED,
    GivenAnswer,
    QuestionRow,
    QuestionState,
    decide_answer,
)
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
from fedrap_coordinator.domain.rounds import OVER, Phase, Round, RoundCounts
from fedrap_coordinator.errors import AlreadyReleased, DeviceExists, TokenExists
from fedrap_core.participation import why_not
from fedrap_core.plan import Privacy
from fedrap_core.wire import problems
from fedrap_core.wire.authority import read_entry
from fedrap_core.wire.problems import Problem

CHUNK = 64  # sealed bodies read at once
MANY = 4096  # rows without a body
_STATES = {
    None: "ready",
    problems.BUDGET_SPENT: "spent",
    problems.TOO_SOON: "resting",
    problems.TOO_NEW: "waiting",
}


@dataclass
class _Kept:
    """One update: the digest stays, the sealed body goes with the end of the round."""

    digest: bytes
    body: bytes | None


@dataclass
class MemoryStore:
    """Everything in dictionaries; no verb awaits anything, so each is one transaction."""

    _tokens: dict[bytes, bool] = field(default_factory=dict)  # digest -> used
    _signed: dict[bytes, float] = field(default_factory=dict)  # digest -> when its token ends
    _accounts: dict[bytes, int] = field(default_factory=dict)
    _devices: dict[bytes, DeviceRecord] = field(default_factory=dict)
    _issuers: dict[str, Issuer] = field(default_factory=dict)
    _admins: dict[str, tuple[AdminRecord, bytes]] = field(default_factory=dict)
    _ended: dict[bytes, float] = field(default_factory=dict)  # session -> when its cookie ends
    _audit: list[AuditRow] = field(default_factory=list)
    _rounds: dict[bytes, tuple[Round, bytes]] = field(default_factory=dict)
    _closed: dict[bytes, float] = field(default_factory=dict)
    _summed: dict[bytes, float] = field(default_factory=dict)
    _received: Counter[bytes] = field(default_factory=Counter)
    _releases: dict[int, StoredRelease] = field(default_factory=dict)
    _learners: dict[int, bytes] = field(default_factory=dict)  # by version of the release
    _sets: dict[int, bytes] = field(default_factory=dict)  # by step
    _history: dict[int, ReleaseRow] = field(default_factory=dict)
    _log: dict[int, bytes] = field(default_factory=dict)  # version -> signed entry
    _items: dict[str, bool] = field(default_factory=dict)  # in order of row -> retired
    _catalogue_version: int = 0
    _attributes_version: int = 0
    _attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    _refusals: dict[bytes, Counter[str]] = field(default_factory=dict)
    _quality: dict[tuple[int, str], Quality] = field(default_factory=dict)
    _questions: dict[bytes, QuestionRow] = field(default_factory=dict)
    _answers: dict[bytes, dict[bytes, _Kept]] = field(default_factory=dict)  # by question
    _rollouts: dict[bytes, Rollout] = field(default_factory=dict)
    _secrets: dict[str, bytes] = field(default_factory=dict)
    _task: bytes | None = None
    _policy: bytes | None = None
    _adopted: bytes | None = None
    _assigned: dict[bytes, set[bytes]] = field(default_factory=dict)
    _updates: dict[bytes, dict[bytes, _Kept]] = field(default_factory=dict)

    serves = True
    trouble = ""

    async def probe(self) -> None:
        pass

    async def give_back(self) -> None:
        pass

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        yield True

    async def task_id(self, fresh: bytes) -> bytes:
        self._task = self._task or fresh
        return self._task

    async def policy(self, fresh: bytes | None = None) -> bytes | None:
        self._policy = self._policy or fresh
        return self._policy

    async def change_policy(
        self, policy: bytes, *, was: bytes, audit: AuditEntry | None = None
    ) -> bool:
        mine = self._policy == was
        if mine:
            self._policy = policy
        return self._written(audit, mine)

    async def adopted(self) -> bytes | None:
        return self._adopted

    async def adopt(self, scalars: bytes, audit: AuditEntry | None = None) -> None:
        self._adopted = scalars
        self._written(audit, True)

    async def secret(self, name: str, fresh: bytes) -> bytes:
        return self._secrets.setdefault(name, fresh)

    async def counts(self) -> Counts:
        unused = sum(not used for used in self._tokens.values())
        return Counts(len(self._devices), unused, len(self._items), len(self._history))

    async def add_tokens(
        self, digests: Sequence[bytes], now: float, audit: AuditEntry | None = None
    ) -> None:
        if len(set(digests)) < len(digests) or any(one in self._tokens for one in digests):
            raise TokenExists("a token was added before")
        self._tokens.update(dict.fromkeys(digests, False))
        self._written(audit, True)

    async def enrol(
        self, token: bytes, device: bytes, public_key: bytes, now: float, terms: Terms = AT_ONCE
    ) -> bool:
        if self._tokens.get(token, True):
            return False
        self._refuse_known(device)
        self._tokens[token] = True
        self._add(device, public_key, now, terms)
        return True

    async def enrol_signed(
        self, ticket: Ticket, device: bytes, public_key: bytes, now: float, terms: Terms = AT_ONCE
    ) -> EnrolmentOutcome:
        self._signed = {one: ends for one, ends in self._signed.items() if ends >= now}
        if ticket.digest in self._signed:
            return EnrolmentOutcome.USED
        self._refuse_known(device)
        if ticket.account is not None:
            count = self._accounts.get(ticket.account, 0)
            if count >= ticket.most_devices:
                return EnrolmentOutcome.TOO_MANY
            self._accounts[ticket.account] = count + 1
        self._signed[ticket.digest] = ticket.expires_at
        self._add(device, public_key, now, terms)
        return EnrolmentOutcome.DONE

    def _refuse_known(self, device: bytes) -> None:
        if device in self._devices:
            raise DeviceExists("the device is enrolled")

    def _add(self, device: bytes, public_key: bytes, now: float, terms: Terms) -> None:
        self._devices[device] = DeviceRecord(
            device,
            public_key,
            0,
            None,
            first_step=terms.first_step(self._last_released()),
            not_before=terms.not_before(now),
            free_at=terms.free_at(now),
            valid_until=terms.valid_until,
            level=terms.level,
            enrolled_at=now,
        )

    async def device(self, device: bytes) -> DeviceRecord | None:
        return self._devices.get(device)

    async def devices(self, after: bytes, count: int) -> Sequence[DeviceRecord]:
        beyond = sorted(name for name in self._devices if name > after)
        return [self._devices[name] for name in beyond[:count]]

    async def device_keys(self, devices: Sequence[bytes]) -> Sequence[bytes | None]:
        found = [self._devices.get(device) for device in devices]
        return [None if known is None else known.public_key or None for known in found]

    async def use_nonce(self, device: bytes, nonce: int) -> bool:
        known = self._devices.get(device)
        if known is None or nonce <= known.last_nonce:
            return False
        self._devices[device] = replace(known, last_nonce=nonce)
        return True

    async def renew_device(self, device: bytes, valid_until: float, level: str) -> None:
        if device in self._devices:
            self._devices[device] = replace(
                self._devices[device], valid_until=valid_until, level=level
            )

    async def revoke_device(
        self, device: bytes, now: float, audit: AuditEntry | None = None
    ) -> bool:
        known = self._devices.get(device)
        if known is None or known.revoked_at is not None:
            return self._written(audit, False)
        self._devices[device] = replace(known, revoked_at=now)
        return self._written(audit, True)

    async def forget_device(self, device: bytes) -> None:
        known = self._devices.pop(device, None)
        if known is not None and known.revoked_at is not None:
            self._devices[device] = replace(known, public_key=b"", last_nonce=0, level="none")

    async def open_round(self, round_: Round, plan: bytes) -> bool:
        for known, _ in self._rounds.values():
            if known.phase not in OVER and known.step >= round_.step:
                return False
        if any(release.step >= round_.step for release in self._releases.values()):
            return False
        self._rounds[round_.id] = (round_, plan)
        self._assigned[round_.id] = set()
        self._updates[round_.id] = {}
        return True

    async def current_round(self) -> tuple[Round, bytes] | None:
        for round_, plan in self._rounds.values():
            if round_.phase not in OVER:
                assigned, accepted = len(self._assigned[round_.id]), len(self._updates[round_.id])
                return structs.replace(round_, assigned=assigned, accepted=accepted), plan
        return None

    async def progress(self) -> tuple[tuple[Round, bytes] | None, int | None]:
        return await self.current_round(), max(self._for_everybody(), default=None)

    def _for_everybody(self) -> list[int]:
        return [one.version for one in self._releases.values() if not one.staged]

    async def set_phase(
        self, round_id: bytes, phase: Phase, was: Phase | None = None, now: float | None = None
    ) -> bool:
        if was is not None and self._rounds[round_id][0].phase is not was:
            return False
        self._close(round_id, phase, now)
        return True

    def _close(self, round_id: bytes, phase: Phase, now: float | None) -> None:
        round_, plan = self._rounds[round_id]
        self._rounds[round_id] = (structs.replace(round_, phase=phase), plan)
        if phase in OVER:
            for kept in self._updates[round_id].values():
                kept.body = None
            if now is not None:
                self._closed[round_id] = now
        elif phase is Phase.SUMMING and now is not None:
            self._summed[round_id] = now

    async def assign_slots(
        self, round_id: bytes, requests: Sequence[SlotRequest], rule: SlotRule, now: float
    ) -> tuple[Sequence[SlotResult], RoundCounts]:
        assigned = self._assigned.get(round_id, set())
        batch = decisions.assign_slots(
            requests, self._counts(round_id), self._devices, assigned, rule, now
        )
        self._devices.update(batch.devices)
        assigned.update(batch.assigned)
        return batch.results, batch.counts

    def _counts(self, round_id: bytes) -> RoundCounts:
        if round_id not in self._rounds:
            return RoundCounts(None)
        phase = self._rounds[round_id][0].phase
        return RoundCounts(phase, len(self._assigned[round_id]), len(self._updates[round_id]))

    async def add_updates(
        self, round_id: bytes, submissions: Sequence[Submission], max_updates: int, now: float
    ) -> tuple[Sequence[SubmissionResult], RoundCounts]:
        kept = self._updates.get(round_id, {})
        digests = {device: known.digest for device, known in kept.items()}
        batch = decisions.add_updates(
            submissions,
            self._counts(round_id),
            self._devices,
            frozenset(self._assigned.get(round_id, ())),
            digests,
            max_updates,
            now,
        )
        self._devices.update(batch.devices)
        kept.update({one.device: _Kept(one.digest, one.body) for one in batch.stored})
        self._received[round_id] += sum(len(one.body or b"") for one in batch.stored)
        return batch.results, batch.counts

    async def rounds(self, count: int) -> Sequence[RoundRow]:
        found = []
        for round_, plan in self._rounds.values():
            counts = len(self._assigned[round_.id]), len(self._updates[round_.id])
            phase, opened = round_.phase, round_.opened_at
            closed = self._closed.get(round_.id)
            row = RoundRow(
                round_.id, round_.step, round_.release, phase, plan, opened, *counts, closed,
                self._summed.get(round_.id), self._received.get(round_.id, 0),
            )  # fmt: skip
            found.append(row)
        return sorted(found, key=_age, reverse=True)[:count]

    async def charges(self, round_id: bytes) -> AsyncIterator[Sequence[Charge]]:
        came, assigned = self._updates.get(round_id, {}), self._assigned.get(round_id, set())
        rows = [Charge(device, device in came) for device in sorted(assigned)]
        for start in range(0, len(rows), MANY):
            yield rows[start : start + MANY]

    async def sealed_updates(self, round_id: bytes) -> AsyncIterator[Sequence[bytes]]:
        kept = self._updates[round_id]
        bodies = [body for name in sorted(kept) if (body := kept[name].body) is not None]
        for start in range(0, len(bodies), CHUNK):
            yield bodies[start : start + CHUNK]

    async def add_release(
        self,
        release: StoredRelease,
        round_id: bytes | None,
        rollout: Rollout | None = None,
    ) -> None:
        self._insert_release(release)
        self._keep_rollout(rollout)
        if round_id is not None:
            self._close(round_id, Phase.RELEASED, release.facts.made_at or None)
            self._settle(round_id)

    def _insert_release(self, release: StoredRelease) -> None:
        made = [one.step for one in self._history.values() if one.restores is None]
        if release.restores is None and release.step in made:
            raise AlreadyReleased(f"step {release.step} was released before")
        if release.version in self._history:
            raise AlreadyReleased(f"version {release.version} was released before")
        self._append([release.entry] if release.entry else [])
        self._releases[release.version] = replace(release, learner=None)
        if release.updates:
            self._sets[release.step] = release.updates
        if release.learner is not None:
            self._learners[release.version] = release.learner
        self._history[release.version] = ReleaseRow(
            release.version, release.step, release.devices, release.restores, release.facts, True,
            release.staged,
        )  # fmt: skip

    def _keep_rollout(self, rollout: Rollout | None) -> None:
        if rollout is not None:
            self._rollouts[rollout.id] = rollout

    def _append(self, entries: Sequence[bytes]) -> None:
        added, links = dict(self._log), {read_entry(one).before for one in self._log.values()}
        for signed in entries:
            entry = read_entry(signed)
            if entry.version in added or entry.before in links:
                raise AlreadyReleased("another release follows the same entry of the log")
            added[entry.version] = signed
            links.add(entry.before)
        self._log = added

    async def sign_release(self, release: StoredRelease) -> None:
        self._append([release.entry])
        known = self._releases[release.version]
        self._releases[release.version] = replace(known, body=release.body, entry=release.entry)

    async def log(self, since: int, count: int) -> tuple[Sequence[bytes], bytes]:
        versions = sorted(version for version in self._log if version > since)[:count]
        head = self._log[max(self._log)] if self._log else b""
        return [self._log[version] for version in versions], head

    def _settle(self, round_id: bytes) -> None:
        step, came = self._rounds[round_id][0].step, self._updates[round_id]
        for device in self._assigned[round_id] | set(came):
            known = self._devices.get(device)
            if known is not None and device in came:
                self._devices[device] = replace(known, counted_step=step)
            elif known is not None:
                self._devices[device] = replace(known, last_step=known.counted_step)

    async def update_sets(self) -> dict[int, bytes]:
        return dict(self._sets)

    def _last_released(self) -> int:
        return max((release.step for release in self._history.values()), default=0)

    async def release(self, version: int | None) -> StoredRelease | None:
        if version is None:
            version = max(self._for_everybody(), default=-1)
        return self._releases.get(version)

    async def learner(self, version: int) -> bytes | None:
        return self._learners.get(version)

    async def release_history(self, count: int) -> Sequence[ReleaseRow]:
        rows = sorted(self._history.values(), key=lambda row: row.version, reverse=True)[:count]
        return [replace(row, kept=row.version in self._releases) for row in rows]

    async def roll_back(
        self,
        release: StoredRelease,
        audit: AuditEntry | None = None,
        lost: Sequence[bytes] = (),
        rollout: Rollout | None = None,
    ) -> None:
        before = self._log
        try:
            self._append(lost)
            self._insert_release(release)
        except AlreadyReleased:
            self._log = before
            raise
        for round_, _ in list(self._rounds.values()):
            if round_.phase not in (Phase.RELEASED, Phase.ABANDONED):
                self._close(round_.id, Phase.ABANDONED, release.facts.made_at)
        self._keep_rollout(rollout)
        self._written(audit, True)

    async def prune_releases(self, keep: int, states: int = 1) -> int:
        newest = sorted(self._releases)[-max(1, min(keep, states)) :]
        self._learners = {at: raw for at, raw in self._learners.items() if at in newest}
        dropped = sorted(self._releases)[: -max(1, keep)]
        for version in dropped:
            del self._releases[version]
        return len(dropped)

    async def add_quality(self, quality: Quality, audit: AuditEntry | None = None) -> None:
        self._quality[quality.version, quality.metric] = quality
        self._written(audit, True)

    async def quality(self, count: int) -> Sequence[Quality]:
        order = sorted(self._quality.values(), key=lambda one: (-one.version, one.metric))
        return order[:count]

    async def add_rollout(self, row: Rollout, audit: AuditEntry | None = None) -> bool:
        fresh = await self.rollout() is None
        if fresh:
            self._rollouts[row.id] = row
        return self._written(audit, fresh)

    async def rollouts(self, count: int) -> Sequence[Rollout]:
        return sorted(self._rollouts.values(), key=lambda one: (-one.started_at, one.id))[:count]

    async def rollout(self) -> Rollout | None:
        return next((one for one in self._rollouts.values() if not one.is_over), None)

    async def move_rollout(
        self, row: Rollout, was: Rollout, audit: AuditEntry | None = None
    ) -> bool:
        known = self._rollouts.get(was.id)
        same = known is not None and (known.state, known.stage, known.tries) == (
            was.state, was.stage, was.tries,
        )  # fmt: skip
        if same:
            self._rollouts[row.id] = row
        return self._written(audit, same)

    async def add_question(self, row: QuestionRow, audit: AuditEntry | None = None) -> bool:
        if row.id in self._questions:
            return False
        self._questions[row.id], self._answers[row.id] = row, {}
        return self._written(audit, True)

    async def questions(self, count: int, only_open: bool = False) -> Sequence[QuestionRow]:
        found = sorted(self._questions.values(), key=lambda one: (-one.asked_at, one.id))
        return [one for one in found if not (only_open and one.state in ENDED)][:count]

    async def question(self, question_id: bytes) -> QuestionRow | None:
        return self._questions.get(question_id)

    async def question_keys(self) -> frozenset[bytes]:
        return frozenset(one.seal_id for one in self._questions.values() if one.state not in ENDED)

    async def add_answer(
        self, question_id: bytes, given: GivenAnswer, now: float, since: float = 0.0
    ) -> Problem | None:
        row, kept = self._questions.get(question_id), self._answers.get(question_id, {})
        before = kept.get(given.device)
        decision = decide_answer(
            given,
            row,
            self._devices.get(given.device),
            None if before is None else before.digest,
            sum(
                given.device in others and self._questions[name].asked_at >= since
                for name, others in self._answers.items()
            ),
            now,
        )
        if decision.device is not None:
            self._devices[given.device] = decision.device
        if decision.is_new and row is not None:
            kept[given.device] = _Kept(given.digest, given.body)
            self._questions[question_id] = replace(row, answers=row.answers + 1)
        return decision.problem

    async def note_question(self, question_id: bytes, purpose: str, was: str) -> bool:
        row = self._questions[question_id]
        if row.purpose != was:
            return False
        self._questions[question_id] = replace(row, purpose=purpose)
        return True

    async def sealed_answers(self, question_id: bytes) -> AsyncIterator[Sequence[bytes]]:
        kept = self._answers[question_id]
        bodies = [body for name in sorted(kept) if (body := kept[name].body) is not None]
        for start in range(0, len(bodies), CHUNK):
            yield bodies[start : start + CHUNK]

    async def open_question(self, question_id: bytes, signed: bytes) -> bool:
        row = self._questions[question_id]
        if row.state is not QuestionState.OPENING:
            return False
        self._questions[question_id] = replace(row, state=QuestionState.OPEN, signed=signed)
        return True

    async def end_question(
        self,
        question_id: bytes,
        state: QuestionState,
        was: QuestionState,
        total: bytes = b"",
        now: float | None = None,
    ) -> bool:
        row = self._questions[question_id]
        if row.state is not was:
            return False
        self._questions[question_id] = replace(row, state=state, total=total, closed_at=now)
        if state in ENDED:
            for one in self._answers[question_id].values():
                one.body = None
        return True

    async def add_items(self, items: Sequence[str]) -> int:
        before = len(self._items)
        back = [name for name in items if self._items.get(name)]
        for name in items:
            self._items[name] = False
        if back or len(self._items) > before:
            self._catalogue_version += 1
        return len(self._items) - before

    async def import_items(
        self, items: Sequence[NewItem], audit: AuditEntry | None = None
    ) -> Imported:
        wanted = {item.id: item for item in items}
        known = set(self._items)
        returned = sum(bool(self._items.get(name)) for name in wanted)
        changed = [
            item
            for item in wanted.values()
            if item.attributes and dict(item.attributes) != self._attributes.get(item.id, {})
        ]
        self._items.update(dict.fromkeys(wanted, False))
        self._attributes.update({item.id: dict(item.attributes) for item in changed})
        self._catalogue_version += bool(returned or set(wanted) - known)
        self._attributes_version += bool(changed)
        self._written(audit, True)
        return Imported(len(set(wanted) - known), returned, sum(c.id in known for c in changed))

    async def retire_items(self, items: Sequence[str]) -> int:
        shown = [name for name in dict.fromkeys(items) if self._items.get(name) is False]
        self._items.update(dict.fromkeys(shown, True))
        self._catalogue_version += bool(shown)
        return len(shown)

    async def catalogue(self, start: int) -> CataloguePage:
        retired = [row for row, gone in enumerate(self._items.values()) if gone]
        return CataloguePage(self._catalogue_version, list(self._items)[start:], retired)

    async def extent(self) -> Extent:
        return Extent(len(self._items), self._catalogue_version, self._attributes_version)

    async def items(self, start: int, count: int, search: str = "") -> Sequence[ItemRow]:
        rows = [
            ItemRow(row, item, retired, dict(sorted(self._attributes.get(item, {}).items())))
            for row, (item, retired) in enumerate(self._items.items())
        ]
        like = search.lower()
        fits = [
            one
            for one in rows
            if like in one.id.lower() or any(like in v.lower() for v in one.attributes.values())
        ]
        return [one for one in fits if one.row >= start][:count]

    async def shared_attributes(self, start: int) -> Sequence[Attribute]:
        found = [
            (row, name, value)
            for row, item in enumerate(self._items)
            for name, value in self._attributes.get(item, {}).items()
        ]
        new = {(name, value) for row, name, value in found if row >= start}
        return [one for one in found if one[1:] in new]

    async def public_attributes(self, names: Sequence[str]) -> Sequence[Mapping[str, str]]:
        of = [self._attributes.get(item, {}) for item in self._items]
        return [{name: one[name] for name in names if name in one} for one in of]

    async def categories(self, count: int) -> Sequence[tuple[str, int]]:
        found = Counter(
            self._attributes[item]["category"]
            for item, retired in self._items.items()
            if not retired and "category" in self._attributes.get(item, {})
        )
        return sorted(found.items(), key=lambda one: (-one[1], one[0]))[:count]

    async def add_issuer(self, issuer: Issuer, audit: AuditEntry | None = None) -> bool:
        fresh = issuer.name not in self._issuers
        self._issuers.setdefault(issuer.name, issuer)
        return self._written(audit, fresh)

    async def remove_issuer(self, name: str, audit: AuditEntry | None = None) -> bool:
        return self._written(audit, self._issuers.pop(name, None) is not None)

    async def issuers(self) -> Sequence[Issuer]:
        return [self._issuers[name] for name in sorted(self._issuers)]

    async def add_admin(
        self, admin: AdminRecord, digest: bytes, audit: AuditEntry | None = None
    ) -> bool:
        taken = any(known == digest for _, known in self._admins.values())
        fresh = admin.name not in self._admins and not taken
        if fresh:
            self._admins[admin.name] = (admin, digest)
        return self._written(audit, fresh)

    async def remove_admin(self, name: str, audit: AuditEntry | None = None) -> bool:
        return self._written(audit, self._admins.pop(name, None) is not None)

    async def admins(self) -> Sequence[AdminRecord]:
        return [self._admins[name][0] for name in sorted(self._admins)]

    async def admin_of(self, digest: bytes) -> AdminRecord | None:
        return next((one for one, known in self._admins.values() if known == digest), None)

    async def end_session(self, session: bytes, until: float, now: float) -> None:
        self._ended = {one: end for one, end in self._ended.items() if end > now}
        self._ended[session] = until

    async def session_ended(self, session: bytes) -> bool:
        return session in self._ended

    async def write_audit(self, entry: AuditEntry) -> None:
        self._written(entry, True)

    async def audit_rows(self, after: int, count: int) -> Sequence[AuditRow]:
        return self._audit[after : after + count]

    def _written(self, entry: AuditEntry | None, answer: bool) -> bool:
        if entry is not None:
            kept = entry if answer else replace(entry, outcome="refused")
            before = self._audit[-1].digest if self._audit else bytes(32)
            self._audit.append(AuditRow(len(self._audit) + 1, kept, kept.digest(before)))
        return answer

    async def add_refusals(self, round_id: bytes, counts: Mapping[str, int]) -> None:
        self._refusals.setdefault(round_id, Counter()).update(counts)

    async def refusals(self, rounds: int) -> Mapping[bytes, Mapping[str, int]]:
        order = sorted(
            (round_ for round_, _ in self._rounds.values()),
            key=_age,
            reverse=True,
        )[:rounds]
        return {one.id: dict(self._refusals[one.id]) for one in order if one.id in self._refusals}

    async def device_states(self, step: int, rule: Privacy, now: float) -> DeviceStates:
        known, spent = self._devices.values(), dict[int, float]()
        sums = Counter(_state(one, step, rule, now) for one in known)
        charged = Counter(one.participations for one in known)
        for one in known:
            spent[one.participations] = max(spent.get(one.participations, 0.0), one.spent)
        new = [one.first_step for one in known if _state(one, step, rule, now) == "waiting"]
        first = min((one for one in new if one > step), default=0)
        states = DeviceStates(**sums, charged=dict(sorted(charged.items())), first_free=first)
        return with_costs(states, spent, rule, _dearest(known, rule, now))


def _dearest(known: Iterable[DeviceRecord], rule: Privacy, now: float) -> float:
    inside = (one for one in known if one.charges[:DIGITS] > edge(now, rule))
    return max((one.dearest for one in inside), default=0.0)


def _state(known: DeviceRecord, step: int, rule: Privacy, now: float) -> str:
    """What keeps a device from a slot in `step`, in the order in which `decisions` asks."""
    if known.revoked_at is not None:
        return "revoked"
    if known.valid_until <= now:
        return "expired"
    if known.last_step == step:  # it has its slot
        return "resting"
    times = counted(known, now, rule)
    problem = why_not(known.last_step, times, step, rule, idle(known, now))
    if problem is None:
        problem = decisions.why_too_new(
            known.first_step, known.not_before, known.free_at, step, now
        )
    return _STATES[problem]


def _age(one: Round | RoundRow) -> tuple[int, bool, float, bytes]:
    """As schema.NEWEST_ROUND_FIRST has it, the oldest first."""
    return one.step, one.phase is not Phase.ABANDONED, one.opened_at, one.id
