"""Time and chance come in by argument: the SDK calls no clock and no dice of its own."""

from __future__ import annotations

import ast
import os
import random
import time
from pathlib import Path

import numpy as np
import pytest

import fedrap
from fedrap import FedRap
from fedrap.backend import TokenIssuer, make_issuer_key
from fedrap.testing import FakeCoordinator

SOURCES = sorted(Path(fedrap.__file__).parent.rglob("*.py"))
SOURCES_OF_CHANCE = {
    ("time", "time"),
    ("time", "monotonic"),
    ("time", "perf_counter"),
    ("os", "urandom"),
    ("random", "random"),
    ("random", "uniform"),
    ("secrets", "token_bytes"),
    ("secrets", "token_urlsafe"),
    ("datetime", "now"),
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_module_asks_a_clock_or_rolls_dice_itself(path: Path) -> None:
    """Such a function may be the default of an argument; it is never called by its own name."""
    called = {
        (node.func.value.id, node.func.attr)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
    }
    assert called & SOURCES_OF_CHANCE == set()


@pytest.fixture
def no_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real clocks and dice are gone while a test runs; logging has its own time."""

    def gone(*_: object) -> float:
        raise AssertionError("the SDK asked the machine and not its argument")

    for module, name in ((os, "urandom"), (random, "random")):
        monkeypatch.setattr(module, name, gone)


def test_a_device_and_its_coordinator_live_on_given_time_and_chance(
    tmp_path: Path, no_globals: None
) -> None:
    rng, now = np.random.default_rng(7), [1_000_000.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    fake = FakeCoordinator(["tea", "mug", "pot"], clock=clock, random_bytes=rng.bytes)
    with FedRap.open(
        tmp_path,
        transport=fake,
        token="any",
        trainer="numpy",
        clock=clock,
        monotonic=clock,
        uniform=rng.random,
        random_bytes=rng.bytes,
    ) as device:
        device.consent(train=True, policy="1")
        device.record("tea")
        assert device.run_round().joined
        [entry] = device._state.contents().entries
        assert 1_000_000.0 < entry.at < 1_000_100.0


def test_a_token_has_the_name_and_the_end_that_were_given() -> None:
    private, _ = make_issuer_key()
    issuers = [
        TokenIssuer(
            "shop", private, audience="a", clock=lambda: 5.0, random_bytes=lambda n: b"x" * n
        )
        for _ in range(2)
    ]
    one, two = (issuer.token().split(".")[1] for issuer in issuers)
    assert one == two  # the claims; signatures are never twice the same
    assert time.time() > 605.0
