"""The stable codes of what can go wrong over HTTP (RFC 9457), for both sides.

Three families tell the caller what to do: `retry` the same thing later, `give_up` this update or
request, or call the `operator`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "urn:fedrap:problem:"
MEDIA_TYPE = "application/problem+json"


class Family(StrEnum):
    """What the caller should do."""

    RETRY = "retry"
    GIVE_UP = "give_up"
    OPERATOR = "operator"


@dataclass(frozen=True)
class Problem:
    """One code with its HTTP status and a sentence that says what to do."""

    code: str
    status: int
    family: Family
    title: str

    @property
    def uri(self) -> str:
        """The `type` of the problem document."""
        return PREFIX + self.code


MALFORMED = Problem(
    "malformed",
    400,
    Family.GIVE_UP,
    "The bytes are not a valid message; drop it and start anew.",
)
UNSUPPORTED_VERSION = Problem(
    "unsupported-version", 400, Family.OPERATOR, "Update the SDK or the coordinator."
)
BAD_SIGNATURE = Problem(
    "bad-signature", 401, Family.GIVE_UP, "The request is not signed by that device."
)
NOT_ENROLLED = Problem(
    "not-enrolled", 401, Family.OPERATOR, "Enrol this device with a fresh token."
)
CERTIFICATE_EXPIRED = Problem(
    "certificate-expired", 401, Family.RETRY, "Renew this device's certificate and ask again."
)
UNKNOWN_ADMIN = Problem(
    "unknown-admin", 401, Family.OPERATOR, "Send a bearer token of `fedrap-coordinator admin add`."
)
TOKEN_REFUSED = Problem(
    "token-refused", 403, Family.OPERATOR, "Ask the app's backend for a fresh enrolment token."
)
NOT_ASSIGNED = Problem(
    "not-assigned",
    403,
    Family.GIVE_UP,
    "This device has no place in that round; ask for an offer.",
)
BUDGET_SPENT = Problem(
    "budget-spent", 403, Family.GIVE_UP, "This device has taken part as often as it may."
)
TASK_OVER = Problem(
    "task-over", 403, Family.GIVE_UP, "All rounds of this task were made; no more will be asked."
)
REVOKED = Problem("revoked", 403, Family.OPERATOR, "The operator has shut this device out.")
ATTESTATION_REFUSED = Problem(
    "attestation-refused", 403, Family.OPERATOR, "This device could not prove what it is."
)
TOO_MANY_DEVICES = Problem(
    "too-many-devices", 403, Family.OPERATOR, "This account has enrolled as many as it may."
)
NOT_ALLOWED = Problem(
    "not-allowed", 403, Family.OPERATOR, "Your role does not allow that; ask who has the rights."
)
NOT_FOUND = Problem("not-found", 404, Family.GIVE_UP, "There is no such thing here.")
METHOD_NOT_ALLOWED = Problem(
    "method-not-allowed", 405, Family.GIVE_UP, "This address does not take that method."
)
REPLAYED = Problem(
    "replayed", 409, Family.RETRY, "The nonce was used before; sign again with a larger one."
)
TOO_SOON = Problem(
    "too-soon", 409, Family.RETRY, "This device took part recently; come back later."
)
TOO_NEW = Problem(
    "too-new", 409, Family.RETRY, "A new device waits before its first round; come back later."
)
EXISTS_ALREADY = Problem(
    "exists-already", 409, Family.GIVE_UP, "There is one of that name; choose another."
)
STALE_MODEL = Problem(
    "stale-model", 409, Family.GIVE_UP, "The update is for another model or plan; drop it."
)
ROUND_CLOSED = Problem("round-closed", 409, Family.GIVE_UP, "The round is over; drop the update.")
CONFLICTING_UPDATE = Problem(
    "conflicting-update",
    409,
    Family.GIVE_UP,
    "Another update of this device is already counted.",
)
TOO_LARGE = Problem("too-large", 413, Family.GIVE_UP, "The body is larger than allowed.")
WRONG_SHAPE = Problem(
    "wrong-shape", 422, Family.GIVE_UP, "Rows or dimensions do not fit the round's model."
)
NOT_FINITE = Problem("not-finite", 422, Family.GIVE_UP, "A number is not finite or absurdly large.")
SLOW_DOWN = Problem("slow-down", 429, Family.RETRY, "Too many requests; come back later.")
INTERNAL = Problem("internal", 500, Family.RETRY, "A fault of the coordinator; it is in its log.")
NO_ROUND = Problem("no-round", 503, Family.RETRY, "No round has room now; come back later.")
UNAVAILABLE = Problem("unavailable", 503, Family.RETRY, "Not ready; come back later.")

ALL: dict[str, Problem] = {
    value.code: value for value in list(globals().values()) if isinstance(value, Problem)
}
