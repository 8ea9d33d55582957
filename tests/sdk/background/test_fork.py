"""An open device and os.fork: the store stays the parent's until the parent gives it back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedrap import FedRap

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

HEAD = """
import os, sys, threading, time
from pathlib import Path
from fedrap import FedRap, StoreBusy, StoreClosed
from tests.sdk.made import MadeCoordinator, a_device
from tests.sdk.background.test_process import ANY_TIME, AT_ONCE, Stuck

def in_child(act):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    return child

def passed(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

folder = Path(sys.argv[1])
"""


def run(folder: Path, body: str) -> None:
    """A process of its own: forking this one would fork pytest."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", HEAD + body, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_a_child_is_told_who_has_the_store_and_harms_nothing(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
device = a_device(folder, None)
parent = os.getpid()

def use():
    for verb in (device.status, lambda: device.record("b"), device.recommend, device.erase):
        try:
            verb()
        except StoreBusy as busy:
            assert str(parent) in str(busy)
        else:
            raise AssertionError("the child used the parent's store")
    try:
        FedRap.open(folder)
    except StoreBusy:
        pass
    else:
        raise AssertionError
    device.close()

for _ in range(3):
    assert passed(in_child(use))
    device.record("item-7")
assert device.status().interactions == 6
device.close()
""",
    )
    with FedRap.open(tmp_path) as device:
        assert device.status().interactions == 6


def test_a_child_takes_the_store_when_the_parent_has_closed_it(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
device = a_device(folder, MadeCoordinator())
go, closed = os.pipe()

def live():
    os.read(go, 1)
    for number in range(50):
        device.record(f"item-{number % 12}")
    assert device.run_round().joined
    assert device.status().interactions == 54
    assert device.recommend(3, filter_seen=False)
    device.close()

device.recommend(3)
child = in_child(live)
device.record("item-9")  # after the fork: the child reads it from the store
device.close()
os.write(closed, b"x")
assert passed(child)
try:
    device.status()
except StoreClosed:
    sys.exit(0)
raise AssertionError
""",
    )
    with FedRap.open(tmp_path) as device:
        assert (device.status().interactions, device.status().rounds) == (54, 1)


def test_a_child_takes_the_store_of_a_parent_that_was_killed(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
import signal
ready, told = os.pipe()

def first():
    device = a_device(folder, None)
    def second():
        while True:
            try:
                device.record("item-4")
                break
            except StoreBusy:
                time.sleep(0.01)
        device.close()
        os.write(told, b"x")
    in_child(second)
    device.record("item-3")
    os.kill(os.getpid(), signal.SIGKILL)

assert not passed(in_child(first))
os.read(ready, 1)
""",
    )
    with FedRap.open(tmp_path) as device:
        kept = [one.item for one in device._state.contents().interactions]
    assert kept[-2:] == ["item-3", "item-4"]
    assert len(kept) == 5


def test_no_thread_and_no_running_round_is_inherited(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
stuck = Stuck()
device = a_device(folder, stuck)
device.start(conditions=ANY_TIME, pace=AT_ONCE)
assert stuck.entered.wait(120)
go, closed = os.pipe()

def live():
    os.read(go, 1)
    assert threading.active_count() == 1
    assert device.status().blocked_by is None
    stuck.__class__ = MadeCoordinator
    assert device.run_round().joined
    device.start(conditions=ANY_TIME, pace=AT_ONCE)
    assert "fedrap-rounds" in [thread.name for thread in threading.enumerate()]
    device.close()

child = in_child(live)
assert device.run_round().blocked_by == "already-running"  # the parent goes on
device.close()
os.write(closed, b"x")
assert passed(child)
""",
    )


def test_forking_while_other_threads_write_loses_nothing(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
device = a_device(folder, None, items=())

def write():
    for number in range(200):
        device.record(f"item-{number}")

threads = [threading.Thread(target=write) for _ in range(2)]
for thread in threads:
    thread.start()

def refused():
    try:
        device.record("never")
    except StoreBusy:
        return
    raise AssertionError

for _ in range(10):
    assert passed(in_child(refused))
for thread in threads:
    thread.join()
device.close()
""",
    )
    with FedRap.open(tmp_path) as device:
        assert device.status().interactions == 400


def test_a_fork_that_runs_no_hook_is_noticed_too(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
import fedrap.background.process
device = a_device(folder, None)
fedrap.background.process._open.clear()  # as if the fork had been made in C

def use():
    try:
        device.record("never")
    except StoreBusy:
        return
    raise AssertionError

assert passed(in_child(use))
device.record("item-8")
device.close()
""",
    )
    with FedRap.open(tmp_path) as device:
        assert device.status().interactions == 4
