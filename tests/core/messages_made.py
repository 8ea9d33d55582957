"""A strategy for every message of the protocol, built from the types of its fields."""

from __future__ import annotations

import types
import typing
from typing import Annotated, Any

import msgspec
from hypothesis import strategies as st

from fedrap_core.plan import Plan, Privacy, Scoring, SequenceMethod
from fedrap_core.wire import messages
from fedrap_core.wire.messages import Message

ALL_MESSAGES: list[type[Message]] = sorted(
    (
        kind
        for kind in vars(messages).values()
        if isinstance(kind, type) and issubclass(kind, Message) and kind is not Message
    ),
    key=lambda kind: kind.__name__,
)
ALL_VALUES: list[type[msgspec.Struct]] = [Plan, Scoring]


def any_of(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Valid values of a struct: every field within its bounds."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if kind is Privacy:
        del hints["coefficients"], hints["separation"]
        return st.integers(1, 1000).flatmap(lambda gap: _privacy(gap, hints))
    fields = {name: _any_value(hints[name]) for name in kind.__struct_fields__}
    if kind is SequenceMethod:  # no more weights than a device has room for
        fields |= {"targets": st.integers(1, 100), "longest": st.integers(2, 2000)}
    return st.builds(kind, **fields)


def _privacy(separation: int, hints: dict[str, Any]) -> st.SearchStrategy[Privacy]:
    """Coefficients from 1 downwards, no more of them than steps of separation."""
    tails = st.lists(st.floats(0, 1), max_size=min(separation, 64) - 1)
    falling = tails.map(lambda tail: (1.0, *sorted(tail, reverse=True)))
    fields = {name: _any_value(hint) for name, hint in hints.items()}
    return st.builds(Privacy, separation=st.just(separation), coefficients=falling, **fields)


def _any_value(hint: Any, bounds: msgspec.Meta | None = None) -> st.SearchStrategy[Any]:
    if typing.get_origin(hint) is Annotated:
        kind, *notes = typing.get_args(hint)
        return _any_value(kind, next(n for n in notes if isinstance(n, msgspec.Meta)))
    if typing.get_origin(hint) is list:
        least = 0 if bounds is None else bounds.min_length or 0
        return st.lists(_any_value(typing.get_args(hint)[0]), min_size=least, max_size=5)
    if typing.get_origin(hint) is tuple:
        one = _any_value(typing.get_args(hint)[0])
        return st.lists(one, min_size=1, max_size=5).map(tuple)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return st.one_of([_any_value(option) for option in typing.get_args(hint)])
    if typing.get_origin(hint) is typing.Literal:
        return st.sampled_from(typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return any_of(hint)
    return _plain(hint, bounds or msgspec.Meta())


def _plain(hint: Any, bounds: msgspec.Meta) -> st.SearchStrategy[Any]:
    if hint is types.NoneType:
        return st.none()
    if hint is msgspec.UnsetType:
        return st.just(msgspec.UNSET)
    if hint is bool:
        return st.booleans()
    if hint is int:
        return st.integers(int(bounds.ge or 0), int(bounds.le or 2**31))
    if hint is float:
        return st.floats(
            min_value=bounds.gt if bounds.ge is None else bounds.ge,
            max_value=bounds.lt if bounds.le is None else bounds.le,
            exclude_min=bounds.gt is not None,
            exclude_max=bounds.lt is not None,
            allow_nan=False,
        )
    shortest, longest = bounds.min_length or 0, min(bounds.max_length or 40, 80)
    made = st.binary if hint is bytes else st.text
    return made(min_size=shortest, max_size=longest)
