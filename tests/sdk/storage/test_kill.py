"""kill -9 at each step of a round: nothing is lost, and nothing is spent twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedrap import FedRap
from fedrap.storage.database import DeviceStore
from tests.sdk.made import Clock, MadeCoordinator, a_device

STEPS = [
    "before-offer",
    "after-offer",
    "inside-commit",
    "before-send",
    "after-send",
    "inside-forget",
]
HISTORY = ("item-1", "item-5", "item-2")


class Deadly(MadeCoordinator):
    """Kills its own process at one step. What reached it is in a file, as in a real server."""

    def __init__(self, step: str, arrived: Path) -> None:
        super().__init__()
        self.deadly, self.arrived = step, arrived

    def die(self, step: str) -> None:
        """The end, without any clean-up."""
        if step == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def _called(self, verb: str) -> None:
        super()._called(verb)
        if verb == "offer":
            self.die("before-offer")
        if verb == "send_update":
            self.die("before-send")
            round_id, body = self.sent[-1]
            self.arrived.write_bytes(round_id + body)
            self.die("after-send")


def run_and_die(folder: Path, step: str) -> None:
    """A device that joins a round and is killed at this step."""
    coordinator = Deadly(step, folder / "arrived")
    put, forget = DeviceStore._put, DeviceStore.forget_outgoing

    def dying_put(self: DeviceStore, name: str, value: object) -> None:
        if name == "ledger":
            coordinator.die("after-offer")
        put(self, name, value)
        if name == "personal":  # written, and the transaction is still open
            coordinator.die("inside-commit")

    def dying_forget(self: DeviceStore, round_id: bytes) -> None:
        coordinator.die("inside-forget")
        forget(self, round_id)

    DeviceStore._put = dying_put  # type: ignore[method-assign]
    DeviceStore.forget_outgoing = dying_forget  # type: ignore[method-assign]
    a_device(folder / "device", coordinator, clock=Clock(), items=HISTORY).run_round()
    os._exit(1)  # it lived


def die_at_each_step(folder: Path) -> None:
    """One child for each step; all of them killed."""
    for step in STEPS:
        (folder / step).mkdir()
        child = os.fork()
        if child == 0:
            run_and_die(folder / step, step)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, step


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the dead left behind, in a folder for each step."""
    folder = tmp_path_factory.mktemp("killed")
    code = (
        "from pathlib import Path\nfrom tests.sdk.storage.test_kill import die_at_each_step\n"
        f"die_at_each_step(Path({str(folder)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.spec("7.7")
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_loses_nothing_and_spends_nothing_twice(killed: Path, step: str) -> None:
    arrived = killed / step / "arrived"
    committed = step in ("before-send", "after-send", "inside-forget")
    coordinator = MadeCoordinator()
    with FedRap.open(killed / step / "device", transport=coordinator, token="again") as device:
        status = device.status()
        assert [one.item for one in device._state.contents().interactions] == list(HISTORY)
        assert (status.consented, status.enrolled, status.release) == (True, True, 1)
        assert (status.rounds, status.pending) == ((1, 1) if committed else (0, 0))
        assert status.personal_items == (3 if committed else 0)
        kept = [round_id + body for round_id, body in device._state.snapshot().outbox]
        assert device.run_round().joined
        status = device.status()
        assert (status.rounds, status.pending, status.personal_items) == (1, 0, 3)
    sent = [round_id + body for round_id, body in coordinator.sent]
    assert len(sent) == 1
    assert "enrol" not in coordinator.calls
    if committed:
        assert sent == kept
        assert coordinator.calls == ["send_update"]  # no second place, so no second charge
    if arrived.exists():
        assert step in ("after-send", "inside-forget")
        assert sent == [arrived.read_bytes()]
