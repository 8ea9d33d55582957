"""The Java side: every module builds and passes its own tests, and replays the golden vectors."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.android.java_build import BRIDGE, ROOT, JavaBuild, build_java

CORE_BYTES = 250_000  # with lines in stack traces
NOT_FOR_A_DEVICE = {"learn_step"}  # the coordinator's step on C


@pytest.fixture(scope="module")
def java() -> JavaBuild:
    return build_java()


def test_every_module_builds_and_passes_its_tests(java: JavaBuild) -> None:
    assert java.status == 0, java.said[-6000:]
    assert {"core", "ort", "android", "cli", "sample"} == set(java.modules)
    for module in java.modules:
        assert java.ran(module) > 0, f"{module} ran no tests"


def test_the_core_is_small_and_brings_nothing_along(java: JavaBuild) -> None:
    assert java.status == 0, java.said[-6000:]
    assert java.jar("core").stat().st_size < CORE_BYTES
    listing = subprocess.run(
        ["jar", "tf", java.jar("core")], capture_output=True, text=True, check=True
    )
    files = {name for name in listing.stdout.split() if not name.endswith("/")}
    assert "io/fedrap/core/JvmTrainer.class" in files
    assert {name for name in files if not name.startswith("io/fedrap/core/")} == {
        "META-INF/MANIFEST.MF"
    }


def test_java_replays_every_vector_that_a_device_has_to_do_with() -> None:
    asked: set[str] = set()
    for path in BRIDGE.glob("*/src/test/java/**/*.java"):
        asked |= set(re.findall(r'Vectors\s*\.(?:each|cases)\(\s*"(\w+)"', _text(path)))
    known = {path.stem for path in (ROOT / "spec" / "vectors").glob("*.json")}
    assert known - asked == NOT_FOR_A_DEVICE
    assert asked <= known


def _text(path: Path) -> str:
    return path.read_text("utf-8")
