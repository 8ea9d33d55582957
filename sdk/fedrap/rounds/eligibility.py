"""May this device join a round now, and if not, why? Pure: a word for each reason.

These are all words of the SDK's own that `blocked_by` can have; docs/api.md explains each. When the
coordinator refuses, it has the problem code instead (spec/PROTOCOL.md 8).
"""

from __future__ import annotations

from fedrap_core.wire import problems
from fedrap_core.wire.problems import Family

NO_CONSENT = "no-consent"
OFFLINE = "offline"
NO_SERVER = "no-server"
NO_TOKEN = "no-token"
TOKEN_FAILED = "token-failed"  # the app's callable raised; `on_error` gets it
NOTHING_TO_SHARE = "nothing-to-share"
ANOTHER_TASK = "another-task"  # an offer that is not for this device
ALREADY_IN_ROUND = "already-in-round"  # what this device had to give is there
ALREADY_ANSWERED = "already-answered"  # a question, once and for all
TOLD_TO_WAIT = "told-to-wait"
UNREACHABLE = "unreachable"
NO_RELEASE = "no-release"
BROKEN_RELEASE = "broken-release"
ANOTHER_AUTHORITY = "another-authority"  # than the app pins
ANOTHER_AGGREGATION = "another-aggregation"  # one server where the app wants two, or two for one
ANOTHER_HELPER = "another-helper"  # the second server is not the one that the app pins
NOT_SIGNED = "not-signed"  # what came is not what the task's authority signed
FORKED_RELEASE = "forked-release"  # a release that does not follow from the one in use
OLD_OFFER = "old-offer"  # of a step that was released
DIVERGED = "diverged"
ALREADY_RUNNING = "already-running"
FAILED = "failed"  # a fault of the app or of this library; `on_error` gets it
FLOOR_COHORT = "floor-cohort"  # the offer is below what this device insists on
FLOOR_NOISE = "floor-noise"
FLOOR_CLIP = "floor-clip"
FLOOR_EPSILON = "floor-epsilon"
FLOOR_LIFETIME = "floor-lifetime"
POLICY_CHANGED = "policy-changed"  # it guarantees less than agreed to; waits for `consent`
LEDGER_CAP = "ledger-cap"  # the device's own ledger says no
LEDGER_SEPARATION = "ledger-separation"
LEDGER_TRIES = "ledger-tries"
LEDGER_LOST = "ledger-lost"  # it could not be read, so what was spent is not known
NOT_CHARGING = "not-charging"
METERED = "metered"
NOT_IDLE = "not-idle"
LOW_BATTERY = "low-battery"


def stands(word: str | None) -> bool:
    """Does this answer stand until somebody does something? It is asked again in days."""
    problem = problems.ALL.get(word or "")
    lasting = (problems.BUDGET_SPENT, problems.TASK_OVER, problems.BAD_SIGNATURE)
    return problem is not None and (problem.family is Family.OPERATOR or problem in lasting)


def blocked_by(
    *,
    consented: bool,
    reachable: bool,
    may_enrol: bool,
    interactions: int,
    wait_seconds: float,
    offline: bool = False,
    ledger_lost: bool = False,
) -> str | None:
    """The first reason that stands in the way, in the order a developer would want to fix it."""
    if not consented:
        return NO_CONSENT
    if ledger_lost:
        return LEDGER_LOST
    if offline:
        return OFFLINE
    if not reachable:
        return NO_SERVER
    if not may_enrol:
        return NO_TOKEN
    if interactions == 0:
        return NOTHING_TO_SHARE
    if wait_seconds > 0:
        return TOLD_TO_WAIT
    return None
