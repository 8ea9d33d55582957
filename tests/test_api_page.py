"""docs/api.md names everything that is public, with its arguments, and its examples run."""

from __future__ import annotations

import argparse
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedrap
from fedrap import FedRap, backend, testing
from fedrap.background.conditions import Conditions
from fedrap.cli import _parser
from fedrap.rounds import eligibility
from fedrap.transport import Transport
from fedrap.transport.http import HttpTransport
from fedrap_core.wire import problems

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
JAVA = PAGE[PAGE.index("## Java and Android") :]
SECTIONS: dict[str, str] = {
    head.strip("`"): body
    for head, body in re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
TRANSPORT = {name for name in vars(Transport) if not name.startswith("_")}


def section_of(name: str) -> str:
    """What the page says under this name."""
    found = SECTIONS.get(name)
    assert found is not None, f"docs/api.md has no heading ### {name}"
    return found


def public_names() -> Iterator[tuple[str, object]]:
    """Classes, functions and methods that must have a heading of their own."""
    modules = ((fedrap, fedrap.__all__), (testing, testing.__all__), (backend, backend.__all__))
    for module, names in modules:
        for name in names:
            yield name, getattr(module, name)
    yield "HttpTransport", HttpTransport
    for owner in (FedRap, Conditions, testing.FakeCoordinator, backend.TokenIssuer):
        for name, value in vars(owner).items():
            of_transport = owner is testing.FakeCoordinator and name in TRANSPORT
            if name.startswith("_") or of_transport or isinstance(value, property):
                continue
            if callable(getattr(owner, name)) and not isinstance(value, type):
                if owner is Conditions and name != "blocked_by":  # its fields are arguments
                    continue
                yield f"{owner.__name__}.{name}", getattr(owner, name)


NAMES = dict(public_names())
GIVEN_BACK = {"Status", "RoundReport", "Recommendation", "Reason", "Exported", "Erased", "FedRap"}


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_on_the_page_with_its_arguments(name: str) -> None:
    said, value = section_of(name), NAMES[name]
    if isinstance(value, type) and (issubclass(value, Exception) or name == "FedRap"):
        return
    for argument in inspect.signature(value).parameters:  # type: ignore[arg-type]
        if argument != "self":
            assert re.search(rf"`{argument}`|\b{argument}\b", said), f"{name}({argument}=)"


@pytest.mark.parametrize("name", sorted(TRANSPORT))
def test_every_method_of_a_transport_is_on_the_page_with_its_arguments(name: str) -> None:
    arguments = list(inspect.signature(getattr(Transport, name)).parameters)[1:]
    assert f"`{name}({', '.join(arguments)})`" in section_of("Transport")


def test_every_attribute_that_a_test_may_look_at_is_on_the_page() -> None:
    fake = testing.FakeCoordinator(["tea"])
    seen = {name for name in vars(fake) if not name.startswith("_")}
    seen |= {name for name, one in vars(type(fake)).items() if isinstance(one, property)}
    for name in seen:
        assert f"`{name}" in section_of("FakeCoordinator"), name


def test_every_word_of_blocked_by_is_on_the_page() -> None:
    said = section_of("All words of `blocked_by")
    words = {value for name, value in vars(eligibility).items() if name.isupper()}
    assert words <= set(re.findall(r"^\| `([a-z-]+)` \|", said, re.MULTILINE))
    for code in problems.ALL:
        assert f"`{code}`" in said, code


def test_every_command_is_on_the_page_with_its_options() -> None:
    parser = _parser()
    said = PAGE[PAGE.index("## The command line") : PAGE.index("## Java and Android")]
    (commands,) = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    for name, command in commands.choices.items():
        (row,) = re.findall(rf"^\| `fedrap {name}\b.*$", said, re.MULTILINE)
        for action in command._actions:
            for option in action.option_strings:
                if option not in ("-h", "--help", "--json"):
                    assert option in row, f"fedrap {name} {option}"
    for action in parser._actions:
        for option in action.option_strings:
            assert option in ("-h", "--help") or f"`{option}`" in said, option


def java_members() -> Iterator[tuple[str, str]]:
    """Classes and members of the public Java modules, by their simple names."""
    for path in sorted((ROOT / "android_bridge").glob("*/api.txt")):
        owner = ""
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("public "):
                owner = re.findall(r"(?:class|interface|enum) [\w.]+\.([\w$]+)", line)[0]
                yield owner, owner.replace("$", ".")
            else:
                name = re.findall(r"(\w+)(?:\(.*\)(?: throws \w+)?)?$", line)[0]
                yield owner, owner.replace("$", ".") if name == owner else name


@pytest.mark.parametrize("owner", sorted({owner for owner, _ in java_members()}))
def test_every_public_name_of_java_is_on_the_page(owner: str) -> None:
    for one, name in java_members():
        if one == owner:
            assert re.search(rf"`(?:\w+\.)?{re.escape(name)}\b", JAVA), f"{owner}: {name}"


def test_the_examples_of_the_page_run_from_top_to_bottom(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "because of" in done.stdout
    assert "it was erased above" in done.stdout


def test_every_link_of_the_page_leads_somewhere() -> None:
    heads = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        path, _, anchor = target.partition("#")
        assert not path or (ROOT / "docs" / path).exists(), target
        assert path or anchor in anchors, target
