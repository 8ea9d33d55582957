"""`fedrap-coordinator init`: asks for what it must know, and writes settings that protect."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from fedrap_coordinator.admin.catalogue_files import read_items
from fedrap_coordinator.commands.output import CONFIG, say, settings_of
from fedrap_coordinator.config_template import render
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.keyring import open_keyring
from fedrap_coordinator.privacy.recipe import SPREAD_DAYS, Expected, Recipe, derive
from fedrap_coordinator.settings import AdminApi, Settings, TaskName
from fedrap_core.privacy.statement import guarantee_in_words

DASHBOARD_PORT = 8471


def add_init(commands: Any) -> None:
    """Into the parser of `fedrap-coordinator`."""
    init = commands.add_parser("init", help="derive settings for your task; write them, and keys")
    init.add_argument("--devices", type=int, help="N: devices expected to take part; asked if not")
    init.add_argument("--items", help="of the catalogue: a number, or the file you will add")
    init.add_argument("--history", type=float, default=50.0,
                      help="items that a device knows, in the mean (50)")  # fmt: skip
    init.add_argument("--spread", type=float, default=SPREAD_DAYS, metavar="DAYS",
                      help=f"that K rounds of a device last ({SPREAD_DAYS:g}); 0: as fast as "
                      "devices come")  # fmt: skip
    wanted = init.add_mutually_exclusive_group()
    wanted.add_argument("--epsilon", type=float, default=8.0,
                        help="the guarantee for one device in any 365 days (8)")  # fmt: skip
    wanted.add_argument("--no-privacy", action="store_true", help="no noise: guarantees nothing")
    init.add_argument("--task", default="", metavar="NAME",
                      help="for one of several tasks: a file that the main one lists")  # fmt: skip
    init.add_argument("--all", action="store_true", help="write expert settings, too")
    init.set_defaults(run=_init)


def _init(arguments: argparse.Namespace) -> int:
    usual = f"{arguments.task}.toml" if arguments.task else CONFIG
    path = arguments.config or Path(usual)
    if path.exists():
        say(f"{path} exists already; it is left as it is")
        return 2
    expected = Expected(
        devices=_devices(arguments.devices),
        items=_items(arguments.items),
        epsilon=None if arguments.no_privacy else arguments.epsilon,
        history=arguments.history,
        spread_days=arguments.spread,
    )
    recipe = derive(expected)
    settings = msgspec.structs.replace(recipe.settings, admin=AdminApi(port=DASHBOARD_PORT))
    if arguments.task:
        settings = _of_several(settings, arguments.task)
    path.write_text(render(settings, recipe.why, every_key=arguments.all), encoding="utf-8")
    arguments.config = path
    keys = Path(settings_of(arguments).keys)
    open_keyring(keys)
    say(f"wrote {path} and the keys in {keys}{os.sep}: back them up, apart from the database")
    for line in _words(recipe):
        say(line)
    if arguments.task:
        say(f'next: list it in the main file: [tasks] {arguments.task} = "{path.name}"')
    else:
        say("next: fedrap-coordinator items add FILE, then serve")
    return 0


def _of_several(settings: Settings, task: str) -> Settings:
    """With a name, and with what tasks must not share under it.

    Raises:
        ConfigError: that is no name of a task.
    """
    try:
        msgspec.convert(task, TaskName)
    except msgspec.ValidationError as error:
        raise ConfigError(f"--task {task}: small letters and digits, 20 at most") from error
    enrolment = msgspec.structs.replace(settings.enrolment, audience=f"fedrap-{task}")
    return msgspec.structs.replace(
        settings, task=task, keys=f"{settings.keys}-{task}", enrolment=enrolment
    )


def _words(recipe: Recipe) -> list[str]:
    """The guarantee and the quality that these settings give."""
    rule, limits = recipe.settings.privacy, recipe.settings.round
    claim = f"guarantee: {guarantee_in_words(rule)}"
    if recipe.signal is None:
        least = "" if limits.min_updates >= 20 else f"min_updates={limits.min_updates}"
        asked = f"apps must ask for that by name: Floor.without_privacy({least})"
        return [claim, asked, recipe.sequence, recipe.trend, recipe.outlook]
    return [
        claim,
        f"rounds: {limits.total}, {limits.max_updates} updates in each",
        recipe.sequence,
        recipe.trend,
        recipe.outlook,
    ]


def _devices(said: int | None) -> int:
    if said is not None:
        return said
    answer = _ask("How many devices do you expect to take part? ", "--devices N")
    try:
        return int(answer.replace(",", ""))
    except ValueError as error:
        raise ConfigError(f"{answer!r} is no number of devices") from error


def _items(said: str | None) -> int:
    answer = said or _ask("How many items (a number, or the file)? ", "--items NUMBER or FILE")
    if answer.replace(",", "").isdecimal():
        return int(answer.replace(",", ""))
    path = Path(answer)
    if not path.is_file():
        raise ConfigError(f"--items {answer}: neither a number nor a file")
    try:
        return len(read_items(path.name, path.read_text(encoding="utf-8")))
    except UnicodeDecodeError as error:
        raise ConfigError(f"--items {answer}: is not UTF-8 text") from error


def _ask(question: str, flag: str) -> str:
    if not sys.stdin.isatty():
        raise ConfigError(f"init must know it: say {flag}")
    return input(question).strip()
