"""Where the store's key comes from, and that a store never gets a second one."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from fedrap import FedRap, StoreLocked
from fedrap.storage.store_key import KEY_BYTES, KeyringKey, keyring_works


class MadeKeyring(ModuleType):
    """Passes for the `keyring` library."""

    def __init__(self, priority: float = 5.0) -> None:
        super().__init__("keyring")
        self.kept: dict[tuple[str, str], str] = {}
        self.priority = priority
        self.broken: Exception | None = None

    def get_keyring(self) -> SimpleNamespace:
        return SimpleNamespace(priority=self.priority)

    def set_password(self, service: str, name: str, word: str) -> None:
        self._work()
        self.kept[service, name] = word

    def get_password(self, service: str, name: str) -> str | None:
        self._work()
        return self.kept.get((service, name))

    def delete_password(self, service: str, name: str) -> None:
        self._work()
        del self.kept[service, name]

    def _work(self) -> None:
        if self.broken is not None:
            raise self.broken


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> MadeKeyring:
    made = MadeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", made)
    return made


@pytest.fixture
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)  # an import of it fails


def files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "app").iterdir()}


def use(folder: Path) -> int:
    """Record once more; how many there are."""
    with FedRap.open(folder) as device:
        device.record("a")
        return device.status().interactions


def test_a_working_keyring_keeps_the_key_and_no_file_does(
    tmp_path: Path, keyring: MadeKeyring, caplog: pytest.LogCaptureFixture
) -> None:
    assert [use(tmp_path) for _ in range(3)] == [1, 2, 3]
    assert files(tmp_path) == {"lock", "store.sqlite", "store.keyid"}
    [(service, name)] = keyring.kept
    assert service == "fedrap"
    assert (tmp_path / "app" / "store.keyid").read_text() == name
    assert len(bytes.fromhex(keyring.kept[service, name])) == KEY_BYTES
    assert caplog.records == []


def test_the_folder_may_be_moved(tmp_path: Path, keyring: MadeKeyring) -> None:
    use(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    assert use(tmp_path / "new") == 2


def test_two_stores_have_two_keys_and_erasing_deletes_one(
    tmp_path: Path, keyring: MadeKeyring
) -> None:
    use(tmp_path / "one")
    use(tmp_path / "two")
    assert len(set(keyring.kept.values())) == 2
    with FedRap.open(tmp_path / "one") as device:
        assert "key" in device.erase().deleted
    assert len(keyring.kept) == 1
    assert use(tmp_path / "two") == 2


def test_without_a_keyring_the_key_is_a_file_and_one_line_warns(
    tmp_path: Path, no_keyring: None, caplog: pytest.LogCaptureFixture
) -> None:
    assert not keyring_works()
    with caplog.at_level(logging.DEBUG):
        use(tmp_path)
    [record] = [one for one in caplog.records if one.name.startswith("fedrap")]
    assert record.levelno == logging.WARNING
    assert "store.key" in record.getMessage()
    assert (tmp_path / "app" / "store.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["refuses", "not recommended", "forgets"])
def test_a_keyring_that_does_not_work_is_not_used(
    tmp_path: Path, keyring: MadeKeyring, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "refuses":
        keyring.broken = RuntimeError("no desktop")
    elif kind == "not recommended":
        keyring.priority = 0.5
    else:
        monkeypatch.setattr(keyring, "get_password", lambda service, name: None)
    use(tmp_path)
    assert "store.key" in files(tmp_path)
    assert keyring.kept == {}


def test_a_store_that_began_with_a_file_stays_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    use(tmp_path)
    made = MadeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", made)
    assert use(tmp_path) == 2
    assert made.kept == {}


def test_a_keyring_that_stops_answering_locks_the_store_and_makes_no_other_key(
    tmp_path: Path, keyring: MadeKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(tmp_path)
    keyring.broken = RuntimeError("locked")
    with pytest.raises(StoreLocked, match="does not answer"):
        FedRap.open(tmp_path)
    keyring.broken = None
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(StoreLocked, match="does not answer"):
        FedRap.open(tmp_path)
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    assert use(tmp_path) == 2
    keyring.kept.clear()
    with pytest.raises(StoreLocked, match="no key for this store"):
        FedRap.open(tmp_path)


def test_a_store_whose_key_file_is_gone_says_so_and_makes_no_other(
    tmp_path: Path, no_keyring: None
) -> None:
    use(tmp_path)
    key = tmp_path / "app" / "store.key"
    raw = key.read_bytes()
    key.unlink()
    with pytest.raises(StoreLocked, match=r"store.key is gone.*restore it, or delete"):
        FedRap.open(tmp_path)
    assert not key.exists()
    key.write_bytes(raw)
    assert use(tmp_path) == 2


def test_an_app_may_give_the_key_and_nothing_of_it_is_kept(
    tmp_path: Path, keyring: MadeKeyring
) -> None:
    raw = os.urandom(KEY_BYTES)
    with FedRap.open(tmp_path, key=lambda: raw) as device:
        device.record("a")
    assert files(tmp_path) == {"lock", "store.sqlite"}
    assert keyring.kept == {}
    with pytest.raises(StoreLocked):
        FedRap.open(tmp_path, key=lambda: bytes(KEY_BYTES))


def test_an_apps_provider_that_can_erase_is_asked_to(tmp_path: Path) -> None:
    made = MadeKeyring()
    provider = KeyringKey(tmp_path / "elsewhere", made)
    with FedRap.open(tmp_path, key=provider) as device:
        assert len(made.kept) == 1
        device.erase()
    assert made.kept == {}
