"""Which trainer runs, and why.

What the caller or FEDRAP_TRAINER names is taken or refused, never replaced. Otherwise ONNX Runtime,
or NumPy where onnxruntime has no build. torch is never imported to find out: one device on a GPU is
slower than on a CPU.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from fedrap.trainers.protocol import Trainer, TrainerUnavailable

VARIABLE = "FEDRAP_TRAINER"
NAMES = ("numpy", "onnx", "torch")


@dataclass(frozen=True)
class Choice:
    """A trainer's name, and a sentence for `status()`."""

    name: str
    reason: str


def choose_trainer(
    wanted: str | None = None, *, environment: Mapping[str, str] | None = None
) -> Choice:
    """The trainer for the rounds of one device. `wanted` overrides FEDRAP_TRAINER overrides us.

    Whatever else the choice should follow from, such as the size of the work, comes in here.

    Raises:
        ValueError: `wanted` or FEDRAP_TRAINER is not the name of a trainer.
    """
    named = (os.environ if environment is None else environment).get(VARIABLE)
    if wanted:
        return Choice(_known(wanted, "the caller"), "the caller asked for it")
    if named:
        return Choice(_known(named, VARIABLE), f"{VARIABLE} asks for it")
    refusal = _onnxruntime_refusal()
    if refusal:
        return Choice("numpy", f"onnxruntime cannot be used ({refusal})")
    return Choice("onnx", "ONNX Runtime on the CPU is the default of a single device")


def make_trainer(name: str) -> Trainer:
    """The trainer of that name; imports what it needs.

    Raises:
        ValueError: there is no such trainer.
        TrainerUnavailable: its library cannot be imported here.
    """
    _known(name, "the caller")
    try:
        if name == "onnx":
            from fedrap.trainers.onnx_trainer import OnnxTrainer

            return OnnxTrainer()
        if name == "torch":
            from fedrap.trainers.torch_trainer import TorchTrainer

            return TorchTrainer()
    except ImportError as error:
        package = "fedrap[torch]" if name == "torch" else "onnxruntime"
        raise TrainerUnavailable(
            f"the trainer {name!r} needs a library that cannot be imported; "
            f"install {package} or name another of {', '.join(NAMES)}"
        ) from error
    from fedrap.trainers.numpy_trainer import NumpyTrainer

    return NumpyTrainer()


def _known(name: str, source: str) -> str:
    if name not in NAMES:
        raise ValueError(f"{source} names the trainer {name!r}; there are {', '.join(NAMES)}")
    return name


def _onnxruntime_refusal() -> str:
    """Why onnxruntime does not import, or nothing."""
    from fedrap.trainers.onnx_trainer import ASSETS, load_onnxruntime

    if not any(ASSETS.glob("*.onnx")):  # a bundler that packs code only leaves them out
        return "its graphs were not packed with the app"
    try:
        load_onnxruntime()
    except (ImportError, OSError) as error:
        return type(error).__name__
    return ""
