"""The policy in force as a value: what differs, and what a change does to devices, in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedrap_coordinator.domain.policy import Policy, differences, effect, in_words, read_policy
from fedrap_coordinator.domain.privacy_audit import with_costs
from fedrap_coordinator.domain.records import DeviceStates
from fedrap_coordinator.errors import ConfigError
from fedrap_core.plan import Privacy

IN_FORCE = Policy(privacy=Privacy(noise=1.0, cap=10), total=50)


def states(rule: Privacy, times: int, cost: float, spent: int = 0) -> DeviceStates:
    return with_costs(DeviceStates(charged={times: 7}, spent=spent), {times: times * cost}, rule)


def test_every_field_of_a_plans_privacy_part_belongs_to_it() -> None:
    assert read_policy(IN_FORCE.encoded()) == IN_FORCE
    other = IN_FORCE.changed({"noise": 2.0, "separation": 4, "total": 60, "row_clip": 1.5})
    assert other == Policy(privacy=Privacy(noise=2.0, cap=10, separation=4, row_clip=1.5), total=60)
    said = in_words(differences(IN_FORCE, other))
    assert said == (
        "row_clip from nothing to 1.5, noise from 1 to 2, separation from 2 to 4, "
        "total from 50 to 60"
    )
    names = {*msgspec.structs.asdict(IN_FORCE.privacy), "total"}
    assert set(differences(IN_FORCE, other)) < names
    assert differences(IN_FORCE, IN_FORCE.changed({})) == {}


@pytest.mark.parametrize(
    "changes",
    [{"colour": 1}, {"noise": -1}, {"noise": "a lot"}, {"total": 0}, {"cap": None},
     {"coefficients": [0.5]}, {"separation": 1, "coefficients": [1.0, 0.5]}],
)  # fmt: skip
def test_what_is_no_policy_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        IN_FORCE.changed(changes)
    with pytest.raises(ConfigError):
        read_policy(b"nothing")


def test_the_effect_is_told_in_numbers_and_words() -> None:
    louder = IN_FORCE.changed({"noise": 0.5})
    now, then = (states(one.privacy, 10, 1.0) for one in (IN_FORCE, louder))
    first, *more = effect(IN_FORCE, louder, now, then)
    assert first == (
        "epsilon of a device that takes part as often as it may (10 times) goes from 17.9 to 46.2"
    )
    assert "17.9 at the most, by 7 devices that took part 10 times" in more[0]
    assert "epsilon 10 at the most" in " ".join(more)
    open_ = IN_FORCE.changed({"noise": 0.0})
    nothing = effect(IN_FORCE, open_, now, states(open_.privacy, 10, 1.0))
    assert "to no guarantee at all" in nothing[0]


def test_who_comes_back_and_who_goes_is_told() -> None:
    more = IN_FORCE.changed({"cap": 12})
    now, then = states(IN_FORCE.privacy, 10, 1.0, spent=7), states(more.privacy, 10, 1.0)
    assert "7 devices that had spent their budget may take part again" in effect(
        IN_FORCE, more, now, then
    )
    assert "7 devices more have spent their budget, and take part no more" in effect(
        more, IN_FORCE, then, now
    )
