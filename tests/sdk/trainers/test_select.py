"""Which trainer runs, and why."""

from __future__ import annotations

import sys

import pytest

from fedrap.trainers import Choice, TrainerUnavailable, choose_trainer, make_trainer
from fedrap.trainers.select import WORTH_AN_ACCELERATOR, ThisMachine, work_of
from fedrap_core.plan import PaperMethod, SequenceMethod, SolveMethod

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


class Pretended:
    """A machine with these accelerators."""

    def __init__(self, *providers: str, torch: str | None = None) -> None:
        self._providers = [*providers, "CPUExecutionProvider"]
        self._torch = torch
        self.torch_was_asked = False

    def providers(self) -> list[str]:
        return self._providers

    def torch_device(self) -> str | None:
        self.torch_was_asked = True
        return self._torch


CUDA = "CUDAExecutionProvider"
LARGE = work_of(SolveMethod(sequence=SequenceMethod()), 100_000)


def test_work_is_what_the_softmax_of_the_sequence_part_takes() -> None:
    assert LARGE == 100_000 * 64 * 32 >= WORTH_AN_ACCELERATOR
    assert work_of(SolveMethod(), 100_000) == 0
    assert work_of(PaperMethod(), 100_000) == 0


@pytest.mark.parametrize(
    ("machine", "name", "provider", "words"),
    [
        (Pretended(CUDA, torch="cuda"), "onnx", CUDA, "has CUDA"),
        (Pretended("DmlExecutionProvider"), "onnx", "DmlExecutionProvider", "has Dml"),
        (Pretended("CoreMLExecutionProvider"), "onnx", "CoreMLExecutionProvider", "has CoreML"),
        (Pretended("NnapiExecutionProvider"), "onnx", "NnapiExecutionProvider", "has Nnapi"),
        (Pretended("AzureExecutionProvider", torch="mps"), "torch", "", "torch has mps"),
        (Pretended(), "onnx", "", "there is none"),
    ],
    ids=["cuda", "directml", "coreml", "nnapi", "torch", "none"],
)  # fmt: skip
def test_large_work_takes_the_accelerator_that_is_there(
    machine: Pretended, name: str, provider: str, words: str
) -> None:
    choice = choose_trainer(environment=EMPTY, work=LARGE, accelerators=machine)
    assert (choice.name, choice.provider) == (name, provider)
    assert words in choice.reason
    assert "205 million products" in choice.reason


def test_small_work_looks_for_no_accelerator_and_a_name_is_taken_as_it_is() -> None:
    machine = Pretended("CUDAExecutionProvider", torch="cuda")
    assert choose_trainer(environment=EMPTY, work=LARGE // 2, accelerators=machine).provider == ""
    assert choose_trainer("numpy", work=LARGE, accelerators=machine).name == "numpy"
    assert not machine.torch_was_asked


def test_this_machine_says_what_it_has() -> None:
    assert "CPUExecutionProvider" in ThisMachine().providers()
    assert ThisMachine().torch_device() in (None, "cuda", "mps", "xpu")


def test_a_provider_that_does_not_start_is_said_so() -> None:
    with pytest.raises(TrainerUnavailable, match="CUDAExecutionProvider cannot be started"):
        make_trainer("onnx", "CUDAExecutionProvider")
