"""The files under deploy/ name real commands, real settings and real addresses."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fedrap_coordinator.commands import run as coordinator
from fedrap_coordinator.settings import load

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "fedrap-coordinator.service"


def compose() -> dict[str, dict[str, dict[str, object]]]:
    found: dict[str, dict[str, dict[str, object]]] = yaml.safe_load(
        (DEPLOY / "compose.yaml").read_text()
    )
    return found


def test_the_environment_of_compose_is_a_whole_configuration() -> None:
    environment = compose()["services"]["coordinator"]["environment"]
    assert isinstance(environment, dict)
    settings = load(None, environment)
    assert settings.database.startswith("postgresql://fedrap:")
    assert (settings.serve.host, settings.admin.port) == ("0.0.0.0", 8471)
    ports = compose()["services"]["coordinator"]["ports"]
    assert ports == [f"127.0.0.1:{one}:{one}" for one in (settings.serve.port, settings.admin.port)]


@pytest.mark.parametrize("name", ["compose.yaml", "Dockerfile", "fedrap-coordinator.service"])
def test_every_command_they_name_exists(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        coordinator(["--help"])
    shown = capsys.readouterr().out
    text = (DEPLOY / name).read_text()
    called = re.findall(r"fedrap-coordinator (?:--config \S+ )?([a-z][\w-]*)", text)
    called += re.findall(r'CMD \["(serve)"\]', text)
    called = [one for one in called if not one.startswith(("fedrap", "build"))]
    assert called
    for one in called:
        assert f"\n    {one} " in shown, one


def test_the_dockerfile_copies_what_there_is_and_installs_extras_that_exist() -> None:
    text, root = (DEPLOY / "Dockerfile").read_text(), DEPLOY.parent
    for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE):
        assert all((root / one).exists() for one in line.split()), line
    project = (root / "pyproject.toml").read_text()
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", text)
    for extra in extras.split(","):
        assert re.search(rf"^{extra} = ", project, re.MULTILINE)
    (path,) = re.findall(r"127\.0\.0\.1:8470(/\w+)", text)
    assert path == "/healthz"


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("no systemd-analyze here")
    text = UNIT.read_text().replace("/opt/fedrap/bin/fedrap-coordinator", sys.executable)
    unit = tmp_path / UNIT.name
    unit.write_text(text)
    done = subprocess.run(
        [tool, "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60
    )
    complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert complaints == []


def test_compose_is_valid_where_docker_can_say_so() -> None:
    asked = ["docker", "compose", "version"]
    if shutil.which("docker") is None or subprocess.run(asked, capture_output=True).returncode:
        pytest.skip("no docker compose here")
    done = subprocess.run(
        ["docker", "compose", "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"],
        env={"POSTGRES_PASSWORD": "x", "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_prometheus_scrapes_the_admin_port() -> None:
    found = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    (job,) = found["scrape_configs"]
    assert job["static_configs"][0]["targets"] == ["127.0.0.1:8471"]
