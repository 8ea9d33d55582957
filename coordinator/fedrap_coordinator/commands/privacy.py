"""`fedrap-coordinator privacy` and `policy`: plan a guarantee, show the one in force, change it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from fedrap_coordinator.admin import table
from fedrap_coordinator.commands.output import (
    act,
    add_action,
    add_group,
    print_json,
    say,
    settings_of,
    show,
)
from fedrap_coordinator.privacy import accountants
from fedrap_coordinator.privacy.accountants import Accounted
from fedrap_coordinator.privacy.planner import Option, Wanted, default_delta, options
from fedrap_coordinator.privacy.recipe import (
    SPREAD_DAYS,
    WINDOW_DAYS,
    sequence_in_words,
    sequence_refusal,
)
from fedrap_core.plan import Privacy
from fedrap_core.privacy.accounting import gaussian_epsilon
from fedrap_core.privacy.statement import WINDOWS, epsilon_against

Document = dict[str, Any]
Stated = Callable[[argparse.Namespace], Document]


def add_privacy(commands: Any, stated: Stated, write: Callable[[str], None]) -> Any:
    """The command and its three actions; `stated` gives the statement of a coordinator.

    Returns the parser of actions, for those that others add.
    """
    privacy = commands.add_parser("privacy", help="plan, show or export the privacy guarantee")
    actions = privacy.add_subparsers(required=True, metavar="ACTION")

    plan = actions.add_parser("plan", help="which noise, b and K give an epsilon, and its price")
    plan.add_argument("--devices", type=int, required=True, help="N, in all")
    plan.add_argument("--cohort", type=int, required=True, help="n, updates in a round")
    plan.add_argument("--rounds", type=int, required=True, help="T, releases in all")
    plan.add_argument("--epsilon", type=float, required=True)
    plan.add_argument("--delta", type=float, help="default: min(1e-5, N^-1.1)")
    plan.add_argument("--separation", type=int, help="b; default: every possible one")
    plan.add_argument("--cap", type=int, help="K; default: the least that T and b need")
    plan.add_argument("--items", type=int, help="m, to weigh noise against signal")
    plan.add_argument("--dim", type=int, default=32, help="k (32)")
    plan.add_argument(
        "--split", action="store_true", help="for two servers: what each choice gives"
    )
    plan.add_argument("--json", action="store_true", help="for machines")
    plan.set_defaults(run=lambda arguments: _plan(arguments, write))

    status = actions.add_parser("status", help="the guarantee in force")
    status.add_argument("--json", action="store_true", help="for machines")
    status.set_defaults(run=lambda arguments: _status(arguments, stated, write))
    export = actions.add_parser("export", help="the guarantee in force, as JSON, to a file or here")
    export.add_argument("file", type=Path, nargs="?")
    export.set_defaults(run=lambda arguments: _export(arguments, stated, write))
    return actions


def add_policy(commands: Any) -> None:
    """The policy in force, and the step to another one."""
    policy = add_group(commands, "policy", "show the policy in force, or change it")
    add_action(policy, "show", "what every round is made under", _policy_show)
    change = add_action(
        policy, "change", "take the settings' noise, clip, b, K and total; says what that does",
        _policy_change,
    )  # fmt: skip
    change.add_argument("--yes", action="store_true", help="do it; without this it is only said")


def _policy_show(arguments: argparse.Namespace) -> int:
    found = act(arguments, table.POLICY, table.Nothing())
    if arguments.json:
        print_json(found)
    else:
        flat = {**found.policy["privacy"], "total": found.policy["total"]}
        show("\n".join(f"{name:<14}{value}" for name, value in flat.items()))
    return 0


def _policy_change(arguments: argparse.Namespace) -> int:
    wanted = settings_of(arguments).policy()
    changes = {**msgspec.to_builtins(wanted.privacy), "total": wanted.total}
    found = act(arguments, table.CHANGE_POLICY, table.NewPolicy(changes, arguments.yes))
    if arguments.json:
        print_json(found)
        return 0
    if not found.changes:
        say("the settings are the policy in force; there is nothing to change")
        return 0
    for name, (old, new) in found.changes.items():
        show(f"{name}: {old} -> {new}")
    show("\n".join(f"- {words}" for words in found.effect))
    say("changed; restart `serve`" if found.changed else "nothing was changed; --yes does it")
    return 0


def _plan(arguments: argparse.Namespace, write: Callable[[str], None]) -> int:
    delta = arguments.delta
    if delta is None:
        delta = default_delta(max(1, arguments.devices))
    wanted = Wanted(
        arguments.devices, arguments.cohort, arguments.rounds, arguments.epsilon, delta,
        arguments.separation, arguments.cap, arguments.items, arguments.dim,
    )  # fmt: skip
    found = options(wanted)
    beside = others(wanted, found) if accountants.is_installed() else None
    ratio = found[0].noise_to_signal
    refusal = sequence_refusal(wanted.rounds, wanted.items, 0.0 if ratio is None else 1 / ratio)
    if arguments.json:
        document: Document = {"wanted": asdict(wanted), "options": [asdict(one) for one in found]}
        document["not_charged"] = None if beside is None else [asdict(one) for one in beside]
        document["sequence"] = {"on": refusal is None, "because": refusal}
        if arguments.split:
            document["split"] = two_servers(found[0], wanted.delta)
        write(json.dumps(document, indent=2))
    else:
        write(_shown(wanted, found, beside, sequence_in_words(refusal, wanted.rounds)))
        if arguments.split:
            write("\n" + _shown_split(two_servers(found[0], wanted.delta)))
    return 0


def two_servers(best: Option, delta: float) -> list[Document]:
    """With z from each of two servers, and with z/sqrt(2): noise, and epsilon against whom."""
    choices = []
    for share in (1.0, 0.5**0.5):
        rule = Privacy(
            noise=best.noise * share, coefficients=best.coefficients, cap=best.cap, delta=delta,
            separation=best.separation,
        )  # fmt: skip
        choices.append({"noise": rule.noise, **epsilon_against(rule)})
    return choices


def _shown_split(choices: list[Document]) -> str:
    lines = [
        "Two servers each add noise; which epsilon holds against whom (experimental):",
        "  noise from each  against leader or helper  against the public",
    ]
    for one in choices:
        lines.append(f"  {one['noise']:>15.4f}  {one['leader']:>24.2f}  {one['public']:>18.2f}")
    return "\n".join(lines)


def others(wanted: Wanted, found: list[Option]) -> list[Accounted]:
    """What other accountants say of the best options; none of it is charged to anybody."""
    rate = wanted.cohort / wanted.devices
    best = found[0]
    numbers = accountants.unamplified(best.mu, wanted.delta)
    plain = next(one for one in found if one.mechanism == "independent")
    numbers += accountants.poisson(plain.noise, rate, wanted.rounds, wanted.delta)
    for one in dict.fromkeys((plain, best)):
        numbers.append(
            accountants.cyclic_poisson(
                one.noise, one.coefficients, rate, one.separation, wanted.rounds, wanted.delta
            )
        )
    return numbers


def _shown(
    wanted: Wanted, found: list[Option], beside: list[Accounted] | None, sequence: str
) -> str:
    lines = [
        f"To keep epsilon {wanted.epsilon:g} at delta {wanted.delta:.2g} for each of "
        f"{wanted.devices} devices, {wanted.cohort} in each of {wanted.rounds} rounds,",
        "whoever takes part when (unamplified, zero-out). Least error first, in units of the clip:",
        "",
        "  b     K  noise        z     mu   in a round  summed up   noise/signal",
    ]
    for one in found:
        ratio = "-" if one.noise_to_signal is None else f"{one.noise_to_signal:.2f}"
        lines.append(
            f"{one.separation:>3} {one.cap:>5}  {one.mechanism:<11} {one.noise:>6.3f} "
            f"{one.mu:>5.2f}  {one.round_error:>10.3g} {one.sum_error:>10.3g}  {ratio:>12}"
        )
    best = found[0]
    lines += ["", "[privacy]", f"noise = {best.noise}"]
    if len(best.coefficients) > 1:
        lines.append(f"coefficients = {list(best.coefficients)}")
    lines += [
        f"separation = {best.separation}", f"cap = {best.cap}", f"delta = {wanted.delta:g}",
        f"window_days = {WINDOW_DAYS:g}",
        f"spread_days = {SPREAD_DAYS:g}",
        "",
        f"That is in any {WINDOW_DAYS:g} days, in which a device joins {best.cap} rounds; over "
        + ", ".join(
            f"{many} of them epsilon {gaussian_epsilon(many**0.5 * best.mu, wanted.delta):.1f}"
            for many in WINDOWS
        )
        + ". With window_days = 0 a device joins no more than those in its life.",
    ]  # fmt: skip
    if best.noise_to_signal is not None and best.noise_to_signal > 1:
        lines += ["", "The noise of a round is larger than the largest mean of updates can be:"]
        lines.append("larger cohorts, fewer rounds, fewer items or a smaller dim would help.")
    lines += ["", sequence]
    if beside is None:
        how = "pip install 'fedrap-coordinator[privacy]'"
        lines += ["", f"Amplified numbers need dp-accounting: {how}"]
        return "\n".join(lines)
    lines += ["", "Not charged, for comparison; each holds only if its assumptions do:"]
    for number in beside:
        lines.append(f"  epsilon {number.epsilon:7.3f}  {number.scheme}, {number.accountant}")
        lines += [f"                   - {words}" for words in number.assumptions]
    room = accountants.room_for_all(wanted.devices, wanted.cohort / wanted.devices)
    lines.append(f"Sampled rounds would have to take up to {room} updates.")
    return "\n".join(lines)


def _status(arguments: argparse.Namespace, stated: Stated, write: Callable[[str], None]) -> int:
    document = stated(arguments)
    if arguments.json:
        write(json.dumps(document, indent=2))
        return 0
    epsilon = document["epsilon"]
    lines = [
        f"epsilon       {'unbounded' if epsilon is None else format(epsilon, '.3f')}"
        f" at delta {document['delta']:g}, charged to a device that takes part K times",
        f"unit          {document['unit']}",
        f"adjacency     {document['adjacency']}",
        f"separation b  {document['separation']}",
        f"cap K         {document['cap']}",
        f"rounds        {document['rounds']['released']} of {document['rounds']['total']}",
        f"noise z       {document['noise']:g}, coefficients {document['coefficients']}",
        f"clip S        {document['clip']:g}"
        + (", adapts" if document["clip_adapts"] else "")
        + ("" if document["row_clip"] is None else f", of a row {document['row_clip']:g}"),
        *_against(document),
        "assuming",
        *(f"  - {words}" for words in document["assumptions"]),
        "trusted",
        *(f"  - {one['who']}: {one['with_what']}" for one in document["trusted"]),
    ]
    write("\n".join(lines))
    return 0


def _against(document: Document) -> list[str]:
    """Of two servers: against whom which epsilon holds."""
    found = document.get("against")
    if found is None:
        return []
    words = (f"{who} {'unbounded' if e is None else format(e, '.2f')}" for who, e in found.items())
    return [f"mode          split, {document['experimental']}", f"against       {', '.join(words)}"]


def _export(arguments: argparse.Namespace, stated: Stated, write: Callable[[str], None]) -> int:
    document = stated(arguments)
    mu = document["mu"]
    amplified = mu is not None and accountants.is_installed()
    document["not_charged"] = (
        [asdict(one) for one in accountants.unamplified(mu, document["delta"])] if amplified else []
    )
    text = json.dumps(document, indent=2)
    if arguments.file is None:
        write(text)
    else:
        arguments.file.write_text(text + "\n", encoding="utf-8")
    return 0
