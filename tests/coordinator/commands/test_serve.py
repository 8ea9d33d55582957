"""What SIGHUP takes up, and what waits for a restart."""

from __future__ import annotations

import msgspec

from fedrap_coordinator.commands.serve import RELOADED, changes, merged
from fedrap_coordinator.domain.rate_limits import Pace
from fedrap_coordinator.http.limits import RequestLimits
from fedrap_coordinator.settings import Limits, Settings


def test_paces_and_waits_are_taken_up_and_the_policy_is_not() -> None:
    before = Settings()
    change = msgspec.structs.replace
    after = change(
        before,
        limits=Limits(device=Pace(burst=5, per_minute=5)),
        serve=change(before.serve, retry_seconds=7.0, port=9000),
        privacy=change(before.privacy, noise=0.0),
    )
    taken, left = changes(before, after)
    assert taken == ["limits.device.burst", "limits.device.per_minute", "serve.retry_seconds"]
    assert left == ["privacy.noise", "serve.port"]
    found = merged(before, after)
    assert found.limits == after.limits
    assert found.serve.retry_seconds == 7.0
    assert (found.serve.port, found.privacy) == (before.serve.port, before.privacy)
    assert changes(before, before) == ([], [])


def test_every_key_that_is_taken_up_exists() -> None:
    tree = msgspec.to_builtins(Settings())
    for key in RELOADED:
        place = tree
        for part in key.split("."):
            place = place[part]


def test_requests_are_held_to_the_new_limits() -> None:
    limits = RequestLimits(Settings(), lambda: 0.0)
    smaller = msgspec.structs.replace(Settings().serve, max_body_bytes=5000)
    limits.reload(msgspec.structs.replace(Settings(), serve=smaller))
    assert limits.largest("updates") == 5000
