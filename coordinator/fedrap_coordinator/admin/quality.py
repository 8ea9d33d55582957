"""What the noised sums of answers say: questions as documents, and the figures for alarms."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from fedrap_coordinator.admin import documents
from fedrap_coordinator.admin.documents import QuestionLine
from fedrap_coordinator.domain.questions import ENDED, QuestionRow
from fedrap_coordinator.domain.rollouts import MOST_TRIES, Rollout
from fedrap_coordinator.rounds.asking import read_question
from fedrap_coordinator.rounds.rollouts import trial_estimate
from fedrap_coordinator.rounds.tuning import block_estimates
from fedrap_coordinator.store.protocol import Store
from fedrap_core.plan import OFF
from fedrap_core.privacy.accounting import charged_epsilon
from fedrap_core.questions.estimates import BlockEstimate, Estimate
from fedrap_core.questions.lists import items_of, variety
from fedrap_core.wire.messages import Question
from fedrap_core.wire.question_layout import layout_of, variants_of
from fedrap_core.wire.shares import sum_stddev

GROUPS = ("light", "heavy")
MOST_ITEMS = 10_000_000  # that lists are said to consist of; beyond it nothing can be told
LAST_SECONDS = 30 * 86_400.0  # that a best figure is remembered for the alarm


def question_line(row: QuestionRow) -> QuestionLine:
    """A question with what came of it."""
    question = read_question(row)
    epsilon = charged_epsilon(1, question.noise, question.delta)
    return QuestionLine(
        id=row.id.hex(),
        state=row.state.value,
        purpose=row.purpose,
        metric=question.metric,
        releases=question.releases,
        variants=[msgspec.to_builtins(one) for one in variants_of(question)],
        share=None if question.trial is OFF else question.trial.share,
        noise=question.noise,
        epsilon=documents.finite(epsilon),
        answers=row.answers,
        least=question.least,
        most=question.most,
        asked_at=row.asked_at,
        ends_at=row.ends_at,
        closed_at=row.closed_at,
        results=_results(row, question),
        lists=_lists(row, question),
        about_lists=question.lists is not OFF,
    )


def _lists(row: QuestionRow, question: Question) -> documents.ListFigures | None:
    found = block_estimates(row, question) if question.lists is not OFF else []
    if not found or (said := found[0][0]) is None:
        return None
    layout = layout_of(question)
    total = np.frombuffer(row.total, dtype="<f8")
    noise = sum_stddev(question, 0)  # what rounding adds is far below sampling here
    squares = variety(total, layout, noise, said.devices)
    value, low, high = items_of(squares, MOST_ITEMS)
    return documents.ListFigures(
        release=question.releases[0],
        devices=said.devices,
        popular=_figure(said.first),
        items=documents.Figure(value=value, low=low, high=high),
    )


def _results(row: QuestionRow, question: Question) -> list[documents.QuestionResult]:
    if question.lists is not OFF:
        return []
    if question.trial is not OFF:
        version = question.releases[0]
        return [_result(version, "share", trial_estimate(row))] if row.total else []
    found = []
    for release, groups in zip(question.releases, block_estimates(row, question), strict=False):
        names = ("all", *GROUPS)[: len(groups)]
        found += [_result(release, name, one) for name, one in zip(names, groups, strict=True)]
    return found


def _result(release: int, group: str, one: BlockEstimate | None) -> documents.QuestionResult:
    if one is None:
        return documents.QuestionResult(
            release=release, group=group, devices=None, mean=None, compared=[]
        )
    return documents.QuestionResult(
        release=release,
        group=group,
        devices=one.devices,
        mean=_figure(one.first),
        compared=[_figure(each) for each in one.differences],
    )


def _figure(one: Estimate) -> documents.Figure:
    return documents.Figure(value=one.value, low=one.low, high=one.high)


async def rollout_line(store: Store, row: Rollout) -> documents.RolloutLine:
    """A roll-out with what devices said at each stage, by their last word on it."""
    stages = []
    for stage, share in enumerate(row.shares):
        found = [await store.question(row.question(stage, one)) for one in range(MOST_TRIES)]
        asked = [one for one in found if one is not None]
        stages.append(_stage(share, asked[-1] if asked else None))
    return documents.RolloutLine(
        id=row.id.hex(),
        state=row.state.value,
        source=row.source,
        base=row.base,
        version=row.version,
        stage=row.stage,
        tolerance=row.tolerance,
        reason=row.reason,
        started_at=row.started_at,
        ended_at=row.ended_at,
        stages=stages,
    )


def _stage(share: float, asked: QuestionRow | None) -> documents.RolloutStage:
    lead = None if asked is None or not asked.total else trial_estimate(asked)
    return documents.RolloutStage(
        share=share,
        state="waiting" if asked is None else asked.state.value,
        answers=0 if asked is None else asked.answers,
        ends_at=None if asked is None else asked.ends_at,
        devices=None if lead is None else lead.devices,
        lead=None if lead is None else _figure(lead.first),
    )


def rollout_gauges(line: documents.RolloutLine | None) -> dict[str, float]:
    """Numbers for alarms of the last roll-out; none where there never was one."""
    if line is None:
        return {}
    gauges = {
        "rollout_running": float(line.ended_at is None),
        "rollout_halted": float(line.state in ("halting", "halted")),
        "rollout_share": line.stages[line.stage].share if line.state == "running" else 0.0,
    }
    told = [one.lead for one in line.stages if one.lead is not None]
    if told:
        lead = told[-1]
        gauges |= {
            "rollout_lead": lead.value,
            "rollout_lead_low": lead.low,
            "rollout_lead_high": lead.high,
        }
    return gauges


def quality_gauges(lines: Sequence[QuestionLine], now: float) -> dict[str, float]:
    """Numbers for alarms: the last figure of a release, its uplift, and the best of 30 days.

    `lines` are the newest first; those about candidates say nothing of a release by itself.
    """
    gauges = {"questions_open": float(sum(one.state not in ENDED for one in lines))}
    told = [
        (line, result, result.mean)
        for line in lines
        if not line.variants and line.share is None
        for result in sorted(line.results, key=lambda one: -one.release)
        if result.group == "all" and result.mean is not None
    ]
    lists = next((one.lists for one in lines if one.lists is not None), None)
    if lists is not None:
        gauges |= {
            "lists_popular": lists.popular.value,
            "lists_popular_low": lists.popular.low,
            "lists_items": lists.items.value,
            "lists_items_high": lists.items.high,
        }
    if not told:
        return gauges
    line, result, mean = told[0]
    uplift = result.compared[0]  # of the popular list, minus the own
    gauges |= {
        "quality_release": float(result.release),
        "quality_value": mean.value,
        "quality_low": mean.low,
        "quality_high": mean.high,
        "quality_uplift": -uplift.value,
        "quality_uplift_low": -uplift.high,
    }
    if len(result.compared) > 1:
        lately = result.compared[1]
        gauges |= {
            "quality_uplift_lately": -lately.value,
            "quality_uplift_lately_low": -lately.high,
        }
    recent = [
        each.low
        for other, _, each in told
        if other.metric == line.metric and now - (other.closed_at or now) <= LAST_SECONDS
    ]
    return gauges | {"quality_best": max(recent, default=mean.low)}
