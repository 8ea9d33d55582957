"""Commands for what an operator looks at every day: status, rounds, items, releases, quality."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from fedrap_coordinator.admin import table
from fedrap_coordinator.admin.catalogue_files import read_items
from fedrap_coordinator.admin.documents import Figure, QuestionLine, RolloutLine
from fedrap_coordinator.admin.export import export
from fedrap_coordinator.commands.output import (
    act,
    add_action,
    add_group,
    ago,
    columns,
    in_bytes,
    keyring_of,
    limit_of,
    open_admin,
    print_json,
    say,
    settings_of,
    show,
)
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.engine import copy_database, maintain_database
from fedrap_core.privacy.statement import guarantee_in_words
from fedrap_core.questions.gains import METRICS

_FILE = ".csv, .json, .jsonl or one id a line; - is stdin"


def add_operator_commands(commands: Any) -> None:
    """Into the parser of `fedrap-coordinator`."""
    add_action(commands, "status", "what is in the database, in short", _status)
    rounds = add_action(commands, "rounds", "the last rounds, the newest first", _rounds)
    rounds.add_argument("--limit", type=int, default=20)

    items = add_group(commands, "items", "add, import, retire or list items of the catalogue")
    added = add_action(items, "add", "new items from a file", _items_add)
    added.add_argument("file", type=Path, help=_FILE)
    imported = add_action(items, "import", "the same as add", _items_add)
    imported.add_argument("file", type=Path, help=_FILE)
    retired = add_action(items, "retire", "show them no more; rows stay theirs", _items_retire)
    retired.add_argument("file", type=Path, help="as for add; attributes are ignored")
    listed = add_action(items, "list", "items by row", _items_list)
    listed.add_argument("--start", type=int, default=0, help="row to start from")
    listed.add_argument("--limit", type=int, default=100)
    listed.add_argument("--search", default="", help="in ids and attributes")

    releases = add_group(
        commands, "releases", "list versions of C, or publish an earlier one again"
    )
    shown = add_action(releases, "list", "the newest first", _releases_list)
    shown.add_argument("--limit", type=int, default=20)
    back = add_action(releases, "rollback", "an earlier C as a new version", _roll_back)
    back.add_argument("version", type=int)
    went = add_action(releases, "recover", "after a backup came back: go on later", _recover)
    went.add_argument(
        "version", type=int, nargs="?", help="the latest that devices have seen; else the keys' own"
    )
    went.add_argument("step", type=int, nargs="?", help="of that version")

    quality = add_group(
        commands, "quality", "ask devices about it, or note what was measured elsewhere"
    )
    noted = add_action(quality, "add", "a number for the dashboard", _quality_add)
    noted.add_argument("version", type=int)
    noted.add_argument("metric", help="such as ndcg@10")
    noted.add_argument("value", type=float)
    noted.add_argument("--note", default="", help="how it was measured, in a few words")
    add_action(quality, "list", "what was noted and asked, the newest first", _quality_list)
    asked = add_action(
        quality, "ask", "a question to all devices, answered privately", _quality_ask
    )
    asked.add_argument("releases", type=int, nargs="*", help="versions; default: the latest")
    asked.add_argument("--metric", choices=METRICS, default="ndcg10")
    asked.add_argument(
        "--candidate", action="append", default=[], metavar="NAME=VALUE[,NAME=VALUE…]",
        help="scalars instead of those in force, such as ridge=30 or sequence.kappa=0.3",
    )  # fmt: skip
    asked.add_argument("--days", type=float, help="that it is open; default: [questions] days")
    asked.add_argument("--least", type=int, help="answers below which nothing is said")
    asked.add_argument(
        "--light", type=int, default=0, help="show users with at most so many interactions apart"
    )
    asked.add_argument(
        "--lists", action="store_true", help="what lists consist of: popular items, how many"
    )
    add_action(quality, "tune", "let devices choose scalars, question by question", _quality_tune)
    shown = add_action(quality, "show", "what came of a question", _quality_show)
    shown.add_argument("question", help="its id, or the beginning of it")

    staged = add_group(commands, "rollout", "a release to some devices first, then to everybody")
    begun = add_action(
        staged, "start", "stage what the next round learns, or what is named", _rollout_start
    )
    begun.add_argument("--version", type=int, help="an earlier release instead")
    begun.add_argument(
        "--change", metavar="NAME=VALUE[,NAME=VALUE…]",
        help="the latest release with other scalars instead, such as ridge=30",
    )  # fmt: skip
    begun.add_argument(
        "--share", type=float, action="append", default=[],
        help="of the devices, once for each stage; default: [rollouts] shares",
    )  # fmt: skip
    begun.add_argument("--tolerance", type=float, help="lead below zero that is no harm")
    shown = add_action(staged, "status", "the last ones, the newest first", _rollout_status)
    shown.add_argument("--limit", type=int, default=3)
    add_action(staged, "halt", "take the staged release back now", _rollout_halt)
    add_action(staged, "promote", "give the staged release to everybody now", _rollout_promote)

    task = add_group(commands, "task", "a successor of the model: another dim, learnt otherwise")
    add_action(task, "next", "learn one with these settings; the release in use serves on", _next)
    add_action(task, "judge", "stage it to some devices, whose answers decide", _judge)
    add_action(task, "switch", "give it to everybody now", _rollout_promote)
    add_action(task, "drop", "end it; the release in use stays", _rollout_halt)

    saved = add_action(commands, "backup", "copy a SQLite database while it is in use", _backup)
    saved.add_argument("file", type=Path, help="to write; must not be there")
    add_action(commands, "maintain", "give the room of what is gone back to the disk", _maintain)

    out = add_action(commands, "export", "C, items, rounds and the guarantee, as files", _export)
    out.add_argument("folder", type=Path, help="made if it is not there; must be empty")
    out.add_argument("--version", type=int, help="of C; default: the latest")


def _status(arguments: argparse.Namespace) -> int:
    found = act(arguments, table.STATUS, table.Nothing())
    if arguments.json:
        print_json(found)
        return 0
    settings, latest, round_ = settings_of(arguments), found.latest, found.round
    lines = [
        f"devices   {found.devices} enrolled, {found.unused_tokens} tokens unused",
        f"items     {found.items}",
        f"privacy   {guarantee_in_words(settings.privacy)}",
        "release   none yet: add items and serve" if latest is None else
        f"release   v{latest.version}, step {latest.step} of {settings.round.total}, "
        f"{latest.zeros:.0%} zeros, {in_bytes(latest.whole_bytes)} whole, "
        f"made {ago(latest.made_at, SYSTEM.clock())}",
        "round     none is open" if round_ is None else
        f"round     step {round_.step}, {round_.phase}: {round_.accepted} of "
        f"{settings.round.max_updates} updates, {round_.assigned} slots given",
    ]  # fmt: skip
    show("\n".join(lines))
    return 0


def _rounds(arguments: argparse.Namespace) -> int:
    found = act(arguments, table.ROUNDS, table.Rows(limit_of(arguments)))
    if arguments.json:
        print_json(found)
        return 0
    now = SYSTEM.clock()
    rows = [
        [
            str(one.step), one.phase, ago(one.opened_at, now),
            "-" if one.closed_at is None else f"{one.closed_at - one.opened_at:.1f} s",
            str(one.charged), str(one.updates),
            ", ".join(f"{code} {count}" for code, count in sorted(one.refused.items())) or "-",
        ]
        for one in found.rounds
    ]  # fmt: skip
    show(columns(["step", "phase", "opened", "took", "slots", "updates", "refused"], rows))
    return 0


def _read(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _items_add(arguments: argparse.Namespace) -> int:
    file = table.CatalogueFile(str(arguments.file), _read(arguments.file))
    done = act(arguments, table.IMPORT_ITEMS, file)
    if arguments.json:
        print_json(done)
    say(
        f"{done.added} items added, {done.returned} came back, {done.changed} with other attributes"
    )
    return 0


def _items_retire(arguments: argparse.Namespace) -> int:
    names = [item.id for item in read_items(str(arguments.file), _read(arguments.file))]
    done = act(arguments, table.RETIRE_ITEMS, table.ItemNames(names))
    if arguments.json:
        print_json(done)
    count = done.retired
    say(f"{count} items retired" + ("" if count == len(names) else f", of {len(names)} named"))
    return 0


def _items_list(arguments: argparse.Namespace) -> int:
    start = max(0, arguments.start)
    wanted = table.ItemRows(start, limit_of(arguments), arguments.search)
    found = act(arguments, table.ITEMS, wanted)
    if arguments.json:
        print_json(found)
        return 0
    rows = [
        [
            str(one.row), one.item, "retired" if one.retired else "shown",
            ", ".join(f"{name}={value}" for name, value in one.attributes.items()) or "-",
        ]
        for one in found.items
    ]  # fmt: skip
    show(columns(["row", "item", "state", "attributes"], rows))
    return 0


def _releases_list(arguments: argparse.Namespace) -> int:
    found = act(arguments, table.RELEASES, table.Rows(limit_of(arguments)))
    if arguments.json:
        print_json(found)
        return 0
    now = SYSTEM.clock()
    rows = [
        [
            f"v{one.version}", str(one.step), ago(one.made_at, now), str(one.devices),
            str(one.items), f"{one.zeros:.0%}", in_bytes(one.whole_bytes),
            in_bytes(one.delta_bytes),
            ("kept" if one.kept else "dropped")
            + (f", v{one.restores} again" if one.restores else ""),
        ]
        for one in found.releases
    ]  # fmt: skip
    heads = ["version", "step", "made", "updates", "items", "zeros", "whole", "delta", "body"]
    show(columns(heads, rows))
    return 0


def _roll_back(arguments: argparse.Namespace) -> int:
    wanted = table.OneRelease(arguments.version)
    done = act(arguments, table.ROLL_BACK, wanted, keyring_of(arguments))
    if arguments.json:
        print_json(done)
    say(
        f"release {done.version} has the C of release {done.restores}; the open round is "
        f"abandoned, step {done.step + 1} is next, and what was charged stays charged"
    )
    return 0


def _recover(arguments: argparse.Namespace) -> int:
    wanted = table.LastSeen(arguments.version, arguments.step)
    done = act(arguments, table.RECOVER, wanted, keyring_of(arguments))
    if arguments.json:
        print_json(done)
    say(f"release {done.version} goes on with step {done.step + 1}; no step is made a second time")
    return 0


def _backup(arguments: argparse.Namespace) -> int:
    database, path = settings_of(arguments).database, arguments.file
    copy_database(database, path)
    if arguments.json:
        print_json({"written": str(path), "bytes": path.stat().st_size})
    say(f"wrote {path}; keep a copy of the keys too, elsewhere")
    return 0


def _maintain(arguments: argparse.Namespace) -> int:
    before, after = maintain_database(settings_of(arguments).database)
    if arguments.json:
        print_json({"bytes_before": before, "bytes_after": after})
    say(f"{before / 1e6:.1f} MB before, {after / 1e6:.1f} MB now")
    return 0


def _quality_add(arguments: argparse.Namespace) -> int:
    wanted = table.NewQuality(arguments.version, arguments.metric, arguments.value, arguments.note)
    done = act(arguments, table.NOTE_QUALITY, wanted)
    if arguments.json:
        print_json(done)
    say(f"{wanted.metric} of release {wanted.version} is {wanted.value:g}")
    return 0


def _quality_list(arguments: argparse.Namespace) -> int:
    found = act(arguments, table.QUALITY, table.Nothing())
    if arguments.json:
        print_json(found)
        return 0
    rows = [[f"v{q.version}", q.metric, f"{q.value:g}", q.note or "-"] for q in found.quality]
    show(columns(["version", "metric", "value", "note"], rows))
    for one in act(arguments, table.QUESTIONS, table.Rows(20)).questions:
        show(_question_in_words(one))
    return 0


def _quality_ask(arguments: argparse.Namespace) -> int:
    wanted = table.NewQuestion(
        arguments.metric,
        arguments.releases,
        [_scalars(one) for one in arguments.candidate],
        arguments.days,
        arguments.least,
        arguments.light,
        arguments.lists,
    )
    found = act(arguments, table.ASK, wanted)
    if arguments.json:
        print_json(found)
        return 0
    show(_question_in_words(found))
    return 0


def _quality_tune(arguments: argparse.Namespace) -> int:
    found = act(arguments, table.TUNE, table.Nothing())
    if arguments.json:
        print_json(found)
        return 0
    show(_question_in_words(found))
    return 0


def _quality_show(arguments: argparse.Namespace) -> int:
    found = act(arguments, table.QUESTION, table.OneQuestion(arguments.question))
    if arguments.json:
        print_json(found)
        return 0
    show(_question_in_words(found))
    return 0


def _rollout_start(arguments: argparse.Namespace) -> int:
    change = {} if arguments.change is None else _scalars(arguments.change)
    wanted = table.NewRollout(arguments.version, change, arguments.share, arguments.tolerance)
    return _show_rollout(arguments, act(arguments, table.START_ROLLOUT, wanted))


def _rollout_status(arguments: argparse.Namespace) -> int:
    found = act(arguments, table.ROLLOUTS, table.Rows(arguments.limit))
    if arguments.json:
        print_json(found)
        return 0
    for one in found.rollouts:
        show(_rollout_in_words(one))
    if not found.rollouts:
        show("nothing was rolled out yet")
    return 0


def _next(arguments: argparse.Namespace) -> int:
    status = _show_rollout(arguments, act(arguments, table.NEXT_TASK, table.Nothing()))
    say("restart `serve` with these settings: rounds learn the successor from then on")
    return status


def _judge(arguments: argparse.Namespace) -> int:
    return _show_rollout(arguments, act(arguments, table.JUDGE_TASK, table.Nothing()))


def _rollout_halt(arguments: argparse.Namespace) -> int:
    return _show_rollout(arguments, act(arguments, table.HALT_ROLLOUT, table.Nothing()))


def _rollout_promote(arguments: argparse.Namespace) -> int:
    return _show_rollout(arguments, act(arguments, table.PROMOTE_ROLLOUT, table.Nothing()))


def _show_rollout(arguments: argparse.Namespace, found: RolloutLine) -> int:
    if arguments.json:
        print_json(found)
    else:
        show(_rollout_in_words(found))
    return 0


def _rollout_in_words(one: RolloutLine) -> str:
    what = one.source if one.version is None else f"v{one.version} beside v{one.base}"
    lines = [f"roll-out  {one.id[:12]}: {what}, {one.state}{one.reason and f' ({one.reason})'}"]
    for stage in one.stages:
        said = f"  {stage.share:<10.3%} {stage.state}, {stage.answers} answers"
        if stage.lead is not None:
            said += f", lead {_figure(stage.lead, signed=True)} of {stage.devices:.0f} devices"
        lines.append(said)
    return "\n".join(lines)


def _scalars(text: str) -> dict[str, float]:
    """`ridge=30,beta=0` as names and numbers."""
    try:
        pairs = [one.partition("=") for one in text.split(",")]
        return {name.strip(): float(value) for name, _, value in pairs}
    except ValueError:
        raise ConfigError(f"{text!r}: NAME=VALUE is expected") from None


def _question_in_words(one: QuestionLine) -> str:
    cost = "no guarantee" if one.epsilon is None else f"epsilon {one.epsilon:.2f} for each answer"
    what = "lists" if one.about_lists else one.metric
    lines = [
        f"question  {one.id[:12]}: {what}, {one.state}, {one.answers} answers of at least "
        f"{one.least}, noise {one.noise:.2f} ({cost})"
    ]
    opponents = ["the popular list", "what is popular lately"]
    names = [json.dumps(variant) for variant in one.variants[1:]] or opponents
    for found in one.results:
        where = f"v{found.release}" + ("" if found.group == "all" else f" {found.group}")
        if found.mean is None:
            lines.append(f"  {where:<10} too few devices had something to say")
            continue
        lines.append(f"  {where:<10} {_figure(found.mean)} of {found.devices:.0f} devices")
        signs = zip(names, found.compared, strict=False)
        lines += [f"  {'':<10} {_figure(each, signed=True)}  {name}" for name, each in signs]
    if one.lists is not None:
        said, where = one.lists, f"v{one.lists.release}"
        lines.append(f"  {where:<10} {_figure(said.popular)} of lists are popular items")
        items = f"{said.items.value:.0f} ({said.items.low:.0f} to {said.items.high:.0f})"
        lines.append(f"  {'':<10} as varied as {items} items, all as frequent")
    return "\n".join(lines)


def _figure(one: Figure, *, signed: bool = False) -> str:
    kind = "+.4f" if signed else ".4f"
    return f"{one.value:{kind}} ({one.low:{kind}} to {one.high:{kind}})"


def _export(arguments: argparse.Namespace) -> int:
    async def run() -> dict[str, str]:
        async with open_admin(arguments) as admin:
            return await export(admin, arguments.folder, arguments.version)

    written = asyncio.run(run())
    if arguments.json:
        print_json(written)
    else:
        show("\n".join(f"{name:<14} {what}" for name, what in written.items()))
    return 0
