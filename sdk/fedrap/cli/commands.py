"""What the commands of `fedrap` do. Each gives an answer for people and the same for machines."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fedrap import FedRap
from fedrap.cli.csv_history import read_history
from fedrap.results import Recommendation, Status
from fedrap_core.privacy.statement import Statement

_MEMORY = "server.txt"  # beside the store, readable: an address is no secret
_ADVICE = {
    "no-consent": "the user has not agreed: fedrap consent yes",
    "no-server": "no coordinator is named: fedrap --server URL init",
    "no-token": "this device is not enrolled: give --token",
    "ledger-lost": "its ledger could not be read: erase this device and enrol anew",
    "nothing-to-share": "nothing is recorded yet that the coordinator knows",
    "told-to-wait": "the coordinator asked to come back later",
    "unreachable": "the coordinator does not answer",
}


@dataclass(frozen=True)
class Answer:
    """An exit code, lines for people, and a value for machines."""

    text: str
    value: object
    code: int = 0

    def as_json(self) -> str:
        """The value; JSON has no infinity, so an unbounded epsilon is null."""
        return json.dumps(_plain(self.value), indent=2, default=str) + "\n"


def remembered_server(store: Path) -> str | None:
    """The server that `init` was told, if any."""
    file = store.expanduser() / _MEMORY
    return file.read_text(encoding="utf-8").strip() or None if file.is_file() else None


def _init(device: FedRap, arguments: argparse.Namespace) -> Answer:
    store = arguments.store
    if arguments.server:
        (store / _MEMORY).write_text(arguments.server + "\n", encoding="utf-8")
    server = arguments.server or remembered_server(store)
    text = f"A store is in {store}.\n"
    text += f"Coordinator: {server}\n" if server else "No coordinator yet: all works but rounds.\n"
    return Answer(text, {"store": str(store), "server": server})


def _record(device: FedRap, arguments: argparse.Namespace) -> Answer:
    for item in arguments.items:
        device.record(item, kind=arguments.kind, weight=arguments.weight)
    count = device.status().interactions
    return Answer(
        f"Kept {len(arguments.items)}, {count} in all.\n",
        {"recorded": len(arguments.items), "interactions": count},
    )


def _import(device: FedRap, arguments: argparse.Namespace) -> Answer:
    found = read_history(arguments.file, arguments.clock())  # whole and checked before one is kept
    device.record_many(found)
    count = device.status().interactions
    return Answer(
        f"Imported {len(found)}, {count} in all.\n",
        {"imported": len(found), "interactions": count},
    )


def _recommend(device: FedRap, arguments: argparse.Namespace) -> Answer:
    found = device.recommend(arguments.n, explain=arguments.explain)
    lines = [line for one in found for line in _recommended(one)]
    text = "\n".join(lines) + "\n" if lines else "Nothing yet: this device has no catalogue.\n"
    return Answer(text, [dataclasses.asdict(one) for one in found])


def _recommended(one: Recommendation) -> list[str]:
    lines = [f"{one.score:+.3f}  {one.item}"]
    for reason in one.reasons[:3]:
        lines.append(f"          {reason.shared + reason.personal:+.3f} from {reason.item}")
    return lines


def _similar(device: FedRap, arguments: argparse.Namespace) -> Answer:
    found = device.similar_items(arguments.item, arguments.n)
    text = "".join(f"{cosine:+.3f}  {item}\n" for item, cosine in found)
    value = [{"item": item, "cosine": cosine} for item, cosine in found]
    return Answer(text or f"Nothing is known of {arguments.item}.\n", value)


def _hide(device: FedRap, arguments: argparse.Namespace) -> Answer:
    if arguments.undo:
        was = device.unhide(arguments.item)
        return Answer("Shown again.\n" if was else "It was not hidden.\n", {"hidden": False})
    device.hide(arguments.item)
    return Answer("Hidden.\n", {"hidden": True})


def _remove(device: FedRap, arguments: argparse.Namespace) -> Answer:
    count = device.remove(arguments.item)
    return Answer(f"Took back {count}.\n", {"removed": count})


def _history(device: FedRap, arguments: argparse.Namespace) -> Answer:
    kept = list(device.history())
    text = "".join(f"{one.at:.0f}  {one.kind}  {one.weight:g}  {one.item}\n" for one in kept)
    return Answer(text or "Nothing is kept.\n", [msgspec.structs.asdict(one) for one in kept])


_CONSENTS = {
    "yes": "Agreed: rounds may run.\n",
    "recommend": "Agreed: releases may be fetched, and nothing is sent.\n",
    "no": "Taken back: nothing leaves from now on.\n",
}


def _consent(device: FedRap, arguments: argparse.Namespace) -> Answer:
    train, recommend = arguments.answer == "yes", arguments.answer != "no"
    device.consent(recommend=recommend, train=train, policy=arguments.policy)
    value = {"recommend": recommend, "train": train, "policy": arguments.policy}
    return Answer(_CONSENTS[arguments.answer], value)


def withdraw_where_busy(arguments: argparse.Namespace) -> Answer:
    """Another process has the store: it hears of the withdrawal before its next request."""
    FedRap.withdraw(arguments.store, profile=arguments.profile)
    value = {"recommend": False, "train": False, "policy": arguments.policy}
    return Answer(_CONSENTS["no"], value)


def doctor(arguments: argparse.Namespace) -> Answer:
    """What is wrong with a store; needs no store that opens."""
    from fedrap.device import store_folder  # what only this command needs
    from fedrap.storage.doctor import examine, repair
    from fedrap.storage.store_key import DefaultKey

    folder = store_folder(arguments.store, "app", arguments.profile)
    found = (repair if arguments.repair else examine)(folder, DefaultKey(folder), arguments.clock)
    lines = [f"opens         {'yes' if found.opens else 'no'}"]
    if found.interactions is not None:
        lines.append(f"interactions  {found.interactions}")
    lines += [f"wrong         {words}" for words in found.findings] or ["wrong         nothing"]
    if found.ledger_lost:
        lines.append("ledger        a part is lost, so this device joins no more rounds; erase it")
        lines.append("              and enrol anew to take part again")
    if not found.opens and not arguments.repair:
        lines.append("Try `fedrap doctor --repair`; the database is kept as it is beside the new.")
    return Answer("\n".join(lines) + "\n", dataclasses.asdict(found), 0 if found.opens else 1)


def _join(device: FedRap, arguments: argparse.Namespace) -> Answer:
    report = device.run_round()
    if report.joined:
        text = f"Joined: {report.sent_bytes} bytes, sealed.\n"
    else:
        text = f"Not joined: {_why(report.blocked_by)}.\n"
        if report.retry_after is not None:
            text += f"Come back in {report.retry_after:.0f} s.\n"
    return Answer(text, dataclasses.asdict(report), 0 if report.joined else 1)


def _status(device: FedRap, arguments: argparse.Namespace) -> Answer:
    status = device.status()
    epsilon = "unbounded" if math.isinf(status.epsilon) else f"{status.epsilon:.2f}"
    lines = [
        f"interactions  {status.interactions}",
        f"consent       {_agreed(status)}",
        f"release       {'none' if status.release is None else status.release}",
        f"rounds        {status.rounds}, epsilon {epsilon}",
        f"to be sent    {status.pending}",
        f"a round now   {'may run' if status.blocked_by is None else _why(status.blocked_by)}",
    ]
    lines += [f"set aside     {words}" for words in status.set_aside]
    if status.privacy is not None:
        lines += _guarantee(status.privacy)
    return Answer("\n".join(lines) + "\n", dataclasses.asdict(status))


def _agreed(status: Status) -> str:
    if status.consented:
        return "yes"
    return "recommendations only" if status.fetching else "no"


def _guarantee(stated: Statement) -> list[str]:
    """The policy of the last round; what this device spent so far stands above."""
    bound = "unbounded" if math.isinf(stated.epsilon) else f"{stated.epsilon:.2f}"
    banded = f", {len(stated.coefficients)} bands" if len(stated.coefficients) > 1 else ""
    days = stated.window_days
    when = "after all rounds" if days is None else f"of what it does in any {days:g} days"
    by_row = "" if stated.row_clip is None else f", {stated.row_clip:g} for a row"
    return [
        f"guarantee     epsilon {bound} at delta {stated.delta:g}, unamplified, {when}",
        *(
            f"  over time   epsilon {one.epsilon:.2f} after {one.windows} such windows"
            for one in stated.lifetime
            if math.isfinite(one.epsilon)
        ),
        f"  unit        {stated.unit}",
        f"  adjacency   {stated.adjacency}",
        f"  rule        at most {stated.cap} rounds, at least {stated.separation} steps apart",
        f"  noise       {stated.noise:g} x clip{banded}",
        f"  clip        {stated.clip:g}{by_row}{', adapts' if stated.clip_adapts else ''}",
        *(f"  assuming    {words}" for words in stated.assumptions),
        *(f"  trusted     {one.who}: {one.with_what}" for one in stated.trusted),
    ]


def _export(device: FedRap, arguments: argparse.Namespace) -> Answer:
    device.export(arguments.file)
    size = arguments.file.stat().st_size
    text = f"Everything known of this user is in {arguments.file}, {size} bytes, readable.\n"
    return Answer(text, {"file": str(arguments.file), "size_bytes": size})


def _erase(device: FedRap, arguments: argparse.Namespace) -> Answer:
    if not arguments.yes:
        raise ValueError("erase deletes the history for good; say so with --yes")
    receipt = dataclasses.asdict(device.erase())
    (arguments.store / _MEMORY).unlink(missing_ok=True)
    lines = [f"{name.replace('_', ' ')}: {_shown(value)}" for name, value in receipt.items()]
    return Answer("Erased.\n" + "\n".join(lines) + "\n", receipt)


def _why(word: str | None) -> str:
    return _ADVICE.get(word or "", word or "no reason given")


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


COMMANDS: dict[str, Callable[[FedRap, argparse.Namespace], Answer]] = {
    "init": _init,
    "record": _record,
    "import": _import,
    "recommend": _recommend,
    "similar": _similar,
    "consent": _consent,
    "hide": _hide,
    "remove": _remove,
    "history": _history,
    "join": _join,
    "status": _status,
    "export": _export,
    "erase": _erase,
}
