"""Parts of a section, kept by what they were computed from, so that a run can be resumed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fedrap_simulation.evaluation.rows import RESULT_VERSION

T = TypeVar("T")
PIECE_VERSION = 1  # raise it when a section computes something else from the same configuration


class Pieces:
    """JSON files in a folder; a broken or half-written one counts as absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, config: dict[str, Any]) -> Path:
        """Where the piece of this configuration lies."""
        whole = {"config": config, "versions": [PIECE_VERSION, RESULT_VERSION]}
        raw = msgspec.json.encode(whole, order="deterministic")
        return self._folder / f"{hashlib.sha256(raw).hexdigest()[:20]}.json"

    def get(self, config: dict[str, Any], kind: type[T]) -> T | None:
        """The piece, if it was computed before and is whole."""
        try:
            return msgspec.json.decode(self.path(config).read_bytes(), type=kind)
        except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
            return None

    def put(self, config: dict[str, Any], piece: object) -> None:
        """Keep a piece; it is there whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self.path(config)
        half = path.with_suffix(f".{os.getpid()}.tmp")
        half.write_bytes(msgspec.json.encode(piece))
        half.replace(path)
