"""Actions on catalogue and releases: items come and go, an earlier C returns, quality is noted."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

from fedrap_coordinator.admin import documents
from fedrap_coordinator.admin.actions import ALL_ROUNDS, AdminActions
from fedrap_coordinator.domain.records import NewItem, Quality, StoredRelease
from fedrap_coordinator.errors import AlreadyReleased, ConfigError, Refusal
from fedrap_coordinator.rounds.releases import (
    Model,
    load_model,
    publish,
    recovered_model,
    restored_model,
    with_state,
)
from fedrap_core.errors import BrokenModel
from fedrap_core.wire import problems
from fedrap_core.wire.authority import is_signed_by, read_entry
from fedrap_core.wire.keys import public_point

_TRIES = 3  # a round may be released at the same moment


class CatalogueActions:
    """What an admin does beside `AdminActions`; each act is in the audit."""

    def __init__(self, admin: AdminActions) -> None:
        self._store = admin.store
        self._admin = admin

    async def import_items(self, items: Sequence[NewItem]) -> documents.ImportedItems:
        """New items get rows, known ones these attributes, retired ones come back."""
        entry = self._admin.entry("import-items", str(len(items)))
        done = await self._store.import_items(items, entry)
        return documents.ImportedItems(
            added=done.added, returned=done.returned, changed=done.changed
        )

    async def retire_items(self, names: Sequence[str]) -> documents.RetiredItems:
        """Not shown any more; their rows stay theirs."""
        known = [name for name in names if "\x00" not in name]  # no item has one in its id
        count = await self._store.retire_items(known)
        await self._store.write_audit(self._admin.entry("retire-items", str(count)))
        return documents.RetiredItems(retired=count)

    async def items(self, start: int, limit: int, search: str) -> documents.ItemList:
        """From row `start` on."""
        found = await self._store.items(start, limit, search.replace("\x00", ""))
        return documents.ItemList(
            items=[
                documents.ItemLine(
                    row=one.row, item=one.id, retired=one.retired, attributes=dict(one.attributes)
                )
                for one in found
            ]
        )

    async def releases(self, limit: int) -> documents.ReleaseList:
        """The last versions, the newest first."""
        rows = await self._store.release_history(limit)
        return documents.ReleaseList(releases=documents.release_lines(rows))

    async def roll_back(self, version: int) -> documents.RolledBack:
        """Publish the C of `version` again, under a new number. The open round is abandoned.

        Raises:
            Refusal: there is no such version, its body was dropped, or it is the latest.
        """
        row = await self._store.rollout()
        if row is not None and row.is_staged:
            raise Refusal(
                problems.EXISTS_ALREADY,
                f"release {row.version} is being rolled out; `rollout halt` takes it back",
            )
        for _ in range(_TRIES):
            made = await self._restored(version)
            entry = self._admin.entry("roll-back", f"{version} as {made.stored.version}")
            try:
                await self._store.roll_back(made.stored, entry)
            except AlreadyReleased:  # a round was released meanwhile: once more, on top of it
                continue
            await self._keep_entry(made)
            return documents.RolledBack(
                version=made.stored.version, restores=version, step=made.stored.step
            )
        raise Refusal(problems.UNAVAILABLE, "rounds are released too fast; try again", 5.0)

    async def recover(
        self, version: int | None = None, step: int | None = None
    ) -> documents.RolledBack:
        """After a backup came back: go on beyond what had been published when it was lost.

        The keys remember how far that was; where they are of the backup too, somebody has to say.

        Raises:
            Refusal: there is nothing here, or this database knows of more than that.
        """
        latest = await self._store.release(None)
        if latest is None:
            raise Refusal(problems.NOT_FOUND, "there is no release in this database")
        if version is None or step is None:
            version, step = self._published_last(read_entry(latest.entry).task, latest)
        last = (await self._store.log(latest.version, 1))[1] or latest.entry  # may be staged
        newest = max(latest.version, read_entry(last).version if last else 0)
        if version < newest or not latest.step <= step <= ALL_ROUNDS:
            known = f"this database has version {newest} of step {latest.step}"
            raise Refusal(problems.EXISTS_ALREADY, f"{known}, which is more")
        entry = self._admin.entry("recover", f"version {version}, step {step}")
        model = await asyncio.to_thread(load_model, latest)
        model = with_state(model, await self._store.learner(latest.version))
        made = await asyncio.to_thread(recovered_model, model, version + 1, step)
        lost = self._admin.ring().entries_after(model.message.task, newest)
        if lost and version < read_entry(lost[-1]).version:
            known = f"version {read_entry(lost[-1]).version} was published"
            raise Refusal(problems.EXISTS_ALREADY, f"{known}; recover from that one or more")
        made = await self._published(made, model, lost[-1] if lost else last)
        row = await self._store.rollout()
        if row is not None:
            row = row.halted("a backup came back", entry.at).ended(entry.at)
        await self._store.roll_back(made.stored, entry, lost, row)
        await self._keep_entry(made)
        return documents.RolledBack(version=made.stored.version, restores=latest.version, step=step)

    def _published_last(self, task: bytes, latest: StoredRelease) -> tuple[int, int]:
        """Version and step that the keys know of; raises Refusal where that is no more."""
        ring = self._admin.ring()
        head = ring.last_entry(task)
        last = read_entry(head) if head else None
        step = max(ring.last_step(task), 0 if last is None else last.step)
        if last is None or (last.version <= latest.version and step <= latest.step):
            raise Refusal(
                problems.EXISTS_ALREADY,
                "the keys know of nothing after this database: if both came back from a backup, "
                "say the latest version and step that were published (your metrics have them)",
            )
        return max(last.version, latest.version), max(step, latest.step)

    async def _restored(self, version: int) -> Model:
        latest, old = await self._store.release(None), await self._store.release(version)
        if latest is None or old is None:
            kept = [row.version for row in await self._store.release_history(1000) if row.kept]
            words = f"kept are {kept[-1]} to {kept[0]}" if kept else "there is none"
            raise Refusal(problems.NOT_FOUND, f"release {version} is not kept; {words}")
        if latest.version == version:
            raise Refusal(problems.EXISTS_ALREADY, f"release {version} is the latest")
        return await self._made(latest, old)

    async def _made(self, latest: StoredRelease, old: StoredRelease) -> Model:
        try:
            before = await asyncio.to_thread(load_model, latest)
            size = (await asyncio.to_thread(load_model, old)).common.size
            attributes = await self._store.shared_attributes(size)
            old = replace(old, learner=await self._store.learner(old.version))
            made = await asyncio.to_thread(restored_model, before, old, attributes)
        except BrokenModel as error:
            raise ConfigError(f"release {old.version} cannot be used: {error}") from error
        return await self._published(made, before)

    async def _published(self, made: Model, before: Model, head: bytes | None = None) -> Model:
        """Signed as the next release of the log; `head` is where that ends, if not in `before`.

        Raises:
            ConfigError: these keys are not those of the coordinator, or it published more.
        """
        ring, signed, now = self._admin.ring(), before.message.entry, self._admin.sources.clock()
        if signed and not is_signed_by(public_point(ring.authority.public_key()), signed):
            raise ConfigError(
                f"release {before.stored.version} was signed with another authority.key; run this "
                "with the keys of the coordinator, or devices refuse what comes of it"
            )
        model = await asyncio.to_thread(publish, made, before, ring.authority, now, head)
        try:
            ring.check_entry(model.message.task, model.message.entry)
        except BrokenModel as error:
            raise ConfigError(str(error)) from error
        return model

    async def _keep_entry(self, made: Model) -> None:
        keep, entry = self._admin.ring().keep_entries, made.message.entry
        await asyncio.to_thread(keep, made.message.task, [entry])

    async def note_quality(
        self, version: int, metric: str, value: float, note: str
    ) -> documents.Noted:
        """Write down what was measured of a release elsewhere.

        Raises:
            ConfigError: a word is too long, or the value is no number.
            Refusal: there never was such a version.
        """
        if not 1 <= len(metric) <= 40 or len(note) > 100 or "\x00" in metric + note:
            raise ConfigError("a metric has 1 to 40 characters, a note up to 100")
        if not math.isfinite(value) or abs(value) > 1e9:
            raise ConfigError("a value is a number")
        known = {row.version for row in await self._store.release_history(1_000_000)}
        if version not in known:
            raise Refusal(problems.NOT_FOUND, f"there is no release {version}")
        entry = self._admin.entry("note-quality", f"{version} {metric}")
        await self._store.add_quality(Quality(version, metric, value, entry.at, note), entry)
        return documents.Noted()

    async def quality(self) -> documents.QualityList:
        """All that was written down, the newest version first."""
        found = await self._store.quality(1000)
        return documents.QualityList(quality=documents.quality_lines(found))
