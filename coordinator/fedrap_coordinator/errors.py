"""What the coordinator raises, and how an error of the core becomes an answer for a device.

FedRapError
├─ ConfigError          the operator must fix a setting; the process exits with 2
├─ StoreUnavailable     the database is of another schema or cannot be used
├─ StoreGone            the database does not serve now: away, full, locked; devices come back
├─ StoreConflict        what should be written is there already; nothing was changed
│  ├─ AlreadyReleased   that step or that version of C
│  ├─ DeviceExists      a device of that id
│  └─ TokenExists       an enrolment token
├─ HelperAway           the helper of private aggregation does not answer; asked again later
├─ HelperRefused        it answers no; the operator has to look
└─ Refusal              an answer for the device: a problem, a detail, when to come back
"""

from __future__ import annotations

from collections.abc import Callable

from fedrap_core import errors as core
from fedrap_core.wire import problems
from fedrap_core.wire.problems import Problem
from fedrap_core.wire.shares import HelperProblem

STORE_AWAY_SECONDS = 5.0  # a device waits that long, at the least, when the database is away


class ConfigError(core.FedRapError):
    """A setting is missing, misspelt or out of range; the message has its path."""


class StoreUnavailable(core.FedRapError):
    """The database cannot be used as it is; the message says what to do."""


class StoreGone(core.FedRapError):
    """The database does not serve at the moment; nothing of the transaction was kept."""


class StoreConflict(core.FedRapError):
    """What should be written is there already; nothing of the transaction was kept."""


class AlreadyReleased(StoreConflict):
    """That step or that version of C was released before."""


class DeviceExists(StoreConflict):
    """There is a device of that id."""


class TokenExists(StoreConflict):
    """One of these enrolment tokens was added before."""


class HelperAway(core.FedRapError):
    """The helper cannot be reached, or what came is no answer; nothing was decided."""


class HelperRefused(core.FedRapError):
    """The helper says no, and why."""

    def __init__(self, problem: HelperProblem, detail: str) -> None:
        super().__init__(detail or problem.value)
        self.problem = problem


class Refusal(core.FedRapError):
    """The device gets a problem document, and perhaps the seconds to wait before it asks again."""

    def __init__(
        self, problem: Problem, detail: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(detail or problem.title)
        self.problem = problem
        self.detail = detail or problem.title
        self.retry_after = retry_after


_ANSWERS: dict[type[core.FedRapError], Problem] = {
    core.MalformedMessage: problems.MALFORMED,
    core.UnsupportedVersion: problems.UNSUPPORTED_VERSION,
    core.TooLarge: problems.TOO_LARGE,
    core.SignatureInvalid: problems.BAD_SIGNATURE,
    core.TokenInvalid: problems.TOKEN_REFUSED,
    core.WrongShape: problems.WRONG_SHAPE,
    core.NotFinite: problems.NOT_FINITE,
}


def refusal_of(error: core.FedRapError, uniform: Callable[[], float]) -> Refusal | None:
    """The answer to a device whose bytes made the core raise `error`; None for our own faults.

    Malformed and badly sealed bytes get the same words: a difference would be an oracle. `uniform`
    in [0, 1) spreads devices that come back to a database that was away.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, StoreGone):
        return Refusal(problems.UNAVAILABLE, retry_after=STORE_AWAY_SECONDS * (1 + uniform()))
    problem = _ANSWERS.get(type(error))
    if problem is None:
        return None
    return Refusal(problem, "" if problem is problems.MALFORMED else str(error))
