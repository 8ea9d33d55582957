"""What an app's kinds of interactions mean: how much each counts, for or against an item. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from fedrap import arguments

RULE = "a kind counts a number from -1000 to 1000 that is not 0, or None: the item is hidden"


class Kinds:
    """Every kind of interaction of an app, with what it counts: `Kinds(view=1, buy=5, dislike=-1)`.

    A number above 0 speaks for an item, one below 0 against it and its neighbours; None hides the
    item. What is recorded keeps its kind, so that other numbers in a later version of the app count
    for the whole history.
    """

    def __init__(self, **weights: float | None) -> None:
        """
        Raises:
            InvalidArgument: a weight is something else, or no kind counts for an item.
        """
        if not weights:
            raise arguments.wrong("kinds", "at least one kind is expected")
        for kind, much in weights.items():
            arguments.text(kind, kind, 50, arguments.KIND)
            if much is not None and arguments.number(kind, much, -1000.0, 1000.0, RULE) == 0:
                raise arguments.wrong(kind, RULE)
        self._weights: Mapping[str, float | None] = dict(weights)
        self._closed = True

    def __repr__(self) -> str:
        return f"Kinds({', '.join(f'{kind}={much}' for kind, much in self._weights.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kinds) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((tuple(self._weights.items()), self._closed))

    def weight(self, kind: str) -> float | None:
        """What a kind counts; one that the app does not name (any more) counts 1."""
        return self._weights.get(kind, 1.0)

    def check(self, kind: str) -> None:
        """Raises InvalidArgument for a kind that the app does not name."""
        if self._closed and kind not in self._weights:
            raise arguments.wrong("kind", f"one of {', '.join(self._weights)} is expected")

    def hides(self, kind: str) -> bool:
        """Does this kind hide the item?"""
        return self.weight(kind) is None

    @classmethod
    def any_word(cls) -> Kinds:
        """For an app that names none: every word counts 1, but dislike counts -1 and hide hides."""
        kinds = cls(dislike=-1.0, hide=None)
        kinds._closed = False
        return kinds
