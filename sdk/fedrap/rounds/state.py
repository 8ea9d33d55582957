"""The seam between a round and the device it runs on.

A round does not reach into the device's state while it works. It takes one `RoundSnapshot`, which
never changes, works on it, and hands what it made back in a few commits that are durable when they
return: the credentials of a new device, a newer release, the prepared update, and that the update
was answered. A commit that depends on what was true before checks it itself, so nothing has to be
locked in between. `DeviceState` keeps all of it in an encrypted store; a simulated device keeps it
in a few kB of memory; both run the same rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap.recommend.release import ItemList
from fedrap.rounds.ledger import Entry
from fedrap.rounds.prepare import Prepared
from fedrap.transport.credentials import Credentials
from fedrap_core.model import CommonItems, History
from fedrap_core.paper.problem import PaperState
from fedrap_core.plan import AnyScoring
from fedrap_core.wire.messages import Delta, Release


class Wait(msgspec.Struct, frozen=True):
    """What the coordinator last said: not now, or not at all. A new process keeps to it too."""

    at: float = 0.0  # seconds of wall time
    seconds: float = 0.0  # from then on nobody is asked
    word: str | None = None  # what was refused until somebody does something; None: come later
    of: bytes = b""  # which server, and which token, that was; see `RoundSession`

    def left(self, now: float) -> float:
        """Seconds that are still to be waited; none where the clock was set back."""
        passed = now - self.at
        return max(0.0, self.seconds - passed) if passed >= 0 else 0.0


class RoundModel(Protocol):
    """A release as a round sees it."""

    @property
    def common(self) -> CommonItems:
        """C."""

    @property
    def gram(self) -> npt.NDArray[np.float64]:
        """C'C: (k, k)."""

    @property
    def digest(self) -> bytes:
        """The hash of C that offers name."""

    @property
    def step(self) -> int:
        """The step that made it."""

    @property
    def entry(self) -> bytes:
        """Its entry of the log, as signed; empty where it was adopted before there was one."""

    @property
    def scoring(self) -> AnyScoring:
        """How devices recommend from it."""


@dataclass(frozen=True, eq=False)
class RoundSnapshot:
    """What a round needs to know of a device, as it was at one moment."""

    at: float  # seconds of wall time
    consented: bool  # the user agreed to train, and has not taken it back
    consented_at: float  # when the user was last asked; 0 when never
    fetching: bool | None  # the user agreed that releases are fetched; None when never asked
    recorded: int  # interactions, whether or not C has a row for them
    credentials: Credentials | None  # who this device is, once enrolled
    entries: Sequence[Entry]  # the ledger
    ledger_lost: bool  # a part of it could not be read: what was spent is not known
    healed_at: float | None  # when this device last gave up a membership that was not known
    remembered: bytes  # the authority of that membership, which the next one must have too
    wait: Wait  # what the coordinator last said
    outbox: Sequence[tuple[bytes, bytes]]  # updates still to be sent: (round, bytes)
    model: RoundModel | None  # the release in use
    release_version: int | None  # its version
    catalogue: ItemList  # the items this device knows of
    trained: PaperState | None  # u and D as rounds of `paper` left them
    read_history: Callable[[], History]  # of the same moment; called when a round needs it

    @cached_property
    def history(self) -> History:
        """Interactions with items that the release has a row for, newest first."""
        return self.read_history()


class RoundState(Protocol):
    """The parts of a device that rounds read and write. Each call is durable when it returns."""

    def snapshot(self) -> RoundSnapshot:
        """Everything at once, after forgetting what the retention does not allow any more."""

    def consented(self) -> bool:
        """Has the user agreed to train, and not taken it back? Asked before every request."""

    def fetching(self) -> bool | None:
        """Has the user agreed that releases are fetched? None when never asked."""

    def keep_wait(self, wait: Wait) -> None:
        """What the coordinator said, for this process and the next."""

    def forget_credentials(self) -> None:
        """The coordinator does not know this device: its updates go, history and ledger stay."""

    def enrolling_key(self) -> bytes:
        """The private key to enrol with: the same one until enrolled, for an answer may be lost."""

    def keep_credentials(self, credentials: Credentials) -> None:
        """Remember who this device is."""

    def next_nonce(self) -> int:
        """A number larger than every one before."""

    def adopt(self, base: RoundSnapshot, message: Release | Delta, catalogue: ItemList) -> None:
        """Use this release and catalogue from now on, unless `base` is no longer what is in use.

        Raises:
            BrokenModel: the release is damaged or hostile; the old one stays in use.
        """

    def commit_round(self, round_id: bytes, prepared: Prepared) -> bool:
        """D, the ledger entry and the outgoing bytes at once, before anything leaves.

        False, and nothing is kept, when the user has taken the consent back meanwhile.
        """

    def forget_outgoing(self, round_id: bytes) -> None:
        """An update that was answered for good."""

    def count_dropped(self) -> None:
        """A local round ran away and was dropped."""
