"""Methods by name. A module is imported only when its method is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

import msgspec

from fedrap_core.paper.variants import NAMES as PAPER_NAMES
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.methods.protocol import Method

VARIANTS = tuple(name for name in PAPER_NAMES if name not in ("fedrap", "centrap"))


def _module(path: str, name: str) -> Callable[[], Method]:
    def make() -> Method:
        from importlib import import_module

        found = getattr(import_module(f"fedrap_simulation.methods.{path}"), name)
        made: Method = found() if isinstance(found, type) else found
        return made

    return make


def _solve(**changes: Any) -> Callable[[], Method]:
    def make() -> Method:
        from fedrap_simulation.methods.solve import Solve

        return Solve(**changes)

    return make


def _paper(name: str) -> Callable[[], Method]:
    def make() -> Method:
        from fedrap_simulation.methods.paper import FedRap

        return FedRap("fedrap" if name == "fedrap-paper" else name)

    return make


METHODS: dict[str, Callable[[], Method]] = {
    "popularity": _module("baselines.popularity", "Popularity"),
    "popularity-recent": _module("baselines.popularity", "PopularityRecent"),
    "frequency": _module("baselines.popularity", "Frequency"),
    "itemknn": _module("baselines.itemknn", "ItemKNN"),
    "ease": _module("baselines.ease", "Ease"),
    "ials": _module("baselines.ials", "Ials"),
    "itemknn-recency": _module("baselines.recency", "ITEMKNN_RECENCY"),
    "itemknn-lately": _module("baselines.lately", "Lately"),
    "ease-recency": _module("baselines.recency", "EASE_RECENCY"),
    "ials-recency": _module("baselines.recency", "IALS_RECENCY"),
    "markov": _module("baselines.transitions", "MARKOV"),
    "transitions": _module("baselines.transitions", "Transitions"),
    "slist": _module("baselines.slist", "Slist"),
    "stan": _module("baselines.stan", "Stan"),
    "ncf": _module("baselines.ncf", "Ncf"),
    "lightgcn": _module("baselines.lightgcn", "LightGcn"),
    "sasrec": _module("baselines.sasrec", "SasRec"),
    "gru4rec": _module("baselines.gru4rec", "Gru4Rec"),
    "dpals": _module("baselines.dpals", "DpAls"),
    "centrap": _module("paper", "CENTRAP"),
    "fedmf": _module("baselines.fedmf", "FedMf"),
    "fedncf": _module("baselines.fedncf", "FedNcf"),
    "pfedrec": _module("baselines.pfedrec", "PFedRec"),
    "c-only": _solve(name="c-only", personal=False),
    "fedrap": _solve(),
    "sequence": _module("sequence", "Sequence"),
    "fedrap-sequence": _module("sequence", "FEDRAP_SEQUENCE"),
    "fedrap-init": _module("shipped", "Shipped"),
    "fedrap-trend": _module("trend", "Trend"),
    "blend-transitions": _module("blend", "Blend"),
    "fedrap-paper": _paper("fedrap-paper"),
    **{name: _paper(name) for name in VARIANTS},
}


def make_method(name: str, changes: dict[str, Any]) -> Method:
    """The method of that name, with some settings changed; a name that ends in .py is a file.

    Raises:
        BadData: no such method or setting; says which ones there are.
    """
    if name.endswith(".py"):
        from fedrap_simulation.methods.adapter import FileMethod

        method: Method = FileMethod.of(name)
        for key, value in changes.items():
            method = _changed(method, key, value)
        return method
    if name not in METHODS:
        near = get_close_matches(name, METHODS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadData(f"there is no method {name!r}{hint} Known: {', '.join(METHODS)}")
    method = METHODS[name]()
    for key, value in changes.items():
        method = _changed(method, key, value)
    return method


def _changed(method: Method, key: str, value: Any) -> Method:
    """`rounds` changes a setting of the method, `learning.eta` one inside of its parts."""
    head, _, rest = key.partition(".")
    known = {one.name for one in fields(method)}  # type: ignore[arg-type]
    if head not in known:
        raise BadData(f"{method.name} has no setting {head!r}; it has {', '.join(sorted(known))}")
    if not rest:
        new = _converted(getattr(method, head), value, key)
    else:
        new = _inside(getattr(method, head), rest, value, key)
    changed: Method = replace(method, **{head: new})  # type: ignore[type-var]
    return changed


def _inside(part: Any, name: str, value: Any, key: str) -> Any:
    head, _, rest = name.partition(".")
    if not hasattr(part, head):
        raise BadData(f"there is no setting {key!r}")
    old = getattr(part, head)
    new = _inside(old, rest, value, key) if rest else _converted(old, value, key)
    if isinstance(part, msgspec.Struct):
        raw = msgspec.to_builtins(part) | {head: msgspec.to_builtins(new)}
        try:
            return msgspec.convert(raw, type(part))
        except msgspec.ValidationError as error:
            raise BadData(f"{key}={value}: {error}") from error
    return replace(part, **{head: new})


def _converted(old: Any, value: Any, key: str) -> Any:
    try:
        return msgspec.convert(value, type(old), strict=False) if old is not None else value
    except msgspec.ValidationError as error:
        raise BadData(f"{key}={value}: {error}") from error
