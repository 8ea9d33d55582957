"""pyarrow, imported when a file is read: the demo runs without it."""

from __future__ import annotations

import importlib
from typing import Any

from fedrap_simulation.data.errors import MissingExtra


def arrow(module: str = "pyarrow") -> Any:
    """pyarrow or one of its modules.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(
            "reading and writing data files needs pyarrow: pip install 'fedrap[science]'"
        ) from None
