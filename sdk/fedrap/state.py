"""What one device knows, in memory and in its store: the one owner of both.

Every method is synchronous and takes the same lock, so that an app may call from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from fedrap.identity import Credentials
from fedrap.ledger import Entry
from fedrap.local_model import ItemList, LocalModel
from fedrap.participation import Prepared
from fedrap.store import DeviceStore, Interaction
from fedrap.trained import TrainedBlock, pack_trained, unpack_trained
from fedrap_core.paper.problem import PaperState
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import MAX_RELEASE_BYTES


class Consent(msgspec.Struct, frozen=True):
    """What the user agreed to, under which policy, and when."""

    train: bool
    policy: str
    at: float


class DeviceState:
    """The history, the consent, the identity, the ledger and the model of this device."""

    def __init__(self, store: DeviceStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.RLock()
        self._interactions = store.interactions()
        self._consents = store.get("consents", list[Consent]) or []
        self._credentials = store.get("credentials", Credentials)
        self._entries = store.get("ledger", list[Entry]) or []
        self._nonce = store.get("nonce", int) or 0
        self._catalogue = store.get("catalogue", ItemList) or ItemList()
        self._personal = store.get("personal", dict[str, float]) or {}
        self._trained = unpack_trained(store.get("trained", TrainedBlock))
        self._dropped = store.get("dropped", int) or 0
        self._model: LocalModel | None = None
        raw = store.get("release", bytes)
        if raw is not None:
            self._model = LocalModel(decode(Release, raw, MAX_RELEASE_BYTES), self._catalogue)

    def now(self) -> float:
        """Seconds of wall time."""
        return self._clock()

    def close(self) -> None:
        """Give the store back."""
        with self._lock:
            self._store.close()

    def record(self, interaction: Interaction) -> None:
        """Durable first, then known."""
        with self._lock:
            self._store.add_interaction(interaction)
            self._interactions.append(interaction)

    def interactions(self) -> Sequence[Interaction]:
        """Everything recorded, oldest first; a copy."""
        with self._lock:
            return list(self._interactions)

    def consented(self) -> bool:
        """Did the user agree to train, and not take it back?"""
        with self._lock:
            return bool(self._consents) and self._consents[-1].train

    def keep_consent(self, consent: Consent) -> None:
        """Add to the consent log."""
        with self._lock:
            self._store.put("consents", [*self._consents, consent])
            self._consents.append(consent)

    def credentials(self) -> Credentials | None:
        """Who this device is, once enrolled."""
        with self._lock:
            return self._credentials

    def keep_credentials(self, credentials: Credentials) -> None:
        """Remember who this device is."""
        with self._lock:
            self._store.put("credentials", credentials)
            self._credentials = credentials

    def next_nonce(self) -> int:
        """A number larger than every one before, also after a restart or a clock set back."""
        with self._lock:
            self._nonce = max(self._nonce + 1, int(self._clock() * 1e6))
            self._store.put("nonce", self._nonce)
            return self._nonce

    def entries(self) -> Sequence[Entry]:
        """The ledger."""
        with self._lock:
            return list(self._entries)

    def personal(self) -> dict[str, float]:
        """D as it was kept with the last round."""
        with self._lock:
            return dict(self._personal)

    def trained(self) -> PaperState | None:
        """u and D as rounds of `paper` left them."""
        with self._lock:
            return self._trained

    def count_dropped(self) -> None:
        """A local round ran away and was dropped; the old state stays."""
        with self._lock:
            self._store.put("dropped", self._dropped + 1)
            self._dropped += 1

    def dropped(self) -> int:
        """How many local rounds ran away."""
        with self._lock:
            return self._dropped

    def commit_round(self, round_id: bytes, prepared: Prepared) -> None:
        """D, the ledger entry and the outgoing bytes in one transaction, before anything leaves."""
        with self._lock:
            entries = [*self._entries, prepared.entry]
            personal: dict[str, float] = {}
            if self._model is not None:
                personal = self._model.personal(self._interactions, prepared.trained)
            blocks: dict[str, object] = {"ledger": entries, "personal": personal}
            if prepared.trained is not None:
                blocks["trained"] = pack_trained(prepared.trained)
            self._store.commit_round(round_id, prepared.body, blocks)
            self._entries, self._personal = entries, personal
            self._trained = prepared.trained

    def outbox(self) -> Sequence[tuple[bytes, bytes]]:
        """Updates that still have to be sent."""
        with self._lock:
            return self._store.outbox()

    def forget_outgoing(self, round_id: bytes) -> None:
        """An update that was answered for good."""
        with self._lock:
            self._store.forget_outgoing(round_id)

    def model(self) -> LocalModel | None:
        """The release in use."""
        with self._lock:
            return self._model

    def release_version(self) -> int | None:
        """Its version."""
        with self._lock:
            return None if self._model is None else self._model.common.version

    def catalogue(self) -> ItemList:
        """The items this device knows of."""
        with self._lock:
            return self._catalogue

    def adopt(self, release: Release, catalogue: ItemList) -> None:
        """Use a new release and catalogue from now on.

        Raises:
            BrokenModel: the release is damaged or hostile; the old one stays in use.
        """
        model = LocalModel(release, catalogue)
        with self._lock:
            self._store.put_all({"catalogue": catalogue, "release": encode(release)})
            self._model, self._catalogue = model, catalogue
