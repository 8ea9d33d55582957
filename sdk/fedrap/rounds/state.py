"""What a round needs to know of a device, and what it leaves there: the seam under rounds.

`DeviceState` keeps all of it in an encrypted store; a simulated device keeps it in a few kB of
memory. Both run the same rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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
    def scoring(self) -> AnyScoring:
        """How devices recommend from it."""


class RoundState(Protocol):
    """The parts of a device that rounds read and write. Each call is durable when it returns."""

    def now(self) -> float:
        """Seconds of wall time."""

    def expire(self) -> None:
        """Forget what the retention does not allow any more."""

    def consented(self) -> bool:
        """Did the user agree to train, and not take it back?"""

    def recorded(self) -> int:
        """How many interactions there are."""

    def history(self) -> History:
        """Those with items that the release in use has a row for, newest first."""

    def enrolling_key(self) -> bytes:
        """The private key to enrol with: the same one until enrolled, for an answer may be lost."""

    def credentials(self) -> Credentials | None:
        """Who this device is, once enrolled."""

    def keep_credentials(self, credentials: Credentials) -> None:
        """Remember who this device is."""

    def next_nonce(self) -> int:
        """A number larger than every one before."""

    def entries(self) -> Sequence[Entry]:
        """The ledger."""

    def trained(self) -> PaperState | None:
        """u and D as rounds of `paper` left them."""

    def count_dropped(self) -> None:
        """A local round ran away and was dropped."""

    def commit_round(self, round_id: bytes, prepared: Prepared) -> None:
        """D, the ledger entry and the outgoing bytes at once, before anything leaves."""

    def outbox(self) -> Sequence[tuple[bytes, bytes]]:
        """Updates that still have to be sent."""

    def forget_outgoing(self, round_id: bytes) -> None:
        """An update that was answered for good."""

    def model(self) -> RoundModel | None:
        """The release in use."""

    def release_version(self) -> int | None:
        """Its version."""

    def catalogue(self) -> ItemList:
        """The items this device knows of."""

    def adopt(self, message: Release | Delta, catalogue: ItemList) -> None:
        """Use a new release and catalogue from now on, or raise BrokenModel and keep the old."""
