"""How a coordinator is, in words: the first thing that is wrong, and what would help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedrap_coordinator.admin.health import STATES, Seen, health
from fedrap_coordinator.domain.records import DeviceStates, Facts, ReleaseRow, RoundRow
from fedrap_coordinator.domain.rollouts import NEXT, Rollout
from fedrap_coordinator.domain.rounds import Phase, RoundLimits

FINE = Seen(
    trouble="",
    has_release=True,
    over=False,
    total=50,
    limits=RoundLimits(min_updates=20, max_updates=100),
    states=DeviceStates(ready=30),
    rows=(),
)
ROLLOUT = Rollout(b"r" * 16, NEXT, (0.01, 0.1), 0.05, 1.0)


def row(phase: Phase, accepted: int) -> RoundRow:
    return RoundRow(b"r", 1, 1, phase, b"", 0.0, 30, accepted, 9.0)


@pytest.mark.parametrize(
    ("seen", "state", "words"),
    [
        (FINE, "live", ""),
        (replace(FINE, trouble="connection refused"), "database-away", "not answer"),
        (replace(FINE, trouble="database or disk is full"), "disk-full", "disk"),
        (replace(FINE, trouble="No space left on device", over=True), "disk-full", "disk"),
        (replace(FINE, has_release=False), "empty", "catalogue is empty"),
        (replace(FINE, over=True), "task-over", "All 50 rounds"),
        (replace(FINE, rollout=ROLLOUT), "live", ""),
        (replace(FINE, rollout=ROLLOUT.begun(7, 8)), "rolling-out", "Release 8 is with 0.01 of"),
        (replace(FINE, helper="no route to host"), "helper-away", "no route to host"),
        (replace(FINE, states=DeviceStates()), "stopped", "No device is enrolled"),
        (
            replace(FINE, states=DeviceStates(spent=40, waiting=12, first_free=26)),
            "stopped",
            "no device can take part; 40 devices have spent the budget; 12 devices wait as new "
            "until step 26, and a round needs 20 devices",
        ),
        (
            replace(FINE, states=DeviceStates(ready=1, resting=2, expired=1)),
            "stopped",
            "3 devices can take part; 1 device let the certificate run out",
        ),
        (replace(FINE, rows=[row(Phase.ABANDONED, n) for n in (3, 9, 5)]), "stopped", "9 updates"),
        (
            replace(FINE, rows=[*2 * [row(Phase.ABANDONED, 3)], row(Phase.RELEASED, 30)]),
            "live",
            "",
        ),
    ],
)  # fmt: skip
def test_the_first_thing_that_is_wrong_is_said(seen: Seen, state: str, words: str) -> None:
    found = health(seen)
    assert found.state == state
    assert state in STATES
    assert words in found.words
    assert bool(found.help) is (state != "live")


def test_a_backup_that_came_back_is_told_with_what_was_lost_for_a_month() -> None:
    rows = [
        ReleaseRow(9, 7, 30, None, Facts(made_at=1_700_100_000.0), True),
        ReleaseRow(8, 6, 30, 5, Facts(made_at=1_700_000_000.0), True),  # recovered: 6, 7 are gone
        ReleaseRow(5, 4, 30, None, Facts(made_at=1_699_000_000.0), True),
    ]
    found = health(replace(FINE, releases=rows, now=1_700_100_000.0))
    assert found.state == "restored"
    assert "2 made after it (6 to 7) are lost" in str(found)
    assert "Steps up to 6 are not made again" in str(found)
    assert health(replace(FINE, releases=rows, now=1_703_000_000.0)).state == "live"
    again = ReleaseRow(6, 4, 30, 5, Facts(made_at=1_700_000_000.0), True)  # an ordinary rollback
    assert health(replace(FINE, releases=[again, rows[2]], now=1_700_100_000.0)).state == "live"
