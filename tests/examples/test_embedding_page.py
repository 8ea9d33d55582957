"""docs/embedding.md: its code runs, and what it names exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import fedrap

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")


def test_the_code_of_the_page_runs_from_top_to_bottom(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["mug", "pot"]
    assert "joined=True" in lines[2]


def test_the_commands_of_the_page_exist() -> None:
    for script in re.findall(r"python (benchmarks/\S+)", PAGE):
        assert (ROOT / script).is_file()
    for test in re.findall(r"`(tests/\S+\.py)`", PAGE):
        assert (ROOT / test).is_file()


def test_the_methods_of_the_page_exist() -> None:
    for name in ("export", "erase", "sync", "run_round", "start", "stop", "similar_items"):
        assert callable(getattr(fedrap.FedRap, name))
    for name in ("sync", "run_round", "erase"):
        assert callable(getattr(fedrap.FedRap, f"{name}_async"))
    assert "Retention" in fedrap.__all__
