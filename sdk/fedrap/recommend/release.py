"""A release and a catalogue as this device knows them, and how the next ones follow. Pure."""

from __future__ import annotations

import msgspec

from fedrap_core.errors import BrokenModel
from fedrap_core.model import CommonItems
from fedrap_core.plan import OFF, AnyScoring, sequence_scoring
from fedrap_core.wire.messages import Catalogue, Delta, Release
from fedrap_core.wire.releases import apply_delta, unpack_release


class ReleaseHeader(msgspec.Struct, frozen=True):
    """What is kept of a release beside its numbers."""

    version: int
    step: int  # 0: no round was released yet, so C has learnt nothing
    size: int
    dim: int
    model: bytes
    scoring: AnyScoring
    withheld: bytes = b""  # rows not to be recommended, as in a release
    entry: bytes = b""  # of the log, as signed; empty in stores of before there was one
    sequence_dim: int = 0  # k of the sequence part; 0 without one
    kernels: bytes = b""  # of the sequence part, as in a release
    trend: bytes = b""  # as in a release; empty without one


class ItemList(msgspec.Struct, frozen=True):
    """The catalogue as this device knows it: the ids of its rows, and rows not to be shown."""

    version: int = 0
    count: int = 0
    items: bytes = b""  # as in items.ItemIds
    retired: bytes = b""  # u32 little-endian

    def extended(self, news: Catalogue) -> ItemList:
        """This list with the coordinator's newer rows; rows that are known stay as they are.

        Raises:
            BrokenModel: rows are missing, or there are more or fewer than stated.
        """
        if news.start > self.count:
            raise BrokenModel("a catalogue that leaves out rows")
        names = news.items.split(b"\n", self.count - news.start)
        fresh = names[-1] if len(names) > self.count - news.start else b""
        if news.items.count(b"\n") != news.count or len(news.retired) % 4:
            raise BrokenModel("a catalogue that does not have the rows that it states")
        count = self.count + fresh.count(b"\n")
        return ItemList(news.version, count, self.items + fresh, news.retired)


def read_release(
    message: Release | Delta, old: CommonItems | None, catalogue: ItemList
) -> CommonItems:
    """C of a release or delta, its hash checked.

    A row has an item, so that C is bounded by the ids that came, before anything is made of it.

    Raises:
        BrokenModel: it is damaged, hostile, or a delta from something else than `old`.
    """
    if message.size > catalogue.count:
        raise BrokenModel(f"{message.size} rows, but the catalogue has {catalogue.count} items")
    if isinstance(message, Release):
        common = unpack_release(message)
    elif old is None:
        raise BrokenModel("a delta, but this device holds no release")
    else:
        common = apply_delta(old, message)
    mix, rows = sequence_scoring(message.scoring), common.sequence
    if mix is not None and (rows is None or len(rows.kernels) != mix.kernels):
        raise BrokenModel("a release that is scored with time kernels it does not have")
    return common


def head_of(message: Release | Delta) -> ReleaseHeader:
    """The head of a release."""
    m = message
    dim, kernels = (0, b"") if m.sequence is OFF else (m.sequence.dim, m.sequence.kernels)
    trend = b"" if m.trend is OFF else m.trend
    return ReleaseHeader(
        m.version, m.step, m.size, m.dim, m.model, m.scoring, m.withheld, m.entry, dim, kernels,
        trend,
    )  # fmt: skip
