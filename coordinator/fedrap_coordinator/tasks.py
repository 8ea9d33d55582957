"""Several tasks of one coordinator: which files they are, and what they must not share.

The main file lists them; each is a whole settings file of its own, and every command means the task
whose file it is given. They share a process, a database and two ports. What tells their devices and
admins apart may not be shared: keys, the audience of tokens, and the names of their tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.settings import Settings, load

MAIN = "main"  # what the task of the main file is called beside the others


def tasks_of(main: Settings, environment: Mapping[str, str]) -> dict[str, Settings]:
    """The settings of every task that the main file lists, by name.

    Raises:
        ConfigError: a file cannot be read, or two tasks would share what they must not.
    """
    if main.task:
        raise ConfigError(
            f'task = "{main.task}": serve the file that lists it under [tasks], not its own'
        )
    found = {name: load(Path(path), environment) for name, path in main.tasks.items()}
    known = {MAIN: main}
    for name, settings in found.items():
        _fits(name, settings, known)
        known[name] = settings
    return found


def _fits(name: str, settings: Settings, known: Mapping[str, Settings]) -> None:
    if name == MAIN:
        raise ConfigError(f"tasks: {MAIN} is the name of the task of this file")
    if settings.task != name:
        raise ConfigError(
            f'tasks.{name}: its file must say task = "{name}", or commands with that file would'
            " mean the tables of another task"
        )
    if settings.tasks:
        raise ConfigError(f"tasks.{name}: its file lists tasks; only the main one does")
    if settings.database != known[MAIN].database:
        raise ConfigError(f"tasks.{name}: its file names another database than the main one")
    for other, held in known.items():
        if Path(settings.keys).resolve() == Path(held.keys).resolve():
            raise ConfigError(f"tasks.{name}: it has the keys of {other}; name another folder")
        if settings.enrolment.audience == held.enrolment.audience:
            raise ConfigError(
                f'tasks.{name}: enrolment.audience "{held.enrolment.audience}" is also that of'
                f" {other}: a token of the one would enrol in the other"
            )
