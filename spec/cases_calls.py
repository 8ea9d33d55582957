"""Calls of the device's API that must be refused, and the words: `call`, `arguments`, `error`.

An argument that is not named has a good value. What JSON cannot say is {"number": "nan"}. A library
skips what its compiler refuses already, such as a number in place of a text.
"""

from __future__ import annotations

from typing import Any

from fedrap import arguments as rules
from fedrap.recommend import kinds
from fedrap.rounds import ledger
from spec.vector_format import File

NAN, INFINITE = {"number": "nan"}, {"number": "inf"}
LONG = 201 * "x"
ITEM: list[Any] = [5, 1.5, True, None, [], "", "a\nb", "a\rb", LONG]
COUNT: list[Any] = [1.5, "5", None, True, [], NAN]
FLAG: list[Any] = ["no", "true", 0, 1, []]
# (call, argument, rule, values that are refused)
TABLE: list[tuple[str, str, str, list[Any]]] = [
    ("record", "item", rules.ITEM, ITEM),
    ("record", "kind", rules.KIND, [None, 5, True, [], "", 51 * "x"]),
    ("record", "weight", rules.WEIGHT, [0, -1, 1000.5, "1", None, True, NAN, INFINITE, []]),
    ("record", "at", rules.TIME, [-1, 1.7e12, "yesterday", True, NAN, INFINITE, []]),
    ("hide", "item", rules.ITEM, ITEM),
    ("unhide", "item", rules.ITEM, ITEM),
    ("remove", "what", rules.ITEM, ITEM),
    ("because", "item", rules.ITEM, ITEM),
    ("similar_items", "item", rules.ITEM, ITEM),
    ("similar_items", "n", rules.COUNT, COUNT),
    ("popular", "n", rules.COUNT, COUNT),
    ("trending", "n", rules.COUNT, COUNT),
    ("recommend", "n", rules.COUNT, COUNT),
    ("recommend", "filter_seen", rules.FLAG, [*FLAG, None]),
    ("recommend", "candidates", rules.ITEMS, ["mug", 5, [5], [None], {"a": 1}, True]),
    ("recommend", "exclude", rules.ITEMS, ["mug", 5, [5], [None], {"a": 1}, True, None]),
    ("recommend", "filter", rules.TEST, ["tea", 5, True, [], {"a": 5}, {"a": [5]}, {"a": None}]),
    ("attributes", "item", rules.ITEM, ITEM),
    ("recommend", "diversity", rules.SHARE, [-0.1, 1.1, "0.5", None, True, NAN, []]),
    ("recommend", "boost", rules.NUMBERS, [5, "a", ["a"], {"a": "b"}, {"a": NAN}, {"a": 2e6}]),
    ("recommend", "explain", rules.FLAG, [*FLAG, None]),
    ("consent", "recommend", rules.FLAG, FLAG),
    ("consent", "train", rules.FLAG, FLAG),
    ("consent", "measure", rules.FLAG, FLAG),
    ("consent", "policy", rules.POLICY, [2026, None, True, [], "", LONG]),
    ("run_round", "wait", rules.SECONDS, [-1, "5", None, True, NAN, INFINITE, []]),
    ("export", "path", rules.PATH, [5, None, "", True, []]),
    ("open", "path", rules.PATH, [5, None, "", True, []]),
    ("open", "app", rules.FOLDER, ["..", ".x", "a/b", "a\\b", "", 5, None, 101 * "x", "a\nb"]),
    ("open", "profile", rules.PROFILE, ["", 5, True, [], LONG]),
    ("open", "server", rules.ADDRESS, ["fed.example.org", "ftp://x", "https://", 5, True,
                                       "https://u@x", "", "https://a b"]),
    ("open", "fetch", rules.FETCH, ["always", "", 5, None, True]),
    ("open", "trainer", rules.TRAINER, ["cuda", "", 5, True]),
    ("open", "token", rules.TOKEN, [5, True, []]),
    ("open", "offline", rules.FLAG, [*FLAG, None]),
    ("open", "allow_http", rules.FLAG, [*FLAG, None]),
    ("open", "attributes", rules.FLAG, [*FLAG, None]),
    ("open", "key", rules.CALLABLE, [5, "key", True]),
    ("open", "on_error", rules.CALLABLE, [5, "print", True]),
    ("open", "floor", "a Floor is expected", [{"cap": 5}, 5, True, []]),
    ("open", "retention", "a Retention is expected", [{"max_age_days": 5}, 5, True, []]),
    ("open", "kinds", "a Kinds is expected", [{"view": 1}, 5, True, []]),
    ("retention", "max_interactions", "a history keeps at least one interaction", [0, -1]),
    ("retention", "max_interactions", rules.COUNT, [1.5, "5", None, True]),
    ("retention", "max_age_days", "an age in days lies above 0", [0, -1, "5", True, NAN]),
    ("floor", "separation", ledger.FLOOR, [-1]),
    ("floor", "cap", ledger.FLOOR, [-1]),
    ("floor", "min_updates", ledger.FLOOR, [-1]),
    ("floor", "separation", rules.COUNT, [1.5, "2", None, True]),
    ("floor", "min_noise", ledger.FLOOR, [-1, NAN, "0", None, True]),
    ("floor", "max_epsilon", ledger.FLOOR, [-1, NAN, "0", None, True]),
    ("floor", "max_clip", ledger.FLOOR, [-1, NAN, "0", None, True]),
    ("floor", "window_days", ledger.FLOOR, [-1, NAN, "0"]),
    ("floor", "max_lifetime_epsilon", ledger.FLOOR, [-1, NAN, "0"]),
    ("floor", "max_question_epsilon", ledger.FLOOR, [-1, NAN, "0"]),
    ("kinds", "view", kinds.RULE, [0, "1", True, NAN, 1001, -1001, []]),
]  # fmt: skip
# Calls whose arguments are wrong together.
TOGETHER: list[tuple[str, dict[str, Any], str]] = [
    ("consent", {"recommend": None, "train": None}, f"train: {rules.ANSWER}"),
    ("consent", {"recommend": False, "train": True}, f"recommend: {rules.TRAIN_ALONE}"),
    ("consent", {"train": False, "measure": True}, f"measure: {rules.MEASURE_ALONE}"),
    (
        "record_many",
        {"interactions": [["tea", "view", 1.0, 5.0], ["", "view", 1.0, 5.0]]},
        f"interactions[1] item: {rules.ITEM}",
    ),
    (
        "record_many",
        {"interactions": [["tea", "view", -1.0, 5.0]]},
        f"interactions[0] weight: {rules.WEIGHT}",
    ),
    (
        "record_many",
        {"interactions": [["tea", "view", 1.0, 5e12]]},
        f"interactions[0] at: {rules.TIME}",
    ),
    ("record_many", {"interactions": "tea"}, f"interactions: {rules.INTERACTIONS}"),
    ("record_many", {"interactions": 5}, f"interactions: {rules.INTERACTIONS}"),
    (
        "open",
        {"server": "http://fed.example.org"},
        "server: http://fed.example.org is not encrypted, and whoever is in between reads and "
        "changes everything; use https, or ask for it with allow_http=True (--allow-http)",
    ),
]


def bad_calls() -> File:
    """Every call with one wrong argument, and some with several."""
    cases = [
        {"call": call, "arguments": {name: value}, "error": f"{name}: {rule}"}
        for call, name, rule, values in TABLE
        for value in values
    ]
    cases += [{"call": call, "arguments": given, "error": error} for call, given, error in TOGETHER]
    about = (
        "Each call is refused with these words, and changes nothing. An argument that is not named "
        'has a good value; {"number": "nan"} is what JSON cannot say. retention, floor and kinds '
        "are the values of those names. A library skips what its compiler refuses already."
    )
    return {"about": about, "cases": cases}
