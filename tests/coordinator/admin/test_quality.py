"""Figures for alarms, from what devices said."""

from __future__ import annotations

from fedrap_coordinator.admin.documents import Figure, QuestionLine, QuestionResult
from fedrap_coordinator.admin.quality import LAST_SECONDS, quality_gauges

NOW = 1e9


def a_line(
    release: int, low: float, high: float, *, days_ago: float = 1.0, variants: int = 0
) -> QuestionLine:
    mean = Figure(value=(low + high) / 2, low=low, high=high)
    below = Figure(value=-0.05, low=-0.06, high=-0.04)
    result = QuestionResult(
        release=release, group="all", devices=500.0, mean=mean, compared=[below]
    )
    return QuestionLine(
        id="ab", state="answered", purpose="ask", metric="ndcg10", releases=[release],
        variants=[{}] * variants, share=None, noise=1.0, epsilon=4.0, answers=500, least=100,
        most=1000, asked_at=0.0, ends_at=1.0, closed_at=NOW - 86_400.0 * days_ago, results=[result],
    )  # fmt: skip


def test_before_anybody_spoke_there_is_no_figure() -> None:
    assert quality_gauges([], NOW) == {"questions_open": 0.0}


def test_the_newest_figure_stands_beside_the_best_of_a_month() -> None:
    lines = [a_line(12, 0.08, 0.10), a_line(11, 0.12, 0.14, days_ago=8)]
    found = quality_gauges(lines, NOW)
    assert found["quality_release"] == 12
    assert found["quality_high"] == 0.10
    assert found["quality_best"] == 0.12  # above the newest one's upper end: the alarm fires
    assert found["quality_uplift"] == 0.05
    assert found["quality_uplift_low"] == 0.04


def test_what_is_older_than_a_month_and_what_compares_candidates_is_left_out() -> None:
    old = a_line(3, 0.5, 0.6, days_ago=LAST_SECONDS / 86_400.0 + 1)
    lines = [a_line(13, 0.4, 0.5, variants=3), a_line(12, 0.08, 0.10), old]
    found = quality_gauges(lines, NOW)
    assert (found["quality_release"], found["quality_best"]) == (12.0, 0.08)
