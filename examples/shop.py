"""A shop with a terminal screen: interactions stay here, recommendations say why.

python examples/shop.py [FOLDER]

With FEDRAP_SERVER and FEDRAP_TOKEN it joins rounds of that coordinator, which must know these
items (`fedrap-coordinator items add`); without, a coordinator in memory plays its part.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from fedrap import FedRap, Recommendation
from fedrap.testing import FakeCoordinator

SHELVES = {
    "kitchen": ["tea pot", "tea cup", "kettle", "sugar bowl"],
    "desk": ["fountain pen", "ink", "notebook", "lamp"],
    "garden": ["spade", "watering can", "gloves", "seeds"],
}
ITEMS = [item for shelf in SHELVES.values() for item in shelf]
HELP = "a number: look at it · r: for you · w N: why · c: consent · j: join a round · s · q"
Write = Callable[[str], None]


def open_shop(folder: Path) -> FedRap:
    """This customer's recommender."""
    server = os.environ.get("FEDRAP_SERVER")
    if server:
        return FedRap.open(folder, server=server, app="shop", token=os.environ.get("FEDRAP_TOKEN"))
    fake = FakeCoordinator(ITEMS, alike=list(SHELVES.values()))
    return FedRap.open(folder, transport=fake, app="shop", token="demo")


def run(device: FedRap, lines: Iterable[str], write: Write) -> None:
    """Follow what is typed, line by line, until `q` or the end."""
    write(shelves())
    write(HELP)
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word == "q":
            return
        write(answer(device, word, rest))


def answer(device: FedRap, word: str, rest: str) -> str:
    """What the screen shows for one command."""
    if word.isdigit() and 0 < int(word) <= len(ITEMS):
        item = ITEMS[int(word) - 1]
        device.record(item, kind="look")
        return f"You look at: {item}"
    if word == "c":
        device.consent(train=True, policy="shop 2026-11")
        device.sync()
        return "Thank you. From now on sealed shares of what you like may be sent."
    if word == "j":
        report = device.run_round()
        return (
            f"Joined, {report.sent_bytes} bytes." if report.joined else f"No: {report.blocked_by}"
        )
    if word == "r":
        return (
            "\n".join(f"  {one.item}  {one.score:+.2f}" for one in for_you(device))
            or "Nothing yet."
        )
    if word == "w":
        return why(device, rest)
    if word == "s":
        status = device.status()
        kept = f"{status.interactions} interactions kept"
        return f"{kept}, {status.rounds} rounds, release {status.release}"
    return HELP


def for_you(device: FedRap) -> list[Recommendation]:
    """What the shop would show on its front page."""
    return device.recommend(3, candidates=ITEMS, explain=True)


def why(device: FedRap, place: str) -> str:
    """The reasons of one recommendation; they add up to its score."""
    shown = for_you(device)
    if not place.isdigit() or not 0 < int(place) <= len(shown):
        return f"w 1 to w {len(shown)}"
    one = shown[int(place) - 1]
    parts = [
        f"  {part.shared + part.personal:+.2f} you looked at: {part.item}" for part in one.reasons
    ]
    return "\n".join([f"{one.item}, {one.score:+.2f}:", *parts])


def shelves() -> str:
    """The whole shop, numbered."""
    numbers = {item: number for number, item in enumerate(ITEMS, 1)}
    return "\n".join(
        f"{name:8} " + "  ".join(f"{numbers[item]}:{item}" for item in shelf)
        for name, shelf in SHELVES.items()
    )


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "~/.local/share/fedrap-shop")
    with open_shop(place) as customer:
        run(customer, sys.stdin, print)
