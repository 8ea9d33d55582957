"""The files under deploy/ name real commands, real settings and real addresses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from aiohttp import web

from fedrap_coordinator.commands import run as coordinator
from fedrap_coordinator.http.dashboard import MONITOR
from fedrap_coordinator.http.device_api import routes
from fedrap_coordinator.http.metrics import ABOUT, Metrics
from fedrap_coordinator.settings import Serve, load
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire.problems import ALL
from testkit.harness import serve, small_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "fedrap-coordinator.service"


def compose() -> dict[str, dict[str, dict[str, object]]]:
    found: dict[str, dict[str, dict[str, object]]] = yaml.safe_load(
        (DEPLOY / "compose.yaml").read_text()
    )
    return found


def _by_default(text: str) -> str:
    """What compose makes of a value where the variable is not set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_the_environment_of_compose_is_a_whole_configuration() -> None:
    environment = compose()["services"]["coordinator"]["environment"]
    assert isinstance(environment, dict)
    settings = load(None, {name: _by_default(str(one)) for name, one in environment.items()})
    assert settings.database.startswith("postgresql://fedrap:")
    assert (settings.serve.host, settings.admin.port) == ("0.0.0.0", 8471)
    ports = compose()["services"]["coordinator"]["ports"]
    assert ports == [f"127.0.0.1:{one}:{one}" for one in (settings.serve.port, settings.admin.port)]


@pytest.mark.parametrize(
    "name",
    ["compose.yaml", "Dockerfile", "fedrap-coordinator.service", "kubernetes/coordinator.yaml"],
)
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
    installed = re.findall(r"\./packaging/([\w-]+)(?:\[([\w,]+)\])?", text)
    assert [name for name, _ in installed] == ["fedrap-light", "fedrap-coordinator"]
    for name, extras in installed:
        assert (root / "packaging" / name / "pyproject.toml").exists()
        for extra in filter(None, extras.split(",")):
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


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / "coordinator.yaml").read_text()))


@pytest.mark.parametrize("one", manifests(), ids=lambda one: str(one["kind"]))
def test_the_manifests_are_what_the_schemas_of_kubernetes_say(one: dict[str, Any]) -> None:
    kubernetes_validate.validate(one, "1.30", strict=True)


def test_the_manifests_belong_together_and_to_the_program(tmp_path: Path) -> None:
    found = {one["kind"]: one for one in manifests()}
    pod = found["Deployment"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    services = [one for one in manifests() if one["kind"] == "Service"]
    assert all(one["spec"]["selector"].items() <= labels.items() for one in services)
    (box,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in box["ports"]}
    settings = {one["name"]: one.get("value", "postgresql://u:p@h/d") for one in box["env"]}
    (tmp_path / "fedrap.toml").write_text("seed = 0")
    loaded = load(tmp_path / "fedrap.toml", settings)
    assert (loaded.serve.port, loaded.admin.port) == (ports["devices"], ports["admin"])
    assert loaded.keys.startswith("/data")
    paths = {box[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")}
    assert paths <= {one.resource.canonical for one in _routes()}
    assert pod["spec"]["terminationGracePeriodSeconds"] > loaded.serve.shutdown_seconds
    (path,) = found["Ingress"]["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] == services[0]["metadata"]["name"]
    claim = pod["spec"]["volumes"][1]["persistentVolumeClaim"]["claimName"]
    assert claim == found["PersistentVolumeClaim"]["metadata"]["name"]


def _routes() -> list[Any]:
    app = web.Application()
    return app.router.add_routes(routes())


def test_compose_puts_tls_in_front_where_that_is_asked_for() -> None:
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    proxy = found["services"]["proxy"]
    assert proxy["profiles"] == ["tls"]
    assert "443:443" in proxy["ports"]
    page = (DEPLOY / "Caddyfile").read_text()
    assert "reverse_proxy coordinator:8470" in page
    assert float(re.findall(r"response_header_timeout (\d+)s", page)[0]) > Serve().max_wait_seconds


def test_prometheus_scrapes_the_admin_port() -> None:
    found = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (job,) = found["scrape_configs"]
    assert job["static_configs"][0]["targets"] == ["127.0.0.1:8471"]
    assert all((DEPLOY / "prometheus" / name).exists() for name in found["rule_files"])


def alerts() -> dict[str, str]:
    """Expressions by name."""
    found = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    (group,) = found["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


def panels() -> dict[str, str]:
    """Expressions of the Grafana dashboard, by title."""
    found = json.loads((DEPLOY / "grafana" / "fedrap.json").read_text())
    return {
        one["title"]: " ".join(target["expr"] for target in one["targets"])
        for one in found["panels"]
    }


async def test_alarms_and_panels_are_about_metrics_that_exist() -> None:
    """Names of a real exposition; those of `process_` are not on every platform."""
    async with serve(small_settings(), MemoryStore()) as served:
        player = await served.player()
        await player.join()
        await player.ask(99)
        await served.app[MONITOR].look()
        metrics = Metrics()
        metrics.add_gauges(served.app[MONITOR].gauges)
    lines = metrics.exposition().decode().splitlines()
    typed = {
        line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE fedrap_")
    }
    known = set(typed) | {f"fedrap_{name}" for name in ABOUT}  # some are there once devices spoke
    for name, kind in typed.items():
        known |= {f"{name}_bucket", f"{name}_count"} if kind == "histogram" else set()
    asked = {**alerts(), **panels()}
    assert len(asked) == len(alerts()) + len(panels())
    for title, expression in asked.items():
        named = set(re.findall(r"\bfedrap_\w+", expression))
        assert named or "process_" in expression or "up{" in expression, title
        assert named <= known, (title, named - known)
    codes = set(ALL)
    for expression in asked.values():
        for said in re.findall(r'problem=~?"([^"]+)"', expression):
            assert set(said.split("|")) <= codes


def test_every_alarm_has_a_paragraph_in_the_runbook_and_the_other_way_round() -> None:
    page = (DEPLOY.parent / "docs" / "runbook.md").read_text()
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == list(alerts())


def test_alarms_fire_when_they_should_and_not_on_ordinary_phones() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool here (apt install prometheus)")
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(
            ["promtool", *words], cwd=DEPLOY / "prometheus", capture_output=True, text=True,
            timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
