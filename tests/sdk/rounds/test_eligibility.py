"""May this device join a round now? One word for each reason, in the order to fix them."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap.rounds import eligibility
from fedrap.rounds.eligibility import blocked_by


def blocked(
    consented: bool = True,
    reachable: bool = True,
    may_enrol: bool = True,
    interactions: int = 1,
    wait_seconds: float = 0.0,
    offline: bool = False,
) -> str | None:
    """The answer for a device that has all it needs but what is given."""
    return blocked_by(
        consented=consented,
        reachable=reachable,
        may_enrol=may_enrol,
        interactions=interactions,
        wait_seconds=wait_seconds,
        offline=offline,
    )


def test_a_device_with_all_it_needs_may_join() -> None:
    assert blocked() is None


def test_one_missing_thing_is_named() -> None:
    assert blocked(consented=False) == eligibility.NO_CONSENT
    assert blocked(offline=True) == eligibility.OFFLINE
    assert blocked(reachable=False) == eligibility.NO_SERVER
    assert blocked(may_enrol=False) == eligibility.NO_TOKEN
    assert blocked(interactions=0) == eligibility.NOTHING_TO_SHARE
    assert blocked(wait_seconds=1e-9) == eligibility.TOLD_TO_WAIT


@pytest.mark.parametrize("wait", [0.0, -1e-9, -1e9])
def test_a_wait_that_is_over_blocks_nothing(wait: float) -> None:
    assert blocked(wait_seconds=wait) is None


def test_the_first_reason_to_fix_is_named_whatever_else_is_missing() -> None:
    order = [
        eligibility.NO_CONSENT,
        eligibility.OFFLINE,
        eligibility.NO_SERVER,
        eligibility.NO_TOKEN,
        eligibility.NOTHING_TO_SHARE,
        eligibility.TOLD_TO_WAIT,
    ]
    for good in product([True, False], repeat=6):
        found = blocked(
            consented=good[0],
            offline=not good[1],
            reachable=good[2],
            may_enrol=good[3],
            interactions=int(good[4]),
            wait_seconds=0.0 if good[5] else 5.0,
        )
        missing = [word for word, fine in zip(order, good, strict=True) if not fine]
        assert found == (missing[0] if missing else None)


@given(st.booleans(), st.booleans(), st.integers(0, 10**9), st.floats(-1e9, 1e9))
def test_without_consent_nothing_else_matters(
    reachable: bool, may_enrol: bool, interactions: int, wait: float
) -> None:
    found = blocked(
        consented=False,
        reachable=reachable,
        may_enrol=may_enrol,
        interactions=interactions,
        wait_seconds=wait,
    )
    assert found == eligibility.NO_CONSENT


def test_every_reason_has_its_own_word() -> None:
    words = [value for name, value in vars(eligibility).items() if name.isupper()]
    assert len(words) == len(set(words))
    assert all(word == word.lower() and " " not in word for word in words)
