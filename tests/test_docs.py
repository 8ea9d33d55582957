"""What the documents say is executed: the README's code, its commands, its links."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fedrap_coordinator.commands import run as coordinator
from fedrap_coordinator.settings import load
from fedrap_core.privacy.accounting import charged_epsilon
from testkit.harness import ITEMS, running

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readmes_code_runs_letter_for_letter(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    with running(ITEMS) as there:
        token = there.tokens[0]
        environment = {"HOME": str(tmp_path), "FEDRAP_SERVER": there.url, "FEDRAP_TOKEN": token}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
    assert len(re.findall(r"^item-\d+ [+-]\d\.\d{3}$", done.stdout, re.MULTILINE)) == 5
    assert "rounds=1" in done.stdout


def test_the_readmes_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+) ", README, re.MULTILINE):
        assert re.search(rf"^{target}:.*##", makefile, re.MULTILINE), target
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("demo", "test", "check", "bench", "soak", "clean"):
        assert f"make {target}" in listed


def test_the_operators_commands_of_the_readme_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        coordinator(["--help"])
    shown = capsys.readouterr().out
    for command in re.findall(r"^fedrap-coordinator (\w[\w-]*)", README, re.MULTILINE):
        assert command in shown


def test_the_settings_of_the_privacy_page_keep_their_promise(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "fedrap.toml"
    path.write_text(block, encoding="utf-8")
    privacy = load(path, {}).privacy
    assert charged_epsilon(privacy.cap, privacy.charged_noise, privacy.delta) <= 8.0


def test_every_link_between_the_documents_leads_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("spec/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_base_install_pulls_only_what_the_architecture_lists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=\[; ]", one)[0] for one in project["dependencies"]}
    drawn = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"\| base dependencies \| `([^`]+)`", drawn)
    assert names == set(listed.split())
