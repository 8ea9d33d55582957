"""What devices fetch: versions of C, deltas between them, and the catalogue."""

from __future__ import annotations

import asyncio

import numpy as np

from fedrap_coordinator.domain.records import CataloguePage
from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.rounds.driver import RoundDriver
from fedrap_coordinator.rounds.releases import EncodedRelease, encode_release, encode_since
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.protocol import Store
from fedrap_core.items import join_ids
from fedrap_core.wire import problems
from fedrap_core.wire.messages import Catalogue

KEPT_DELTAS = 16  # in memory, for devices that come back at about the same time


class Downloads:
    """Answers from the store and from the model that the driver holds."""

    def __init__(self, store: Store, settings: Settings, driver: RoundDriver) -> None:
        self._store = store
        self._settings = settings
        self._driver = driver
        self._deltas: dict[tuple[int, int], EncodedRelease] = {}

    async def release(self, version: int | None) -> EncodedRelease:
        """A version of C, or the latest, ready to serve."""
        model = self._driver.model
        if model is not None and version in (None, model.stored.version):
            return model.encoded
        if version is None:
            raise Refusal(
                problems.UNAVAILABLE, "there is no release yet: the catalogue is empty",
                self._settings.serve.retry_seconds,
            )  # fmt: skip
        stored = await self._store.release(version)
        if stored is None:
            raise Refusal(problems.NOT_FOUND, f"there is no release {version}")
        return await asyncio.to_thread(encode_release, stored)

    async def release_since(self, have: int) -> EncodedRelease:
        """The latest release for a device that holds version `have`: a delta where that pays."""
        model = self._driver.model
        if model is None or have >= model.stored.version:
            return await self.release(None)
        known = self._deltas.get((have, model.stored.version))
        if known is None:
            old = await self._store.release(have)
            if old is None:  # too old to be kept, or never was
                return model.encoded
            known = await asyncio.to_thread(encode_since, old, model)
            if len(self._deltas) >= KEPT_DELTAS:
                self._deltas.clear()
            self._deltas[have, model.stored.version] = known
        return known

    async def catalogue(self, start: int) -> Catalogue:
        """The items from row `start` on."""
        page = await self._store.catalogue(start)
        return await asyncio.to_thread(_pack_catalogue, page, start)


def _pack_catalogue(page: CataloguePage, start: int) -> Catalogue:
    return Catalogue(
        version=page.version,
        start=start,
        count=len(page.items),
        items=join_ids(list(page.items)),
        retired=np.array(page.retired, dtype="<u4").tobytes(),
    )
