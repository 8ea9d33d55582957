"""Vectors of the method: solve, rank, explain, a device's share, the learning step, epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrap_core.errors import FedRapError
from fedrap_core.plan import Scoring, SolveMethod
from fedrap_core.privacy.accounting import charged_epsilon, charged_noise
from fedrap_core.privacy.mechanisms import clip_to_norm
from fedrap_core.ranking import diversified, explain, rank
from fedrap_core.solve.device_share import compute_share, pose_share
from fedrap_core.solve.server_step import Learner, Learning, RoundSum, learn_step
from fedrap_core.solve.user import derive_user
from spec.vector_format import (
    TOLERANCE,
    Case,
    File,
    builtins,
    common_items,
    fractions,
    history,
    model,
    rounded,
)

_TINY: Case = {
    "dim": 4,
    "scales": [0.0078125] * 6,
    "values": [
        [127, 0, 0, 0],
        [120, 30, 0, 0],
        [0, 127, 0, 0],
        [0, 0, 127, -20],
        [-127, 0, 0, 0],
        [0, 0, 0, 0],
    ],
}
_FULL = model("a full case", 100, 32)
_LONG: Case = {
    "rows": [(7 * i * i + 3 * i) % 100 for i in range(30)],
    "weights": [[1.0, 1.0, 2.5, 0.5][i % 4] for i in range(30)],
}
_SOFT = Scoring(ridge=2.0)


def _interactions(*rows: int) -> Case:
    return {"rows": list(rows), "weights": [1.0] * len(rows)}


def _signed(*pairs: tuple[int, float]) -> Case:
    return {"rows": [row for row, _ in pairs], "weights": [much for _, much in pairs]}


def _with_tolerance(about: str, cases: list[Case]) -> File:
    about += " A float is right within absolute + relative*|expected|."
    return {"about": about, "tolerance": TOLERANCE, "cases": cases}


def solves() -> File:
    """solve.json: history and C to u, d and the shared scores."""
    heavy = {"rows": [0, 3, 2], "weights": [1000.0, 0.001, 1.0]}
    absurd = {"rows": [0, 3, 2], "weights": [1e6, 1e-6, 1.0]}
    flat = Scoring(ridge=2.0, beta=0.0, gamma=1.0)
    given: list[tuple[str, Case, Case, Scoring]] = [
        ("tiny: three items, the newest first", _TINY, _interactions(0, 2, 3), _SOFT),
        ("an empty history", _TINY, _interactions(), _SOFT),
        ("one item", _TINY, _interactions(1), _SOFT),
        ("repeats are merged at their newest place", _TINY, _interactions(3, 0, 3, 3, 0), _SOFT),
        ("order means nothing: beta 0, gamma 1", _TINY, _interactions(3, 2, 0), flat),
        ("an item whose row of C is zero", _TINY, _interactions(5, 0), _SOFT),
        ("only the newest two own a row of D", _TINY, _interactions(0, 1, 2, 3), Scoring(recent=2)),
        ("weights from 0.001 to 1000", _TINY, heavy, _SOFT),
        ("weights from 1e-6 to 1e6", _TINY, absurd, _SOFT),
        (
            "gamma 0: old items fade to nothing",
            _TINY,
            _interactions(*[0, 2, 3] * 9),
            Scoring(gamma=0.0),
        ),
        (
            "all weights zero: beta 0, gamma 0",
            _TINY,
            _interactions(0, 2),
            Scoring(beta=0.0, gamma=0.0),
        ),
        ("full: k = 32, 100 items, a history of 30", _FULL, _LONG, Scoring()),
        ("a dislike as the newest", _TINY, _signed((0, -1.0), (2, 1.0), (3, 2.0)), _SOFT),
        ("dislikes in between age nothing", _TINY, _signed((0, 1.0), (4, -3.0), (2, 1.0)), _SOFT),
        ("only dislikes", _TINY, _signed((1, -1.0), (3, -5.0)), Scoring()),
        (
            "a dislike ends what was said before it",
            _TINY,
            _signed((0, -1.0), (2, 1.0), (0, 5.0)),
            _SOFT,
        ),
        (
            "a newer word ends a dislike",
            _TINY,
            _signed((0, 1.0), (2, 1.0), (0, -5.0), (0, 1.0)),
            Scoring(),
        ),
    ]
    zero: Case = {"dim": 2, "scales": [0.0, 0.0], "values": [[0, 0], [0, 0]]}
    given.append(("a C of zeros", zero, _interactions(1, 0), Scoring()))
    cases = [_solve_case(*case) for case in given]
    for comment, scale in (("a scale that is NaN", "NaN"), ("a scale of 2e4", 2e4), ("-1", -1.0)):
        hostile: Case = {"dim": 2, "scales": [0.5, scale], "values": [[1, 2], [3, 4]]}
        cases.append(_solve_case(comment, hostile, _interactions(0), Scoring()))
    cases.append(_solve_case("a row that C does not have", _TINY, _interactions(6), Scoring()))
    bad = {"rows": [0], "weights": [0.0]}
    cases.append(_solve_case("a weight of zero", _TINY, bad, Scoring()))
    comment = "the first with the default scalars and two retired items"
    cases.append(_solve_case(comment, _TINY, _interactions(0, 2, 3), Scoring(), retired=[1, 2]))
    about = (
        "items: the distinct history, newest first; weights: their a_l; user: u; personal: the d "
        "of the first items, as many as own a row of D; shared: <u, C_j> of every row. A weight "
        "below 0 speaks against its item; only what speaks like an item's newest counts. C_j is "
        "the float32 of value*scale. Rows of `retired` are left out of C'C. Computed in float64; "
        "every engine is measured against this."
    )
    return _with_tolerance(about, cases)


def _solve_case(
    comment: str,
    stored: Case,
    interactions: Case,
    scoring: Scoring,
    retired: Sequence[int] = (),
) -> Case:
    case: Case = {
        "comment": comment,
        "valid": True,
        "model": stored,
        "history": interactions,
        "scoring": builtins(scoring),
        **({"retired": list(retired)} if retired else {}),
    }
    try:
        common = common_items(stored)
        gram = common.gram(np.array(retired, dtype=np.int64))
        user = derive_user(common, gram, history(interactions).settled(), scoring)
    except FedRapError as error:
        return {**case, "valid": False, "error": type(error).__name__}
    everything = common.take(np.arange(common.size))
    return {
        **case,
        "items": user.items.tolist(),
        "weights": rounded(user.weights),
        "user": rounded(user.user),
        "personal": rounded(user.personal.offsets),
        "shared": rounded(everything @ user.user),
    }


def rankings() -> File:
    """ranking.json: the best n of what may be shown."""
    given: list[tuple[str, Case, Case, Scoring, int, list[int]]] = [
        ("tiny: what was seen is hidden", _TINY, _interactions(0, 2), _SOFT, 3, [0, 2]),
        ("repeat consumption: nothing is hidden", _TINY, _interactions(0, 2), _SOFT, 3, []),
        ("more asked for than there is", _TINY, _interactions(1), _SOFT, 10, [0, 5]),
        ("an empty history: equal scores in order of rows", _TINY, _interactions(), _SOFT, 4, [1]),
        ("none asked for", _TINY, _interactions(1), _SOFT, 0, []),
        ("all hidden", _TINY, _interactions(1), _SOFT, 3, list(range(6))),
        ("full: k = 32, 100 items", _FULL, _LONG, Scoring(), 15, sorted({*_LONG["rows"]})),
        ("full, rho 1: more borrowing", _FULL, _LONG, Scoring(rho=1.0, power=1.0), 10, []),
        ("a dislike", _TINY, _signed((0, 1.0), (2, -5.0)), _SOFT, 3, [0, 2]),
    ]
    about = (
        "The n best rows that are not hidden, best first, equal scores in order of row; each score "
        "is shared + personal. Neighbours in these lists are further apart than the tolerance, or "
        "exactly equal."
    )
    return _with_tolerance(about, [_ranking_case(*case) for case in given])


def _ranking_case(
    comment: str, stored: Case, interactions: Case, scoring: Scoring, n: int, hidden: list[int]
) -> Case:
    common = common_items(stored)
    allowed = np.ones(common.size, dtype=np.bool_)
    allowed[hidden] = False
    user = derive_user(common, common.gram(), history(interactions), scoring)
    found = rank(common, user, scoring, n, allowed)
    gaps = -np.diff(found.scores)
    if not np.all((gaps == 0) | (gaps > 1e-4)):
        raise AssertionError(f"{comment}: two scores are too close for another platform")
    return {
        "comment": comment,
        "valid": True,
        "model": stored,
        "history": interactions,
        "scoring": builtins(scoring),
        "n": n,
        "hidden": hidden,
        "rows": found.rows.tolist(),
        "shared": rounded(found.shared),
        "personal": rounded(found.personal),
    }


def explanations() -> File:
    """explain.json: one item's score, split over the history."""
    given: list[tuple[str, Case, Case, Scoring, int]] = [
        ("an item like the newest", _TINY, _interactions(0, 2, 3), _SOFT, 1),
        ("an item with a row of its own", _TINY, _interactions(0, 2, 3), _SOFT, 2),
        ("an item whose row of C is zero", _TINY, _interactions(0, 2, 3), _SOFT, 5),
        ("old items own no row of D", _TINY, _interactions(0, 2, 3), Scoring(recent=1), 1),
        ("an empty history gives no reasons", _TINY, _interactions(), _SOFT, 1),
        ("full: k = 32, 100 items, a history of 30", _FULL, _LONG, Scoring(), 42),
        ("a dislike among them", _TINY, _signed((0, 1.0), (1, -2.0), (3, 1.0)), _SOFT, 1),
    ]
    cases = []
    for comment, stored, interactions, scoring, row in given:
        common = common_items(stored)
        user = derive_user(common, common.gram(), history(interactions).settled(), scoring)
        reasons = explain(common, user, scoring, row)
        cases.append(
            {
                "comment": comment, "valid": True, "model": stored, "history": interactions,
                "scoring": builtins(scoring), "row": row, "items": reasons.items.tolist(),
                "shared": rounded(reasons.shared), "personal": rounded(reasons.personal),
            }
        )  # fmt: skip
    about = (
        "For each item of the history, newest first, its part in the score of `row`: all shared "
        "parts add up to <u, C_row>, all personal parts to <u, D_row>."
    )
    return _with_tolerance(about, cases)


def shares_of_rounds() -> File:
    """share_of_round.json: what a device computes before it quantises."""
    weighted = {"rows": [3, 0, 3, 1], "weights": [1.0, 2.0, 0.5, 1.0]}
    disliked = _signed((3, 1.0), (2, -5.0), (0, 2.0))
    soft = SolveMethod(dim=4, ridge=2.0)
    given: list[tuple[str, Case, Case, SolveMethod, float]] = [
        ("tiny: an item counts once, with its largest weight", _TINY, weighted, soft, 100.0),
        ("the same, clipped", _TINY, weighted, soft, 0.5),
        ("an empty history", _TINY, _interactions(), soft, 1.0),
        ("one item", _TINY, _interactions(1), soft, 100.0),
        ("w0 0", _TINY, _interactions(0, 2), SolveMethod(dim=4, ridge=2.0, w0=0.0), 100.0),
        ("full: k = 32, 100 items, a history of 30", _FULL, _LONG, SolveMethod(), 30.0),
        ("what speaks against an item stays here", _TINY, disliked, soft, 100.0),
    ]
    cases = []
    for comment, stored, interactions, method, clip in given:
        common = common_items(stored)
        share = compute_share(pose_share(common, common.gram(), history(interactions), method))
        sent = clip_to_norm(share.update, clip)
        cases.append(
            {
                "comment": comment, "valid": True, "model": stored, "history": interactions,
                "method": builtins(method), "clip": clip, "user": rounded(share.user),
                "loss": rounded(share.loss), "norm": rounded(share.update.norm()),
                "rows": sent.rows.tolist(), "values": rounded(sent.values),
                "triangle": rounded(sent.packed_gram),
            }
        )  # fmt: skip
    about = (
        "user: x; norm: of rows and triangle together before the clip; values and triangle are "
        "after the clip. The triangle is the upper one of x x', row by row."
    )
    return _with_tolerance(about, cases)


def learn_steps() -> File:
    """learn_step.json: the coordinator's step on C."""
    common = [[x - 0.5 for x in row] for row in fractions("learn C", 5, 3, per=100)]
    values = [[4 * x - 2 for x in row] for row in fractions("learn g", 2, 3, per=100)]
    total: Case = {
        "rows": [1, 4], "values": values, "triangle": [2.0, 0.5, -0.3, 1.5, 0.2, 1.0], "devices": 3,
    }  # fmt: skip
    gram = [[1.0, 0.1, 0.0], [0.1, 0.5, 0.0], [0.0, 0.0, 0.25]]
    outside = {**total, "triangle": [2.0, 3.0, 0.0, 1.0, 0.0, -1.0]}
    given: list[tuple[str, Any, Case, Learning, int]] = [
        ("the first step", None, total, Learning(), 0),
        ("a later step with memory and decay", gram, total, Learning(decay=0.9, eta=0.2), 4),
        ("zeros begin in the second half", gram, total, Learning(zeros=0.5, settled=4), 2),
        ("settled: half of C is zero", gram, total, Learning(zeros=0.5, settled=4), 3),
        ("a noisy triangle is moved back into the cone", None, outside, Learning(), 0),
        ("no devices: nothing changes", gram, {**total, "devices": 0}, Learning(), 0),
        ("no rows: only the Gram moves", gram, {**total, "rows": [], "values": []}, Learning(), 0),
    ]
    method = SolveMethod(dim=3)
    cases = []
    for comment, before, given_sum, learning, step in given:
        state = Learner(np.array(common), None if before is None else np.array(before))
        after = learn_step(state, _round_sum(given_sum, 3), method, learning, step)
        cases.append(
            {
                "comment": comment, "valid": True, "method": builtins(method),
                "learning": builtins(learning), "step": step, "common": common, "gram": before,
                "sum": given_sum, "new_common": rounded(after.common),
                "new_gram": None if after.gram is None else rounded(after.gram),
            }
        )  # fmt: skip
    about = "One step of the coordinator on C and on the running Gram matrix of x x'."
    return _with_tolerance(about, cases)


def _round_sum(stored: Case, dim: int) -> RoundSum:
    return RoundSum(
        np.array(stored["rows"], dtype=np.int64),
        np.array(stored["values"]).reshape(-1, dim),
        np.array(stored["triangle"]),
        stored["devices"],
    )


def accounting() -> File:
    """accounting.json: what a device is charged."""
    plain = [(1, 1.0, 1e-5), (100, 1.0, 1e-5), (50, 1.0, 1e-5), (25, 1.0, 1e-5), (3, 1.04, 1e-5)]
    plain += [(0, 1.0, 1e-5), (1, 0.0, 1e-5), (10, 4.0, 1e-8), (1, 1e-6, 1e-5), (1, 1e4, 1e-2)]
    given: list[tuple[int, float, float, list[float], float | None]] = [
        (*one, [1.0], None) for one in plain
    ]
    given += [(3, 2.0, 1e-5, [1.0, 0.75], None), (3, 2.0, 1e-5, [1.0], 4.0)]
    given += [(3, 2.0, 1e-5, [1.0, 0.75, 0.5], 4.0), (3, 0.0, 1e-5, [1.0, 0.75], 4.0)]
    cases = []
    for participations, noise, delta, coefficients, bit in given:
        charged = charged_noise(noise, coefficients, bit)
        epsilon = charged_epsilon(participations, charged, delta)
        cases.append(
            {
                "comment": f"{participations} times with noise {noise}", "valid": True,
                "participations": participations, "noise": noise, "delta": delta,
                "coefficients": coefficients, "bit_noise": bit, "charged_noise": rounded(charged),
                "epsilon": rounded(epsilon) if math.isfinite(epsilon) else "Infinity",
            }
        )  # fmt: skip
    about = (
        "Epsilon of the Gaussian mechanism with mu = sqrt(participations)/charged_noise, at delta. "
        "coefficients and bit_noise (null: the clip does not adapt) as in a plan, see 5.5."
    )
    return _with_tolerance(about, cases)


def diversities() -> File:
    """diversity.json: items in the order of maximal marginal relevance."""
    everything = list(range(6))
    given: list[tuple[str, Case, list[int], list[float], int, float]] = [
        ("by score alone", _TINY, everything, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], 4, 0.0),
        ("a little", _TINY, everything, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], 6, 0.3),
        ("as different as can be", _TINY, everything, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], 3, 1.0),
        ("more asked for than there is", _TINY, [1, 3], [-2.0, 5.0], 9, 0.5),
        ("equal scores", _TINY, [0, 2, 4], [1.0, 1.0, 1.0], 3, 0.5),
        ("none", _TINY, [], [], 3, 0.5),
    ]
    cases = [
        {
            "comment": comment, "valid": True, "model": stored, "rows": rows, "scores": scores,
            "n": n, "diversity": diversity,
            "places": diversified(
                common_items(stored).take(np.array(rows, dtype=np.int64)),
                np.array(scores), n, diversity,
            ).tolist(),
        }
        for comment, stored, rows, scores, n, diversity in given
    ]  # fmt: skip
    about = (
        "places: which of `rows`, in this order, when each next one is the largest of "
        "(1 - diversity)*r - diversity*(largest cosine of its row of C with a chosen one, at least "
        "0), r being the scores brought to [0, 1]; equal ones in the order given."
    )
    return {"about": about, "cases": cases}
