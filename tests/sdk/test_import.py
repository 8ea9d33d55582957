"""`import fedrap` is cheap and its names are a promise."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import fedrap

FORBIDDEN = [
    "aiohttp",
    "torch",
    "onnx",
    "onnxruntime",
    "pandas",
    "sqlalchemy",
    "rich",
    "fedrap_coordinator",
    "fedrap_simulation",
]


def loaded_by(code: str) -> set[str]:
    """The top-level modules of a fresh interpreter after this code."""
    script = f"{code}\nimport sys\nsys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_the_sdk_loads_no_network_server_or_training_library() -> None:
    assert not loaded_by("import fedrap") & set(FORBIDDEN)


def test_using_the_sdk_offline_loads_none_of_them_either(tmp_path: object) -> None:
    code = f"""
import fedrap
with fedrap.FedRap.open({str(tmp_path)!r}, server="http://127.0.0.1:9") as device:
    device.record("a")
    device.recommend(3)
    device.run_round()
    device.status()
"""
    assert not loaded_by(code) & set(FORBIDDEN)


def test_importing_the_command_line_loads_none_of_them_either() -> None:
    assert not loaded_by("import fedrap.cli") & set(FORBIDDEN)


def test_all_names_what_can_be_imported_and_nothing_else() -> None:
    public = {
        name
        for name, value in vars(fedrap).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public == set(fedrap.__all__)


def test_all_is_sorted_and_documented() -> None:
    assert fedrap.__all__ == sorted(fedrap.__all__)
    for name in fedrap.__all__:
        assert (getattr(fedrap, name).__doc__ or "").strip()


def test_every_error_of_the_sdk_can_be_caught_as_one() -> None:
    values = [getattr(fedrap, name) for name in fedrap.__all__]
    errors = [value for value in values if issubclass(value, Exception)]
    assert len(errors) >= 6
    assert all(issubclass(error, fedrap.FedRapError) for error in errors)


def test_the_library_logs_nowhere_unless_the_app_wants_it() -> None:
    code = "import fedrap, logging\nlogging.getLogger('fedrap').warning('unheard')"
    loaded_by(code)  # asserts that stderr is empty
