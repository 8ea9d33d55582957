"""Around every handler: errors become problem documents (RFC 9457), bugs become a plain 500."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from fedrap_coordinator.errors import Refusal, refusal_of
from fedrap_core.errors import FedRapError
from fedrap_core.wire import problems

log = logging.getLogger(__name__)

_HTTP_ERRORS = {
    404: problems.NOT_FOUND,
    405: problems.METHOD_NOT_ALLOWED,
    413: problems.TOO_LARGE,
}


class ProblemAnswer(web.Response):
    """A problem document; who counts answers need not read it."""

    problem = ""  # its code


@web.middleware
async def answer_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Whatever a handler raises becomes an answer that says what to do."""
    try:
        return await handler(request)
    except FedRapError as error:
        refusal = refusal_of(error)
        if refusal is None:
            return _bug(request)
        log.info("refused", extra={"problem": refusal.problem.code})
        return problem_response(refusal)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        known = _HTTP_ERRORS.get(error.status, problems.MALFORMED)
        return problem_response(Refusal(known))
    except Exception:
        return _bug(request)


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


def _bug(request: web.Request) -> web.Response:
    """The traceback goes to the log, nothing of it to the caller."""
    name = request.match_info.route.name or "?"
    log.exception("internal error", extra={"route": name})
    return problem_response(Refusal(problems.INTERNAL))
