"""Errors become answers, bugs become a plain 500, and no log line tells who took part."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fedrap_coordinator.errors import ConfigError, Refusal, refusal_of
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.http.limits import shortened
from fedrap_coordinator.http.problems import problem_response
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.logs import JsonLines, configure_logs
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core import errors as core
from fedrap_core.errors import FedRapError
from fedrap_core.wire import problems
from fedrap_core.wire.codec import encode
from fedrap_core.wire.keys import private_to_bytes, public_point
from testkit.harness import Player, one_cell, serve, small_settings

ANSWERED = {
    core.MalformedMessage: problems.MALFORMED,
    core.UnsupportedVersion: problems.UNSUPPORTED_VERSION,
    core.TooLarge: problems.TOO_LARGE,
    core.SignatureInvalid: problems.BAD_SIGNATURE,
    core.TokenInvalid: problems.TOKEN_REFUSED,
    core.WrongShape: problems.WRONG_SHAPE,
    core.NotFinite: problems.NOT_FINITE,
}
OUR_OWN_FAULTS = {core.BrokenModel, core.Diverged, core.ForkedLog}


def none() -> float:
    """No spread."""
    return 0.0


class BrokenStore(MemoryStore):
    """A bug: it raises where slots are given."""

    def __init__(self, error: type[Exception]) -> None:
        super().__init__()
        self._error = error

    async def assign_slots(self, *_: object) -> NoReturn:
        raise self._error("words for the operator alone")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Everything that this process logs, as the coordinator writes it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(before)


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_every_error_of_the_core_is_an_answer_or_a_bug() -> None:
    kinds = {
        kind
        for kind in vars(core).values()
        if isinstance(kind, type) and issubclass(kind, FedRapError) and kind is not FedRapError
    }
    assert kinds == set(ANSWERED) | OUR_OWN_FAULTS
    for kind, problem in ANSWERED.items():
        refusal = refusal_of(kind("what happened"), none)
        assert refusal is not None
        assert refusal.problem is problem
    for kind in (*OUR_OWN_FAULTS, ConfigError):
        assert refusal_of(kind("what happened"), none) is None


@pytest.mark.spec("4.4")
def test_malformed_bytes_get_words_that_do_not_depend_on_the_reason() -> None:
    said = {
        refusal.detail
        for reason in ("the sealed part does not open", "not a msgpack map")
        if (refusal := refusal_of(core.MalformedMessage(reason), none))
    }
    assert said == {problems.MALFORMED.title}


def test_a_refusal_is_its_own_answer() -> None:
    refusal = Refusal(problems.TOO_SOON, retry_after=3.0)
    assert refusal_of(refusal, none) is refusal
    assert refusal.detail == problems.TOO_SOON.title


@pytest.mark.spec("2.4", "7.12")
@pytest.mark.parametrize("problem", problems.ALL.values(), ids=problems.ALL)
def test_a_refusal_becomes_a_problem_document(problem: problems.Problem) -> None:
    answer = problem_response(Refusal(problem, "so it is", retry_after=1.25))
    assert isinstance(answer.body, bytes)
    assert answer.status == problem.status
    assert answer.content_type == "application/problem+json"
    assert answer.headers["Retry-After"] == "2"  # whole seconds, never too early
    assert json.loads(answer.body) == {
        "type": f"urn:fedrap:problem:{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "detail": "so it is",
        "family": problem.family.value,
        "retry_after": 1.25,
    }


def test_without_a_time_to_come_back_none_is_named() -> None:
    answer = problem_response(Refusal(problems.MALFORMED))
    assert "Retry-After" not in answer.headers
    assert isinstance(answer.body, bytes)
    assert "retry_after" not in json.loads(answer.body)


@pytest.mark.parametrize("error", [RuntimeError, core.BrokenModel, KeyError, AssertionError])
async def test_a_bug_is_a_500_with_its_trace_in_the_log_and_nothing_in_the_body(
    lines: io.StringIO, error: type[Exception]
) -> None:
    async with serve(small_settings(), BrokenStore(error)) as served:
        answer = await (await served.player()).ask(1)
    assert (answer.status, answer.problem) == (500, "internal")
    for word in (b"operator alone", b"Traceback", b".py", error.__name__.encode()):
        assert word not in answer.body
    logged = [event for event in events(lines) if event["event"] == "internal error"]
    assert [event["route"] for event in logged] == ["offers"]
    assert "operator alone" in logged[0]["trace"]
    assert logged[0]["request"] == answer.headers["Fedrap-Request"]


async def test_a_refusal_can_be_found_in_the_log_and_names_a_network_only(
    lines: io.StringIO,
) -> None:
    async with serve(small_settings(), MemoryStore()) as served:
        answer = await (await served.player()).ask(99)
    (told,) = [event for event in events(lines) if event["event"] == "refused"]
    assert (told["route"], told["problem"]) == ("offers", answer.problem)
    assert told["request"] == answer.headers["Fedrap-Request"]
    assert told["address"] == "127.0.0.0/24"
    assert datetime.fromisoformat(told["time"]).tzinfo is not None


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("203.0.113.77", "203.0.113.0/24"),
        ("2001:db8:1:2::/64", "2001:db8:1::/48"),
        ("no address", "?"),
        ("", "?"),
    ],
)
def test_an_address_is_shortened_for_the_log(address: str, said: str) -> None:
    assert shortened(address) == said


async def test_no_device_and_no_key_is_in_any_line_of_a_whole_round(
    lines: io.StringIO, tmp_path: Path
) -> None:
    keyring = fresh_keyring()
    async with serve(small_settings(updates=3), str(tmp_path / "c.sqlite"), keyring) as served:
        players = [await served.player() for _ in range(3)]
        token = await served.token()
        device = await served.device(tmp_path / "device", ["item-1", "item-2"])
        assert (await device.run_round_async()).joined
        offer = await players[0].offer()
        await players[0].post(offer.round, b"not a message")
        await players[0].post(offer.round, encode(players[0].update(offer, one_cell(99))))
        for player in players[:2]:
            await player.join()
        assert (await served.app[COORDINATOR].release(None)).version == 2
        await players[2].join()
        secrets = [private_to_bytes(keyring.seal), keyring.noise, token.encode()]
        credentials = device._state.contents().credentials
        assert credentials is not None
        secrets += [credentials.device, credentials.private_key]
        for player in players:
            secrets += _secrets_of(player)
    said = [str(value) for event in events(lines) for value in event.values()]
    text = "\n".join([lines.getvalue(), *said])
    assert {"round opened", "round moved", "released", "refused"} <= {
        event["event"] for event in events(lines)
    }
    for secret in secrets:
        for shown in (secret.hex(), repr(secret)[2:-1], str(list(secret))):
            assert shown not in text


def _secrets_of(player: Player) -> list[bytes]:
    return [player.id, private_to_bytes(player.key), public_point(player.key.public_key())]


def test_an_event_is_one_line_of_json_with_its_fields() -> None:
    record = logging.makeLogRecord(
        {"msg": "round\nmoved %d", "args": (3,), "levelname": "INFO", "step": 3, "odd": {1}}
    )
    line = JsonLines().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["event"], found["level"], found["step"]) == ("round\nmoved 3", "info", 3)
    assert found["odd"] == "{1}"  # what JSON cannot say is said as text
    assert set(found) == {"time", "level", "event", "step", "odd"}


def test_an_exception_is_one_line_too() -> None:
    try:
        raise RuntimeError("what happened")
    except RuntimeError:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": sys.exc_info()})
    found = json.loads(JsonLines().format(record))
    assert "RuntimeError: what happened" in found["trace"]


def test_only_this_package_is_sent_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("fedrap_coordinator")
    before = (logger.handlers[:], logger.level, logger.propagate)
    try:
        configure_logs()
        configure_logs()  # twice must not say everything twice
        logging.getLogger("fedrap_coordinator.rounds.coordinator").info("heard", extra={"step": 1})
        logging.getLogger("fedrap_coordinator.rounds.coordinator").debug("too quiet")
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
    said = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["event"] for line in said] == ["heard"]
