"""The rules of rounds for `testing.FakeCoordinator`: who gets a place, which update counts.

They are those of spec/PROTOCOL.md 7, for one open round at a time and with everything in memory.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field

from fedrap.errors import UpdateRefused
from fedrap_core.errors import FedRapError, NotFinite, UnsupportedVersion, WrongShape
from fedrap_core.model import CommonItems
from fedrap_core.plan import Plan
from fedrap_core.sparse import RowUpdate
from fedrap_core.wire import problems
from fedrap_core.wire.codec import decode, encode_value
from fedrap_core.wire.keys import new_private_key, public_point
from fedrap_core.wire.messages import Accepted, Offer, Release, Update
from fedrap_core.wire.seal import open_update, seal_id
from fedrap_core.wire.share import decode_share

RETRY_SECONDS = 30.0


def refusal(problem: problems.Problem, retry_after: float | None = None) -> UpdateRefused:
    """What a transport raises when a coordinator says no."""
    return UpdateRefused(problem, problem.title, retry_after)


@dataclass(frozen=True, eq=False)
class SentUpdate:
    """One update that left a device, opened: the fake owns the key that it was sealed to."""

    device: bytes
    step: int
    size_bytes: int  # of the whole message, as it would cross the network
    items: tuple[str, ...]  # whose rows of C the share has
    share: RowUpdate  # those rows and the triangle, clipped and rounded


@dataclass
class _Record:
    """What a coordinator remembers of a device."""

    steps: set[int] = field(default_factory=set)  # charged
    counted: int | None = None  # the last step with an update of this device


class FakeRounds:
    """One open round after the other. `plan` is offered as it is."""

    def __init__(self, plan: Plan, task: bytes) -> None:
        self._plan = encode_value(plan)
        self._privacy = plan.privacy
        self._task = task
        self._seal = new_private_key()
        self._seal_id = seal_id(self._seal.public_key())
        self._round = os.urandom(16)
        self._over: set[bytes] = set()
        self._places: set[bytes] = set()
        self._digests: dict[tuple[bytes, bytes], bytes] = {}
        self._records: dict[bytes, _Record] = {}

    def open_next(self) -> None:
        """End the open round and open another one."""
        self._over.add(self._round)
        self._round, self._places = os.urandom(16), set()

    def offer(self, device: bytes, holds: int, release: Release) -> Offer:
        """A place in the open round; asking twice costs once."""
        if holds != release.version:
            raise refusal(problems.STALE_MODEL, 0.0)
        step = release.step + 1
        if device not in self._places:
            self._charge(self._records.setdefault(device, _Record()), step)
            self._places.add(device)
        return Offer(
            task=self._task,
            round=self._round,
            step=step,
            plan=self._plan,
            release=release.version,
            model=release.model,
            seal_key=public_point(self._seal.public_key()),
            seal_id=self._seal_id,
            closes_in=600.0,
        )

    def _charge(self, record: _Record, step: int) -> None:
        if step not in record.steps and len(record.steps) >= self._privacy.cap:
            raise refusal(problems.BUDGET_SPENT)
        last = record.counted
        if last is not None and step - last < self._privacy.separation:
            raise refusal(problems.TOO_SOON, RETRY_SECONDS)
        record.steps.add(step)

    def accept(
        self, device: bytes, round_id: bytes, body: bytes, release: Release, common: CommonItems
    ) -> tuple[Accepted, RowUpdate | None]:
        """A receipt, and the share unless the same bytes were counted before."""
        digest = hashlib.sha256(body).digest()
        receipt = Accepted(round=round_id, digest=digest)
        known = self._digests.get((round_id, device))
        if known == digest:
            return receipt, None
        update = _read(body)
        if round_id != self._round:
            known_round = round_id in self._over
            raise refusal(
                problems.ROUND_CLOSED if known_round else problems.NOT_FOUND,
                RETRY_SECONDS if known_round else None,
            )
        self._check_envelope(update, device, release)
        if device not in self._places:
            raise refusal(problems.NOT_ASSIGNED)
        share = self._open(update, common)
        if known is not None:
            raise refusal(problems.CONFLICTING_UPDATE)
        self._digests[round_id, device] = digest
        self._records[device].counted = release.step + 1
        return receipt, share

    def _check_envelope(self, update: Update, device: bytes, release: Release) -> None:
        if update.device != device:
            raise refusal(problems.BAD_SIGNATURE)
        same = (
            update.task == self._task
            and update.round == self._round
            and update.step == release.step + 1
            and update.model == release.model
            and update.plan == hashlib.sha256(self._plan).digest()
            and update.seal_id == self._seal_id
        )
        if not same:
            raise refusal(problems.STALE_MODEL)

    def _open(self, update: Update, common: CommonItems) -> RowUpdate:
        try:
            share = decode_share(open_update(update, self._seal), common.dim)
            share.check(common.size, common.dim)
        except WrongShape as error:
            raise refusal(problems.WRONG_SHAPE) from error
        except NotFinite as error:
            raise refusal(problems.NOT_FINITE) from error
        except FedRapError as error:
            raise refusal(problems.MALFORMED) from error
        return share


def _read(body: bytes) -> Update:
    try:
        return decode(Update, body)
    except UnsupportedVersion as error:
        raise refusal(problems.UNSUPPORTED_VERSION) from error
    except FedRapError as error:
        raise refusal(problems.MALFORMED) from error
