"""FedRAP as published (Li, Long, Zhou, ICLR 2024) and its variants, to be measured.

Under `clean` the settings and the number of rounds are chosen on the validation task. Under
`paper` it does as the authors' code does: every few rounds it looks at the test itself and keeps
the best. That is a second leak beside the sampler's, and the settings say so.

`FedRap.learn` gives the model after every round, which is what a plot of convergence needs.

CentRAP, the centralised twin of FedRAP: the same objective with all data in one place.

In each step every user moves u and D once, and C moves by the mean of the users' steps, as in
`paper_centralised`; devices, of which there are none, pay nothing. FedRAP takes ten local steps
before C is averaged, so there are ten times as many steps here as rounds there, and each has a
tenth of the decay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import msgspec
import numpy as np

from fedrap_core.paper.averaging import Averaging
from fedrap_core.paper.variants import NAMES, Variant, make_variant
from fedrap_core.plan import PaperMethod
from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.engine.paper_rounds import PaperDevices, paper_rounds
from fedrap_simulation.evaluation.metrics import hits, measure
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import FREE, Cost, Fitted, OnProgress, Scores
from fedrap_simulation.methods.tuning import Patience, choose_epochs, require_validation, run

Selection = Literal["as given", "validation"]
LEAKY = "best test round (leaky)"
PLAN = PaperMethod()

# What the authors ran: their README for ML-100K, with a lambda that does not run away (erratum 2),
# and their log of ML-1M. The first is better with D, the second without.
PUBLISHED: tuple[dict[str, float], ...] = (
    {"apart": 1e-3, "sparse": 1e-3, "user_rate": 1e-4},
    {"apart": 1e-2, "sparse": 1e-2, "user_rate": 0.5},
)


@dataclass(frozen=True, eq=False)
class Personalised:
    """Everybody's model after some rounds: z = <u, C + D> + b."""

    people: PaperDevices
    cost: Cost

    def scores(self, users: Rows) -> Scores:
        """(len(users), m)."""
        return self.people.scores(users)


@dataclass(frozen=True, eq=False)
class KeptScores:
    """The scores of a round that is past: less to keep than D by a factor of k."""

    table: Scores  # (U, m)
    cost: Cost
    rounds: int

    def scores(self, users: Rows) -> Scores:
        """(len(users), m)."""
        return self.table[users].copy()


@dataclass(frozen=True)
class FedRap:
    """One variant by its name in the paper; `fedrap` itself is called `fedrap-paper` here."""

    variant: str = "fedrap"
    plan: PaperMethod = PLAN  # what the variant changes
    epochs: int = 40  # rounds; the rates have fallen to a third by then
    longest: int = 100  # rounds at most, where their number is chosen; the paper's
    look: int = 5  # rounds between two looks at the quality
    threshold: float = 0.0  # of the coordinator's proximal step over all of C; not in the paper
    alike: bool = True  # whether all devices start with the same D, as in the authors' code
    selection: Selection = "as given"  # how `epochs` was chosen
    peek: bool = True  # whether a test under the paper protocol is looked at, as published

    @property
    def name(self) -> str:
        """As the command line knows it."""
        return "fedrap-paper" if self.variant == "fedrap" else self.variant

    @property
    def settings(self) -> dict[str, Any]:
        """The plan as the variant changed it, and what is ours."""
        made = self.made(0)
        out: dict[str, Any] = msgspec.to_builtins(made.method)
        for key in ("name", "seed"):  # the seed is that of the fit
            del out[key]
        out["local_epochs"] = out.pop("epochs")
        if made.privacy.noise > 0:
            out |= {"clip": made.privacy.clip, "noise": made.privacy.noise}
        ours = {"rounds": self.epochs, "threshold": self.threshold, "alike": self.alike}
        selection = {"clean": self.selection, "paper": LEAKY if self.peek else self.selection}
        return out | ours | {"longest": self.longest, "selection": selection}

    def made(self, seed: int) -> Variant:
        """The variant with the u that this seed starts everybody from.

        Raises:
            ValueError: there is no such variant; the message lists those there are.
        """
        return make_variant(self.variant, msgspec.structs.replace(self.plan, seed=seed))

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Choose published settings and the number of rounds; nothing under `paper`.

        There the authors' way follows in `fit`, which looks at the test.
        """
        require_validation(task)
        if task.protocol == "paper" and self.peek:
            on_progress(1.0, f"{self.name}: rounds are chosen on the test, as published")
            return self
        candidates = [
            replace(self, plan=msgspec.structs.replace(self.plan, **change), selection="validation")
            for change in PUBLISHED
        ]
        patience = Patience(longest=self.longest, wait=4, every=self.look)
        return choose_epochs(candidates, task, seed, on_progress, patience)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Do `epochs` rounds with every device, or `longest` where the best test is kept."""
        if task.protocol == "paper" and task.stage == "test" and self.peek:
            return best_on_test(self, task, seed, on_progress)
        return run(self, task, seed, on_progress)

    def learn(self, task: Task, seed: int) -> Iterator[Personalised]:
        """The model after each round, without end; only the newest state is valid."""
        made = self.made(seed)
        rounds = paper_rounds(
            task,
            made.method,
            seed,
            privacy=made.privacy if made.privacy.noise > 0 else None,
            averaging=Averaging(threshold=self.threshold),
            alike=self.alike,
        )
        for people in rounds:
            yield Personalised(people, FREE if made.centralised else dense_cost(people, made))


def dense_cost(people: PaperDevices, made: Variant) -> Cost:
    """As published: all of C as float32 both ways, in every round; nothing where there is no C."""
    common = people.model.common  # (m, k)
    if not made.method.common:
        return Cost(people.rounds)
    size = 4.0 * common.size
    return Cost(people.rounds, size, size, zeros=float(np.mean(common == 0.0)))


def best_on_test(method: FedRap, task: Task, seed: int, on_progress: OnProgress) -> KeptScores:
    """The round with the best HR@10 on the test itself; of equals the last, as published."""
    best: KeptScores | None = None
    best_rate = -1.0
    everybody = np.arange(task.users)
    looks = {*range(method.look, method.longest, method.look), method.longest}
    for step, fitted in enumerate(method.learn(task, seed), start=1):
        if step in looks:
            now = KeptScores(fitted.scores(everybody), fitted.cost, step)
            rate = float(hits(measure(now, task).sampled).mean())
            if rate >= best_rate:
                best, best_rate = now, rate
            on_progress(step / method.longest, f"{method.name} round {step}: test HR@10 {rate:.4f}")
        if step >= method.longest:
            break
    assert best is not None
    return best


FEDERATED = tuple(FedRap(name) for name in NAMES if name != "centrap")


CENTRAP = FedRap(
    "centrap",
    plan=msgspec.structs.replace(PLAN, round_decay=PLAN.round_decay ** (1.0 / PLAN.epochs)),
    epochs=40 * PLAN.epochs,  # steps
    longest=100 * PLAN.epochs,
    look=5 * PLAN.epochs,
)
