"""The coordinator's secrets: made once, for the owner alone, never shown."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.keyring import Keyring, fresh_keyring, open_keyring
from fedrap_core.wire.keys import new_private_key, private_to_bytes
from fedrap_core.wire.seal import seal_id

FILES = ["noise.key", "authority.key", "seal.json"]


def names(folder: Path) -> list[str]:
    """All files of a folder of keys, its sealing keys as one word."""
    return sorted(re.sub(r"seal-[0-9a-f]{16}", "seal-ID", path.name) for path in folder.iterdir())


def active_file(folder: Path, keyring: Keyring) -> Path:
    return folder / f"seal-{keyring.seal_id.hex()}.key"


def secrets_of(keyring: Keyring) -> tuple[bytes, bytes]:
    return private_to_bytes(keyring.seal), keyring.noise


def test_keys_are_made_once_and_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "keys"
    first, second = open_keyring(folder), open_keyring(folder)
    assert secrets_of(first) == secrets_of(second)
    assert names(folder) == sorted([*FILES, "lock", "seal-ID.key", "seal-ID.key"])


def test_two_folders_have_different_keys(tmp_path: Path) -> None:
    one, two = secrets_of(open_keyring(tmp_path / "1")), secrets_of(open_keyring(tmp_path / "2"))
    assert not set(one) & set(two)


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_only_the_owner_may_read_them_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        open_keyring(tmp_path / "keys")
    finally:
        os.umask(before)
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "keys").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", [*FILES, "active"])
@pytest.mark.parametrize(
    "raw", [b"", b"zz", b"ab" * 31, b"ab" * 33, b"\xff\xfe", b"ab" * 31 + b"\n\nab x"]
)
def test_a_damaged_key_file_is_a_clear_error_and_stays_as_it_is(
    tmp_path: Path, name: str, raw: bytes
) -> None:
    keyring = open_keyring(tmp_path)
    path = active_file(tmp_path, keyring) if name == "active" else tmp_path / name
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match="restore it from its backup") as caught:
        open_keyring(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert path.read_bytes() == raw


@pytest.mark.parametrize("scalar", ["00" * 32, "ff" * 32])
def test_a_scalar_that_is_no_key_of_the_curve_is_a_clear_error(tmp_path: Path, scalar: str) -> None:
    active_file(tmp_path, open_keyring(tmp_path)).write_text(scalar)
    with pytest.raises(ConfigError, match="P-256"):
        open_keyring(tmp_path)


def test_a_half_written_key_of_a_crash_is_not_taken_for_a_key(tmp_path: Path) -> None:
    (tmp_path / "seal.part").write_bytes(b"ab")
    (tmp_path / "seal-0011223344556677.part").write_bytes(b"ab")
    (tmp_path / "noise.part").write_bytes(b"")
    keyring = open_keyring(tmp_path)
    assert secrets_of(open_keyring(tmp_path)) == secrets_of(keyring)
    assert not list(tmp_path.glob("*.part"))


def test_a_folder_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("not a folder")
    with pytest.raises(ConfigError, match="keys folder"):
        open_keyring(tmp_path / "keys")


def test_no_key_is_in_the_repr_of_a_keyring() -> None:
    keyring = fresh_keyring()
    for shown in (repr(keyring), str(keyring), f"{keyring}"):
        for secret in secrets_of(keyring):
            assert secret.hex() not in shown
            assert repr(secret) not in shown


@pytest.mark.spec("4.1")
def test_the_public_half_is_a_point_and_its_name_follows_from_it() -> None:
    keyring = fresh_keyring()
    assert len(keyring.point(keyring.seal_id)) == 65
    assert keyring.point(keyring.seal_id)[0] == 4
    assert keyring.seal_id == seal_id(keyring.seal.public_key())
    assert len(keyring.seal_id) == 8


def test_a_missing_noise_key_is_not_replaced_in_silence(tmp_path: Path) -> None:
    open_keyring(tmp_path)
    (tmp_path / "noise.key").unlink()
    with pytest.raises(ConfigError, match=r"noise.key is missing"):
        open_keyring(tmp_path)
    assert not (tmp_path / "noise.key").exists()


def test_the_one_key_of_a_folder_from_before_rotation_stays_active(tmp_path: Path) -> None:
    old = new_private_key()
    (tmp_path / "noise.key").write_text("ab" * 32)
    (tmp_path / "seal.key").write_text(private_to_bytes(old).hex())
    keyring = open_keyring(tmp_path)
    assert private_to_bytes(keyring.seal) == private_to_bytes(old)
    assert not (tmp_path / "seal.key").exists()
    assert private_to_bytes(open_keyring(tmp_path).seal) == private_to_bytes(old)
