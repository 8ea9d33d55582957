"""The devices' API: read bytes, call the coordinator, write bytes. No decisions here."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from fedrap_coordinator.domain.records import DeviceRecord
from fedrap_coordinator.http import openapi
from fedrap_coordinator.http.dashboard import MONITOR
from fedrap_coordinator.http.limits import ATTESTED, SMALL, RequestLimits
from fedrap_coordinator.http.metrics import Metrics
from fedrap_coordinator.http.problems import ProblemAnswer, answer_for
from fedrap_coordinator.identity.authentication import (
    SignedRequest,
    read_headers,
    read_hex,
    read_number,
)
from fedrap_coordinator.identity.enrolment import Purpose, Registry
from fedrap_coordinator.rounds.coordinator import Coordinator
from fedrap_coordinator.rounds.releases import EncodedRelease
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.tracing import NO_TRACES, Traces
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Enrol, Forget, Forgotten, Message, Renew

COORDINATOR = web.AppKey("coordinator", Coordinator)
REGISTRY = web.AppKey("registry", Registry)
LIMITS = web.AppKey("limits", RequestLimits)
BASE = web.AppKey("base", str)  # of a task's addresses, where it is one of several
BESIDE = web.AppKey("beside", dict[str, Coordinator])  # the other tasks of this process
MEDIA_TYPE = "application/vnd.fedrap+msgpack"
_FOREVER = "public, max-age=31536000, immutable"


def routes() -> list[web.RouteDef]:
    """Every address of spec/PROTOCOL.md."""
    return [
        web.get("/healthz", get_health, name="health"),
        web.post("/v1/enrol", post_enrol, name="enrol"),
        web.post("/v1/renew", post_renew, name="renew"),
        web.post("/v1/offers", post_offer, name="offers"),
        web.post("/v1/rounds/{round}/updates", post_update, name="updates"),
        web.get("/v1/questions", get_questions, name="questions"),
        web.post("/v1/questions/{question}/answers", post_answer, name="answers"),
        web.post("/v1/forget", post_forget, name="forget"),
        web.get("/v1/releases/latest", get_latest_release, name="latest-release"),
        web.get("/v1/releases/{version}", get_release, name="release"),
        web.get("/v1/log", get_log, name="log"),
        web.get("/v1/catalogue", get_catalogue, name="catalogue"),
        web.get("/v1/attributes", get_attributes, name="attributes"),
        web.get("/v1/attributes/{page}", get_attribute_page, name="attribute-page"),
        web.get("/v1/privacy", get_privacy, name="privacy"),
        web.get("/v1/openapi.json", get_openapi, name="openapi"),
        web.get("/readyz", get_ready, name="ready"),
    ]


def around_devices(
    limits: RequestLimits, metrics: Metrics, sources: Sources, traces: Traces = NO_TRACES
) -> Middleware:
    """Limits before a handler, problem documents and metrics after it: one frame for all three."""

    @web.middleware
    async def around(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.match_info.apps[-1] is not request.app:
            return await handler(request)  # of another task, which has a frame of its own
        if traces is NO_TRACES:
            return await answered(request, handler)
        with traces.request() as span:
            answer = await answered(request, handler)
            span.set("http.route", request.match_info.route.name or "?")
            span.set("http.response.status_code", answer.status)
            if isinstance(answer, ProblemAnswer):
                span.set("fedrap.problem", answer.problem)
            return answer

    async def answered(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = sources.monotonic()
        try:
            with limits.admit(request):
                answer = await handler(request)
        except Exception as error:
            failed = limits.after_failure(request, error)
            answer = answer_for(failed, request, sources.uniform, limits.address(request))
            if not request.content.is_eof():  # what was not read is not waited for
                answer.force_close()
        metrics.count(request, answer, sources.monotonic() - started)
        return answer

    return around


async def get_health(request: web.Request) -> web.Response:
    """Alive; says nothing else."""
    return web.json_response({"status": "ok"})


async def get_ready(request: web.Request) -> web.Response:
    """For a balancer: may devices be sent here?

    Of several tasks none keeps the others from being served because its catalogue is still empty.
    """
    coordinators = [request.app[COORDINATOR], *request.app[BESIDE].values()]
    serve = all(one.is_ready for one in coordinators)
    ready = serve and any(one.model is not None for one in coordinators)
    return web.json_response({"ready": ready}, status=200 if ready else 503)


async def get_openapi(request: web.Request) -> web.Response:
    """The OpenAPI document of both APIs."""
    return web.json_response(openapi.document())


async def get_privacy(request: web.Request) -> web.Response:
    """The privacy guarantee of every device, and on what it rests."""
    return web.json_response(request.app[MONITOR].privacy())


async def post_enrol(request: web.Request) -> web.Response:
    """A token for a device id."""
    message = decode(Enrol, await request.app[LIMITS].read_body(request), ATTESTED)
    task = request.app[COORDINATOR].task
    return _answer(await request.app[REGISTRY].enrol(message, task))


async def post_renew(request: web.Request) -> web.Response:
    """A new certificate."""
    known, body = await _proven(request, Purpose.RENEW)
    message, task = decode(Renew, body, ATTESTED), request.app[COORDINATOR].task
    return _answer(await request.app[REGISTRY].renew(known, message, task))


async def post_offer(request: web.Request) -> web.Response:
    """A slot in the open round."""
    return _answer(await request.app[COORDINATOR].offer(await _signed(request)))


async def post_update(request: web.Request) -> web.Response:
    """A sealed update; of a device that is not known not a byte is read."""
    round_id = read_hex(request.match_info["round"], 16)
    device, _, _ = read_headers(request.headers)
    await request.app[COORDINATOR].check_known(device)
    return _answer(await request.app[COORDINATOR].accept(await _signed(request), round_id))


async def get_questions(request: web.Request) -> web.Response:
    """The questions about quality that are open; the same for everybody.

    With `?all=1` those of staged releases and of lists too: a device that does not know these kinds
    never sees one.
    """
    every = request.query.get("all") == "1"
    return _packed(request, await request.app[COORDINATOR].questions(every), "no-cache")


async def post_answer(request: web.Request) -> web.Response:
    """A sealed answer to one of them; of a device that is not known not a byte is read."""
    question = read_hex(request.match_info["question"], 16)
    device, _, _ = read_headers(request.headers)
    await request.app[COORDINATOR].check_known(device)
    return _answer(await request.app[COORDINATOR].answer(await _signed(request), question))


async def post_forget(request: web.Request) -> web.Response:
    """A device that is no more."""
    known, body = await _proven(request, Purpose.FORGET)
    decode(Forget, body, SMALL)
    await request.app[REGISTRY].forget(known.id)
    return _answer(Forgotten())


async def get_latest_release(request: web.Request) -> web.Response:
    """The newest C for a device that holds version `have`, or 304 when that is it."""
    coordinator = request.app[COORDINATOR]
    have = request.query.get("have")
    release = await (
        coordinator.release(None) if have is None else coordinator.release_since(read_number(have))
    )
    return _release(request, release, "no-cache")


async def get_release(request: web.Request) -> web.Response:
    """One version of C; it never changes."""
    version = read_number(request.match_info["version"])
    return _release(request, await request.app[COORDINATOR].release(version), _FOREVER)


async def get_log(request: web.Request) -> web.Response:
    """The signed log of releases beyond version `since`, and its head."""
    since = read_number(request.query.get("since", "0"))
    body = await request.app[COORDINATOR].log(since)
    headers = {"Cache-Control": "no-cache"}
    return web.Response(body=body, content_type=MEDIA_TYPE, headers=headers)


async def get_catalogue(request: web.Request) -> web.Response:
    """The items from row `start` on."""
    start = read_number(request.query.get("start", "0"))
    body, gzipped = await request.app[COORDINATOR].catalogue(start)
    headers = {"Vary": "Accept-Encoding"}
    if gzipped is not None and _takes_gzip(request):
        headers["Content-Encoding"], body = "gzip", gzipped
    return web.Response(body=body, content_type=MEDIA_TYPE, headers=headers)


async def get_attributes(request: web.Request) -> web.Response:
    """Which pages the items' public attributes are in."""
    return _packed(request, await request.app[COORDINATOR].attributes(), "no-cache")


async def get_attribute_page(request: web.Request) -> web.Response:
    """One of these pages; its address is its digest."""
    digest = read_hex(request.match_info["page"], 32)
    return _packed(request, await request.app[COORDINATOR].attribute_page(digest), _FOREVER)


async def _signed(request: web.Request) -> SignedRequest:
    """The request as it came; nothing is proven yet. Headers are looked at before the body."""
    headers = read_headers(request.headers)
    body = await request.app[LIMITS].read_body(request)
    path = request.raw_path.removeprefix(request.app[BASE])
    return SignedRequest(*headers, request.method, path, body)


async def _proven(request: web.Request, purpose: Purpose) -> tuple[DeviceRecord, bytes]:
    """Who sent this, and the body; the nonce is counted."""
    signed = await _signed(request)
    return await request.app[REGISTRY].authenticate(signed, purpose), signed.body


def _release(request: web.Request, release: EncodedRelease, caching: str) -> web.Response:
    tag = f'"c{release.version}"'
    headers = {"ETag": tag, "Cache-Control": caching, "Vary": "Accept-Encoding"}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    body = release.body
    if _takes_gzip(request):
        headers["Content-Encoding"] = "gzip"
        body = release.gzipped
    return web.Response(body=body, content_type=MEDIA_TYPE, headers=headers)


def _packed(request: web.Request, body: bytes, caching: str) -> web.Response:
    """Compressed by aiohttp, in a thread where it is large."""
    answer = web.Response(body=body, content_type=MEDIA_TYPE, headers={"Cache-Control": caching})
    answer.headers["Vary"] = "Accept-Encoding"
    if _takes_gzip(request):
        answer.enable_compression(web.ContentCoding.gzip)
    return answer


def _takes_gzip(request: web.Request) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


def _answer(message: Message) -> web.Response:
    return web.Response(body=encode(message), content_type=MEDIA_TYPE)
