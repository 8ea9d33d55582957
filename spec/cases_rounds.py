"""Vectors of a device in a round: the whole update before it is quantised, and its ledger."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec

from fedrap.rounds.ledger import Entry, Floor, charged_steps, epsilon, why_not
from fedrap_core.plan import Adapt, Plan, Privacy, SolveMethod
from fedrap_core.privacy.mechanisms import clip_share
from fedrap_core.solve.device_share import compute_share, join_shares, pose_round
from spec.vector_format import (
    TOLERANCE,
    Case,
    File,
    builtins,
    common_items,
    history,
    model,
    rounded,
)

_SOME = model("a round", 40, 6)
_TAPS: Case = {
    "rows": [3, 17, 3, 0, 39, 8, 17, 21, 5],
    "weights": [1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0, 1.0, 0.25],
}


def updates_of_rounds() -> File:
    """update_of_round.json: history and plan to what is quantised and sent."""
    one: Case = {"rows": [7], "weights": [1.0]}
    two: Case = {"rows": [7, 2], "weights": [1.0, 1.0]}
    none: Case = {"rows": [], "weights": []}
    method, loose = SolveMethod(dim=6), Privacy(clip=1e4)
    given: list[tuple[str, Case, SolveMethod, Privacy]] = [
        ("what came next weighs half", _TAPS, method, loose),
        ("only what came next", _TAPS, SolveMethod(dim=6, order=1.0), loose),
        ("order 0: the history as a whole", _TAPS, SolveMethod(dim=6, order=0.0), loose),
        ("the newest three prefixes", _TAPS, SolveMethod(dim=6, prefixes=3), loose),
        ("no prefixes", _TAPS, SolveMethod(dim=6, prefixes=0), loose),
        ("one item has nothing before it", one, method, loose),
        ("two items", two, method, loose),
        ("an empty history", none, method, loose),
        ("rows clipped", _TAPS, method, Privacy(clip=1e4, row_clip=0.5)),
        ("rows clipped, then the whole", _TAPS, method, Privacy(clip=0.75, row_clip=0.5)),
        ("a bit: it does not fit", _TAPS, method, Privacy(clip=0.75, adapt=Adapt())),
        ("a bit: it fits", _TAPS, method, Privacy(clip=1e4, adapt=Adapt())),
        (
            "a bit: with its rows clipped it fits",
            _TAPS,
            method,
            Privacy(clip=3.0, row_clip=0.5, adapt=Adapt()),
        ),
    ]
    about = (
        "rows, values and triangle are what is quantised: the history as a whole and what came "
        "next (5.4), rows clipped, then the whole, with the clipping bit (5.2, 5.6). loss is of "
        "the history as a whole. A float is right within absolute + relative*|expected|."
    )
    return {"about": about, "tolerance": TOLERANCE, "cases": [_update_case(*c) for c in given]}


def _update_case(comment: str, interactions: Case, method: SolveMethod, rule: Privacy) -> Case:
    common = common_items(_SOME)
    problem = pose_round(common, common.gram(), history(interactions), method)
    share = join_shares(problem, [compute_share(one) for one in problem.problems])
    sent = clip_share(share.update, rule)
    return {
        "comment": comment, "valid": True, "model": _SOME, "history": interactions,
        "method": builtins(method), "privacy": builtins(rule), "loss": rounded(share.loss),
        "rows": sent.rows.tolist(), "values": rounded(sent.values),
        "triangle": rounded(sent.packed_gram), "fits": sent.fits,
    }  # fmt: skip


def ledgers() -> File:
    """ledger.json: what a device took part in, an offer, and what it says to it."""
    noisy, banded = _noise(2.0), _noise(2.0, coefficients=(1.0, 0.75), adapt=Adapt(noise=4.0))
    given: list[tuple[str, list[tuple[int, Privacy]], int, Plan, Floor]] = [
        ("the first offer", [], 1, Plan(), _FREE),
        ("b steps later", [(1, noisy)], 3, Plan(privacy=noisy), _FREE),
        ("a step too soon", [(1, noisy)], 2, Plan(privacy=noisy), _FREE),
        ("too near to a later step", [(9, noisy)], 8, Plan(privacy=noisy), _FREE),
        ("the floor wants more steps between", [(1, noisy)], 4, Plan(),
         replace(_FREE, separation=4)),
        ("the plan wants more steps between", [(1, noisy)], 4, Plan(privacy=_noise(2.0, b=5)),
         _FREE),
        ("the plan's cap is reached", [(s, noisy) for s in (1, 3, 5)], 9,
         Plan(privacy=_noise(2.0, cap=3)), _FREE),
        ("the floor's cap is reached", [(1, noisy), (3, noisy)], 9, Plan(), replace(_FREE, cap=2)),
        ("the same step again", [(3, noisy)], 3, Plan(privacy=noisy), _FREE),
        ("a step that was tried twice counts once", [(3, noisy)] * 2, 3, Plan(privacy=noisy),
         replace(_FREE, cap=1)),
        ("a third try was the last", [(3, noisy)] * 3, 3, Plan(privacy=noisy), _FREE),
        ("too few updates in a release", [], 1, Plan(min_updates=1), _FREE),
        ("too little noise", [], 1, Plan(privacy=_noise(0.5)), replace(_FREE, min_noise=1.0)),
        ("bands and a bit cost noise", [], 1, Plan(privacy=banded), replace(_FREE, min_noise=1.6)),
        ("bands and a bit, just enough", [], 1, Plan(privacy=banded),
         replace(_FREE, min_noise=1.5)),
        ("two policies: the smaller delta counts", [(1, noisy), (5, _noise(1.0, delta=1e-7))], 9,
         Plan(), _FREE),
        ("two tries of one step: the lesser noise counts", [(1, noisy), (1, _noise(1.0))], 9,
         Plan(), _FREE),
        ("once without noise", [(1, noisy), (5, Privacy())], 9, Plan(), _FREE),
        ("the default floor and a plan that protects", [(1, noisy)], 3, _plan(noisy), Floor()),
        ("no noise at all", [], 1, _plan(Privacy()), Floor()),
        ("too little noise for the largest epsilon", [], 1, _plan(_noise(0.3)), Floor()),
        ("all that was done counts", [(s, noisy) for s in range(1, 25, 2)], 41,
         _plan(_noise(2.0, cap=50)), Floor()),
        ("a step that is tried again with less noise", [(3, noisy)], 3, _plan(_noise(0.3)),
         Floor()),
        ("noise now does not make good for none before", [(1, Privacy())], 9, _plan(noisy),
         Floor()),
        ("a clip that is too large", [], 1, _plan(_noise(2.0, clip=100.5)), Floor()),
        ("a clip that is just allowed", [], 1, _plan(_noise(2.0, clip=100.0)), Floor()),
        ("19 updates", [], 1, Plan(privacy=noisy, min_updates=19), Floor()),
    ]  # fmt: skip
    year = _noise(2.0, cap=2, window_days=365.0)
    month = _noise(2.0, cap=2, window_days=30.0)
    dear = _noise(0.8, cap=20, window_days=365.0)
    in_time: list[tuple[str, list[tuple[int, Privacy, float]], int, Plan, Floor]] = [
        ("K in a year: two are in it", [(1, year, 300), (3, year, 200)], 9, Plan(privacy=year),
         _FREE),
        ("K in a year: one has left it", [(1, year, 366), (3, year, 200)], 9, Plan(privacy=year),
         _FREE),
        ("on its border it is out", [(1, year, 365), (3, year, 200)], 9, Plan(privacy=year),
         _FREE),
        ("the separation never ends", [(1, year, 400), (8, year, 366)], 9, Plan(privacy=year),
         _FREE),
        ("the floor's window is the longer one", [(1, month, 300), (3, month, 200)], 9,
         Plan(privacy=month), _FREE),
        ("a floor with a shorter window than the plan", [(1, year, 300), (3, year, 200)], 9,
         Plan(privacy=year), replace(_FREE, window_days=1.0)),
        ("a month is enough for this floor", [(1, month, 40), (3, month, 35)], 9,
         Plan(privacy=month), replace(_FREE, window_days=1.0)),
        ("a plan without a window counts for a life", [(s, noisy, 9000) for s in (1, 3, 5)], 9,
         Plan(privacy=_noise(2.0, cap=3)), _FREE),
        ("a clock that was set back", [(1, year, -10), (3, year, -20)], 9, Plan(privacy=year),
         _FREE),
        ("too much for one window", [(s, dear, 10) for s in range(1, 13, 2)], 31, _plan(dear),
         Floor()),
        ("little enough in each window", [(s, dear, 400) for s in range(1, 9, 2)], 31,
         _plan(dear), Floor()),
        ("too much for a life", [(s, dear, 400.0 * (30 - s)) for s in range(1, 29, 2)], 31,
         _plan(dear), Floor()),
        ("a floor that bounds a life further", [(s, dear, 400) for s in range(1, 9, 2)], 31,
         _plan(dear), Floor(max_lifetime_epsilon=10.0)),
    ]  # fmt: skip
    about = (
        "entries: the steps that this device took part in, each with the policy that it agreed to "
        "and when; now: when the offer came; "
        "answer: null when it agrees to an offer of this step and plan, or the word for what its "
        "floor or its own record forbids (7.5, 5.5); charged and epsilon are what the entries cost."
        " A float is right within absolute + relative*|expected|."
    )
    timeless = [
        (comment, [(step, rule, 0.0) for step, rule in taken], step, plan, floor)
        for comment, taken, step, plan, floor in given
    ]
    cases = [_ledger_case(*case) for case in (*timeless, *in_time)]
    return {"about": about, "tolerance": TOLERANCE, "cases": cases}


_FREE = Floor.without_privacy(min_updates=2)


def _plan(privacy: Privacy) -> Plan:
    return Plan(privacy=privacy, min_updates=20)


def _noise(z: float, b: int = 2, **rest: Any) -> Privacy:
    return Privacy(noise=z, separation=b, **rest)


_NOW = 1_700_000_000.0


def _ledger_case(
    comment: str, taken: list[tuple[int, Privacy, float]], step: int, plan: Plan, floor: Floor
) -> Case:
    """`taken`: steps, their rules, and how many days ago."""
    entries = [
        Entry(s, bytes([n]) * 16, rule.charged_noise, rule.delta, _NOW - 86_400.0 * days, rule)
        for n, (s, rule, days) in enumerate(taken)
    ]
    spent = epsilon(entries)
    return {
        "comment": comment,
        "valid": True,
        "now": _NOW,
        "entries": [
            {"step": one.step, "at": one.at, "privacy": builtins(rule)}
            for one, (_, rule, _) in zip(entries, taken, strict=True)
        ],
        "step": step,
        "plan": builtins(plan),
        "floor": {
            name: "Infinity" if value == math.inf else value
            for name, value in msgspec.to_builtins(floor).items()
            if value is not False  # `ask_again` is for what an app asks its user
        },
        "answer": why_not(entries, step, plan, floor, _NOW),
        "charged": len(charged_steps(entries)),
        "epsilon": rounded(spent) if math.isfinite(spent) else "Infinity",
    }
