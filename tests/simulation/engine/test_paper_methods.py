"""FedRAP and its variants as methods to be measured: names, costs, and how rounds are chosen."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fedrap_core.paper.variants import NAMES
from fedrap_core.plan import PaperMethod
from fedrap_simulation.data.load import load
from fedrap_simulation.evaluation.metrics import hits, measure
from fedrap_simulation.evaluation.splits import Split, make_split
from fedrap_simulation.evaluation.task import ProtocolName
from fedrap_simulation.methods.paper import CENTRAP, FEDERATED, FedRap, KeptScores, Personalised
from fedrap_simulation.methods.protocol import Method, no_progress
from fedrap_simulation.methods.tuning import quality

SMALL = PaperMethod(dim=8, epochs=3)
ALL = [*FEDERATED, CENTRAP]


@cache
def split(protocol: ProtocolName = "clean") -> Split:
    return make_split(load("synthetic:users=120,items=260,seed=6"), 0, protocol=protocol)


def named(method: Method) -> str:
    return method.name


def test_every_variant_of_the_paper_is_there_by_name() -> None:
    assert [one.name for one in ALL] == ["fedrap-paper", *NAMES[1:]]
    with pytest.raises(ValueError, match="no variant 'fedrap-x'; there are fedrap, fedrap-c"):
        FedRap("fedrap-x").made(0)


@pytest.mark.parametrize("method", ALL, ids=named)
def test_a_variant_learns_scores_and_says_what_it_cost(method: FedRap) -> None:
    task = split().test
    small = replace(method, plan=SMALL, epochs=3)
    told: list[float] = []
    fitted = small.fit(task, 1, lambda share, _words: told.append(share))
    scores = fitted.scores(np.array([7, 2]))
    assert scores.shape == (2, task.items)
    assert scores.dtype == np.float32
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores[1:], fitted.scores(np.array([2])))
    np.testing.assert_array_equal(scores, small.fit(task, 1, no_progress).scores(np.array([7, 2])))
    assert told[-1] == 1.0
    assert json.loads(json.dumps(small.settings)) == small.settings
    dense = 4.0 * task.items * SMALL.dim
    if method.name == "centrap":
        assert (fitted.cost.rounds, fitted.cost.bytes_up) == (0, 0.0)
    elif method.name == "fedrap-d":
        assert (fitted.cost.rounds, fitted.cost.bytes_up) == (3, 0.0)
        assert fitted.cost.zeros is None
    else:
        assert (fitted.cost.bytes_up, fitted.cost.bytes_down) == (dense, dense)
        assert fitted.cost.zeros == 0.0  # erratum 4: the mean of sparse matrices is not sparse


def test_variants_differ_from_each_other() -> None:
    task = split().test
    scores = [
        replace(one, plan=SMALL, epochs=3).fit(task, 1, no_progress).scores(np.arange(5))
        for one in ALL
    ]
    for place, one in enumerate(scores):
        for other in scores[:place]:
            assert not np.array_equal(one, other)


def test_a_score_is_the_papers_z() -> None:
    fitted = replace(FedRap(), plan=SMALL, epochs=2).fit(split().test, 1, no_progress)
    assert isinstance(fitted, Personalised)
    model = fitted.people.model
    wanted = (model.common + model.personal[3]) @ model.user[3] + model.bias[3]
    np.testing.assert_allclose(fitted.scores(np.array([3]))[0], wanted, rtol=1e-4, atol=1e-5)


def test_under_clean_rounds_are_chosen_on_the_validation_and_only_there() -> None:
    method = FedRap(plan=SMALL, longest=8, look=2)
    chosen = method.tune(split().validation, 1, no_progress)
    assert chosen.selection == "validation"
    assert chosen.settings["rounds"] in (2, 4, 6, 8)
    assert chosen.settings["user_rate"] in (1e-4, 0.5)
    best = quality(chosen.fit(split().validation, 1, no_progress), split().validation)
    plain = replace(chosen, epochs=8 if chosen.epochs == 2 else 2)
    assert best >= quality(plain.fit(split().validation, 1, no_progress), split().validation)
    with pytest.raises(ValueError, match="validation task, but this is the test task"):
        method.tune(split().test, 1, no_progress)


def test_under_paper_the_best_test_round_is_kept_and_the_settings_say_so() -> None:
    leaky = split("paper")
    method = FedRap(plan=SMALL, longest=9, look=2)
    assert method.tune(leaky.validation, 1, no_progress) == method
    assert method.settings["selection"]["paper"] == "best test round (leaky)"
    kept = method.fit(leaky.test, 1, no_progress)
    assert isinstance(kept, KeptScores)
    rates = {}
    for step, fitted in enumerate(method.learn(leaky.test, 1), start=1):
        rates[step] = hits(measure(fitted, leaky.test).sampled).mean()
        if step == 9:
            break
    looked = {step: rates[step] for step in (2, 4, 6, 8, 9)}
    assert rates[kept.rounds] == max(looked.values())
    assert hits(measure(kept, leaky.test).sampled).mean() == max(looked.values())


def test_nobody_looks_at_the_answers_of_a_clean_task() -> None:
    task = split().test
    method = FedRap(plan=SMALL, epochs=3)
    other = replace(task, targets=np.roll(task.targets, 1))
    first, second = method.fit(task, 1, no_progress), method.fit(other, 1, no_progress)
    everybody = np.arange(task.users)
    np.testing.assert_array_equal(first.scores(everybody), second.scores(everybody))
    assert method.settings["selection"]["clean"] == "as given"


def test_the_look_at_the_test_can_be_left_out() -> None:
    leaky = split("paper")
    method = FedRap(plan=SMALL, epochs=3, peek=False)
    assert method.settings["selection"]["paper"] == "as given"
    assert method.fit(leaky.test, 1, no_progress).cost.rounds == 3


@pytest.mark.skipif("FEDRAP_DATA" not in os.environ, reason="FEDRAP_DATA says where ml-100k is")
def test_the_published_accuracy_comes_from_the_leak() -> None:
    data = load("ml-100k")
    found = {}
    for protocol in ("paper", "clean"):
        task = make_split(data, 0, protocol=protocol).test
        found[protocol] = measure(FedRap(peek=False).fit(task, 0, no_progress), task).summary()
    assert found["paper"]["hr10"] > 0.95
    assert found["paper"]["ndcg10"] > 0.84
    assert found["clean"]["hr10"] < 0.25
    assert found["clean"]["ndcg10"] < 0.15
