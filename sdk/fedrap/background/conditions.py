"""When may a round run in the background? Four questions to the system; an app may ask its own.

| condition | the default says no when | and where nothing is known |
|---|---|---|
| charging | Linux, macOS, Windows: a battery drives the machine | yes; no battery is charging |
| unmetered | Linux: the default route is a modem's (wwan, ppp, rmnet) | yes |
| idle | Linux, macOS: more than one process per core waited in the last minute | yes |
| battery | a battery is below 20 percent and not charging | yes |

A condition is a callable that gives True when a round may run. One that raises counts as not met.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedrap import arguments
from fedrap.rounds import eligibility

Condition = Callable[[], bool]
LEAST_PERCENT = 20
_SUPPLIES = Path("/sys/class/power_supply")
ROUTES = Path("/proc/net/route")
_MODEMS = ("wwan", "ppp", "rmnet")


@dataclass(frozen=True)
class Power:
    """What drives the machine, as far as is known."""

    charging: bool | None = None
    percent: int | None = None


def is_charging(power: Power | None = None) -> bool:
    """The machine is plugged in, has no battery, or does not say."""
    return (power or read_power()).charging is not False


def has_battery_left(power: Power | None = None) -> bool:
    """Enough for a round: charging, at least 20 percent, or not known."""
    power = power or read_power()
    return power.charging is True or power.percent is None or power.percent >= LEAST_PERCENT


def is_unmetered(routes: Path = ROUTES) -> bool:
    """The default route is not a modem's, or is not known."""
    try:
        name = default_route(routes.read_text("ascii"))
    except (OSError, ValueError):
        return True
    return name is None or not name.startswith(_MODEMS)


def is_idle(load: float | None = None, cores: int | None = None) -> bool:
    """At most one process per core waited in the last minute, or not known."""
    try:
        load = os.getloadavg()[0] if load is None else load
    except (OSError, AttributeError):
        return True
    return load <= (cores or os.cpu_count() or 1)


@dataclass(frozen=True)
class Conditions:
    """What must hold for a round in the background; each can be an app's own callable."""

    charging: Condition = is_charging
    unmetered: Condition = is_unmetered
    idle: Condition = is_idle
    battery: Condition = has_battery_left

    def __post_init__(self) -> None:
        for name in ("charging", "unmetered", "idle", "battery"):
            if not callable(getattr(self, name)):
                raise arguments.wrong(name, arguments.CALLABLE)

    def blocked_by(
        self,
        on_error: Callable[[Exception], None] | None = None,
        *,
        hear: Callable[[Exception], None] | None = None,
    ) -> str | None:
        """A word for the first condition that is not met; `on_error` gets what one raises.

        `hear` is the old name of `on_error`, and goes with version 0.3.
        """
        if hear is not None:
            warnings.warn("hear= is now on_error=", DeprecationWarning, stacklevel=2)
            on_error = on_error or hear
        for word, condition in (
            (eligibility.NOT_CHARGING, self.charging),
            (eligibility.LOW_BATTERY, self.battery),
            (eligibility.METERED, self.unmetered),
            (eligibility.NOT_IDLE, self.idle),
        ):
            try:
                if not condition():
                    return word
            except Exception as error:  # an app's own callable: costs nothing to wait
                if on_error is not None:
                    on_error(error)
                return word
        return None


def always() -> bool:
    """A condition that is always met, for machines where a question makes no sense."""
    return True


def read_power() -> Power:
    """The power of this machine."""
    if sys.platform == "win32":
        return _windows_power()
    if sys.platform == "darwin":
        return _mac_power()
    return linux_power(_SUPPLIES)


def linux_power(folder: Path) -> Power:
    """From `/sys/class/power_supply`. Batteries of mice and headsets do not count."""
    found = []
    try:
        supplies = sorted(folder.iterdir())
    except OSError:
        return Power()
    for supply in supplies:
        if _word(supply / "type") == "Battery" and _word(supply / "scope") != "Device":
            found.append((_word(supply / "status"), _word(supply / "capacity")))
    if not found:
        return Power(charging=True)
    states = {status for status, _ in found}
    levels = [int(level) for _, level in found if level is not None and level.isdecimal()]
    charging = None if states <= {None, "Unknown"} else "Discharging" not in states
    return Power(charging, max(levels, default=None))


def mac_power(said: str) -> Power:
    """From what `pmset -g batt` says."""
    levels = [int(level) for level in re.findall(r"(\d{1,3})%", said)]
    if "AC Power" in said:
        return Power(True, max(levels, default=None))
    return Power(False if "Battery Power" in said else None, max(levels, default=None))


def default_route(table: str) -> str | None:
    """The interface of the default route with the least metric, from `/proc/net/route`."""
    rows = [line.split() for line in table.splitlines()[1:]]
    routes = [(int(row[6]), row[0]) for row in rows if len(row) > 7 and row[1] == row[7] == "0" * 8]
    return min(routes)[1] if routes else None


def _word(path: Path) -> str | None:
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return None


def _mac_power() -> Power:
    try:
        done = subprocess.run(
            ["/usr/bin/pmset", "-g", "batt"], capture_output=True, text=True, timeout=2, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return Power()
    return mac_power(done.stdout)


def _windows_power() -> Power:
    """GetSystemPowerStatus: four bytes (plugged in, flags, percent, reserved) and two numbers."""
    raw = (ctypes.c_ubyte * 12)()
    windll = getattr(ctypes, "windll", None)
    if windll is None or not windll.kernel32.GetSystemPowerStatus(ctypes.byref(raw)):
        return Power()
    return Power({0: False, 1: True}.get(raw[0]), raw[2] if raw[2] <= 100 else None)
