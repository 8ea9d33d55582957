"""Which trainer runs, and why.

What the caller or FEDRAP_TRAINER names is taken or refused, never replaced. Otherwise ONNX Runtime,
or NumPy where onnxruntime has no build.

The work decides whether an accelerator is looked for: the sequence part takes m·k·Q products, and
below `WORTH_AN_ACCELERATOR` of them a CPU is done before a GPU has its data. Above it the runtime's
own execution providers come first, because asking for them costs nothing; then torch, where it is
installed and finds an accelerator. Only then is torch imported, which takes seconds.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fedrap.trainers.protocol import Trainer, TrainerUnavailable
from fedrap_core.plan import Method, sequence_of

VARIABLE = "FEDRAP_TRAINER"
NAMES = ("numpy", "onnx", "torch")
WORTH_AN_ACCELERATOR = 200_000_000  # products: 100,000 items, k 64, Q 32; some 40 ms on one core
# The runtime's own, best first. NNAPI is what Android's build of it offers.
PROVIDERS = (
    "CUDAExecutionProvider",
    "ROCMExecutionProvider",
    "CoreMLExecutionProvider",
    "DmlExecutionProvider",
    "NnapiExecutionProvider",
)


@dataclass(frozen=True)
class Choice:
    """A trainer's name, and a sentence for `status()`."""

    name: str
    reason: str
    provider: str = ""  # of ONNX Runtime, for the sequence part; empty: the CPU


class Accelerators(Protocol):
    """What this machine could compute with; a test pretends another one."""

    def providers(self) -> Sequence[str]:
        """The execution providers of ONNX Runtime."""

    def torch_device(self) -> str | None:
        """The accelerator that torch finds, such as `cuda`; None without one, or without torch."""


class ThisMachine:
    """Asks the libraries."""

    def providers(self) -> Sequence[str]:
        from fedrap.trainers.onnx_trainer import load_onnxruntime

        return [str(name) for name in load_onnxruntime().get_available_providers()]

    def torch_device(self) -> str | None:
        if importlib.util.find_spec("torch") is None:
            return None
        try:
            from fedrap.trainers.torch_trainer import find_accelerator
        except (ImportError, OSError):  # installed, but not for this platform
            return None
        found = find_accelerator()
        return None if found is None else str(found)


def work_of(method: Method, size: int) -> int:
    """m·k·Q, the products that a round of one device takes over `size` items; 0 without them."""
    part = sequence_of(method)
    return 0 if part is None else size * part.dim * part.targets


def choose_trainer(
    wanted: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    work: int = 0,
    accelerators: Accelerators | None = None,
) -> Choice:
    """The trainer for the rounds of one device. `wanted` overrides FEDRAP_TRAINER overrides us.

    Args:
        work: as `work_of` has it.

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
    if work < WORTH_AN_ACCELERATOR:
        return Choice("onnx", "ONNX Runtime on the CPU is the default of a single device")
    return _accelerated(work, accelerators or ThisMachine())


def _accelerated(work: int, machine: Accelerators) -> Choice:
    """For work that is worth it: the runtime's providers, then torch, then the CPU after all."""
    much = f"{work / 1e6:,.0f} million products a round are worth an accelerator"
    offered = machine.providers()
    for provider in PROVIDERS:
        if provider in offered:
            return Choice("onnx", f"{much}, and ONNX Runtime has {provider}", provider)
    device = machine.torch_device()
    if device is not None:
        return Choice("torch", f"{much}, and torch has {device}")
    return Choice("onnx", f"{much}, but there is none: ONNX Runtime on the CPU")


def make_trainer(name: str, provider: str = "") -> Trainer:
    """The trainer of that name, with that provider of ONNX Runtime; imports what it needs.

    Raises:
        ValueError: there is no such trainer.
        TrainerUnavailable: its library cannot be imported here, or has no such provider.
    """
    _known(name, "the caller")
    try:
        if name == "onnx":
            from fedrap.trainers.onnx_trainer import OnnxTrainer

            return OnnxTrainer(provider) if provider else OnnxTrainer()
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
    except ModuleNotFoundError:
        return "it is not installed; fedrap-light comes without it"
    except (ImportError, OSError) as error:
        return type(error).__name__
    return ""
