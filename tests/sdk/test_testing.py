"""`fedrap.testing`: what an app's own tests can arrange and can see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedrap import FedRap
from fedrap.testing import Call, FakeCoordinator, planted_items
from fedrap_core.plan import Plan, Privacy

ITEMS = ["tea", "mug", "pot", "book", "lamp", "pen"]
ALIKE = [["tea", "mug", "pot"], ["lamp", "pen"]]


@pytest.fixture
def fake() -> FakeCoordinator:
    return FakeCoordinator(ITEMS, alike=ALIKE)


def a_device(folder: Path, fake: FakeCoordinator, *items: str) -> FedRap:
    device = FedRap.open(folder, transport=fake, token="any")
    device.consent(train=True, policy="test")
    for item in items:
        device.record(item)
    return device


def test_who_likes_one_of_a_group_is_recommended_the_others_in_order(
    fake: FakeCoordinator, tmp_path: Path
) -> None:
    for liked, expected in (("pot", ["tea", "mug"]), ("pen", ["lamp"])):
        with a_device(tmp_path / liked, fake, liked) as device:
            device.sync()
            found = [one.item for one in device.recommend(len(expected))]
            assert found == expected


def test_without_groups_each_five_items_in_a_row_are_alike(tmp_path: Path) -> None:
    fake = FakeCoordinator([f"item-{row}" for row in range(500)])
    with a_device(tmp_path, fake, "item-252") as device:
        device.sync()
        found = [one.item for one in device.recommend(4)]
    assert found == ["item-250", "item-251", "item-253", "item-254"]


def test_nothing_is_asked_of_it_before_consent(fake: FakeCoordinator, tmp_path: Path) -> None:
    with FedRap.open(tmp_path, transport=fake, token="any") as device:
        device.record("tea")
        device.sync()
        assert device.run_round().blocked_by == "no-consent"
    assert (fake.calls, fake.sent_bytes, fake.devices) == ([], 0, 0)


def test_what_left_the_device_can_be_read_and_counted(
    fake: FakeCoordinator, tmp_path: Path
) -> None:
    with a_device(tmp_path, fake, "tea", "lamp", "not in the catalogue") as device:
        report = device.run_round()
    (update,) = fake.updates
    assert update.items == ("tea", "lamp")
    assert (update.step, update.size_bytes) == (report.step, report.sent_bytes)
    assert np.all(np.isfinite(update.share.values))
    verbs = [call.verb for call in fake.calls]
    assert verbs == ["enrol", "release", "catalogue", "offer", "send_update"]
    assert fake.calls[-1] == Call("send_update", report.sent_bytes)
    assert fake.sent_bytes == sum(call.size_bytes for call in fake.calls) > report.sent_bytes
    assert fake.devices == 1


def test_it_refuses_as_often_as_it_is_told(fake: FakeCoordinator, tmp_path: Path) -> None:
    fake.refuse("too-soon", retry_after=0.0, times=2, verb="offer")
    with a_device(tmp_path, fake, "tea") as device:
        reports = [device.run_round() for _ in range(3)]
    assert [one.blocked_by for one in reports] == ["too-soon", "too-soon", None]


def test_the_wait_that_it_asks_for_is_obeyed(fake: FakeCoordinator, tmp_path: Path) -> None:
    fake.refuse("no-round", retry_after=30)
    with a_device(tmp_path, fake, "tea") as device:
        assert device.run_round().retry_after == 30
        asked = len(fake.calls)
        assert device.run_round().blocked_by == "told-to-wait"
    assert len(fake.calls) == asked


def test_a_code_that_does_not_exist_is_named(fake: FakeCoordinator) -> None:
    with pytest.raises(ValueError, match=r"no problem 'too-late'; there are .*too-soon"):
        fake.refuse("too-late")


def test_what_was_not_sent_while_it_was_away_is_sent_later(
    fake: FakeCoordinator, tmp_path: Path
) -> None:
    fake.refuse("unavailable", verb="send_update")
    with a_device(tmp_path, fake, "tea") as device:
        assert device.run_round().blocked_by == "unavailable"
        fake.unreachable = True
        assert device.run_round().blocked_by == "unreachable"
        fake.unreachable = False
        assert device.run_round().joined
    assert len(fake.updates) == 1


def test_a_new_release_brings_new_items_and_another_c(
    fake: FakeCoordinator, tmp_path: Path
) -> None:
    with a_device(tmp_path, fake, "tea") as device:
        device.sync()
        items = [*ITEMS, "cup"]
        turned = planted_items(items, [["tea", "cup"]])
        wide = np.zeros((len(items), 4))
        wide[:, : min(4, turned.shape[1])] = turned[:, :4]
        assert fake.publish(wide, new_items=["cup"]) == 2
        device.sync()
        assert device.status().release == 2
        assert device.recommend(1)[0].item == "cup"


def test_a_new_item_without_numbers_is_known_but_not_pushed(
    fake: FakeCoordinator, tmp_path: Path
) -> None:
    with a_device(tmp_path, fake, "tea") as device:
        device.sync()
        fake.publish(new_items=["cup"])
        device.sync()
        found = device.recommend(10)
    assert {one.item for one in found} == {*ITEMS, "cup"} - {"tea"}
    assert [one.score for one in found if one.item == "cup"] == [0.0]


def test_an_item_that_is_retired_is_not_shown(fake: FakeCoordinator, tmp_path: Path) -> None:
    fake.retired.append(ITEMS.index("mug"))
    with a_device(tmp_path, fake, "tea") as device:
        device.sync()
        assert "mug" not in [one.item for one in device.recommend(10)]


def test_its_plan_is_what_devices_are_charged_by(tmp_path: Path) -> None:
    fake = FakeCoordinator(ITEMS, plan=Plan(privacy=Privacy(noise=2.0, cap=1), min_updates=20))
    with a_device(tmp_path, fake, "tea") as device:
        assert device.run_round().joined
        assert 0 < device.status().epsilon < 10
        for _ in range(2):
            fake.publish()
        assert device.run_round().blocked_by == "budget-spent"


@pytest.mark.parametrize("alike", [[["tea", "cup"]], [["tea"], ["tea"]]])
def test_groups_must_be_of_the_items_and_apart(alike: list[list[str]]) -> None:
    with pytest.raises(ValueError, match="one group only"):
        FakeCoordinator(ITEMS, alike=alike)


def test_a_c_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="C has 2 rows for 6 items"):
        FakeCoordinator(ITEMS, common=np.eye(2))


def test_it_loads_no_network_and_no_server_and_no_pytest() -> None:
    code = "import fedrap.testing, sys; sys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"aiohttp", "socketserver", "sqlalchemy", "fedrap_coordinator", "pytest"}


def test_the_fixtures_serve_an_app_that_asks_for_them(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["fedrap.pytest_plugin"]\n')
    (tmp_path / "test_app.py").write_text("""
import pytest

@pytest.fixture
def fedrap_items():
    return ["tea", "mug", "pot"]

def test_the_shop_recommends(fedrap_device, fake_coordinator):
    fedrap_device.record("tea")
    assert [one.item for one in fedrap_device.recommend(2)] == ["mug", "pot"]
    assert fedrap_device.run_round().joined
    assert fake_coordinator.updates[0].items == ("tea",)
""")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
