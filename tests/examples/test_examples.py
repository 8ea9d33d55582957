"""Each example runs: with the coordinator in memory, and with a real one."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from examples import night_job, reader, shop, web_app
from fedrap import FedRap
from fedrap.testing import FakeCoordinator
from testkit.harness import Address

FOLDER = Path(__file__).parent.parent.parent / "examples"
Start = Callable[[list[str]], Address]


def run_script(name: str, *arguments: str, typed: str = "", **environment: str) -> str:
    """What an example prints when it is run as its first lines say."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / name), *arguments],
        input=typed, env={**os.environ, **environment},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return done.stdout


def test_the_shop_recommends_what_stands_beside_it_and_says_why(tmp_path: Path) -> None:
    shown = run_script(
        "shop.py", str(tmp_path), typed="r\nc\n1\n1\n3\nr\nw 1\nw 9\nj\ns\nx\nq\n9\n"
    )
    assert "kitchen  1:tea pot" in shown
    assert "Nothing yet." in shown  # before consent there is no catalogue
    assert "  tea cup  +" in shown
    assert "you looked at: tea pot" in shown
    assert "Joined, " in shown
    assert "3 interactions kept, 1 rounds, release 1" in shown
    assert "You look at: seeds" not in shown


def test_the_shop_joins_a_real_round(coordinator_with: Start, tmp_path: Path) -> None:
    address = coordinator_with(shop.ITEMS)
    shown = run_script(
        "shop.py", str(tmp_path), typed="1\nj\nc\nj\nr\n",
        FEDRAP_SERVER=address.url, FEDRAP_TOKEN=address.tokens[0],
    )  # fmt: skip
    assert "No: no-consent" in shown
    assert "Joined, " in shown
    assert "  tea cup  " in shown


def test_the_reader_serves_two_people_whether_they_train_or_not(tmp_path: Path) -> None:
    shown = run_script("reader.py", str(tmp_path))
    ann, bob = shown.split("bob:")
    for said, end in ((ann, "joined a round"), (bob, "no round: no-consent")):
        assert "because you liked" in said
        assert "stars 1" not in said.split("then: ")[1]
        assert said.strip().endswith(end)


@pytest.mark.parametrize("train", [True, False])
def test_the_reader_against_a_real_coordinator(
    coordinator_with: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: bool
) -> None:
    address = coordinator_with(reader.ITEMS)
    monkeypatch.setenv("FEDRAP_SERVER", address.url)
    monkeypatch.setenv("FEDRAP_TOKEN", address.tokens[0])
    *_, then, end = reader.evening("ann", tmp_path, train=train)
    assert end == ("joined a round" if train else "no round: no-consent")
    assert len(then.split(", ")) == 5
    assert "stars 1" not in then


async def play_web(stores: web_app.Stores) -> None:
    """Two users, of whom one consents."""
    async with TestClient(TestServer(web_app.create_app(stores, round_seconds=3600))) as client:
        agreed = {"train": True, "policy": "2026-11"}
        assert (await client.post("/users/ann/consent", json=agreed)).status == 200
        only_lists = {"recommend": True, "train": False, "policy": "2026-11"}
        assert (await client.post("/users/cat/consent", json=only_lists)).status == 200
        for wrong in ({"train": "false", "policy": "x"}, {"train": True, "policy": 2026}, {}):
            answer = await client.post("/users/bob/consent", json=wrong)
            assert answer.status == 400
            assert "train: " in await answer.text() or "policy: " in await answer.text()
        for user in ("ann", "../bob", "cat"):
            path = f"/users/{user.replace('/', '%2F')}/interactions"
            told = await client.post(path, json={"item": "kettle"})
            assert (await told.json()) == {"interactions": 1}
            assert (await client.post(path, json={"item": 5})).status == 400
            await client.post(path, json={"item": "tea pot", "kind": "dislike"})
            removed = await client.delete(f"{path}/tea pot")
            assert (await removed.json()) == {"removed": 1}
        found = await (await client.get("/users/cat/recommendations?n=3")).json()
        assert len(found) == 3  # who declines training has a list all the same
        found = await (await client.get("/users/ann/recommendations?n=3")).json()
        assert [one["item"] for one in found] == ["tea pot", "tea cup", "sugar bowl"]
        reports = await stores.join_rounds()
        assert {one.blocked_by for one in reports} == {None, "no-consent"}


async def test_the_web_app_keeps_a_store_for_each_user(tmp_path: Path) -> None:
    await play_web(web_app.make_stores(tmp_path))
    names = [name for name in os.listdir(tmp_path / "app") if name.startswith("profile-")]
    assert len(names) == 4
    assert all(len(name) == 40 for name in names)


async def test_the_web_app_joins_a_real_round(
    coordinator_with: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = await asyncio.to_thread(coordinator_with, web_app.ITEMS)
    (tmp_path / "tokens").write_text("\n".join(address.tokens))
    monkeypatch.setenv("FEDRAP_SERVER", address.url)
    monkeypatch.setenv("FEDRAP_TOKENS", str(tmp_path / "tokens"))
    await play_web(web_app.make_stores(tmp_path / "stores"))


async def test_the_web_app_closes_the_store_used_longest_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_app, "MOST_OPEN", 1)
    stores = web_app.make_stores(tmp_path)
    (await stores.of("ann")).record("ink")
    await stores.of("bob")
    assert (await stores.of("ann")).status().interactions == 1
    await stores.close()


def make_stores(folder: Path, items: list[str]) -> None:
    """Three stores: one joins, one has no consent, one has nothing."""
    for name, agrees, taps in (("a", True, items[:2]), ("b", False, items[:1]), ("c", True, [])):
        with FedRap.open(folder / name) as device:
            device.consent(train=agrees, policy="night")
            for item in taps:
                device.record(item)


def test_the_night_job_joins_for_those_who_agreed(coordinator_with: Start, tmp_path: Path) -> None:
    make_stores(tmp_path / "stores", night_job.ITEMS)
    shown = run_script("night_job.py", str(tmp_path / "stores"))
    assert set(shown.split()) == {"1", "joined", "no-consent", "nothing-to-share"}
    address = coordinator_with(night_job.ITEMS)
    (tmp_path / "tokens").write_text("\n".join(address.tokens))
    make_stores(tmp_path / "others", night_job.ITEMS)
    environment = {"FEDRAP_SERVER": address.url, "FEDRAP_TOKENS": str(tmp_path / "tokens")}
    assert "1 joined" in run_script("night_job.py", str(tmp_path / "others"), **environment)


async def test_the_night_job_leaves_alone_what_is_in_use_or_cannot_be_sent(tmp_path: Path) -> None:
    make_stores(tmp_path, night_job.ITEMS)
    away = FakeCoordinator(night_job.ITEMS)
    away.unreachable = True
    with FedRap.open(tmp_path / "b"):
        outcomes = await night_job.run_night(night_job.stores_in(tmp_path), away, lambda: "t")
    assert outcomes == {"unreachable": 1, "StoreBusy": 1, "nothing-to-share": 1}


def run_notebook(name: str) -> dict[str, Any]:
    """All code cells one after the other, as a kernel would run them: `await` is allowed."""
    notebook = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict[str, Any] = {}
    loop = asyncio.Runner()
    for cell in notebook["cells"]:
        assert set(cell) >= {"cell_type", "metadata", "source", "id"}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []  # what it shows depends on who runs it
            source = "".join(cell["source"])
            code = compile(source, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waiting: Coroutine[Any, Any, None] | None = eval(code, names)
            if waiting is not None:
                loop.run(waiting)
    loop.close()
    return names


def test_the_notebook_looks_into_c_and_d() -> None:
    names = run_notebook("look_inside.ipynb")
    assert names["C"].shape == (10, 3)
    assert set(names["D"]) == names["own"]
    assert names["shown"][0].item in ("spade", "seeds")  # beside the newest tap, the gloves
    assert names["report"].joined


def test_the_notebook_looks_into_the_c_of_a_real_coordinator(
    coordinator_with: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = coordinator_with(shop.ITEMS)
    monkeypatch.setenv("FEDRAP_SERVER", address.url)
    monkeypatch.setenv("FEDRAP_TOKEN", address.tokens[0])
    assert run_notebook("look_inside.ipynb")["report"].joined


def test_every_example_is_run_here() -> None:
    named = {"shop.py", "web_app.py", "night_job.py", "reader.py", "look_inside.ipynb"}
    assert {one.name for one in FOLDER.iterdir() if one.is_file()} == named
