"""The helper over HTTPS: four verbs for the leader, whose certificate is the only one it knows.

Health and metrics are on a port of their own, without TLS, for the machine's monitoring alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from aiohttp import web

from fedrap_aggregator.errors import ConfigError, Refusal
from fedrap_aggregator.rounds import HelperRounds
from fedrap_aggregator.settings import Settings
from fedrap_aggregator.store import Store
from fedrap_core.errors import FedRapError
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Message
from fedrap_core.wire.shares import (
    CloseRound,
    HelperProblem,
    OpenQuestion,
    OpenRound,
    ReportBatch,
)

log = logging.getLogger(__name__)
TIDY_SECONDS = 600.0
M = TypeVar("M", bound=Message)


class Served:
    """The verbs one after another in a thread, and counts of them."""

    def __init__(self, rounds: HelperRounds, store: Store) -> None:
        self.rounds, self._store = rounds, store
        self._turn = asyncio.Lock()
        self.answered: dict[tuple[str, str], int] = {}

    async def run(self, name: str, job: Callable[[], M]) -> M:
        """The answer of a verb; raises Refusal."""
        outcome = "failed"
        try:
            async with self._turn:
                answer = await asyncio.to_thread(job)
            outcome = "ok"
            return answer
        except Refusal as refusal:
            outcome = refusal.problem.value
            log.warning("refused", extra={"verb": name, "problem": outcome})
            raise
        finally:
            key = (name, outcome)
            self.answered[key] = self.answered.get(key, 0) + 1

    async def tidy(self) -> None:
        """Rounds and keys whose time is over."""
        async with self._turn:
            gone = await asyncio.to_thread(self.rounds.tidy)
        if gone:
            log.info("round keys destroyed", extra={"count": gone})

    async def counts(self) -> dict[str, int]:
        """What the store has."""
        async with self._turn:
            return await asyncio.to_thread(self._store.counts)


SERVED = web.AppKey("served", Served)


def create_app(settings: Settings, rounds: HelperRounds, store: Store) -> web.Application:
    """What the leader talks to."""
    app = web.Application(client_max_size=settings.max_body_bytes, middlewares=[_problems])
    app[SERVED] = Served(rounds, store)
    app.router.add_post("/v1/rounds", _open)
    app.router.add_post("/v1/questions", _open_question)
    app.router.add_post("/v1/rounds/{round}/batches", _batch)
    app.router.add_post("/v1/rounds/{round}/close", _close)
    app.cleanup_ctx.append(_tidy_now_and_then)
    return app


def create_monitor(served: Served) -> web.Application:
    """Health and metrics."""

    async def health(_: web.Request) -> web.Response:
        try:
            counts = await served.counts()
        except Exception:  # whatever it is: this helper cannot serve
            log.exception("the database does not answer")
            return web.json_response({"status": "unavailable"}, status=503)
        return web.json_response({"status": "ok", **counts})

    async def metrics(_: web.Request) -> web.Response:
        lines = []
        for name, value in (await served.counts()).items():
            lines += [f"# TYPE fedrap_helper_{name} gauge", f"fedrap_helper_{name} {value}"]
        if served.rounds.expansion:
            lines.append("# TYPE fedrap_helper_expansion gauge")
            lines.append(f'fedrap_helper_expansion{{way="{served.rounds.expansion}"}} 1')
        lines.append("# TYPE fedrap_helper_requests_total counter")
        for (verb, outcome), count in sorted(served.answered.items()):
            labels = f'verb="{verb}",outcome="{outcome}"'
            lines.append(f"fedrap_helper_requests_total{{{labels}}} {count}")
        return web.Response(text="\n".join(lines) + "\n", content_type="text/plain")

    app = web.Application()
    app.router.add_get("/healthz", health)
    app.router.add_get("/metrics", metrics)
    return app


def server_context(settings: Settings) -> ssl.SSLContext:
    """TLS in which both sides show a certificate; the leader's is the only one that is good.

    Raises:
        ConfigError: a file is missing or not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(settings.certificate, settings.private_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"certificate {settings.certificate} with {settings.private_key}: {error}"
        ) from error
    try:
        context.load_verify_locations(settings.leader)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"leader {settings.leader}: {error}; ask the coordinator's operator for the file that "
            "`fedrap-coordinator helper certificate` prints"
        ) from error
    return context


async def serve(settings: Settings, rounds: HelperRounds, store: Store) -> None:
    """Until cancelled."""
    app = create_app(settings, rounds, store)
    runners = [web.AppRunner(app), web.AppRunner(create_monitor(app[SERVED]))]
    try:
        for runner in runners:
            await runner.setup()
        secure = server_context(settings)
        main = web.TCPSite(runners[0], settings.host, settings.port, ssl_context=secure)
        await main.start()
        monitor = web.TCPSite(runners[1], settings.monitor_host, settings.monitor_port)
        await monitor.start()
        for runner, name in zip(runners, ("serving", "monitoring"), strict=True):
            host, port = runner.addresses[0][:2]
            log.info(name, extra={"address": f"{host}:{port}"})
        await asyncio.Event().wait()
    finally:
        for runner in runners:
            await runner.cleanup()


async def _tidy_now_and_then(app: web.Application) -> AsyncIterator[None]:
    async def go_on() -> None:
        while True:
            try:
                await app[SERVED].tidy()
            except Exception:
                log.exception("could not tidy; trying again")
            await asyncio.sleep(TIDY_SECONDS)

    task = asyncio.create_task(go_on())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _open(request: web.Request) -> web.Response:
    asked = await _read(request, OpenRound)
    served = request.app[SERVED]
    return _answer(await served.run("open", lambda: served.rounds.open_round(asked)))


async def _open_question(request: web.Request) -> web.Response:
    asked = await _read(request, OpenQuestion)
    served = request.app[SERVED]
    return _answer(await served.run("question", lambda: served.rounds.open_question(asked)))


async def _batch(request: web.Request) -> web.Response:
    batch = await _read(request, ReportBatch)
    _check_path(request, batch.round)
    served, began = request.app[SERVED], time.monotonic()
    answer = await served.run("batch", lambda: served.rounds.check_batch(batch))
    seconds = round(time.monotonic() - began, 3)
    log.info("batch", extra={"reports": len(batch.reports), "counted": sum(answer.counted),
                             "seconds": seconds, "expansion": served.rounds.expansion})  # fmt: skip
    return _answer(answer)


async def _close(request: web.Request) -> web.Response:
    asked = await _read(request, CloseRound)
    _check_path(request, asked.round)
    served = request.app[SERVED]
    return _answer(await served.run("close", lambda: served.rounds.close_round(asked)))


async def _read(request: web.Request, kind: type[M]) -> M:
    raw = await request.read()
    try:
        return decode(kind, raw)
    except FedRapError as error:
        raise Refusal(HelperProblem.MALFORMED, str(error)) from error


def _check_path(request: web.Request, round_id: bytes) -> None:
    if request.match_info["round"] != round_id.hex():
        raise Refusal(HelperProblem.MALFORMED, "the address names another round")


def _answer(message: Message) -> web.Response:
    return web.Response(body=encode(message), content_type="application/msgpack")


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def _problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A refusal as a problem document (RFC 9457)."""
    try:
        return await handler(request)
    except Refusal as refusal:
        status = 400 if refusal.problem is HelperProblem.MALFORMED else 409
        return web.json_response(
            {
                "type": f"urn:fedrap:helper:{refusal.problem.value}",
                "title": refusal.problem.value,
                "status": status,
                "detail": refusal.detail,
            },
            status=status,
            content_type="application/problem+json",
        )
