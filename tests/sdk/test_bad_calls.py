"""Every public call says in one line what it expects, and a wrong one never costs anything."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedrap import (
    Conditions,
    FedRap,
    FedRapError,
    Floor,
    Interaction,
    InvalidArgument,
    Kinds,
    Pace,
    Retention,
)
from tests.sdk.made import Clock, MadeCoordinator, a_device, a_release

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "spec" / "vectors" / "bad_calls.json").read_text("utf-8")
)["cases"]
GOOD: dict[str, dict[str, Any]] = {
    "record": {"item": "item-1"},
    "record_many": {"interactions": []},
    "hide": {"item": "item-1"},
    "unhide": {"item": "item-1"},
    "remove": {"what": "item-99"},
    "because": {"item": "item-1"},
    "similar_items": {"item": "item-1"},
    "consent": {"policy": "v1", "train": True},
    "export": {"path": "mine.zip"},
    "import_export": {"path": "mine.zip"},
}


def meant(value: Any) -> Any:
    """What the table means by a value."""
    if isinstance(value, dict):
        one = value.get("number")
        return float(one) if one else {name: meant(much) for name, much in value.items()}
    return value


def everything(folder: Path) -> tuple[object, ...]:
    """What a store has when it is opened anew."""
    with FedRap.open(folder, clock=Clock()) as device:
        known = device._state.contents()
        assert device.status().set_aside == ()
        return (list(known.interactions), list(known.consents), list(known.hidden),
                device.status().release, [one.item for one in device.recommend(3)])  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with a_device(tmp_path, MadeCoordinator(latest=a_release(2))) as device:
        device.hide("item-7")
        device.sync()
    return tmp_path


def call(device: FedRap, folder: Path, name: str, given: dict[str, Any]) -> object:
    """One call of the table."""
    values = {one: meant(value) for one, value in given.items()}
    if name == "open":
        whole = {"path": folder, "clock": Clock(), **values}
        with FedRap.open(whole.pop("path"), **whole):
            return None
    if name in ("retention", "floor", "kinds"):
        makers: dict[str, Callable[..., object]] = {
            "retention": Retention, "floor": Floor, "kinds": Kinds,
        }  # fmt: skip
        return makers[name](**values)
    if name == "record_many" and isinstance(values["interactions"], list):
        values["interactions"] = [Interaction(*one) for one in values["interactions"]]
    if name == "run_round":
        return asyncio.run(device.run_round_async(**values))
    return getattr(device, name)(**GOOD.get(name, {}) | values)


def test_every_case_of_the_table_is_refused_with_its_words_and_costs_nothing(folder: Path) -> None:
    assert len(CASES) >= 200
    before = everything(folder)
    elsewhere = sorted(path.name for path in folder.parent.iterdir())
    for case in CASES:
        device = None if case["call"] == "open" else FedRap.open(folder, clock=Clock())
        try:
            with pytest.raises(InvalidArgument) as caught:
                call(device, folder, case["call"], case["arguments"])  # type: ignore[arg-type]
            assert str(caught.value) == case["error"], case
        finally:
            if device is not None:
                device.close()
        if case["call"] not in ("retention", "floor", "kinds"):
            assert everything(folder) == before, case
    assert sorted(path.name for path in folder.parent.iterdir()) == elsewhere


NO_INTERACTION: Any = [None, 5, "x", []]
JUNK: list[Any] = [
    Interaction(*NO_INTERACTION),
    None, True, 0, -1, 5, 2**80, 1.5, -0.0, math.nan, math.inf, 10**400, Decimal("1"), 1j,
    "", "..", "item-1", "\ud800", "a\0b", "x" * 5000, b"raw", b"", [], ["item-1"], [None], (5,),
    {}, {"a": 1}, {"a": object()}, {1: 2}, set(), object(), print,
    Interaction("a", "b", 1, 1), Floor(), Kinds(view=1), iter(["item-1"]), ...,
]  # fmt: skip
SAFE_CALLS = {"close", "erase", "erase_async", "stop", "sync", "run_round", "open"}  # or by async


def public_calls() -> list[tuple[str, list[str]]]:
    """Every method of a device with the names of its arguments."""
    found = []
    for name in vars(FedRap):
        if name.startswith("_") or name in SAFE_CALLS or not callable(getattr(FedRap, name)):
            continue
        names = list(inspect.signature(getattr(FedRap, name)).parameters)
        found.append((name, [one for one in names if one != "self"]))
    return found


def attempt(device: FedRap, name: str, values: dict[str, Any]) -> None:
    """A call that may do what it says or refuse; everything else is a fault of ours."""
    said = ""
    try:
        done = getattr(device, name)(**GOOD.get(name, {}) | values)
        if inspect.iscoroutine(done):
            asyncio.run(done)
        device.stop()
    except FedRapError as error:
        said = str(error)
    except OSError:  # an export may lead nowhere
        assert name in ("export", "import_export")
    assert "\n" not in said
    assert len(said) < 250


def test_no_argument_of_any_call_breaks_a_store(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(folder.parent)  # for exports
    for name, names in public_calls():
        if name == "withdraw":
            continue
        with FedRap.open(folder, clock=Clock(), transport=MadeCoordinator(), token="t") as device:
            for argument in names:
                for junk in JUNK:
                    attempt(device, name, {argument: junk})
            recorded = list(device.history())
        with FedRap.open(folder, clock=Clock()) as device:
            assert device.status().set_aside == ()
            assert list(device.history()) == recorded


def test_no_argument_of_opening_breaks_a_store(folder: Path) -> None:
    before = everything(folder)
    names = [one for one in inspect.signature(FedRap.open).parameters if one != "path"]
    for argument in names:
        for junk in JUNK:
            if callable(junk):
                continue  # a callable that gives nonsense is a fault of the app's, not of a value
            with contextlib.suppress(FedRapError):
                FedRap.open(folder, **{argument: junk}).close()
    assert everything(folder) == before


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_wrong_arguments_together_break_nothing_either(folder: Path, data: st.DataObject) -> None:
    name, names = data.draw(st.sampled_from(public_calls()))
    if name in ("withdraw", "export", "start", "clear_history", "run_round_async", "sync_async"):
        return
    wild = st.one_of(st.sampled_from(JUNK), st.text(), st.floats(), st.integers(), st.binary())
    with FedRap.open(folder, clock=Clock()) as device:
        attempt(device, name, {one: data.draw(wild) for one in names})
        recorded = list(device.history())
    with FedRap.open(folder, clock=Clock()) as device:
        assert (list(device.history()), device.status().set_aside) == (recorded, ())


@pytest.mark.parametrize(
    "made",
    [
        lambda: Pace(period="often"),  # type: ignore[arg-type]
        lambda: Pace(first=math.nan),
        lambda: Conditions(charging=True),  # type: ignore[arg-type]
        lambda: Kinds(),
        lambda: Kinds(**{"x" * 51: 1}),
    ],
)
def test_values_are_checked_where_they_are_made(made: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgument):
        made()
