"""`fedrap-sim demo`: a coordinator, devices and rounds on this machine, with progress on screen."""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from fedrap import Recommendation
from fedrap_core.paper.variants import NAMES
from fedrap_core.privacy.accounting import charged_epsilon
from fedrap_simulation.progress import ProgressBars
from fedrap_simulation.scenarios.demo import (
    DemoPlan,
    DemoResult,
    RoundLine,
    result_json,
    run_demo,
)


def add_demo_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`fedrap-sim demo`."""
    default = DemoPlan()
    demo = commands.add_parser("demo", help="a coordinator, devices and rounds on this machine")
    demo.add_argument(
        "--method",
        default=default.method,
        choices=["solve", *(name for name in NAMES if name != "centrap")],
        help="solve, or a variant of the paper",
    )
    demo.add_argument("--devices", type=int, default=default.shape.users)
    demo.add_argument("--items", type=int, default=default.shape.items)
    demo.add_argument("--rounds", type=int, default=default.rounds)
    demo.add_argument("--dim", type=int, default=default.dim, help="k, numbers per item")
    demo.add_argument("--noise", type=float, default=default.noise, help="z, in units of the clip")
    demo.add_argument("--clip", type=float, default=default.clip, help="S, norm of one update")
    demo.add_argument("--seed", type=int, default=default.seed)
    demo.add_argument(
        "--split",
        action="store_true",
        help="with a helper, a second process: neither server reads an update (experimental)",
    )
    demo.add_argument("--json", type=Path, help="write the result here as well")
    demo.add_argument("--svg", type=Path, help="save what is shown as a picture")
    demo.set_defaults(run=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    if arguments.devices < 4 or arguments.rounds < 1:
        raise ValueError("the demo needs at least 4 devices and 1 round")
    shape = replace(DemoPlan().shape, users=arguments.devices, items=arguments.items)
    plan = DemoPlan(
        shape=shape,
        method=arguments.method,
        rounds=arguments.rounds,
        dim=arguments.dim,
        noise=arguments.noise,
        clip=arguments.clip,
        seed=arguments.seed,
        split=arguments.split,
    )
    screen = Screen(plan, width=118 if arguments.svg else None)
    with tempfile.TemporaryDirectory(prefix="fedrap-demo-") as folder, screen:
        result = asyncio.run(run_demo(plan, Path(folder), screen.line))
    screen.result(result)
    if arguments.json is not None:
        arguments.json.write_bytes(result_json(result))
    if arguments.svg is not None:
        screen.save_picture(arguments.svg)
    return 0


class Screen(ProgressBars):
    """A bar over the rounds, then the table and the example."""

    def __init__(self, plan: DemoPlan, width: int | None = None) -> None:
        super().__init__(width=width, record=True)
        self._plan = plan
        self._bytes = 0
        self.print(
            f"[bold]FedRAP demo[/bold]: 1 coordinator (HTTP on loopback, SQLite), "
            f"{plan.shape.users} devices of the real SDK, {plan.shape.items} items, "
            f"{plan.rounds} rounds of {plan.method}, seed {plan.seed}"
        )
        self.update(0.0, what=f"round   0/{plan.rounds}", words="devices are enrolling …")

    def line(self, line: RoundLine) -> None:
        """One round is over."""
        self._bytes += line.upload_bytes
        note = (
            f"{line.participants} devices   loss {line.loss:.3f}   "
            f"{self._bytes / 1e6:.2f} MB up in all"
        )
        what = f"round {line.round:>3}/{self._plan.rounds}"
        self.update(line.round / self._plan.rounds, what=what, words=note)
        if not self.console.is_terminal:  # a log gets a line a round instead of a bar
            self.print(f"{what}  {note}")

    def result(self, result: DemoResult) -> None:
        """The table and the example."""
        self.console.print(_summary(result))
        self.console.print(_example(result))

    def save_picture(self, path: Path) -> None:
        """Everything shown so far as an SVG picture that fetches nothing from anywhere."""
        picture = self.console.export_svg(title="make demo")
        path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))


def _summary(result: DemoResult) -> Table:
    table = Table(title="what the devices got", title_justify="left", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    table.add_column(justify="left", style="dim")
    table.add_row(
        "HR@10, held-out item",
        f"{result.hr10:.3f}",
        "of `recommend(10)`, full ranking, unseen",
    )
    table.add_row("  popularity", f"{result.hr10_popularity:.3f}", "the same list for everybody")
    table.add_row("  C that never learnt", f"{result.hr10_frozen:.3f}", "no federation")
    table.add_row("  planted truth", f"{result.hr10_planted:.3f}", "knows how users were drawn")
    share = result.upload_bytes_per_update / result.dense_bytes
    table.add_row(
        "upload per device and round",
        f"{result.upload_bytes_per_update / 1000:.1f} kB",
        f"{share:.0%} of C as dense float32 ({result.dense_bytes / 1000:.1f} kB); sealed, padded",
    )
    table.add_row("zeros in C", f"{result.zeros_in_c:.0%}", "exact: the smallest entries")
    table.add_row("epsilon charged", *_epsilon_words(result))
    return table


def _epsilon_words(result: DemoResult) -> tuple[str, str]:
    rounds = f"{result.participations} rounds a device"
    if result.epsilon is None:
        return "infinite", f"no noise, so nothing is guaranteed ({rounds})"
    words = [f"delta {result.delta:.0e}, noise {result.noise:g} x clip, {rounds}, unamplified"]
    # At equal noise per device the noise of the sum grows with their number, and epsilon falls.
    for times in (10, 100):
        spent = charged_epsilon(result.participations, result.noise * times, result.delta)
        words.append(f"{result.devices * times:,} devices, same noise per device: {spent:.1f}")
    return f"{result.epsilon:.1f}", "\n".join(words)


def _example(result: DemoResult) -> Table:
    newest = ", ".join(result.example_history[:3])
    table = Table(
        title=f"one device's top ten, computed on it (newest items: {newest})",
        title_justify="left",
    )
    table.add_column("item")
    for name in ("score", "shared view", "personal view"):
        table.add_column(name, justify="right")
    table.add_column("because of", style="dim")
    for one in result.example:
        table.add_row(
            one.item,
            f"{one.score:+.3f}",
            f"{one.shared:+.3f}",
            f"{one.personal:+.3f}",
            _because(one),
        )
    return table


def _because(one: Recommendation) -> str:
    strongest = one.reasons[:2]
    return ", ".join(f"{why.item} {why.shared + why.personal:+.3f}" for why in strongest)
