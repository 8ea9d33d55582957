"""What is published: each distribution has its own code and nothing else, all of one version."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
HOLDS = {
    "fedrap": set(),
    "fedrap-light": {"fedrap", "fedrap_core"},
    "fedrap-coordinator": {"fedrap_coordinator"},
    "fedrap-aggregator": {"fedrap_aggregator"},
    "fedrap-simulation": {"fedrap_simulation"},
}
SCRIPTS = {
    "fedrap": "",
    "fedrap-light": "fedrap = fedrap.cli:main",
    "fedrap-coordinator": "fedrap-coordinator = fedrap_coordinator.cli:main",
    "fedrap-aggregator": "fedrap-aggregator = fedrap_aggregator.cli:main",
    "fedrap-simulation": "fedrap-sim = fedrap_simulation.cli:main",
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, zipfile.ZipFile]:
    """Every distribution, built as `make wheels` does."""
    folder, found = tmp_path_factory.mktemp("wheels"), {}
    for name in HOLDS:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
            cwd=ROOT / "packaging" / name, check=True, capture_output=True,
        )  # fmt: skip
        (path,) = folder.glob(f"{name.replace('-', '_')}-{VERSION}-*.whl")
        found[name] = zipfile.ZipFile(path)
    return found


def part(wheel: zipfile.ZipFile, name: str) -> bytes:
    """A file of its metadata; nothing where there is none."""
    found = [one for one in wheel.namelist() if one.endswith(f".dist-info/{name}")]
    return wheel.read(found[0]) if found else b""


def needed(wheel: zipfile.ZipFile) -> set[str]:
    """Names of what it needs without any extra."""
    head: Message = message_from_bytes(part(wheel, "METADATA"))
    lines = [one for one in head.get_all("Requires-Dist", []) if "extra ==" not in one]
    return {re.split(r"[<>=!\[; ]", one)[0] for one in lines}


def test_every_distribution_has_its_own_code_and_one_version(
    wheels: dict[str, zipfile.ZipFile],
) -> None:
    for name, wheel in wheels.items():
        head = message_from_bytes(part(wheel, "METADATA"))
        assert (head["Name"], head["Version"]) == (name, VERSION)
        tops = {one.split("/")[0] for one in wheel.namelist()}
        assert {one for one in tops if not one.endswith(".dist-info")} == HOLDS[name]
        assert not any("__pycache__" in one for one in wheel.namelist())
        assert SCRIPTS[name] in part(wheel, "entry_points.txt").decode()


def test_a_device_needs_no_server_and_the_light_one_no_runtime(
    wheels: dict[str, zipfile.ZipFile],
) -> None:
    light = {"numpy", "msgpack", "msgspec", "cryptography", "aiohttp"}
    assert needed(wheels["fedrap-light"]) == light
    assert needed(wheels["fedrap"]) == {"fedrap-light", "onnxruntime"}
    server = needed(wheels["fedrap-coordinator"])
    assert server == {"fedrap-light", "sqlalchemy", "prometheus-client"}
    assert {"fedrap-light", "fedrap-coordinator"} < needed(wheels["fedrap-simulation"])
    lines = message_from_bytes(part(wheels["fedrap"], "METADATA")).get_all("Requires-Dist", [])
    assert f"fedrap-light=={VERSION}" in lines


def test_everything_that_a_checkout_has_is_in_one_of_them(
    wheels: dict[str, zipfile.ZipFile],
) -> None:
    packed = {one for wheel in wheels.values() for one in wheel.namelist()}
    listed = subprocess.run(
        ["git", "ls-files", "core/fedrap_core", "sdk/fedrap", "coordinator", "simulation"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    assert {path.split("/", 1)[1] for path in listed} <= packed


def test_the_light_code_runs_a_round_without_the_runtime(
    wheels: dict[str, zipfile.ZipFile], tmp_path: Path
) -> None:
    wheels["fedrap-light"].extractall(tmp_path / "code")
    script = """
import sys
sys.modules["onnxruntime"] = None  # as if it were not installed
from fedrap import FedRap
from fedrap.testing import FakeCoordinator
items = [f"item-{n}" for n in range(2000)]
with FedRap.open("store", transport=FakeCoordinator(items), token="t") as device:
    device.consent(train=True, policy="v1")
    for n in range(100):
        device.record(items[7 * n])
    assert device.run_round().joined
    assert len(device.recommend(20)) == 20
    print(device.status().trainer, device.status().trainer_reason)
pages = int(open("/proc/self/statm").read().split()[1]) if sys.platform == "linux" else 0
print(pages * 4096 // 1_000_000)
assert not {"fedrap_coordinator", "fedrap_simulation", "torch"} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "code"), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, megabytes = done.stdout.splitlines()
    assert first.startswith("numpy onnxruntime cannot be used")
    assert int(megabytes) <= 75
