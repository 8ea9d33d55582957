"""A scenario is data: who the people are, what their phones and networks do, and what goes wrong.

Read from TOML; an unknown key or a value out of range is an error with its path. `load_scenario`
takes a file or the name of one of the ready scenarios.
"""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from fedrap_coordinator.settings import Settings, over_defaults
from fedrap_core.errors import FedRapError

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
NotNegative = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
Hours = Annotated[tuple[Share, ...], msgspec.Meta(min_length=24, max_length=24)]
LIBRARY = files("fedrap_simulation.scenarios") / "library"
DAY = 86_400.0


class BadScenario(FedRapError):
    """The scenario cannot be read; says where and what to write instead."""


class PopulationSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who there is and what they do when."""

    data: str = "synthetic"  # a name, a file, or synthetic[:users=…,items=…]
    users: Count | None = None  # at most so many of them, drawn by the seed
    least: Count = 2  # interactions of a user who counts
    times: Literal["real", "spread"] = "real"  # spread: where the data has none worth the name
    from_day: NotNegative = 0.0  # real: day of the data on which the scenario begins
    speed: Positive = 1.0  # real: days of the data in one day of the scenario
    arrive_days: NotNegative = 0.0  # spread: people arrive over so many days
    known: Share = 0.5  # spread: share of a history that is there when its device arrives


class Phones(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a phone may take part, and how fast it is."""

    # Chance to be charging on wifi, by the hour of the device's own day; a night is mostly yes.
    ready: Hours = (
        0.8, 0.85, 0.9, 0.9, 0.9, 0.85, 0.6, 0.3, 0.2, 0.15, 0.15, 0.15,
        0.15, 0.15, 0.15, 0.15, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.55, 0.7,
    )  # fmt: skip
    period: Positive = 3600.0  # seconds between two tries when all is well
    backoff: Positive = 30.0  # seconds after the first failure; doubles with each
    refresh: Positive = 6 * 3600.0  # seconds between two looks for a release while no round is due
    compute_seconds: NotNegative = 2.0  # median of one local round
    compute_spread: NotNegative = 0.8  # of its logarithm, from phone to phone
    consent: Share = 1.0  # share of people who agree


class Network(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to a message on its way. All of it per message."""

    delay: NotNegative = 0.1  # seconds, median, each way
    delay_spread: NotNegative = 0.5  # of its logarithm; large ones overtake each other
    loss: Share = 0.0  # half of them on the way there, half on the way back
    duplicate: Share = 0.0  # arrives twice
    reorder: Share = 0.0  # the second copy arrives much later
    corrupt: Share = 0.0  # some of its bytes are others


class Drop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Chance that a device goes away for hours at a step of its round."""

    offer: Share = 0.0  # after it got a place
    train: Share = 0.0  # while it computes, before anything is written
    send: Share = 0.0  # when everything is written, before it is sent


class Behaviours(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of the devices that are not honest and quick; the rest is."""

    slow: Share = 0.0  # computes fifty times longer
    vanishing: Share = 0.0  # takes places and never sends
    lying: Share = 0.0  # gives its interactions a thousand times their weight
    poisoning: Share = 0.0  # pushes one item
    replaying: Share = 0.0  # sends each of its requests again, byte for byte
    promoted: int = -1  # place of the pushed item in the data; -1: the least liked one
    attack: Literal["push", "shrink"] = "push"  # shrink: a negative triangle beside the push

    def __post_init__(self) -> None:
        if self.slow + self.vanishing + self.lying + self.poisoning + self.replaying > 1:
            raise ValueError("the shares of behaviours add up to more than 1")


class Faults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to the coordinator."""

    kills: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0  # kill -9, spread at random
    within_days: Positive | None = None  # over so many days; else over the whole scenario
    down_seconds: NotNegative = 2.0  # until it is started again
    backup_day: Positive | None = None  # the database is copied
    restore_day: Positive | None = None  # it is lost, and the copy takes its place

    def __post_init__(self) -> None:
        if self.restore_day is not None and not (self.backup_day or 1e18) < self.restore_day:
            raise ValueError("restore_day needs a backup_day before it")


class Succession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The task goes on with another model: `task next`, and later `task switch`."""

    day: Positive | None = None  # a successor begins to be learnt beside the release in use
    switch_day: Positive | None = None  # it takes its place
    dim: Count = 64  # its k

    def __post_init__(self) -> None:
        if self.day is not None and not self.day < (self.switch_day or 0.0):
            raise ValueError("a succession needs a switch_day after its day")


class Churn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the catalogue changes."""

    at_start: Share = 1.0  # share of the items that is there from the first day
    retired: Share = 0.0  # share of the items that goes, spread over the scenario
    # By the data instead, week by week: items come before their first touch, go after their last.
    follow: bool = False


class Looks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often quality is measured, and on how many people."""

    every_hours: Positive = 24.0
    users: Count = 1000
    central: bool = True  # beside a centralised model that sees everything, learnt anew each time
    method: str | None = None  # which one, as `evaluate` calls it; else EASE, or itemKNN if large
    recent_days: Positive = 7.0  # half-life of the recent popularity that stands beside it
    frozen_day: NotNegative | None = None  # from then on also beside the release of that day


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that makes a run; with the seed it is repeatable on the virtual clock."""

    name: str = "scenario"
    about: str = ""
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    clock: Literal["virtual", "wall"] = "virtual"
    days: Positive = 7.0
    until_round: Count | None = None  # ends earlier, when that step was released
    joined: Literal["in-process", "http"] = "in-process"  # how devices reach the coordinator
    population: PopulationSettings = PopulationSettings()
    phones: Phones = Phones()
    network: Network = Network()
    drop: Drop = Drop()
    behaviours: Behaviours = Behaviours()
    faults: Faults = Faults()
    churn: Churn = Churn()
    succession: Succession = Succession()
    looks: Looks = Looks()
    coordinator: Settings = Settings()

    def __post_init__(self) -> None:
        if self.clock == "virtual" and self.joined == "http":
            raise ValueError("virtual needs joined = 'in-process': sockets take real time")
        if self.faults.kills and self.joined != "http":
            raise ValueError("only a real process can be killed: clock = 'wall', joined = 'http'")
        if self.faults.restore_day is not None and self.joined == "http":
            raise ValueError("faults.restore_day needs joined = 'in-process'")
        if self.succession.day is not None and self.joined == "http":
            raise ValueError("succession.day needs joined = 'in-process'")

    @property
    def seconds(self) -> float:
        """How long it runs, by its own clock."""
        return self.days * DAY


def library() -> list[str]:
    """Names of the ready scenarios."""
    return sorted(
        one.name.removesuffix(".toml") for one in LIBRARY.iterdir() if one.name.endswith(".toml")
    )


def load_scenario(name: str, changes: dict[str, Any] | None = None) -> Scenario:
    """A scenario by the path of a TOML file or by its name, with some keys changed.

    Args:
        name: a path, or a name of `library()`.
        changes: dotted keys with values, such as {"network.loss": 0.1}.

    Raises:
        BadScenario: there is none, or it says what it must not.
    """
    tree = _read(name)
    for key, value in (changes or {}).items():
        *parents, last = key.split(".")
        part = tree
        for parent in parents:
            part = part.setdefault(parent, {})
            if not isinstance(part, dict):
                raise BadScenario(f"{name}: {key}: {parent} is not a table")
        part[last] = value
    if isinstance(operator := tree.get("coordinator"), dict):
        tree["coordinator"] = over_defaults(operator)
    try:
        return msgspec.convert(tree, Scenario)
    except msgspec.ValidationError as error:
        raise BadScenario(f"{name}: {_where(error)}") from error


def _read(name: str) -> dict[str, Any]:
    known = library()
    if name in known:
        text = (LIBRARY / f"{name}.toml").read_text("utf-8")
    else:
        path = Path(name)
        if not path.is_file():
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadScenario(f"no file {name} and no scenario of that name{hint} "
                              f"Ready ones: {', '.join(known)}")  # fmt: skip
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadScenario(f"{name}: cannot be read as text: {error}") from error
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadScenario(f"{name}: not TOML: {error}") from error
    tree.setdefault("name", Path(name).stem)
    return tree


def _where(error: msgspec.ValidationError) -> str:
    """msgspec's words with the path in front: `network.loss: expected …`."""
    words, _, path = str(error).partition(" - at `$.")
    return f"{path.removesuffix('`')}: {words}" if path else words
