"""Which trainer runs, and why."""

from __future__ import annotations

import sys

import pytest

from fedrap.trainers import Choice, TrainerUnavailable, choose_trainer, make_trainer

EMPTY: dict[str, str] = {}


def test_a_single_device_runs_onnx_runtime() -> None:
    choice = choose_trainer(environment=EMPTY)
    assert choice.name == "onnx"
    assert "ONNX Runtime" in choice.reason


def test_the_environment_overrides_and_the_caller_overrides_that() -> None:
    named = {"FEDRAP_TRAINER": "numpy"}
    assert choose_trainer(environment=named) == Choice("numpy", "FEDRAP_TRAINER asks for it")
    assert choose_trainer("torch", environment=named).name == "torch"


@pytest.mark.parametrize("environment", [EMPTY, {"FEDRAP_TRAINER": "cuda"}])
def test_an_unknown_name_is_refused(environment: dict[str, str]) -> None:
    wanted = None if environment else "cuda"
    with pytest.raises(ValueError, match="'cuda'; there are numpy, onnx, torch"):
        choose_trainer(wanted, environment=environment)
    with pytest.raises(ValueError, match="'cuda'"):
        make_trainer("cuda")


def test_numpy_runs_where_onnxruntime_has_no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # makes the import fail
    choice = choose_trainer(environment=EMPTY)
    assert choice.name == "numpy"
    assert "onnxruntime" in choice.reason


def test_a_trainer_asked_for_by_name_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fedrap.trainers.torch_trainer", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TrainerUnavailable, match=r"install fedrap\[torch\]"):
        make_trainer("torch")


@pytest.mark.parametrize("name", ["numpy", "onnx", "torch"])
def test_a_trainer_says_its_name(name: str) -> None:
    assert make_trainer(name).name == name
