"""A coordinator that offers whatever suits it, to a device whose app asked for nothing special.

Version 0.1 joined noise 0, a clip of 1e6 and a cohort of 2, a hundred times.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrap import Floor
from fedrap_core.plan import Plan, Privacy, SolveMethod
from fedrap_core.wire.codec import encode_value
from tests.sdk.made import DIM, MadeCoordinator, a_device


def offers(min_updates: int = 20, **privacy: float) -> bytes:
    return encode_value(
        Plan(
            method=SolveMethod(dim=DIM),
            privacy=Privacy(**{"noise": 2.0, "cap": 100, **privacy}),  # type: ignore[arg-type]
            min_updates=min_updates,
        )
    )


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (offers(noise=0.0), "floor-epsilon"),
        (offers(noise=0.1), "floor-epsilon"),
        (offers(clip=100.1), "floor-clip"),
        (offers(clip=1e6), "floor-clip"),
        (offers(min_updates=19), "floor-cohort"),
    ],
)
def test_what_version_0_1_joined_is_refused(tmp_path: Path, plan: bytes, why: str) -> None:
    coordinator = MadeCoordinator(plan=plan)
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().blocked_by == why
        assert device.status().rounds == 0
    assert coordinator.sent == []


def test_a_device_never_spends_more_than_its_floor_allows(tmp_path: Path) -> None:
    coordinator = MadeCoordinator(plan=offers())
    with a_device(tmp_path, coordinator) as device:
        for coordinator.step in range(1, 61, 2):
            report = device.run_round()
            if not report.joined:
                break
        assert report.blocked_by == "floor-epsilon"
        assert 5 < device.status().rounds < 20
        assert 8 < device.status().epsilon <= 10


def test_less_is_asked_for_by_name(tmp_path: Path) -> None:
    plan = encode_value(Plan(method=SolveMethod(dim=DIM), min_updates=2))
    floor = Floor.without_privacy(min_updates=2)
    with a_device(tmp_path, MadeCoordinator(plan=plan), floor=floor) as device:
        assert device.run_round().joined


def test_the_defaults_are_these() -> None:
    floor = Floor()
    assert (floor.separation, floor.cap, floor.min_updates) == (2, 100, 20)
    assert (floor.max_epsilon, floor.max_clip) == (10.0, 100.0)
    nothing = float("inf")
    assert Floor.without_privacy() == Floor(max_epsilon=nothing, max_question_epsilon=nothing)
