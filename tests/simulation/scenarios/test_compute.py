"""Local rounds on a Ray cluster are the same rounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedrap_core.errors import FedRapError
from fedrap_simulation.scenarios.compute import Engine, LocalEngine, RayEngine, make_engine
from fedrap_simulation.scenarios.runner import run_scenario
from fedrap_simulation.scenarios.scenario import load_scenario
from tests.simulation.scenarios.test_scenarios_run import SMALL

KEYS = SMALL | {"days": 0.6, "coordinator.round.total": 4, "coordinator.round.min_seconds": 600}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Engine]:
    """Two workers on this machine.

    Ray gives its own processes thirty seconds to start, which a busy machine may need several of.
    Where even that is not enough the test is skipped: it is about rounds, not about Ray.
    """
    ray = pytest.importorskip("ray", reason="ray is not installed")
    for tries_left in (2, 1, 0):
        try:
            engine = RayEngine()
            break
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            ray.shutdown()
            if tries_left == 0:
                pytest.skip("this machine is too busy for Ray, which did not start in three tries")
    yield engine
    engine.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_two_workers_give_what_one_machine_gives(tmp_path: Path, cluster: Engine) -> None:
    scenario = load_scenario("quiet", KEYS)
    alone = run_scenario(scenario, LocalEngine(), tmp_path, lambda done, words: None)
    spread = run_scenario(scenario, cluster, tmp_path, lambda done, words: None)
    assert alone.released
    assert spread.engine == "ray"
    assert spread.digest == alone.digest
    assert [one.ndcg10 for one in spread.looks] == pytest.approx(
        [one.ndcg10 for one in alone.looks], abs=1e-9
    )
    assert spread.reports == alone.reports


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(FedRapError, match=r"fedrap-simulation\[ray\]"):
        make_engine("ray")
