"""How golden vectors look: plain JSON, hex for bytes, twelve digits for what was computed.

Inputs that need chance come from SHAKE-256 of a label, so they are the same on every platform.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_core.errors import FedRapError
from fedrap_core.model import CommonItems, History
from fedrap_core.quantize import QuantizedRows

Case = dict[str, Any]
File = dict[str, Any]
TOLERANCE = {"absolute": 2e-6, "relative": 1e-5}


def rounded(values: npt.ArrayLike) -> Any:
    """Computed numbers, to twelve significant digits: nested lists as JSON has them."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0:
        return float(f"{float(array):.12g}") + 0.0  # no -0
    return [rounded(part) for part in array]


def error_name(call: Callable[[], object]) -> str:
    """The name of the error that a call must raise."""
    try:
        call()
    except FedRapError as error:
        return type(error).__name__
    raise AssertionError("a case that should be refused passed")


def steps(label: str, rows: int, dim: int) -> list[list[int]]:
    """int8 steps in -127..127 that only the label decides."""
    raw = hashlib.shake_256(label.encode()).digest(rows * dim)
    return [[max(b - 128, -127) for b in raw[i * dim : (i + 1) * dim]] for i in range(rows)]


def fractions(label: str, rows: int, dim: int, per: int = 256) -> list[list[float]]:
    """Multiples of 1/per in [0, 1) that only the label decides."""
    return [[(s + 128) % per / per for s in row] for row in steps(label, rows, dim)]


def model(label: str, size: int, dim: int) -> Case:
    """A C whose entries are of about one, as a release carries it."""
    widths = [(16 + b % 32) / 4096 for b in hashlib.shake_256(f"{label} s".encode()).digest(size)]
    return {"dim": dim, "scales": widths, "values": steps(label, size, dim)}


def common_items(stored: Case) -> CommonItems:
    """C as stored in a vector.

    Raises:
        BrokenModel: its numbers must not be used.
    """
    values = np.array(stored["values"], dtype=np.int8).reshape(-1, stored["dim"])
    scales = np.array([float(s) for s in stored["scales"]], dtype=np.float32)
    return CommonItems(1, QuantizedRows(values, scales))


def history(stored: Case) -> History:
    """A history as stored in a vector, newest first."""
    return History(np.array(stored["rows"], dtype=np.int64), np.array(stored["weights"], float))


def builtins(value: msgspec.Struct) -> Any:
    """A struct as JSON has it; bytes become {"hex": "..."}."""
    return _with_hex(msgspec.to_builtins(value, builtin_types=(bytes,)))


def _with_hex(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dict):
        return {name: _with_hex(inner) for name, inner in value.items()}
    return [_with_hex(inner) for inner in value] if isinstance(value, list) else value


def to_text(file: File) -> str:
    """A file's text: one line for each field of each case, and for each row of a long matrix."""
    head = [f"{json.dumps(name)}: {json.dumps(file[name])}" for name in file if name != "cases"]
    cases = ["{\n  " + ",\n  ".join(_fields(case)) + "\n }" for case in file["cases"]]
    return "{" + ",\n ".join([*head, '"cases": [' + ", ".join(cases) + "]"]) + "}\n"


def _fields(case: Case) -> list[str]:
    return [f"{json.dumps(name)}: {_value(value)}" for name, value in case.items()]


def _value(value: Any) -> str:
    text = json.dumps(value, allow_nan=False)
    if isinstance(value, list) and value and isinstance(value[0], list) and len(text) > 90:
        return "[" + ",\n   ".join(json.dumps(row, allow_nan=False) for row in value) + "]"
    if isinstance(value, dict) and len(text) > 200:
        return "{" + ",\n   ".join(_fields(value)).replace("\n   [", "\n    [") + "}"
    return text


def differences(stored: Any, made: Any, exact: bool, where: str = "$") -> list[str]:
    """Where two files disagree; floats may differ in the tenth digit unless `exact`."""
    if isinstance(stored, dict) and isinstance(made, dict) and list(stored) == list(made):
        pairs = [(f"{where}.{name}", stored[name], made[name]) for name in stored]
    elif isinstance(stored, list) and isinstance(made, list) and len(stored) == len(made):
        both = zip(stored, made, strict=True)
        pairs = [(f"{where}[{i}]", one, other) for i, (one, other) in enumerate(both)]
    elif type(stored) is type(made) and (stored == made or _close(stored, made, exact)):
        return []
    else:
        return [f"{where}: {str(stored)[:60]} is stored, {str(made)[:60]} was made"]
    return [found for at, one, other in pairs for found in differences(one, other, exact, at)]


def _close(stored: Any, made: Any, exact: bool) -> bool:
    if exact or not isinstance(stored, float):
        return False
    return math.isclose(stored, made, rel_tol=1e-9, abs_tol=1e-11)
