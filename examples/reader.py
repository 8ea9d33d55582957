"""A reader for two people on one tablet: likes, dislikes, hiding, undo, and reasons in words.

python examples/reader.py [FOLDER]          with FEDRAP_SERVER and FEDRAP_TOKEN: a real coordinator
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fedrap import FedRap, Kinds
from fedrap.testing import FakeCoordinator

SHELVES = [[f"{topic} {n}" for n in range(1, 6)] for topic in ("sea", "stars", "bread")]
ITEMS = [item for shelf in SHELVES for item in shelf]
KINDS = Kinds(read=1, like=3, dislike=-1, hide=None)


def open_for(person: str, folder: Path) -> FedRap:
    """Log in: a store and a key of this person's own."""
    server, token = os.environ.get("FEDRAP_SERVER"), os.environ.get("FEDRAP_TOKEN")
    transport = None if server else FakeCoordinator(ITEMS, alike=SHELVES)
    if transport is not None:
        transport.attributes_of = {item: {"title": item.title()} for item in ITEMS}
    return FedRap.open(
        folder, profile=person, kinds=KINDS, server=server, transport=transport,
        token=token or "demo", attributes=True,
    )  # fmt: skip


def evening(person: str, folder: Path, *, train: bool) -> list[str]:
    """One evening with the reader; what it shows."""
    with open_for(person, folder) as reader:
        reader.consent(recommend=True, train=train, policy="reader 2026-11")
        reader.sync()
        reader.record("sea 1", kind="like")
        reader.record("stars 2", kind="read")
        first = reader.recommend(3)
        shown = [f"{one.item}, {reader.because(one.item)}" for one in first]
        reader.record(first[0].item, kind="dislike")  # it and its neighbours fall
        reader.hide("stars 1")  # never again
        reader.record("bread 1", kind="read")
        reader.remove("bread 1")  # a slip of the finger: as if it had never been
        best = [one.item for one in reader.recommend(5, exclude=["sea 5"], diversity=0.3)]
        shown.append("then: " + ", ".join(best))
        report = reader.run_round()
        shown.append("joined a round" if report.joined else f"no round: {report.blocked_by}")
        return shown


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "reader_stores")
    for name, agrees in (("ann", True), ("bob", False)):
        print(f"{name}:", *evening(name, place, train=agrees), sep="\n  ")
