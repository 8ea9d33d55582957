"""Vectors of `split`: numbers of an update, reports byte for byte, and what two servers see."""

from __future__ import annotations

import hashlib

import numpy as np

from fedrap_core.plan import (
    OFF,
    Adapt,
    Plan,
    Privacy,
    SequenceMethod,
    SolveMethod,
    Split,
)
from fedrap_core.questions.answers import Layout
from fedrap_core.sparse import RowPart, RowUpdate
from fedrap_core.split.field import to_signed
from fedrap_core.split.numbers import Terms, to_numbers, uniform_count
from fedrap_core.split.report import HELPER, LEADER, make_report
from fedrap_core.split.vectors import to_vector, vector_terms
from fedrap_core.split.verify import RunningSum, accepts
from fedrap_core.wire.shares import OpenQuestion, question_bytes
from spec.vector_format import Case, File, builtins, fractions, steps

_ROUND = bytes(range(16))
_VERIFY = bytes(range(100, 116))


def _terms(comment: str) -> Terms:
    sequence = SequenceMethod(dim=2, targets=4, longest=10, taus=(1.0, 5.0))
    if comment == "rows and a Gram matrix":
        method, items, rows = SolveMethod(dim=3), 50, 5
        rule = Privacy(clip=10.0)
    elif comment == "a sequence part and a clip that adapts":
        method, items, rows = SolveMethod(dim=3, sequence=sequence), 40, 6
        rule = Privacy(clip=4.0, row_clip=2.0, adapt=Adapt())
    elif comment == "more rows than the plan has slots for":
        method, items, rows = SolveMethod(dim=2, sequence=OFF), 30, 3
        rule = Privacy(clip=100.0, adapt=Adapt())
    else:
        method, items, rows = SolveMethod(dim=2), 3, 4  # one position in each slot
        rule = Privacy(clip=1.0)
    split = Split(rows=rows, gram_scale=8.0)
    return Terms(_ROUND, Plan(method=method, privacy=rule, split=split), items)


def _update(terms: Terms, label: str) -> RowUpdate:
    count = min(terms.items, 8 if "more rows" in label else 4)
    rows = np.arange(count) * (terms.items // count)

    def numbers(name: str, n: int, width: int, per: int) -> np.ndarray:
        return np.array(steps(f"split {label} {name}", n, width), dtype=float) / per

    more = tuple(
        RowPart(mine, numbers(part.name, len(mine), part.width, 512))
        for part in terms.parts
        for mine in [np.arange(part.rows) if part.whole else rows[::2] + 1]
    )
    dim = terms.method.dim
    gram = numbers("gram", 1, dim * (dim + 1) // 2, 2048)[0]
    return RowUpdate(rows, numbers("rows", count, dim, 64), gram, 0, more)


def reports() -> File:
    """split.json"""
    cases = [
        _case(comment)
        for comment in (
            "rows and a Gram matrix",
            "a sequence part and a clip that adapts",
            "more rows than the plan has slots for",
            "fewer items than slots",
        )
    ]
    about = (
        "A device's update in a round of `plan` over `items` items, as whole numbers by `uniform` "
        "(rows, then values row by row with all parts side by side, then whole parts), and the "
        "report that follows from them and `secret`, byte for byte. `seen_*` is the SHA-256 of "
        "what each server sees of it under verify_key; `places` are slot and position of items "
        "0 to 2 in a table. Words are u32 little-endian in hex."
    )
    return {"about": about, "cases": cases}


def answers() -> File:
    """split_answers.json"""
    about = (
        "The answer of a device to a question of this layout as a report for two servers: Q, its "
        "whole numbers by `uniform`, and the report that follows from them and `secret`. Words of "
        "the leader's share are there by the SHA-256 of all of it. `signed` is what a helper signs "
        "of the question with noise 2.5 and least 100 before its key, which is 65 times 04."
    )
    return {
        "about": about,
        "cases": [
            _answer("a hit that the popular list has not", Layout(1, 1, 1), [[1.0, 0.1]]),
            _answer("a lead", Layout(1, 1, 0, signed=True), [[-0.75]]),
        ],
    }


def _answer(comment: str, layout: Layout, gains: list[list[float] | None]) -> Case:
    terms, secret = vector_terms(_ROUND, layout), hashlib.sha256(comment.encode()).digest()
    answer = layout.vector(gains, layout.groups - 1)
    uniform = fractions(f"split {comment} chance", 1, terms.whole)[0]
    numbers = to_vector(answer, terms, np.array(uniform))
    report = make_report(terms, numbers, secret)
    sums = RunningSum(terms, LEADER), RunningSum(terms, HELPER)
    leader = sums[LEADER].look(_VERIFY, report.id, report.public, report.leader)
    helper = sums[HELPER].look(_VERIFY, report.id, report.public, report.helper)
    if not accepts(terms, leader.seen, helper.seen, helper.joint):
        raise AssertionError(f"{comment}: an honest answer is refused")
    asked = OpenQuestion(
        task=_VERIFY, question=_ROUND, numbers=terms.whole, limit=terms.limit, noise=2.5, least=100,
        ends_at=0.0,
    )  # fmt: skip
    return {
        "comment": comment,
        "valid": True,
        "layout": {
            "blocks": layout.blocks, "groups": layout.groups, "compared": layout.compared,
            "signed": layout.signed, "buckets": layout.buckets,
        },
        "question": _ROUND.hex(),
        "limit": terms.limit,
        "answer": answer.tolist(),
        "uniform": uniform,
        "whole": numbers.whole.tolist(),
        "secret": secret.hex(),
        "report": report.id.hex(),
        "public": report.public.hex(),
        "leader": hashlib.sha256(report.leader).hexdigest(),
        "leader_bytes": len(report.leader),
        "helper": report.helper.hex(),
        "signed": question_bytes(asked, b"\4" * 65).hex(),
    }  # fmt: skip


def _case(comment: str) -> Case:
    terms, secret = _terms(comment), hashlib.sha256(comment.encode()).digest()
    update = _update(terms, comment)
    uniform = fractions(f"split {comment} chance", 1, uniform_count(terms))[0]
    numbers = to_numbers(update, terms, np.array(uniform))
    report = make_report(terms, numbers, secret)
    sums = RunningSum(terms, LEADER), RunningSum(terms, HELPER)
    leader = sums[LEADER].look(_VERIFY, report.id, report.public, report.leader)
    helper = sums[HELPER].look(_VERIFY, report.id, report.public, report.helper)
    if not accepts(terms, leader.seen, helper.seen, helper.joint):
        raise AssertionError(f"{comment}: an honest report is refused")
    both = (sums[LEADER].share() + sums[HELPER].share()) % np.uint64(2**31 - 1)
    slots, positions = terms.shape.layout.places(np.arange(3))
    return {
        "comment": comment,
        "valid": True,
        "plan": builtins(terms.plan),
        "items": terms.items,
        "round": terms.round.hex(),
        "rows": update.rows.tolist(),
        "values": update.values.tolist(),
        "gram": update.packed_gram.tolist(),
        "parts": [{"rows": p.rows.tolist(), "values": p.values.tolist()} for p in update.parts],
        "uniform": uniform,
        "number_rows": numbers.rows.tolist(),
        "number_values": numbers.values.tolist(),
        "number_whole": numbers.whole.tolist(),
        "fits": numbers.fits,
        "places": np.stack([slots.T, positions.T], axis=2).tolist(),
        "secret": secret.hex(),
        "report": report.id.hex(),
        "public": report.public.hex(),
        "leader": report.leader.hex(),
        "helper": report.helper.hex(),
        "verify_key": _VERIFY.hex(),
        "seen_leader": hashlib.sha256(leader.seen.encoded()).hexdigest(),
        "seen_helper": hashlib.sha256(helper.seen.encoded()).hexdigest(),
        "share_leader": hashlib.sha256(sums[LEADER].share().astype("<u4").tobytes()).hexdigest(),
        "share_helper": hashlib.sha256(sums[HELPER].share().astype("<u4").tobytes()).hexdigest(),
        "sum": to_signed(both).tolist(),
    }
