"""What is to be reproduced, how large, and the commands that would do it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrap_core.paper.variants import NAMES as PAPER_NAMES
from fedrap_simulation.evaluation.task import ProtocolName

Changes = Mapping[str, Any]
PAPER_METHODS = ("fedrap-paper", *(name for name in PAPER_NAMES if name != "fedrap"))
SOLVE_METHODS = ("fedrap", "c-only")


@dataclass(frozen=True)
class ReportRequest:
    """What was asked for on the command line."""

    data: str = "ml-100k"
    out: Path = Path("reproduce")
    seeds: int = 1
    only: tuple[str, ...] = ()  # names of sections; all if empty
    quick: bool = False
    data_dir: Path | None = None
    cache: Path | None = None  # `out`/cache unless said
    docs: Path | None = None


@dataclass(frozen=True)
class Regime:
    """How a part of the devices is led to the end."""

    part: float  # of the devices in one round
    rounds: int
    eta: float
    decay: float
    every: int  # rounds between two looks


@dataclass(frozen=True)
class Scale:
    """How much work each section is."""

    tune: bool
    clean: tuple[str, ...]  # methods of the comparison
    leaky: tuple[str, ...]  # those of them that see the leak, and popularity
    rounds: int  # of a convergence curve
    every: int  # rounds between two looks at it
    regimes: tuple[Regime, ...]
    zeros: tuple[float, ...]  # shares of exact zeros in C
    epsilons: tuple[float, ...]  # of the privacy guarantees
    kept: tuple[float, ...]  # shares of each history
    thinned: tuple[str, ...]  # methods that learn from them
    sample: int  # items in a t-SNE
    paper: Changes = field(default_factory=dict)  # to settings of the paper's variants
    solve: Changes = field(default_factory=dict)  # to settings of `solve`

    def changes(self, method: str) -> dict[str, Any]:
        """What this scale changes in a method."""
        if method in PAPER_METHODS:
            return dict(self.paper)
        return dict(self.solve) if method in SOLVE_METHODS else {}


_CLEAN = (
    "popularity", "itemknn", "ease", "ials", "ncf", "lightgcn", "sasrec", "centrap",
    "fedmf", "fedncf", "pfedrec", "fedrap-paper", "c-only", "fedrap",
)  # fmt: skip
_LEAKY = (
    "popularity", "ncf", "lightgcn", "centrap", "fedmf", "fedncf", "pfedrec", "fedrap-paper",
)  # fmt: skip

FULL = Scale(
    tune=True,
    clean=_CLEAN,
    leaky=_LEAKY,
    rounds=100,
    every=5,
    regimes=(
        Regime(0.02, 300, 0.1, 0.995, 6),
        Regime(0.1, 100, 0.2, 0.985, 2),
        Regime(1.0, 20, 0.5, 1.0, 1),
    ),
    zeros=(0.0, 0.3, 0.5, 0.6, 0.7, 0.8),
    epsilons=(1.0, 2.0, 4.0, 8.0),
    kept=(0.2, 0.4, 0.6, 0.8, 1.0),
    thinned=("popularity", "ials", "fedrap"),
    sample=600,
)

QUICK = Scale(
    tune=False,
    clean=("popularity", "ease", "fedrap-paper", "c-only", "fedrap"),
    leaky=("popularity", "fedrap-paper"),
    rounds=4,
    every=2,
    regimes=(Regime(0.1, 6, 0.2, 0.985, 2), Regime(1.0, 4, 0.5, 1.0, 1)),
    zeros=(0.0, 0.5),
    epsilons=(8.0, 64.0),
    kept=(0.5, 1.0),
    thinned=("popularity", "fedrap"),
    sample=60,
    paper={"epochs": 3, "longest": 4, "look": 2, "plan.dim": 8, "plan.epochs": 3},
    solve={"schedule.rounds": 6, "schedule.part": 0.5, "method.dim": 8},
)


@dataclass(frozen=True)
class Ask:
    """One line of a table: a method with some settings changed, and what it is called there."""

    method: str
    label: str = ""
    changes: Changes = field(default_factory=dict)
    tune: bool = True  # False: built-in settings, where choosing would take hours

    @property
    def name(self) -> str:
        """What stands in the table."""
        return self.label or self.method


@dataclass(frozen=True)
class Frame:
    """What every table says of itself."""

    request: ReportRequest
    scale: Scale
    split: str
    users: int
    items: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """From 0 on."""
        return tuple(range(self.request.seeds))

    def changes(self, ask: Ask) -> dict[str, Any]:
        """All that differs from a method's built-in settings."""
        return self.scale.changes(ask.method) | dict(ask.changes)

    def evaluate(self, asks: Sequence[Ask], protocol: ProtocolName) -> str:
        """The commands that make these lines again: one for each way to change a method."""
        rest = f"--protocol {protocol} --seeds {self.request.seeds}"
        chosen = self.scale.tune and all(ask.tune for ask in asks)
        rest += "" if chosen else " --no-tune"
        groups: list[list[Ask]] = []
        for ask in asks:
            for group in groups:
                if ask.method not in {one.method for one in group}:
                    group.append(ask)
                    break
            else:
                groups.append([ask])
        lines = []
        for group in groups:
            sets = [
                f" --set {one.method}.{key}={json.dumps(value)}"
                for one in group
                for key, value in self.changes(one).items()
            ]
            methods = ",".join(one.method for one in group)
            data = shlex.quote(self.request.data)
            lines.append(f"fedrap-sim evaluate --data {data} --method {methods} {rest}")
            lines[-1] += "".join(sets)
        return "\n".join(lines)

    def reproduce(self, section: str) -> str:
        """The command that makes a section again."""
        quick = " --quick" if self.request.quick else ""
        data = shlex.quote(self.request.data)
        return (
            f"fedrap-sim reproduce --data {data} --seeds {self.request.seeds} --only {section}"
            + (quick)
        )
