"""Making a question: what is asked, what it costs, and the authority's signature on both.

Used by the operator's act and by the coordinator itself, where it asks on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedrap_coordinator.domain.questions import QuestionRow, QuestionState
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Sources
from fedrap_core.plan import DAY, OFF, AnyScoring, PaperMethod, SolveMethod
from fedrap_core.questions.gains import Metric
from fedrap_core.questions.lists import BUCKETS
from fedrap_core.wire.authority import sign_message
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Question, Signed, Trial
from fedrap_core.wire.question_layout import layout_of


@dataclass(frozen=True)
class Wanted:
    """What somebody wants to know."""

    releases: Sequence[int]
    metric: Metric = "ndcg10"
    variants: Sequence[AnyScoring] = ()  # the one in force first
    light: int = 0
    least: int = 0  # answers, where the settings ask for fewer
    days: float | None = None  # None: as the settings say
    purpose: str = "ask"
    trial: Trial | None = None
    lists: bool = False  # what they consist of
    id: bytes | None = None  # where it must be the same whoever asks; None: a random one


def make_question(
    wanted: Wanted, task: bytes, settings: Settings, keyring: Keyring, sources: Sources
) -> QuestionRow:
    """A signed question that is open from now on, or once the helper was asked for its key.

    Raises:
        MalformedMessage: it makes no sense.
    """
    asking, now, delta = settings.questions, sources.clock(), settings.privacy.delta
    question = Question(
        task=task,
        question=wanted.id or sources.token_bytes(16),
        metric=wanted.metric,
        releases=list(wanted.releases),
        variants=list(wanted.variants) or OFF,
        trial=wanted.trial or OFF,
        lists=BUCKETS if wanted.lists else OFF,
        lately=True if _has_opponents(wanted) and _has_trend(settings.method) else OFF,
        light=wanted.light,
        noise=asking.noise(delta),
        delta=delta,
        least=max(asking.least, wanted.least),
        most=asking.most,
        budget=asking.answers,
        asked_at=now,
        ends_at=now + DAY * (asking.days if wanted.days is None else wanted.days),
        seal_key=keyring.point(keyring.seal_id),
        seal_id=keyring.seal_id,
    )
    layout_of(question)
    return QuestionRow(
        question.question,
        encode(sign_message(keyring.authority, question)),
        question.seal_id,
        now,
        question.ends_at,
        question.most,
        question.budget,
        wanted.purpose,
        QuestionState.OPEN if settings.split is None else QuestionState.OPENING,
    )


def _has_opponents(wanted: Wanted) -> bool:
    """Is it about whole lists, beside which those stand that are the same for everybody?"""
    return not wanted.variants and wanted.trial is None and not wanted.lists


def _has_trend(method: SolveMethod | PaperMethod) -> bool:
    return isinstance(method, SolveMethod) and method.trend is not OFF


def read_question(row: QuestionRow) -> Question:
    """The question of a row."""
    return decode(Question, decode(Signed, row.signed).body)
