"""Vectors of questions about quality: gains, answers byte by byte, and when a device answers."""

from __future__ import annotations

from typing import Any

from fedrap.rounds.answering import answer_time
from fedrap_core.paper.sampling import private_stream
from fedrap_core.plan import OFF, Off
from fedrap_core.questions.answers import Layout, pack
from fedrap_core.questions.gains import METRICS, PairedGains, ReleaseGains, gains_of, lead_of
from fedrap_core.questions.lists import shares_of
from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import Question, Trial
from fedrap_core.wire.question_layout import layout_of
from spec.vector_format import Case, File

TRIAL = Trial(rollout=b"r" * 16, share=0.01, base=11)
ASKED_AT, ENDS_AT = 1_800_000_000.0, 1_800_604_800.0


def answers() -> File:
    """answers.json."""
    about = (
        "gains: each metric of an item of that rank, 0 the first. sums: ranks of interactions in "
        "the own list, the popular one and that of the trend, their sums and the means of each "
        "metric, in that order; 20 count. answers: for each block the gains of its lines, or null; "
        "float32 in hex. times: when the device of that private key answers. Numbers to 1e-12, "
        "bytes exactly."
    )
    return {"about": about, "cases": [*_gains(), *_sums(), *_answers(), *_times()]}


def trials() -> File:
    """trials.json."""
    about = (
        "Staged releases. leads: of an item with these ranks under the full and the staged one, "
        "null where one does not show it; sums: of several, 20 count. answers: float32 in hex for "
        "a mean lead, or null. shares: what the device of that private key draws for a roll-out; "
        "it is in every share above it. times: when it answers. bytes: a question of a staged "
        "release. Numbers to 1e-12, bytes exactly."
    )
    return {"about": about, "cases": [*_leads(), *_leads_said(), *_shares(), *_trial()]}


def lists() -> File:
    """lists.json."""
    about = (
        "What lists consist of. buckets: which share of these items falls into which bucket, of "
        "those that are not 0. answers: float32 in hex for a share of popular items and a list. "
        "Bytes exactly."
    )
    given = (("ten", [f"Stück {n}" for n in range(10)]),)
    cases: list[Case] = []
    for comment, items in given:
        question = _question(b"q" * 16, lists=16)
        shares, layout = shares_of(items, question.question, 16), layout_of(question)
        cases.append(
            {
                "comment": comment, "valid": True, "question": question.question.hex(),
                "items": items,
                "buckets": {str(at): share for at, share in enumerate(shares) if share},
                "clip": layout.clip, "popular": 0.3,
                "answer": pack(layout.vector([[0.3, *shares]], 0)).hex(),
            }
        )  # fmt: skip
    return {"about": about, "cases": cases}


def _leads() -> list[Case]:
    ranks: tuple[tuple[int | None, int | None], ...] = (
        (0, 0), (5, 4), (4, 5), (10, 400), (400, 10), (3, None), (None, 3),
    )  # fmt: skip
    cases: list[Case] = [
        {
            "comment": "lead",
            "valid": True,
            "before": before,
            "after": after,
            "lead": lead_of(before, after),
        }
        for before, after in ranks
    ]
    for comment, given in (("sum", (*ranks, (None, None))), ("more than count", ((0, 9),) * 21)):
        pair = PairedGains(3)
        for before, after in given:
            pair = pair.with_ranks(before, after)
        cases.append(
            {
                "comment": comment, "valid": True, "ranks": [list(one) for one in given],
                "count": pair.count, "leads": pair.leads, "mean": pair.mean,
            }
        )  # fmt: skip
    return cases


def _leads_said() -> list[Case]:
    layout = layout_of(_question(b"q" * 16, TRIAL))
    return [
        {
            "comment": "answer", "valid": True, "clip": layout.clip, "mean": mean,
            "answer": pack(layout.vector([None if mean is None else (mean,)], 0)).hex(),
        }
        for mean in (0.25, -1.0, None)
    ]  # fmt: skip


def _shares() -> list[Case]:
    return [
        {
            "comment": "share",
            "valid": True,
            "private_key": key.hex(),
            "rollout": name.hex(),
            "uniform": float(private_stream(key, b"trial " + name)(1)[0]),
        }
        for key, name in ((bytes(range(32)), b"r" * 16), (b"k" * 32, bytes(range(16))))
    ]


def _trial() -> list[Case]:
    key, question = bytes(range(32)), _question(b"q" * 16, TRIAL)
    return [
        {
            "comment": "question", "valid": True, "bytes": encode(question).hex(),
            "private_key": key.hex(), "at": answer_time(key, question),
        }
    ]  # fmt: skip


def _gains() -> list[Case]:
    ranks = (0, 1, 8, 9, 10, 99, 31_999)
    return [
        {"comment": "gains", "valid": True, "rank": r, "gains": list(gains_of(r))} for r in ranks
    ]


def _sums() -> list[Case]:
    given: tuple[tuple[str, list[tuple[int, int, int]]], ...] = (
        ("sums", [(0, 5, 2), (12, 3, 9)]),
        ("sums of more than count", [(number % 7, 2 * number, number % 2) for number in range(21)]),
    )
    cases = []
    for comment, ranks in given:
        gains = ReleaseGains(3)
        for of_each in ranks:
            gains = gains.with_ranks(*of_each)
        means = {metric: list(gains.means(metric) or ()) for metric in METRICS}
        cases.append(
            {
                "comment": comment, "valid": True, "ranks": [list(of_each) for of_each in ranks],
                "count": gains.count, "means": means,
            }
        )  # fmt: skip
    return cases


def _answers() -> list[Case]:
    given: tuple[tuple[str, Layout, list[Any], int], ...] = (
        ("answer: own, popular, lately", Layout(1, 1, 2), [[0.5, 0.25, 0.75]], 0),
        ("answer: nothing to say", Layout(1, 1, 1), [None], 0),
        ("answer: two releases, heavy users", Layout(2, 2, 1), [None, [0.3, 0.7]], 1),
        ("answer: four candidates", Layout(1, 1, 3), [[0.1, 0.2, 0.1, 0.0]], 0),
        ("answer: what is out of bounds", Layout(1, 1, 1), [[1.5, -1.0]], 0),
    )
    return [
        {
            "comment": comment, "valid": True,
            "layout": [layout.blocks, layout.groups, layout.compared], "clip": layout.clip,
            "gains": gains, "group": group, "answer": pack(layout.vector(gains, group)).hex(),
        }
        for comment, layout, gains, group in given
    ]  # fmt: skip


def _times() -> list[Case]:
    return [
        {
            "comment": "time", "valid": True, "private_key": key.hex(), "question": name.hex(),
            "asked_at": ASKED_AT, "ends_at": ENDS_AT, "at": answer_time(key, _question(name)),
        }
        for key, name in ((bytes(range(32)), b"q" * 16), (b"k" * 32, bytes(range(16))))
    ]  # fmt: skip


def _question(name: bytes, trial: Trial | Off = OFF, lists: int | Off = OFF) -> Question:
    return Question(
        task=bytes(16), question=name, metric="ndcg10", releases=[1], trial=trial, lists=lists,
        noise=1.0, delta=1e-5,
        least=20, most=100, budget=10, asked_at=ASKED_AT, ends_at=ENDS_AT, seal_key=bytes(65),
        seal_id=bytes(8),
    )  # fmt: skip
