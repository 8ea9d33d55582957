"""Java devices beside Python ones, at the real coordinator over a real socket.

What should happen: nobody can tell which language a device is written in.
What should not happen: a share that differs, a step charged twice after a crash, a refusal that is
not understood, a byte before consent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedrap import FedRap, Floor
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.settings import Enrolment, Settings
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.plan import Scoring, SequenceMethod, SequenceScoring, SolveMethod
from fedrap_core.sequence.server_step import SequenceLearning
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import MAX_RELEASE_BYTES, unpack_release
from testkit.harness import ITEMS, LiveServer, serve, small_settings
from tests.android.java_devices import Died, JavaDevices, java_devices
from tests.end_to_end.test_capture import recording, spellings

HISTORIES = [ITEMS[i : i + 5] + ITEMS[: i % 3] for i in range(6)]
STEPS = [
    "before-offer",
    "after-offer",
    "before-commit",
    "before-send",
    "after-send",
    "after-forget",
]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaDevices]:
    """One process for all tests that kill nobody."""
    with java_devices() as devices:
        yield devices


async def latest(served: LiveServer) -> np.ndarray[Any, np.dtype[np.float64]]:
    """C of the latest release, (m, k)."""
    raw = (await served.app[COORDINATOR].release(None)).body
    common = unpack_release(decode(Release, raw, MAX_RELEASE_BYTES))
    return common.take(np.arange(common.size))


async def advance(served: LiveServer) -> None:
    """What follows from the updates that came."""
    await served.app[COORDINATOR].advance()


async def python_round(
    served: LiveServer, folder: Path, histories: list[list[str]]
) -> list[FedRap]:
    """A device of the Python SDK for each history, all of them in one round."""
    devices = []
    for number, items in enumerate(histories):
        device = await served.device(folder / f"python-{number}", items)
        assert (await device.run_round_async()).joined
        devices.append(device)
    return devices


async def java_round(
    java: JavaDevices, served: LiveServer, folder: Path, histories: list[list[str]]
) -> list[str]:
    """The same with devices in Java."""
    names = []
    for number, items in enumerate(histories):
        name = f"{folder.name}-{number}"
        await java.device(name, folder / name, served.url, await served.token(), items)
        report = await java.run(name)
        assert report["joined"], report
        await advance(served)
        names.append(name)
    return names


async def released(served: LiveServer, version: int) -> None:
    """Wait until this is the latest release."""
    async with asyncio.timeout(20):
        while (await served.app[COORDINATOR].release(None)).version != version:
            await asyncio.sleep(0.02)
            await advance(served)


@pytest.mark.spec("5.2", "5.4", "6.2")
async def test_a_release_is_the_same_whoever_the_devices_are(
    java: JavaDevices, tmp_path: Path
) -> None:
    others = [*HISTORIES[:-1], HISTORIES[0]]
    found = {}
    keyring = fresh_keyring()
    for case, javas, histories in (
        ("python", 0, HISTORIES),
        ("mixed", 3, HISTORIES),
        ("java", 6, HISTORIES),
        ("another history", 0, others),
    ):
        async with serve(small_settings(updates=6), MemoryStore(), keyring) as served:
            await java_round(java, served, tmp_path / case, histories[:javas])
            await python_round(served, tmp_path / case, histories[javas:])
            await released(served, 2)
            found[case] = await latest(served)
    # Shares are rounded at random and C to int8: a number may fall on the other side of two steps.
    expected = found["python"]
    tolerance = 2 * np.abs(expected).max() / 127
    assert np.abs(found["mixed"] - expected).max() <= tolerance
    assert np.abs(found["java"] - expected).max() <= tolerance
    assert np.abs(found["another history"] - expected).max() > 3 * tolerance  # it can tell


def sequence_settings(updates: int) -> Settings:
    """With a sequence part in which nothing but decoys and rounding is random."""
    part = SequenceMethod(dim=3, targets=50, longest=20, dropout=0.0, taus=(0.5, 4.0), scale=0.1)
    return msgspec.structs.replace(
        small_settings(updates=updates, separation=1),
        method=SolveMethod(dim=4, sequence=part),
        sequence=SequenceLearning(rounds=4, warm_up=0.0, spread=0.5),
        scoring=Scoring(sequence=SequenceScoring(solve=4.0, kappa=0.5)),
    )


@pytest.mark.spec("10.1", "10.2", "10.3", "10.5", "10.6")
async def test_the_sequence_part_is_the_same_whoever_the_devices_are(
    java: JavaDevices, tmp_path: Path
) -> None:
    others = [*HISTORIES[:-1], HISTORIES[0][::-1]]
    found: dict[str, tuple[Any, Any]] = {}
    for case, javas, histories in (
        ("sequence-python", 0, HISTORIES), ("sequence-mixed", 3, HISTORIES),
        ("sequence-java", 6, HISTORIES), ("sequence-other", 0, others),
    ):  # fmt: skip
        async with serve(sequence_settings(6), MemoryStore()) as served:
            await java_round(java, served, tmp_path / case, histories[:javas])
            await python_round(served, tmp_path / case, histories[javas:])
            await released(served, 2)
            raw = (await served.app[COORDINATOR].release(None)).body
            part = unpack_release(decode(Release, raw, MAX_RELEASE_BYTES)).sequence
            assert part is not None
            found[case] = part.offsets.to_float(), part.kernels
    expected, kernels = found["sequence-python"]
    for case in ("sequence-mixed", "sequence-java"):
        # Adam's first step is a tenth long at the most; what is rounded at random moves it little.
        assert np.abs(found[case][0] - expected).max() < 0.01
        assert np.abs(found[case][1] - kernels).max() < 0.002
    assert np.abs(found["sequence-other"][0] - expected).max() > 0.02  # it can tell


@pytest.mark.parametrize("sequence", [False, True], ids=["solve", "with sequence"])
async def test_a_java_device_recommends_what_a_python_device_recommends(
    java: JavaDevices, tmp_path: Path, sequence: bool
) -> None:
    settings = sequence_settings(2) if sequence else small_settings(updates=2)
    async with serve(settings, str(tmp_path / "c.sqlite")) as served:
        (name,) = await java_round(java, served, tmp_path / f"java-{sequence}", HISTORIES[:1])
        (device,) = await python_round(served, tmp_path, HISTORIES[:1])
        await java.do(name, "sync")
        await device.sync_async()
        expected = device.recommend(5, explain=True)
        found = await java.do(name, "recommend", n=5)
        assert [one["item"] for one in found] == [one.item for one in expected]
        for one, other in zip(found, expected, strict=True):
            assert one["shared"] == pytest.approx(other.shared, rel=1e-5, abs=2e-6)
            assert one["personal"] == pytest.approx(other.personal, rel=1e-5, abs=2e-6)
            assert one["sequence"] == pytest.approx(other.sequence, rel=1e-5, abs=2e-6)
            assert one["popularity"] == pytest.approx(other.popularity, rel=1e-5, abs=2e-6)
            assert bool(other.sequence) == sequence
            mine = {why.item: (why.shared, why.personal, why.sequence) for why in other.reasons}
            theirs = {
                why["item"]: (why["shared"], why["personal"], why["sequence"])
                for why in one["reasons"]
            }
            assert theirs.keys() == mine.keys()
            for item, parts in theirs.items():
                assert parts == pytest.approx(mine[item], rel=1e-5, abs=2e-6)
        likes = await java.do(name, "similar", item=ITEMS[1], n=3)
        ours = device.similar_items(ITEMS[1], 3)
        assert [one["item"] for one in likes] == [item for item, _ in ours]
        assert [one["cosine"] for one in likes] == pytest.approx([c for _, c in ours], abs=1e-5)
        said, yours = await java.status(name), msgspec.to_builtins(device.status())
        alike = ("interactions", "personal_items", "release", "rounds", "pending", "blocked_by")
        assert {field: said[field] for field in alike} == {field: yours[field] for field in alike}


@pytest.mark.spec("7.13")
async def test_exports_move_between_the_libraries(java: JavaDevices, tmp_path: Path) -> None:
    for passphrase in (None, "correct horse"):
        name = f"java {passphrase}"
        await java.do(name, "open", folder=str(tmp_path / name))
        await java.record(name, ["item-1", "item-2"], 2.5)
        with FedRap.open(tmp_path / f"python {passphrase}") as device:
            device.record("item-9", at=1_700_000_000.123456)
            device.hide("item-7")
            device.export(tmp_path / "theirs", passphrase=passphrase)
            moved = {"file": str(tmp_path / "theirs"), "passphrase": passphrase}
            assert await java.do(name, "import", **moved) == {"new": 1}
            await java.do(name, "export", file=str(tmp_path / "ours"), passphrase=passphrase)
            assert device.import_export(tmp_path / "ours", passphrase=passphrase) == 2
            assert sorted(one.item for one in device.history()) == ["item-1", "item-2", "item-9"]
            assert device.hidden() == ["item-7"]
            assert (await java.status(name))["hidden"] == 1


async def test_deltas_bring_a_java_device_to_the_same_c(java: JavaDevices, tmp_path: Path) -> None:
    async with serve(small_settings(updates=2, separation=1), MemoryStore()) as served:
        free = {"floor": [1, 100, 2, 0.0]}
        for name in ("d1", "d2"):
            token = await served.token()
            await java.device(name, tmp_path / name, served.url, token, ITEMS[:2], **free)
        for step in (1, 2, 3):  # two rows change each time: from the second on a delta comes
            for name in ("d1", "d2"):
                report = await java.run(name)
                assert (report["joined"], report["step"]) == (True, step), report
                await advance(served)
        await released(served, 4)
        await java.do("d1", "sync")
        assert (await java.status("d1"))["release"] == 4


@pytest.mark.spec("7.6", "7.7", "7.8")
async def test_a_kill_at_any_step_is_resumed_and_charged_once(
    java: JavaDevices, tmp_path: Path
) -> None:
    async with serve(small_settings(updates=len(STEPS)), MemoryStore()) as served:
        for step in STEPS:
            await _die(java, served, tmp_path, step)
        for place, step in reversed([*enumerate(STEPS)]):  # the last one while the round is open
            folder, committed = tmp_path / step, place >= STEPS.index("before-send")
            await java.do(step, "open", folder=str(folder), server=served.url)
            before = await java.status(step)
            waiting = committed and step != "after-forget"
            assert before["enrolled"], step
            assert before["rounds"] == (1 if committed else 0), step
            assert before["pending"] == (1 if waiting else 0), step
            assert before["interactions"] == 5, step
            report = await java.run(step)
            expected = (True, None) if step != "after-forget" else (False, "already-in-round")
            assert (report["joined"], report["blocked_by"]) == expected, step
            after = await java.status(step)
            assert (after["rounds"], after["pending"]) == (1, 0), step
        await advance(served)
        await released(served, 2)  # each of the six was counted, and once
        await _both_ledgers_agree(java, served)


async def _die(java: JavaDevices, served: LiveServer, folder: Path, step: str) -> None:
    with java_devices() as victim:
        token = await served.token()
        await victim.device(step, folder / step, served.url, token, ITEMS[:5], die_at=step)
        busy = java.ask(step, "open", folder=str(folder / step), server=served.url)
        assert busy["error"] == "STORE_BUSY"
        with pytest.raises(Died) as death:
            await victim.run(step)
        assert death.value.code == 137


async def _both_ledgers_agree(java: JavaDevices, served: LiveServer) -> None:
    store = served.app[COORDINATOR].store
    (round_,) = [one for one in await store.rounds(10) if one.step == 1]
    assert (round_.assigned, round_.accepted) == (len(STEPS), len(STEPS))
    charged = [one async for chunk in store.charges(round_.id) for one in chunk]
    assert len(charged) == len({one.device for one in charged}) == len(STEPS)
    for one in charged:
        known = await store.device(one.device)
        assert known is not None
        assert (one.came, known.participations) == (True, 1)


async def _refusals(served: LiveServer, open_device: Any, run: Any) -> dict[str, Any]:
    """What a device is told in one situation after the other, in either language."""
    said: dict[str, Any] = {}
    await open_device("one", served.url, await served.token(), Floor.without_privacy(min_updates=2))
    await open_device("two", served.url, await served.token(), Floor.without_privacy(min_updates=2))
    assert (await run("one"))[0]
    assert (await run("two"))[0]
    said["a step later"] = await run("one")
    await open_device(
        "picky", served.url, await served.token(), Floor.without_privacy(min_updates=50)
    )
    said["a floor of devices"] = await run("picky")
    await open_device(
        "noisy",
        served.url,
        await served.token(),
        Floor.without_privacy(min_noise=0.5, min_updates=2),
    )
    said["a floor of noise"] = await run("noisy")
    await open_device("liar", served.url, "no-such-token", Floor.without_privacy(min_updates=2))
    said["a token that is none"] = await run("liar")
    await open_device("none", served.url, None, Floor.without_privacy(min_updates=2))
    said["no token"] = await run("none")
    await open_device(
        "stranger",
        served.url,
        await served.token(),
        Floor.without_privacy(min_updates=2),
        items=["unheard-of"],
    )
    said["nothing that C knows"] = await run("stranger")
    return said


@pytest.mark.spec("8.1", "7.5", "7.12")
async def test_refusals_are_understood_as_in_python(java: JavaDevices, tmp_path: Path) -> None:
    async def open_java(
        name: str, url: str, token: str | None, floor: Floor, items: list[str] = ITEMS[:5]
    ) -> None:
        floors = [floor.separation, floor.cap, floor.min_updates, floor.min_noise]
        await java.device(f"r-{name}", tmp_path / f"r-{name}", url, token, items, floor=floors)

    async def run_java(name: str) -> tuple[bool, Any, bool]:
        report = await java.run(f"r-{name}")
        await advance(served)
        return report["joined"], report["blocked_by"], report["retry_after"] is not None

    opened: dict[str, FedRap] = {}

    async def open_python(
        name: str, url: str, token: str | None, floor: Floor, items: list[str] = ITEMS[:5]
    ) -> None:
        opened[name] = FedRap.open(tmp_path / f"p-{name}", server=url, token=token, floor=floor)
        opened[name].consent(train=True, policy="test")
        for item in items:
            opened[name].record(item)

    async def run_python(name: str) -> tuple[bool, Any, bool]:
        report = await opened[name].run_round_async()
        await advance(served)
        return report.joined, report.blocked_by, report.retry_after is not None

    said = []
    for opens, runs in ((open_java, run_java), (open_python, run_python)):
        async with serve(small_settings(updates=2, over_selection=9.0), MemoryStore()) as served:
            said.append(await _refusals(served, opens, runs))
    for device in opened.values():
        device.close()
    assert said[0] == said[1]
    assert {word for _, word, _ in said[0].values()} == {
        "too-soon", "floor-cohort", "floor-noise", "token-refused", "no-token", "nothing-to-share",
    }  # fmt: skip


@pytest.mark.spec("7.14", "2.2")
async def test_the_end_of_a_task_and_of_a_membership_are_understood(
    java: JavaDevices, tmp_path: Path
) -> None:
    async with serve(small_settings(updates=2, total=1), MemoryStore()) as served:
        names = await java_round(java, served, tmp_path / "over", HISTORIES[:2])
        late = await java.run(names[0])
        assert (late["joined"], late["blocked_by"]) == (False, "task-over")
        receipt = await java.do(names[0], "erase")
        assert (receipt["confirmed"], receipt["because"]) == (True, None)
        assert len(await served.app[COORDINATOR].store.devices(b"", 10)) == 1
        for known in await served.app[COORDINATOR].store.devices(b"", 10):
            await served.app[COORDINATOR].store.forget_device(known.id)
        assert (await java.run(names[1]))["blocked_by"] == "not-enrolled"


@pytest.mark.spec("3.6", "3.8")
async def test_certificates_are_checked_and_renewed(java: JavaDevices, tmp_path: Path) -> None:
    day = 86400.0
    now = [1_700_000_000.0]
    base = small_settings(updates=1, separation=1)
    settings: Settings = msgspec.structs.replace(base, enrolment=Enrolment(wait_steps=0))
    floor = [1, 100, 1, 0.0]
    async with serve(settings, MemoryStore(), clock=lambda: now[0]) as served:
        token = await served.token()
        where = {"folder": str(tmp_path / "c"), "server": served.url, "floor": floor}
        await java.do("c", "open", token=token, now=now[0], **where)
        await java.do("c", "consent", train=True)
        await java.record("c", ITEMS[:4])
        assert (await java.run("c"))["joined"]
        await advance(served)
        (start,) = await served.app[COORDINATOR].store.devices(b"", 10)
        for later, whose_clock in ((21 * day, now[0] + 21 * day), (60 * day, 5.0)):
            await java.do("c", "close")
            now[0] = 1_700_000_000.0 + later
            await java.do("c", "open", now=whose_clock, **where)  # in time, and when it is told
            report = await java.run("c")
            assert report["joined"], report
            await advance(served)
            (known,) = await served.app[COORDINATOR].store.devices(b"", 10)
            assert known.valid_until > start.valid_until
            start = known
        assert (await java.status("c"))["rounds"] == 3


async def test_nothing_leaves_before_consent_and_nothing_that_tells_of_the_user_after_it(
    java: JavaDevices, tmp_path: Path
) -> None:
    items, weight = [f"zq{n:02d}-kettle" for n in range(20)], 7.3125
    async with (
        serve(small_settings(updates=2), MemoryStore(), items=items) as served,
        recording(served.url) as capture,
    ):
        server = f"http://127.0.0.1:{capture.port}"
        folder = tmp_path / "secretive"
        await java.do("p", "open", folder=str(folder), server=server, token=await served.token())
        await java.record("p", items[:5], weight)
        await java.do("p", "sync")
        assert (await java.run("p"))["blocked_by"] == "no-consent"
        await java.do("p", "consent", train=False)
        assert (await java.run("p"))["blocked_by"] == "no-consent"
        await java.do("p", "recommend", n=5)
        await asyncio.sleep(0.05)
        assert capture.connections == []
        await java.do("p", "consent", train=True)
        report = await java.run("p")
        assert report["joined"]
        await java.do("p", "close")
        requests, sent = capture.requests(), capture.sent
    assert [request.line for request in requests] == [
        "POST /v1/enrol HTTP/1.1",
        "GET /v1/releases/latest HTTP/1.1",
        "GET /v1/catalogue?start=0 HTTP/1.1",
        "POST /v1/offers HTTP/1.1",
        "POST /v1/rounds/{round}/updates HTTP/1.1",
    ]
    known = {
        "host", "accept", "accept-encoding", "user-agent", "content-length", "content-type",
        "fedrap-device", "fedrap-nonce", "fedrap-signature", "connection",
    }  # fmt: skip
    for request in requests:
        assert set(request.headers) <= known, request.headers
        assert request.headers["user-agent"] == "fedrap/1"
        signed = request.line.startswith(("POST /v1/offers", "POST /v1/rounds"))
        assert ("fedrap-device" in request.headers) == signed
    for item in items:
        assert item.encode() not in sent
        assert item.encode().hex().encode() not in sent
    assert not [one for one in spellings(weight) if one in sent]
    assert not [one for one in spellings(1_000_000.0) if one in sent]
    for word in (b"wish-listed", b"a policy of the app", str(tmp_path).encode()):
        assert word not in sent
    stored = b"".join(one.read_bytes() for one in folder.rglob("*") if one.is_file())
    assert b"kettle" not in stored
    assert b"wish-listed" not in stored
