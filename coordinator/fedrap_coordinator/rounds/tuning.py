"""Tuning by votes: the coordinator asks about one scalar after the other, and adopts what wins.

Where it stands is in the questions themselves: the purpose of one that is to be followed is
`tune 3`, and of one that was `tune 3: ridge 30`. So a crash in the middle costs nothing; each step
looks at what is there, and does what is left to do.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Protocol

import msgspec
import numpy as np

from fedrap_coordinator.domain.questions import ENDED, QuestionRow, QuestionState
from fedrap_coordinator.domain.records import AuditEntry
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.asking import Wanted, make_question, read_question
from fedrap_coordinator.rounds.releases import Model
from fedrap_coordinator.settings import Settings, adopted_settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.plan import AnyScoring, Scoring
from fedrap_core.questions.estimates import BlockEstimate, estimates
from fedrap_core.questions.tuning import RUNGS, changed, rung_changes, winner
from fedrap_core.wire.messages import Question
from fedrap_core.wire.question_layout import layout_of, variants_of
from fedrap_core.wire.shares import sum_stddev

log = logging.getLogger(__name__)
TUNE = "tune "
KEPT = "kept"


class Adopter(Protocol):
    """Who publishes releases."""

    @property
    def model(self) -> Model | None:
        """The latest release."""

    async def adopt_scoring(self, scoring: Scoring, entry: AuditEntry) -> None:
        """These scalars are in force from now on, and in a release as soon as that costs nobody."""


class Tuning:
    """Follows questions about candidates, and begins anew every so many releases."""

    def __init__(
        self, store: Store, keyring: Keyring, settings: Settings, sources: Sources, adopter: Adopter
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._settings = settings
        self._sources = sources
        self._adopter = adopter

    async def advance(self) -> None:
        """Whatever is to be done by now."""
        rows = await self._store.questions(200)
        mine = [row for row in rows if row.purpose.startswith(TUNE)]
        for row in reversed(mine):  # oldest first
            if row.state in ENDED and ":" not in row.purpose:
                await self._follow(row)
        every, model = self._settings.questions.tune_every, self._adopter.model
        if not every or model is None or any(row.state not in ENDED for row in mine):
            return
        begun = [read_question(row).releases[0] for row in mine if row.purpose.startswith("tune 0")]
        if model.stored.step > 0 and model.stored.version - max(begun, default=0) >= every:
            await self.begin()

    async def begin(self) -> QuestionRow | None:
        """Ask about the first scalar; None where there is nothing to be asked about."""
        rows = await self._store.questions(200)
        last = next((row.id for row in rows if row.purpose.startswith(TUNE)), b"first")
        return await self._ask(0, after=last)

    async def _follow(self, row: QuestionRow) -> None:
        """Adopt what won, note it, and ask about the next scalar."""
        rung, question = int(row.purpose.removeprefix(TUNE)), read_question(row)
        chosen = winner(block_estimates(row, question)[0][0]) if row.total else 0
        word = KEPT
        if chosen:
            name, before = RUNGS[rung][0], variants_of(question)[0]
            value = _scalar(variants_of(question)[chosen], name)
            word = f"{name} {value:g}"
            in_force = await self._in_force()
            if isinstance(in_force, Scoring):
                scoring = changed(in_force, {name: value})
                said = f"{name} {_scalar(before, name):g} -> {value:g}"
                entry = AuditEntry(self._sources.clock(), "coordinator", "adopt", said, "done")
                await self._adopter.adopt_scoring(scoring, entry)
        await self._ask(rung + 1, after=row.id)
        await self._store.note_question(row.id, f"{row.purpose}: {word}", was=row.purpose)
        log.info("scalars chosen by votes", extra={"rung": RUNGS[rung][0], "outcome": word})

    async def _in_force(self) -> AnyScoring:
        """The scalars of the next release; the latest may be from before they were adopted."""
        return adopted_settings(self._settings, await self._store.adopted()).released_scoring()

    async def _ask(self, rung: int, after: bytes) -> QuestionRow | None:
        """The next question of the ladder, unless it is asked already.

        Its id follows from the one `after` which it is asked, so that two processes which follow
        that one at once ask it once.
        """
        model, scoring = self._adopter.model, await self._in_force()
        if model is None or not isinstance(scoring, Scoring):
            return None
        while rung < len(RUNGS) and not (changes := rung_changes(scoring, rung)):
            rung += 1
        if rung >= len(RUNGS):
            return None
        purpose = f"{TUNE}{rung}"
        rows = await self._store.questions(200, only_open=True)
        asked = next((row for row in rows if row.purpose == purpose), None)
        if asked is not None:
            return asked
        wanted = Wanted(
            [model.stored.version],
            "ndcg",  # without a cut: most devices add a plain zero to NDCG@10
            [scoring, *(changed(scoring, change) for change in changes)],
            purpose=purpose,
            id=hashlib.sha256(b"fedrap/1 tuning %d " % rung + after).digest()[:16],
        )
        task = model.message.task
        row = await asyncio.to_thread(
            make_question, wanted, task, self._settings, self._keyring, self._sources
        )
        entry = AuditEntry(self._sources.clock(), "coordinator", "ask", RUNGS[rung][0], "done")
        await self._store.add_question(row, entry)
        return await self._store.question(row.id)


def block_estimates(row: QuestionRow, question: Question) -> list[list[BlockEstimate | None]]:
    """What the noised sum says, by block and group; nothing before the end."""
    return noised_estimates(row, question, question.least)


def noised_estimates(
    row: QuestionRow, question: Question, least: int
) -> list[list[BlockEstimate | None]]:
    """The same, of blocks that at least so many devices spoke of."""
    layout = layout_of(question)
    if row.state is not QuestionState.ANSWERED:
        return []
    total = np.frombuffer(row.total, dtype="<f8")
    return estimates(total, layout, sum_stddev(question, row.answers), least)


def _scalar(scoring: AnyScoring, name: str) -> float:
    section, _, inner = name.rpartition(".")
    fields = msgspec.to_builtins(scoring)
    return float((fields[section] if section else fields)[inner])
