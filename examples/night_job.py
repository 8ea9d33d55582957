"""A job for the night: joins one round for each store in a folder, some at a time.

python examples/night_job.py FOLDER        # from cron, say at 03:00

Each store is opened, joins, and is closed; one that is in use, refused or unreachable is left for
the next night. Exit code 0 says that the job ran, 1 that no store could join. FEDRAP_SERVER names
the coordinator and FEDRAP_TOKENS a file of enrolment tokens; without, one in memory plays its part.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fedrap import FedRap, FedRapError
from fedrap.testing import FakeCoordinator
from fedrap.transport import Transport
from fedrap.transport.http import HttpTransport

AT_ONCE = 8
ITEMS = [f"film-{number}" for number in range(50)]
Token = Callable[[], str]


def stores_in(folder: Path) -> list[Path]:
    """What `FedRap.open` takes for each store below the folder."""
    return sorted(path.parent.parent for path in folder.glob("*/app/store.sqlite"))


async def run_night(stores: list[Path], transport: Transport, token: Token) -> Counter[str]:
    """How many stores joined, and how many did not, by the word for why."""
    places = asyncio.Semaphore(AT_ONCE)

    async def join(store: Path) -> str:
        async with places:
            try:
                return await join_one(store, transport, token)
            except FedRapError as error:  # such as StoreBusy: its user is awake
                return type(error).__name__

    return Counter(await asyncio.gather(*(join(store) for store in stores)))


async def join_one(store: Path, transport: Transport, token: Token) -> str:
    """One store's round; what it could not send tonight stays in its outbox."""
    device = await asyncio.to_thread(FedRap.open, store, transport=transport, token=token)
    try:
        report = await device.run_round_async()
        return "joined" if report.joined else report.blocked_by or "no reason"
    finally:
        await asyncio.to_thread(device.close)


def environment() -> tuple[Transport, Token]:
    """The coordinator that the environment names, or one in memory."""
    server = os.environ.get("FEDRAP_SERVER")
    if not server:
        return FakeCoordinator(ITEMS), lambda: "demo"
    tokens = Path(os.environ["FEDRAP_TOKENS"]).read_text(encoding="utf-8").split()
    return HttpTransport(server), tokens.pop


async def main(stores: list[Path]) -> int:
    """Run the job and print one line per outcome."""
    transport, token = environment()
    try:
        outcomes = await run_night(stores, transport, token)
    finally:
        await transport.close()
    for outcome, count in outcomes.most_common():
        print(f"{count:6} {outcome}")
    return 0 if outcomes["joined"] or not outcomes else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(asyncio.run(main(stores_in(Path(sys.argv[1])))))
