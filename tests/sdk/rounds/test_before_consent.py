"""Before the user agrees, no socket is opened and no file is written outside the store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, socket, sys, time
from pathlib import Path

opened, written = [], []

def listen(event, arguments):
    if event == "socket.__new__" and arguments[1] == socket.AF_UNIX:
        return  # an event loop wakes itself through a pair that leads nowhere
    if event.startswith("socket.") or event == "subprocess.Popen":
        opened.append(event)
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        flags = arguments[2] or 0
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            written.append(os.fsdecode(arguments[0]))
    if event in ("os.mkdir", "os.rename", "sqlite3.connect"):
        written.append(os.fsdecode(arguments[0]))

sys.addaudithook(listen)
from fedrap import Conditions, FedRap, Pace
from fedrap.background.conditions import always

def use(folder):
    device = FedRap.open(folder, server="http://127.0.0.1:9", token="never")
    with device:
        device.record("a")
        device.recommend(5)
        device.similar_items("a")
        device.sync()
        assert device.run_round().blocked_by == "no-consent"
        conditions = Conditions(always, always, always, always)
        device.start(conditions=conditions, pace=Pace(first=0.0, look=0.01))
        time.sleep(0.1)
        device.consent(train=False, policy="v1")
        assert device.status().blocked_by == "no-consent"
        device.stop()
    if "erase" in folder.name:
        with FedRap.open(folder, server="http://127.0.0.1:9") as device:
            device.erase()

for name in ("keep", "erase"):
    use(Path(sys.argv[1]) / name)
assert opened == [], opened
assert "aiohttp" not in sys.modules
outside = [one for one in written if not os.path.abspath(one).startswith(sys.argv[1])]
assert outside == [], outside
assert any(one.endswith("store.sqlite") for one in written)  # the spy sees files
socket.socket().close()
assert opened  # and sockets
"""


def test_before_consent_no_socket_is_opened_and_no_file_is_written_elsewhere(
    tmp_path: Path,
) -> None:
    home, store = tmp_path / "home", tmp_path / "store"
    home.mkdir()
    store.mkdir()
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "TMPDIR": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(store)],
        env=environment, capture_output=True, text=True, timeout=120, cwd=home,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert list(home.rglob("*")) == []
    assert sorted(one.name for one in (store / "keep" / "app").iterdir()) == [
        "lock", "store.key", "store.sqlite",
    ]  # fmt: skip
    assert list((store / "erase").rglob("*")) == []
