"""What the public calls take: every argument is checked here, before anything is touched. Pure.

A rule is one sentence. The Java library says the same ones, and spec/vectors/bad_calls.json is the
table of calls that both refuse.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from fedrap.errors import InvalidArgument
from fedrap.results import Interaction
from fedrap_core.items import is_item_id

LATEST = 4_102_444_800.0  # the year 2100; above it a number is not of seconds
MOST_WEIGHT = 1000.0

ITEM = "an item id is text of 1 to 200 characters without a line break"
KIND = "a kind is text of 1 to 50 characters"
WEIGHT = "a weight is a number above 0 and at most 1000"
TIME = "a time is a number of seconds since 1970, before the year 2100; is this in milliseconds?"
COUNT = "a whole number is expected"
FLAG = "true or false is expected, and nothing that only means it"
ITEMS = "a collection of item ids is expected, not one text"
INTERACTION = "an interaction has an item, a kind, a weight and a time"
INTERACTIONS = "a collection of interactions is expected"
POLICY = "the name of the text that the user saw is text of 1 to 200 characters"
FOLDER = "the name of a folder has 1 to 100 characters, no slash, and does not begin with a dot"
PATH = "the path of a file or folder is expected"
ADDRESS = "the address of a coordinator is https:// with a host, and no user in it"
PROFILE = "the name of a profile is text of 1 to 200 characters"
PASSPHRASE = "a passphrase is text of 8 to 1000 characters"
SECONDS = "a number of seconds from 0 up is expected"
SHARE = "a number from 0 to 1 is expected"
TEST = "a callable is expected, or a mapping of attributes to the values that they may have"
NUMBERS = "a mapping of item ids to numbers from -1000000 to 1000000 is expected"
CALLABLE = "a callable is expected"
TOKEN = "a token is text, or a callable that gives one"
FETCH = "consented or anonymous is expected"
AUTHORITY = "an authority is the point that `fedrap-coordinator authority` prints, or its 65 bytes"
AGGREGATION = "sealed or split is expected, and split needs a helper"
HELPER = "a helper is the line of hex that `fedrap-aggregator status` prints, or its 65 bytes"
TRAINER = "numpy, onnx or torch is expected"
ANSWER = "say at least one of recommend and train"
TRAIN_ALONE = "who trains fetches releases too: recommend cannot be false"
MEASURE_ALONE = "who answers questions also trains: measure needs train"

T = TypeVar("T")


def wrong(name: str, rule: str) -> InvalidArgument:
    """The error for an argument: its name, and what is expected of it."""
    return InvalidArgument(f"{name}: {rule}")


def text(name: str, value: object, most: int, rule: str, least: int = 1) -> str:
    """Text of so many characters that can be written down."""
    if not isinstance(value, str) or not least <= len(value) <= most or not _is_writable(value):
        raise wrong(name, rule)
    return value


def _is_writable(value: str) -> bool:
    """Half a surrogate pair is no character, and no file takes it."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def item(name: str, value: object) -> str:
    """An item id."""
    if not isinstance(value, str) or not is_item_id(value) or not _is_writable(value):
        raise wrong(name, ITEM)
    return value


def items(name: str, value: object) -> Collection[str]:
    """A collection of item ids; whether the catalogue has them is another question."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
        raise wrong(name, ITEMS)
    if not all(isinstance(one, str) for one in value):
        raise wrong(name, ITEMS)
    return value


def flag(name: str, value: object) -> bool:
    """A bool: "no", 0 and None are not taken for an answer."""
    if not isinstance(value, bool):
        raise wrong(name, FLAG)
    return value


def count(name: str, value: object) -> int:
    """A whole number; one below 1 asks for nothing."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise wrong(name, COUNT)
    return int(value)


def number(name: str, value: object, least: float, most: float, rule: str) -> float:
    """A number between two others."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise wrong(name, rule)
    try:
        found = float(value)
    except (OverflowError, ValueError) as error:
        raise wrong(name, rule) from error
    if not least <= found <= most:  # false for NaN
        raise wrong(name, rule)
    return found


def weight(name: str, value: object) -> float:
    """How much an interaction means."""
    found = number(name, value, 0.0, MOST_WEIGHT, WEIGHT)
    if found <= 0:
        raise wrong(name, WEIGHT)
    return found


def seconds(name: str, value: object) -> float:
    """A duration."""
    return number(name, value, 0.0, 1e12, SECONDS)


def path(name: str, value: object) -> Path:
    """A path, `~` read as the home folder."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise wrong(name, PATH)
    try:
        str(value).encode("utf-8", "surrogateescape")  # as the system's own names come
        return Path(value).expanduser()
    except (UnicodeEncodeError, RuntimeError) as error:  # ~ of somebody who is not there
        raise wrong(name, PATH) from error


def folder_name(name: str, value: object) -> str:
    """A name that leads to no other folder."""
    found = text(name, value, 100, FOLDER)
    if found.startswith(".") or any(sign in found for sign in "/\\\0\r\n"):
        raise wrong(name, FOLDER)
    return found


def one_of(name: str, value: object, words: Collection[str], rule: str) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in words:
        raise wrong(name, rule)
    return value


def function(name: str, value: T | None, rule: str = CALLABLE) -> T | None:
    """A callable, or nothing."""
    if value is not None and not callable(value):
        raise wrong(name, rule)
    return value


def instance(name: str, value: object, kind: type[T]) -> T | None:
    """A value of a class of this package, or nothing."""
    if value is not None and not isinstance(value, kind):
        raise wrong(name, f"a {kind.__name__} is expected")
    return value


def numbers_of(name: str, value: object) -> Mapping[str, float]:
    """Item ids with numbers."""
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for one in value):
        raise wrong(name, NUMBERS)
    return {one: number(name, much, -1e6, 1e6, NUMBERS) for one, much in value.items()}


def attribute_test(
    name: str, value: object
) -> Callable[[str], object] | Mapping[str, Collection[str]]:
    """A callable that is asked, or attributes with the values that they may have."""
    if callable(value):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for one in value):
        raise wrong(name, TEST)
    test = {one: [may] if isinstance(may, str) else may for one, may in value.items()}
    for may in test.values():
        if isinstance(may, bytes | Mapping) or not isinstance(may, Collection):
            raise wrong(name, TEST)
        if not all(isinstance(one, str) for one in may):
            raise wrong(name, TEST)
    return test


def interaction(value: object, prefix: str = "") -> Interaction:
    """An interaction that may be kept; one without a time is dated when it is."""
    if not isinstance(value, Interaction):
        raise wrong(prefix or "interaction", INTERACTION)
    at: object = value.at
    dated = math.inf if at is None else number(f"{prefix}at", at, 0.0, LATEST, TIME)
    return Interaction(
        item(f"{prefix}item", value.item),
        text(f"{prefix}kind", value.kind, 50, KIND),
        weight(f"{prefix}weight", value.weight),
        dated,
    )


def interactions(name: str, value: object) -> list[Interaction]:
    """Many of them; the first that is wrong is named by its place."""
    if isinstance(value, str | bytes | Mapping | msgspec.Struct) or not isinstance(value, Iterable):
        raise wrong(name, INTERACTIONS)
    return [interaction(one, f"{name}[{place}] ") for place, one in enumerate(value)]


def answer(recommend: object, train: object, measure: object = None) -> tuple[bool, bool, bool]:
    """What the user agreed to: may releases be fetched, may this device train, may it answer?

    What is not said follows: who trains also fetches, and who was only asked about one of them is
    not taken to have agreed to the other.
    """
    if recommend is None and train is None:
        raise wrong("train", ANSWER)
    trains = False if train is None else flag("train", train)
    fetches = trains if recommend is None else flag("recommend", recommend)
    if trains and not fetches:
        raise wrong("recommend", TRAIN_ALONE)
    measures = False if measure is None else flag("measure", measure)
    if measures and not trains:
        raise wrong("measure", MEASURE_ALONE)
    return fetches, trains, measures
