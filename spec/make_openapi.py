"""Write spec/openapi.json anew; a test fails when it differs from the code."""

from __future__ import annotations

import json
from pathlib import Path

from fedrap_coordinator.http.openapi import document

PATH = Path(__file__).parent / "openapi.json"


def text() -> str:
    """The document as it is committed."""
    return json.dumps(document(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
