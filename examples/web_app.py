"""A web app with one store per user: it recommends in a request and joins rounds in between.

python examples/web_app.py [FOLDER]

    POST   /users/ann/consent          {"recommend": true, "train": false, "policy": "2026-11"}
    POST   /users/ann/interactions     {"item": "kettle", "kind": "buy"}
    DELETE /users/ann/interactions/kettle
    GET    /users/ann/recommendations?n=5

With FEDRAP_SERVER and FEDRAP_TOKENS (a file, one token a line) it joins rounds of that
coordinator; without, a coordinator in memory plays its part. The histories are on this host, so
what its users get is privacy towards the coordinator, not towards the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from aiohttp import web

from fedrap import FedRap, InvalidArgument, Kinds, RoundReport
from fedrap.testing import FakeCoordinator
from fedrap.transport import Transport
from fedrap.transport.http import HttpTransport

ITEMS = ["kettle", "tea pot", "tea cup", "sugar bowl", "tray", "pen", "ink", "notebook", "lamp"]
MOST_OPEN = 200  # stores held open; the one used longest ago is closed first
ROUND_SECONDS = 600.0
KINDS = Kinds(view=1, buy=5, dislike=-1, hide=None)


class Stores:
    """The users' stores, opened when needed."""

    def __init__(self, folder: Path, transport: Transport, tokens: list[str] | None) -> None:
        self._folder = folder
        self._transport = transport
        self._tokens = tokens
        self._open: OrderedDict[str, FedRap] = OrderedDict()
        self._turn = asyncio.Lock()

    async def of(self, user: str) -> FedRap:
        """This user's store. Opening reads a file, so it happens in a thread, one at a time."""
        async with self._turn:
            if user not in self._open:
                self._open[user] = await asyncio.to_thread(self._open_store, user)
            self._open.move_to_end(user)
            while len(self._open) > MOST_OPEN:
                _, oldest = self._open.popitem(last=False)
                await asyncio.to_thread(oldest.close)
            return self._open[user]

    def _open_store(self, user: str) -> FedRap:
        return FedRap.open(
            self._folder, profile=user, kinds=KINDS, transport=self._transport, token=self._token
        )

    def _token(self) -> str:
        """Asked for once in a device's life, at its first round."""
        return "demo" if self._tokens is None else self._tokens.pop()

    async def join_rounds(self) -> list[RoundReport]:
        """One round for each open store; those without consent answer at once and send nothing."""
        return [await device.run_round_async() for device in list(self._open.values())]

    async def close(self) -> None:
        """Give all stores back."""
        for device in self._open.values():
            device.close()
        await self._transport.close()


STORES = web.AppKey("stores", Stores)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def say_what_is_wrong(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What a device refuses is a fault of the request: the words are the device's own."""
    try:
        return await handler(request)
    except (InvalidArgument, ValueError, KeyError) as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from error


async def post_consent(request: web.Request) -> web.Response:
    """What the user agreed to; only true and false are answers."""
    told = await request.json()
    device = await request.app[STORES].of(request.match_info["user"])
    device.consent(
        recommend=told.get("recommend"), train=told.get("train"), policy=told.get("policy")
    )
    await device.sync_async()
    status = device.status()
    return web.json_response({"recommend": status.fetching, "train": status.consented})


async def post_interaction(request: web.Request) -> web.Response:
    """One interaction, as the device checks it."""
    told = await request.json()
    device = await request.app[STORES].of(request.match_info["user"])
    device.record(told.get("item"), kind=told.get("kind", "view"))  # tens of microseconds
    return web.json_response({"interactions": device.status().interactions})


async def delete_interactions(request: web.Request) -> web.Response:
    """Take back what was done with an item."""
    device = await request.app[STORES].of(request.match_info["user"])
    return web.json_response({"removed": device.remove(request.match_info["item"])})


async def get_recommendations(request: web.Request) -> web.Response:
    """The best items for this user."""
    device = await request.app[STORES].of(request.match_info["user"])
    found = device.recommend(int(request.query.get("n", "5")))
    return web.json_response([{"item": one.item, "score": one.score} for one in found])


def create_app(stores: Stores, round_seconds: float = ROUND_SECONDS) -> web.Application:
    """The app; stores and the timer of rounds end with it."""

    async def join_now_and_then() -> None:
        while True:
            await asyncio.sleep(round_seconds)
            await stores.join_rounds()

    async def run(app: web.Application) -> AsyncIterator[None]:
        timer = asyncio.create_task(join_now_and_then())
        yield
        timer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await timer
        await stores.close()

    app = web.Application(middlewares=[say_what_is_wrong])
    app[STORES] = stores
    app.add_routes(
        [
            web.post("/users/{user}/consent", post_consent),
            web.post("/users/{user}/interactions", post_interaction),
            web.delete("/users/{user}/interactions/{item}", delete_interactions),
            web.get("/users/{user}/recommendations", get_recommendations),
        ]
    )
    app.cleanup_ctx.append(run)
    return app


def make_stores(folder: Path) -> Stores:
    """Stores with the coordinator that the environment names, or one in memory."""
    server = os.environ.get("FEDRAP_SERVER")
    if not server:
        return Stores(folder, FakeCoordinator(ITEMS), None)
    tokens = Path(os.environ["FEDRAP_TOKENS"]).read_text(encoding="utf-8").split()
    return Stores(folder, HttpTransport(server), tokens)


async def app_factory() -> web.Application:
    """For `web.run_app`: inside its loop."""
    return create_app(make_stores(Path(sys.argv[1] if len(sys.argv) > 1 else "web_app_stores")))


if __name__ == "__main__":
    web.run_app(app_factory(), host="127.0.0.1", port=8080)
