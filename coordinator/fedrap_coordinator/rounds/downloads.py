"""What devices fetch: versions of C, deltas between them, their log, and the catalogue."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_coordinator.domain.records import CataloguePage, Extent
from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.rounds.driver import RoundDriver
from fedrap_coordinator.rounds.releases import EncodedRelease, encode_release, encode_since
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.protocol import Store
from fedrap_core.items import join_ids
from fedrap_core.wire import problems
from fedrap_core.wire.attributes import Pages, make_pages, sign_attributes
from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import MOST_ENTRIES, Catalogue, Log

log = logging.getLogger(__name__)
KEPT_DELTAS = 16  # in memory, for devices that come back at about the same time
KEPT_LOGS = 64  # parts of the log; most devices ask from one of the last few versions
KEPT_OLD = 2  # versions that are not the latest; nobody makes us compress one twice in a row


class Downloads:
    """Answers from the store and from the model that the driver holds."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        driver: RoundDriver,
        authority: ec.EllipticCurvePrivateKey,
    ) -> None:
        self._store = store
        self._authority = authority
        self._settings = settings
        self._driver = driver
        self._deltas: dict[tuple[int, int], EncodedRelease] = {}
        self._old: dict[int, EncodedRelease] = {}
        self._logs: tuple[int, dict[int, bytes]] = (0, {})  # of the latest version, by `since`
        self._catalogue: _Catalogue | None = None
        self._pages: tuple[Extent, Pages] | None = None
        self._attributes: tuple[tuple[Extent, int], bytes] | None = None

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
        known = self._old.get(version)
        if known is None:
            stored = await self._store.release(version)
            if stored is None:
                raise Refusal(problems.NOT_FOUND, f"there is no release {version}")
            known = await asyncio.to_thread(encode_release, stored)
            if len(self._old) >= KEPT_OLD:
                self._old.clear()
            self._old[version] = known
        return known

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

    async def log(self, since: int) -> bytes:
        """Up to 200 signed entries beyond version `since`, and the last of all, as a message."""
        latest = self._driver.newest
        if self._logs[0] != latest or len(self._logs[1]) >= KEPT_LOGS:
            self._logs = (latest, {})
        kept = self._logs[1]
        known = kept.get(since)
        if known is None:
            entries, head = await self._store.log(since, MOST_ENTRIES)
            known = kept[since] = encode(Log(entries=list(entries), head=head))
        return known

    async def catalogue(self, start: int) -> tuple[bytes, bytes | None]:
        """The items from row `start` on as a message, and compressed where that is at hand.

        It is read, joined and compressed once for each version, however often it is asked for.
        """
        version, known = (await self._store.extent()).catalogue, self._catalogue
        if known is None or known.version != version:
            page = await self._store.catalogue(0)
            known = self._catalogue = await asyncio.to_thread(_keep_catalogue, page)
        if start == 0:
            return known.whole, known.gzipped
        return known.part(start), None

    async def attributes(self) -> bytes:
        """Which pages the items' public attributes are in, signed, as a message."""
        model, extent = self._driver.model, await self._store.extent()
        latest = 0 if model is None else model.stored.version
        if self._attributes is None or self._attributes[0] != (extent, latest):
            pages = await self._public(extent)
            body = encode(
                sign_attributes(
                    self._authority, self._driver.task, latest, extent.attributes, pages
                )
            )
            self._attributes = ((extent, latest), body)
        return self._attributes[1]

    async def attribute_page(self, digest: bytes) -> bytes:
        """A page of public attributes; those of before the last change are gone."""
        pages = await self._public(await self._store.extent())
        if digest not in pages.bodies:
            raise Refusal(problems.NOT_FOUND, "there is no such page of attributes any more")
        return pages.bodies[digest]

    async def _public(self, extent: Extent) -> Pages:
        """Read and cut once for each change of the catalogue, however often it is asked for."""
        known = self._pages
        if known is None or known[0] != extent:
            names = self._settings.catalogue.public
            items = await self._store.public_attributes(names) if names else []
            known = self._pages = (extent, await asyncio.to_thread(_cut, names, items))
        return known[1]


def _cut(names: Sequence[str], items: Sequence[Mapping[str, str]]) -> Pages:
    """Where they are too large for devices, there are none, and the operator is told."""
    try:
        return make_pages(names, items)
    except ValueError as error:
        log.warning("no public attributes are served", extra={"reason": str(error)})
        return make_pages((), ())


@dataclass(frozen=True, eq=False)
class _Catalogue:
    """One version of the catalogue, ready to be sent from any row on."""

    version: int
    items: bytes
    ends: npt.NDArray[np.int64]  # (m,) where each id ends in `items`
    retired: bytes
    whole: bytes = b""
    gzipped: bytes = b""

    def part(self, start: int) -> bytes:
        """The message from row `start` on: a copy of bytes, no work by the item."""
        count = max(0, len(self.ends) - start)
        first = int(self.ends[start - 1]) if start and count else 0
        items = self.items[first:] if count else b""
        return encode(
            Catalogue(
                version=self.version, start=start, count=count, items=items, retired=self.retired
            )
        )


def _keep_catalogue(page: CataloguePage) -> _Catalogue:
    items = join_ids(list(page.items))
    ends = np.flatnonzero(np.frombuffer(items, dtype=np.uint8) == ord("\n")) + 1
    retired = np.array(page.retired, dtype="<u4").tobytes()
    made = _Catalogue(page.version, items, ends, retired)
    whole = made.part(0)
    return replace(made, whole=whole, gzipped=gzip.compress(whole, 6, mtime=0))
