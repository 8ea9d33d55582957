"""Asking devices about quality, and what the noised sums of their answers say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fedrap_coordinator.admin import documents
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.quality import question_line
from fedrap_coordinator.domain.records import AuditEntry
from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.rounds.asking import Wanted, make_question, read_question
from fedrap_coordinator.rounds.releases import Model, load_model
from fedrap_coordinator.rounds.tuning import TUNE, Tuning
from fedrap_core.plan import OFF, AnyScoring, Scoring
from fedrap_core.questions.gains import Metric
from fedrap_core.questions.tuning import changed
from fedrap_core.wire import problems
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import (
    MOST_QUESTIONS,
    MOST_RELEASES,
    MOST_VARIANTS,
    Question,
    Release,
)
from fedrap_core.wire.question_layout import variants_of
from fedrap_core.wire.releases import MAX_RELEASE_BYTES


class QuestionActions:
    """What an admin does about quality."""

    def __init__(self, admin: AdminActions) -> None:
        self._admin = admin
        self._store = admin.store

    async def ask(
        self,
        metric: Metric = "ndcg10",
        releases: Sequence[int] = (),
        changes: Sequence[Mapping[str, Any]] = (),
        *,
        days: float | None = None,
        least: int | None = None,
        light: int = 0,
        lists: bool = False,
    ) -> documents.QuestionLine:
        """Ask about releases (by default the latest), or candidates for the scalars in force.

        With `lists` about what lists consist of under the latest release, and nothing else.

        `changes` names for each candidate the scalars of the latest release that it has otherwise,
        those of the sequence part as `sequence.kappa`.

        Raises:
            ConfigError: there is no such release or scalar, or too many of them.
            Refusal: too many questions are open.
        """
        stored = await self._store.release(None)
        if stored is None:
            raise ConfigError("there is no release yet, so there is nothing to ask about")
        latest = decode(Release, stored.body, MAX_RELEASE_BYTES)
        versions = list(releases) or [latest.version]
        if lists and (changes or light or versions != [latest.version]):
            raise ConfigError("what lists consist of is asked of the latest release, and by itself")
        await self._check(versions, changes)
        variants = candidates(latest.scoring, changes) if changes else []
        rows = await self._store.questions(MOST_QUESTIONS, only_open=True)
        if len(rows) >= MOST_QUESTIONS:
            raise Refusal(problems.EXISTS_ALREADY, f"{MOST_QUESTIONS} questions are open already")
        wanted = Wanted(versions, metric, variants, light, least or 0, days, lists=lists)
        ring, sources = self._admin.ring(), self._admin.sources
        row = await asyncio.to_thread(
            make_question, wanted, latest.task, self._admin.settings, ring, sources
        )
        await self._store.add_question(row, self._admin.entry("ask", _target(read_question(row))))
        return question_line(row)

    async def tune(self) -> documents.QuestionLine:
        """Ask about the first scalar that matters; the coordinator goes on by itself.

        Raises:
            ConfigError: there is no release to tune.
            Refusal: it is being tuned.
        """
        rows = await self._store.questions(MOST_QUESTIONS, only_open=True)
        if any(row.purpose.startswith(TUNE) for row in rows):
            raise Refusal(problems.EXISTS_ALREADY, "a question of the tuning is open already")
        stored = await self._store.release(None)
        if stored is None or stored.step == 0:
            raise ConfigError("nothing was learnt yet, so there is nothing to tune")
        tuning = Tuning(
            self._store, self._admin.ring(), self._admin.settings, self._admin.sources,
            _Latest(load_model(stored)),
        )  # fmt: skip
        row = await tuning.begin()
        if row is None:
            raise ConfigError("this method has no scalars to tune")
        return question_line(row)

    async def _check(self, versions: Sequence[int], changes: Sequence[Mapping[str, Any]]) -> None:
        if len(versions) > MOST_RELEASES or len(changes) >= MOST_VARIANTS:
            raise ConfigError(
                f"at most {MOST_RELEASES} releases or {MOST_VARIANTS - 1} candidates at once"
            )
        if changes and len(versions) > 1:
            raise ConfigError("candidates are asked about for the latest release alone")
        known = {row.version for row in await self._store.release_history(1_000_000)}
        unknown = [version for version in versions if version not in known]
        if unknown:
            raise ConfigError(f"there is no release {unknown[0]}")

    async def questions(self, count: int) -> documents.QuestionList:
        """The last questions, the newest first."""
        rows = await self._store.questions(count)
        return documents.QuestionList(questions=[question_line(row) for row in rows])

    async def question(self, question_id: str) -> documents.QuestionLine:
        """One of them, by its id or the beginning of it.

        Raises:
            Refusal: there is no such question.
        """
        rows = await self._store.questions(100_000)
        found = [row for row in rows if row.id.hex().startswith(question_id)]
        if len(found) != 1:
            raise Refusal(problems.NOT_FOUND, "no question, or several, have that id")
        return question_line(found[0])


def candidates(scoring: AnyScoring, changes: Sequence[Mapping[str, Any]]) -> list[AnyScoring]:
    """The scalars in force, then each candidate.

    Raises:
        ConfigError: there is no such scalar, or it cannot have that value.
    """
    return [scoring, *(_changed(scoring, one) for one in changes)]


def _changed(scoring: AnyScoring, change: Mapping[str, Any]) -> AnyScoring:
    if not isinstance(scoring, Scoring):
        raise ConfigError("this method has no scalars to choose from")
    try:
        return changed(scoring, change)
    except ValueError as error:
        raise ConfigError(f"{json.dumps(dict(change))}: {error}") from error


class _Latest:
    """The latest release, for an act that only asks."""

    def __init__(self, model: Model) -> None:
        self.model: Model | None = model

    async def adopt_scoring(self, scoring: Scoring, entry: AuditEntry) -> None:
        raise AssertionError("the coordinator adopts, not the command line")


def _target(question: Question) -> str:
    what = f"{len(variants_of(question))} candidates" if variants_of(question) else "releases"
    if question.lists is not OFF:
        return f"lists of release {question.releases[0]}"
    return f"{question.metric} of {what} {' '.join(map(str, question.releases))}"
