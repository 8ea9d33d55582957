"""`fedrap-init`: what `init` writes, chosen by nobody, and what is withheld comes last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap_coordinator.privacy.recipe import Expected, derive
from fedrap_core.plan import SolveMethod, sequence_of
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.popularity import Popularity
from fedrap_simulation.methods.protocol import no_progress
from fedrap_simulation.methods.shipped import Shipped, ShippedFitted, settings_for
from fedrap_simulation.methods.tuning import quality

from .planted import fit_once, planted_split

SMALL = """
[round]
min_updates = 20
max_updates = 50
total = 30
[method]
name = "solve"
dim = 8
[method.sequence]
dim = 8
[privacy]
clip = 100.0
row_clip = 1.5
noise = 0.0
cap = 10
[learning]
population = 200
density = 0.09
row_step = 0.1
min_support = 3.0
[sequence]
rounds = 30
[scoring.sequence]
solve = 4.0
"""


@pytest.fixture
def small(tmp_path: Path) -> Shipped:
    """What an operator's own file says, in a size that takes no time."""
    file = tmp_path / "fedrap.toml"
    file.write_text(SMALL)
    return Shipped(file=str(file))


def test_settings_are_those_of_init_for_as_many_devices_and_items() -> None:
    task = planted_split().test
    mean = float(task.train.lengths.mean())
    assert settings_for(task) == derive(Expected(task.users, task.items, None, mean)).settings


def test_without_order_each_item_is_learnt_from_all_others() -> None:
    method = settings_for(replace(planted_split().test, ordered=False)).method
    assert isinstance(method, SolveMethod)
    part = sequence_of(method)
    assert method.order == 0.0
    assert part is not None
    assert not part.ordered


def test_nothing_is_chosen_and_what_is_written_is_printed() -> None:
    """`tune` may be given anything: it looks at sizes, and at no answer."""
    split = planted_split()
    asked: Task = split.validation
    other = replace(asked, targets=np.roll(asked.targets, 1))
    first, second = (Shipped().tune(task, 0, no_progress).settings for task in (asked, other))
    assert first == second
    plain = msgspec.json.decode(msgspec.json.encode(settings_for(asked)))
    assert first["method"] == plain["method"]
    assert first["privacy"]["row_clip"] == plain["privacy"]["row_clip"]


def test_an_operator_s_file_finds_planted_tastes_with_all_that_protects(small: Shipped) -> None:
    task = planted_split().test
    ours, popular = small.fit(task, 3, no_progress), fit_once(Popularity())[0]
    assert quality(ours, task) > 1.4 * quality(popular, task)
    assert small.tune(task, 0, no_progress).settings["method"]["dim"] == 8
    assert ours.cost.rounds == 30
    assert ours.cost.bytes_up > 0
    assert ours.scores(np.array([5, 1])).shape == (2, task.items)
    # What too few stand behind comes last, and nothing else is moved by that.
    hidden = np.zeros(task.items, dtype=np.bool_)
    hidden[[3, 7]] = True
    scores = replace(ours, withheld=hidden).scores(np.arange(4))
    plain = replace(ours, withheld=np.zeros_like(hidden)).scores(np.arange(4))
    assert isinstance(ours, ShippedFitted)
    assert np.isneginf(scores[:, hidden]).all()
    assert np.array_equal(scores[:, ~hidden], plain[:, ~hidden])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            SMALL.replace("noise = 0.0", "noise = 1.0").replace("min_support = 3.0", ""),
            "fedrap-init runs without",
        ),
        (SMALL.replace("total = 30", "totl = 30"), "totl"),
        (SMALL.replace("= 20", "= 150").replace("= 50", "= 150"), "of 200 devices here 100 may"),
        ('[method]\nname = "paper"\n[privacy]\nnoise = 0.0\n', "fedrap-init runs solve"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "fedrap.toml"
    file.write_text(text)
    with pytest.raises(BadData, match=said):
        settings_for(planted_split().test, str(file))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="none"):
        settings_for(planted_split().test, str(tmp_path / "none.toml"))
