"""What the system says of power, network and load, and what is assumed where it says nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedrap import Conditions
from fedrap.background import conditions
from fedrap.background.conditions import Power, always, default_route, linux_power, mac_power


def supplies(folder: Path, **devices: dict[str, str]) -> Path:
    """A made-up /sys/class/power_supply."""
    folder.mkdir(exist_ok=True)
    for name, files in devices.items():
        (folder / name).mkdir()
        for file, text in files.items():
            (folder / name / file).write_text(text + "\n")
    return folder


def a_battery(status: str, capacity: str = "80") -> dict[str, str]:
    return {"type": "Battery", "status": status, "capacity": capacity}


MAINS = {"type": "Mains", "online": "1"}
MOUSE = {**a_battery("Discharging", "3"), "scope": "Device"}


@pytest.mark.parametrize(
    ("found", "power"),
    [
        ({}, Power(True)),
        ({"AC": MAINS}, Power(True)),
        ({"AC": MAINS, "mouse": MOUSE}, Power(True)),
        ({"BAT0": a_battery("Charging", "7")}, Power(True, 7)),
        ({"BAT0": a_battery("Full", "100")}, Power(True, 100)),
        ({"BAT0": a_battery("Not charging")}, Power(True, 80)),
        ({"BAT0": a_battery("Discharging", "19")}, Power(False, 19)),
        ({"BAT0": a_battery("Discharging", "5"), "BAT1": a_battery("Full")}, Power(False, 80)),
        ({"BAT0": a_battery("Unknown", "strange")}, Power(None)),
        ({"BAT0": {"type": "Battery"}}, Power(None)),
    ],
)
def test_a_linux_machine_says_what_drives_it(
    tmp_path: Path, found: dict[str, dict[str, str]], power: Power
) -> None:
    assert linux_power(supplies(tmp_path, **found)) == power


def test_a_machine_without_that_folder_says_nothing(tmp_path: Path) -> None:
    assert linux_power(tmp_path / "none") == Power()


@pytest.mark.parametrize(
    ("said", "power"),
    [
        ("Now drawing from 'AC Power'\n -Battery-0 (id=1)\t42%; charging;", Power(True, 42)),
        ("Now drawing from 'Battery Power'\n -Battery-0\t9%; discharging;", Power(False, 9)),
        ("Now drawing from 'AC Power'\n", Power(True)),
        ("", Power()),
    ],
)
def test_a_mac_says_what_drives_it(said: str, power: Power) -> None:
    assert mac_power(said) == power


@pytest.mark.parametrize(
    ("power", "charging", "battery"),
    [
        (Power(), True, True),
        (Power(True), True, True),
        (Power(True, 3), True, True),
        (Power(False, 3), False, False),
        (Power(False, 19), False, False),
        (Power(False, 20), False, True),
        (Power(None, 10), True, False),
    ],
)
def test_unknown_is_allowed_and_low_is_not(power: Power, charging: bool, battery: bool) -> None:
    assert conditions.is_charging(power) is charging
    assert conditions.has_battery_left(power) is battery


ROUTES = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"


@pytest.mark.parametrize(
    ("table", "name", "unmetered"),
    [
        (ROUTES, None, True),
        (ROUTES + "eth0 00000000 0102A8C0 0003 0 0 100 00000000 0 0 0", "eth0", True),
        (ROUTES + "wwan0 00000000 0102A8C0 0003 0 0 700 00000000 0 0 0", "wwan0", False),
        (
            ROUTES + "wwan0 00000000 01 0003 0 0 700 00000000 0 0 0\n"
            "wlan0 00000000 01 0003 0 0 600 00000000 0 0 0",
            "wlan0",
            True,
        ),
        (ROUTES + "ppp0 0002A8C0 00000000 0001 0 0 1 00FFFFFF 0 0 0", None, True),
        ("", None, True),
    ],
)
def test_a_route_over_a_modem_is_metered(
    tmp_path: Path, table: str, name: str | None, unmetered: bool
) -> None:
    assert default_route(table) == name
    (tmp_path / "route").write_text(table)
    assert conditions.is_unmetered(tmp_path / "route") is unmetered


@pytest.mark.parametrize("raw", [None, b"\xff\xfe", b"a\nwwan0 00000000 x x x x y 00000000"])
def test_routes_that_cannot_be_read_are_allowed(tmp_path: Path, raw: bytes | None) -> None:
    if raw is not None:
        (tmp_path / "route").write_bytes(raw)
    assert conditions.is_unmetered(tmp_path / "route")


@pytest.mark.parametrize(("load", "idle"), [(0.0, True), (4.0, True), (4.1, False)])
def test_a_loaded_machine_is_not_idle(load: float, idle: bool) -> None:
    assert conditions.is_idle(load, cores=4) is idle


def test_a_machine_without_a_load_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "getloadavg")
    assert conditions.is_idle()


def test_the_defaults_answer_on_this_machine() -> None:
    words = {None, "not-charging", "metered", "not-idle", "low-battery"}
    assert Conditions().blocked_by() in words


def test_the_old_name_of_on_error_works_for_a_version_and_warns() -> None:
    def broken() -> bool:
        raise LookupError("no such sensor")

    conditions, errors = Conditions(broken, always, always, always), list[Exception]()
    with pytest.warns(DeprecationWarning, match="on_error="):
        assert conditions.blocked_by(hear=errors.append) == "not-charging"
    assert conditions.blocked_by(errors.append) == "not-charging"
    assert [type(error) for error in errors] == [LookupError, LookupError]
