"""Errors become problem documents (RFC 9457), bugs become a plain 500."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable
from typing import Any

from aiohttp import ClientPayloadError, web
from aiohttp.http_exceptions import HttpProcessingError, PayloadEncodingError
from aiohttp.typedefs import Handler, Middleware

from fedrap_coordinator.errors import Refusal, refusal_of
from fedrap_coordinator.http.limits import shortened
from fedrap_core.errors import FedRapError
from fedrap_core.wire import problems

log = logging.getLogger(__name__)

# What a handler meets when its peer hangs up: nobody's fault here, and no alarm.
WENT_AWAY = (ConnectionError, asyncio.IncompleteReadError, ClientPayloadError, PayloadEncodingError)
# Answers that stand until an operator does something: devices come back in days, and not together.
FINAL = (problems.BUDGET_SPENT, problems.TASK_OVER, problems.REVOKED)
FINAL_SECONDS = 7 * 86_400.0  # half of it to three halves
_HTTP_ERRORS = {
    404: problems.NOT_FOUND,
    405: problems.METHOD_NOT_ALLOWED,
    413: problems.TOO_LARGE,
}


class ServerEvents(logging.Filter):
    """For the log of the server below us: bugs only, and no addresses.

    What is no HTTP is the business of whoever sent it: a stranger could fill the disk with it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """False for what a peer did; the rest loses its words, which name the peer."""
        error = record.exc_info[1] if record.exc_info else None
        record.msg, record.args = "internal error of the server", ()
        return not isinstance(error, HttpProcessingError | ConnectionError | UnicodeError)


class ProblemAnswer(web.Response):
    """A problem document; who counts answers need not read it."""

    problem = ""  # its code


def answer_problems(uniform: Callable[[], float]) -> Middleware:
    """Whatever a handler raises becomes an answer that says what to do."""

    @web.middleware
    async def around(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Exception as error:
            return answer_for(error, request, uniform, request.remote or "")

    return around


def answer_for(
    error: Exception, request: web.Request, uniform: Callable[[], float], address: str
) -> web.StreamResponse:
    """The answer to a request whose handler raised `error`; bugs are a plain 500.

    It carries a number, Fedrap-Request, that stands in the log beside the route, so that what a
    developer saw can be found. Of the address the log has the network.

    Raises:
        web.HTTPException: it was no error but another way to answer.
    """
    number = f"{int(uniform() * 2**32):08x}"
    told = {
        "route": request.match_info.route.name or "?",
        "request": number,
        "address": shortened(address),
    }
    refusal: Refusal | None
    if isinstance(error, WENT_AWAY):
        refusal = Refusal(problems.MALFORMED, "the request was not sent to its end")
        log.info("the client went away", extra=told)
    elif isinstance(error, FedRapError) and (refusal := refusal_of(error, uniform)) is not None:
        log.info("refused", extra={"problem": refusal.problem.code} | told)
    elif isinstance(error, web.HTTPException):
        if error.status < 400:
            raise error
        refusal = Refusal(_HTTP_ERRORS.get(error.status, problems.MALFORMED))
        log.info("refused", extra={"problem": refusal.problem.code} | told)
    else:  # A bug: the traceback goes to the log, nothing of it to the caller.
        refusal = Refusal(problems.INTERNAL)
        log.error("internal error", extra=told, exc_info=error)
    if refusal.problem in FINAL and refusal.retry_after is None:
        refusal = Refusal(refusal.problem, refusal.detail, FINAL_SECONDS * (0.5 + uniform()))
    answer = problem_response(refusal)
    answer.headers["Fedrap-Request"] = number
    return answer


def problem_response(refusal: Refusal) -> web.Response:
    """The problem document of a refusal, with Retry-After where the device may come back."""
    problem = refusal.problem
    document: dict[str, Any] = {
        "type": problem.uri,
        "title": problem.title,
        "status": problem.status,
        "detail": refusal.detail,
        "family": problem.family.value,
    }
    headers = {}
    if refusal.retry_after is not None:
        document["retry_after"] = round(refusal.retry_after, 3)
        headers["Retry-After"] = str(math.ceil(refusal.retry_after))
    answer = ProblemAnswer(
        status=problem.status,
        body=json.dumps(document).encode("utf-8"),
        content_type=problems.MEDIA_TYPE,
        headers=headers,
    )
    answer.problem = problem.code
    return answer
