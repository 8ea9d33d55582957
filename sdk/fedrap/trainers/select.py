"""Which trainer runs, and why.

What the caller or FEDRAP_TRAINER names is taken or refused, never replaced. Otherwise: torch when
there is an accelerator and the work is worth sending there (many devices at once, or the caller
prefers it), else ONNX Runtime, else NumPy where onnxruntime has no build. One device on a GPU is
slower than on a CPU, so a lone device never imports torch to find out.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass

from fedrap.trainers.protocol import Trainer, TrainerUnavailable

VARIABLE = "FEDRAP_TRAINER"
NAMES = ("numpy", "onnx", "torch")
MANY_DEVICES = 64  # in one batch, from which on an accelerator pays


@dataclass(frozen=True)
class Choice:
    """A trainer's name, and a sentence for `status()`."""

    name: str
    reason: str


def choose_trainer(
    wanted: str | None = None,
    *,
    devices: int = 1,
    prefer_gpu: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Choice:
    """The trainer for batches of `devices`. `wanted` overrides FEDRAP_TRAINER overrides us.

    Raises:
        ValueError: `wanted` or FEDRAP_TRAINER is not the name of a trainer.
    """
    named = (os.environ if environment is None else environment).get(VARIABLE)
    if wanted:
        return Choice(_known(wanted, "the caller"), "the caller asked for it")
    if named:
        return Choice(_known(named, VARIABLE), f"{VARIABLE} asks for it")
    if prefer_gpu or devices >= MANY_DEVICES:
        accelerator = _accelerator()
        if accelerator:
            return Choice("torch", f"{accelerator} is present and the work is worth sending there")
    refusal = _onnxruntime_refusal()
    if refusal:
        return Choice("numpy", f"onnxruntime cannot be used ({refusal})")
    if prefer_gpu or devices >= MANY_DEVICES:
        return Choice("onnx", "torch finds no accelerator, so ONNX Runtime on the CPU")
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


def _accelerator() -> str:
    """The accelerator's kind, or nothing. Imports torch when it is installed."""
    if importlib.util.find_spec("torch") is None:
        return ""
    try:
        from fedrap.trainers.torch_trainer import find_accelerator

        found = find_accelerator()
    except (ImportError, OSError, RuntimeError):  # a broken driver must not stop a device
        return ""
    return found.type if found is not None else ""


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
