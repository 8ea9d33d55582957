"""The life of sealing keys: one turn at a time, destroyed for good, whole after every crash."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedrap_coordinator import key_files
from fedrap_coordinator.domain.sealing_keys import KeyState, is_due, violation
from fedrap_coordinator.keyring import Keyring, SealKeyGone, fresh_keyring, open_keyring
from fedrap_coordinator.sources import Sources
from fedrap_core.wire.keys import new_private_key, private_to_bytes

STATES = {KeyState.NEXT, KeyState.ACTIVE, KeyState.RETIRED}


def states(keyring: Keyring) -> list[str]:
    return [key.state.value for key in keyring.keys]


def kept(folder: Path) -> set[str]:
    return {path.name[5:21] for path in folder.glob("seal-*")}


def test_a_turn_moves_each_key_one_state_on() -> None:
    keyring = fresh_keyring()
    first, following = keyring.keys
    assert states(keyring) == ["active", "next"]
    active = keyring.rotate(50.0)
    assert (active.id, active.since) == (following.id, 50.0)
    assert keyring.seal_id == following.id
    assert states(keyring) == ["retired", "active", "next"]
    assert private_to_bytes(keyring.private(first.id)) != private_to_bytes(keyring.seal)
    keyring.rotate(60.0)
    assert states(keyring) == ["retired", "retired", "active", "next"]
    assert violation(keyring.keys) is None


@pytest.mark.spec("4.7")
def test_a_retired_key_is_destroyed_unless_a_round_names_it(tmp_path: Path) -> None:
    keyring = open_keyring(tmp_path, Sources(lambda: 1.0))
    first = keyring.seal_id
    keyring.rotate(2.0)
    second = keyring.seal_id
    keyring.rotate(3.0)
    secret = (tmp_path / f"seal-{second.hex()}.key").read_bytes()
    assert keyring.destroy_unused({first}, 4.0) == 1
    assert states(keyring) == ["retired", "destroyed", "active", "next"]
    keyring.private(first)
    with pytest.raises(SealKeyGone):
        keyring.private(second)
    assert not any(secret in path.read_bytes() for path in tmp_path.iterdir())
    again = open_keyring(tmp_path)
    assert states(again) == states(keyring)
    with pytest.raises(SealKeyGone):
        again.private(second)
    assert keyring.destroy_unused({first}, 5.0) == 0
    assert keyring.destroy_unused(set(), 6.0) == 1


def test_age_turns_the_ring_when_a_round_is_opened_and_not_a_second_earlier() -> None:
    keyring = Keyring(new_private_key(), bytes(32), sources=Sources(lambda: 0.0))
    first = keyring.seal_id
    assert keyring.for_a_round(99.9, 100.0).id == first
    second = keyring.for_a_round(100.0, 100.0).id
    assert second != first
    assert keyring.for_a_round(199.9, 100.0).id == second
    assert keyring.for_a_round(1e9, 0.0).id == second  # 0 is never
    assert not is_due(keyring.keys, 1e9, 0.0)


def test_a_turn_from_outside_is_seen_when_the_next_round_is_opened(tmp_path: Path) -> None:
    sources = Sources(lambda: 1.0)
    serving, outside = open_keyring(tmp_path, sources), open_keyring(tmp_path, sources)
    before = serving.seal_id
    turned = outside.rotate(2.0).id
    assert serving.seal_id == before  # the open round goes on with its key
    assert serving.for_a_round(3.0).id == turned
    serving.private(before)


class _Crash(Exception):
    pass


@contextmanager
def crash_at(monkeypatch: pytest.MonkeyPatch, number: int) -> Iterator[list[str]]:
    """The disk fails at the `number`-th change, before or after it has happened."""
    seen: list[str] = []

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            seen.append(name)
            if len(seen) == number:
                raise _Crash(name)
            done = real(*arguments, **options)
            seen.append(f"after {name}")
            if len(seen) == number:
                raise _Crash(name)
            return done

        return call

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", wrap("fsync", os.fsync))
        for name in ("replace", "unlink"):
            patched.setattr(Path, name, wrap(name, getattr(Path, name)))
        yield seen


@pytest.mark.spec("4.7")
@pytest.mark.parametrize("act", ["rotate", "destroy", "make"])
def test_whatever_the_moment_of_a_crash_the_ring_is_whole_and_no_dead_key_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    crashes = 0
    for number in range(1, 200):
        folder = tmp_path / str(number)
        if act != "make":
            keyring = open_keyring(folder, Sources(lambda: 1.0))
            keyring.rotate(2.0)
            named = {keyring.keys[0].id}  # an open round names the retired key
            keyring.rotate(3.0)
        with crash_at(monkeypatch, number) as seen:
            try:
                if act == "make":
                    open_keyring(folder, Sources(lambda: 1.0))
                elif act == "rotate":
                    keyring.rotate(4.0)
                else:
                    keyring.destroy_unused(named, 4.0)
            except _Crash:
                crashes += 1
        after = open_keyring(folder, Sources(lambda: 5.0))
        assert violation(after.keys) is None
        alive = {key.id.hex() for key in after.keys if key.state in STATES}
        assert kept(folder) == alive
        for key in after.keys:
            if key.state in STATES:
                after.private(key.id)
        if act != "make":
            after.private(next(iter(named)))  # its round can still be summed
        assert not list(folder.glob("*.part"))
        if len(seen) < number:
            break
    assert crashes >= 6
    assert key_files.LIST in {path.name for path in folder.iterdir()}
