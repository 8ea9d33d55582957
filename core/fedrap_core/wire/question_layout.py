"""How the answer to a question is laid out, and whether a question makes sense at all. Pure."""

from __future__ import annotations

from fedrap_core.errors import MalformedMessage
from fedrap_core.plan import OFF, AnyScoring
from fedrap_core.questions.answers import Layout
from fedrap_core.wire.messages import Question


def variants_of(question: Question) -> list[AnyScoring]:
    """The scorings that are compared, the one in force first; none where releases are asked of."""
    return [] if question.variants is OFF else question.variants


def opponents_of(question: Question) -> int:
    """Lines beside a device's own list: the popular one, and where asked that of the trend."""
    return 2 if question.lately is True else 1


def layout_of(question: Question) -> Layout:
    """The layout of its answers.

    Raises:
        MalformedMessage: it asks for one variant alone, for variants of several releases, for a
            release twice, or for something else beside a trial or a look at lists.
    """
    variants = variants_of(question)
    if question.trial is not OFF or question.lists is not OFF:
        both = question.trial is not OFF and question.lists is not OFF
        more = variants or question.light or question.lately is True
        if both or more or len(question.releases) != 1:
            raise MalformedMessage("a trial, or a look at lists, is of one release and of it alone")
        if question.lists is OFF:
            return Layout(1, 1, 0, signed=True)
        return Layout(1, 1, 0, buckets=question.lists)
    if len(variants) == 1 or (variants and len(question.releases) > 1):
        raise MalformedMessage("candidates are two or more, of one release")
    if variants and question.lately is True:
        raise MalformedMessage("candidates are compared with each other alone")
    if len(set(question.releases)) != len(question.releases):
        raise MalformedMessage("a question names each release once")
    groups = 2 if question.light else 1
    compared = len(variants) - 1 if variants else opponents_of(question)
    return Layout(len(question.releases), groups, compared)
