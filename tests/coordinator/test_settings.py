"""Settings: a typo is an error with its path, the environment wins, the template is true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.settings import Settings, load
from fedrap_core.plan import PaperMethod


def written(folder: Path, text: str) -> Path:
    path = folder / "fedrap.toml"
    path.write_text(text, encoding="utf-8")
    return path


def leaves(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Every setting with its path."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        here = f"{path}.{name}".lstrip(".")
        found.update(leaves(value, here) if isinstance(value, dict) else {here: value})
    return found


def test_without_a_file_the_defaults_are_in_force() -> None:
    assert load(None, {}) == Settings()
    assert load(None, {"HOME": "/root", "FEDRAP_OTHER": "1"}) == Settings()


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[round]\nmin_update = 3", "$.round"),
        ("databse = 'x'", "databse"),
        ("[rounds]\nmin_updates = 3", "rounds"),
        ("[privacy]\nnoice = 1.0", "$.privacy"),
        ("[scoring]\nbeta2 = 1.0", "$.scoring"),
    ],
)
def test_an_unknown_key_is_an_error_with_its_path(tmp_path: Path, text: str, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, text), {})
    assert "unknown field" in str(caught.value)
    assert path in str(caught.value)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[round]\nmin_updates = 0", "$.round.min_updates"),
        ("[round]\nmin_updates = 1.5", "$.round.min_updates"),
        ("[round]\nmin_updates = 'many'", "$.round.min_updates"),
        ("[round]\nmax_seconds = inf", "$.round.max_seconds"),
        ("[round]\nmin_updates = 9\nmax_updates = 8", "$.round"),
        ("[serve]\nport = 65536", "$.serve.port"),
        ("[serve]\nretry_seconds = inf", "$.serve.retry_seconds"),
        ("[serve]\nretry_seconds = nan", "$.serve.retry_seconds"),
        ("[privacy]\nclip = 0", "$.privacy.clip"),
        ("[privacy]\nclip = nan", "$.privacy.clip"),
        ("[privacy]\ndelta = 1.0", "$.privacy.delta"),
        ("[privacy]\nseparation = 0", "$.privacy.separation"),
        ("[method]\nname = 'magic'", "$.method.name"),
        ("[learning]\ndecay = 1.1", "$.learning.decay"),
        ("seed = -1", "$.seed"),
        ("round = 3", "$.round"),
    ],
)
def test_a_value_out_of_range_is_an_error_with_its_path(
    tmp_path: Path, text: str, path: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, text), {})
    assert f"`{path}`" in str(caught.value)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "[round]\nmin_updates = 3\nmax_updates = 30")
    environment = {
        "FEDRAP__ROUND__MIN_UPDATES": "7",
        "FEDRAP__PRIVACY__NOISE": "0.5",
        "FEDRAP__DATABASE": "sqlite:///other.sqlite",
    }
    found = load(path, environment)
    assert (found.round.min_updates, found.round.max_updates) == (7, 30)
    assert (found.privacy.noise, found.database) == (0.5, f"sqlite:///{tmp_path}/other.sqlite")


def test_relative_paths_start_where_the_file_lies(tmp_path: Path) -> None:
    text = '[serve]\ncertificate = "tls/chain.pem"\nprivate_key = "/etc/key.pem"'
    found = load(written(tmp_path, text), {})
    assert found.database == f"sqlite:///{tmp_path}/fedrap.sqlite"
    assert found.keys == f"{tmp_path}/keys"
    assert found.serve.certificate == f"{tmp_path}/tls/chain.pem"
    assert found.serve.private_key == "/etc/key.pem"
    apart = load(written(tmp_path, text), {"FEDRAP__DATA": "/var/lib/fedrap"})
    assert apart.database == "sqlite:////var/lib/fedrap/fedrap.sqlite"
    assert apart.keys == "/var/lib/fedrap/keys"
    assert apart.serve.certificate == f"{tmp_path}/tls/chain.pem"
    elsewhere = load(written(tmp_path, 'database = "postgresql://a@b/c"'), {})
    assert elsewhere.database == "postgresql://a@b/c"


def test_every_kind_of_key_can_come_from_the_environment() -> None:
    environment = {
        "FEDRAP__PRIVACY__COEFFICIENTS": "[1.0, 0.25]",
        "FEDRAP__PRIVACY__ROW_CLIP": "none",
        "FEDRAP__PRIVACY__ADAPT": "{ quantile = 0.7 }",
        "FEDRAP__LIMITS__DEVICE__BURST": "7",
        "FEDRAP__ADMIN__OPEN_METRICS": "true",
        "FEDRAP__METHOD": '{ name = "paper", dim = 8 }',
    }
    found = load(None, environment)
    assert found.privacy.coefficients == (1.0, 0.25)
    assert found.privacy.row_clip is None
    assert found.privacy.adapt is not None
    assert found.privacy.adapt.quantile == 0.7
    assert found.limits.device.burst == 7
    assert found.admin.open_metrics is True
    assert found.method == PaperMethod(dim=8)
    with pytest.raises(ConfigError, match="FEDRAP__PRIVACY__COEFFICIENTS is not written as in"):
        load(None, {"FEDRAP__PRIVACY__COEFFICIENTS": "[1.0, "})


def test_a_file_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="says nothing"):
        load(written(tmp_path, "# nothing yet\n"), {})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("FEDRAP__ROUND__MIN_UPDATE", "7", "min_update"),
        ("FEDRAP__ROUND__MIN_UPDATES", "many", "$.round.min_updates"),
        ("FEDRAP__ROUND__MIN_UPDATES", "0", "$.round.min_updates"),
        ("FEDRAP__NOTHING", "7", "nothing"),
        ("FEDRAP__ROUND", "7", "$.round"),
        ("FEDRAP__DATABASE__URL", "x", "database"),
        ("FEDRAP__", "x", "unknown field"),
    ],
)
def test_a_wrong_variable_is_an_error_too(tmp_path: Path, name: str, value: str, says: str) -> None:
    path = written(tmp_path, "database = 'sqlite:///a.sqlite'")
    with pytest.raises(ConfigError) as caught:
        load(path, {name: value})
    assert says in str(caught.value)


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist; `fedrap-coordinator init` writes one"):
        load(tmp_path / "none.toml", {})


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=tmp_path.name):
        load(tmp_path, {})


@pytest.mark.parametrize("raw", [b"this is not TOML", b"[round\n", b"\xff\xfe\x00"])
def test_a_file_that_is_not_toml_is_an_error(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "fedrap.toml"
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match="is not TOML"):
        load(path, {})


def test_a_key_of_a_section_leaves_the_others_as_they_protect(tmp_path: Path) -> None:
    found = load(written(tmp_path, "[privacy]\ncap = 2\n[scoring]\ntau = 1.0"), {})
    usual = Settings()
    assert found.privacy == msgspec.structs.replace(usual.privacy, cap=2)
    assert found.scoring == msgspec.structs.replace(usual.scoring, tau=1.0)


def test_another_method_takes_nothing_of_the_default_one(tmp_path: Path) -> None:
    found = load(written(tmp_path, "[method]\nname = 'paper'\nepochs = 3"), {})
    assert found.method == PaperMethod(epochs=3)


def test_settings_cannot_be_changed_after_loading() -> None:
    settings = load(None, {})
    with pytest.raises(AttributeError):
        settings.seed = 5  # type: ignore[misc]


@pytest.mark.spec("7.11")
def test_the_plan_carries_what_devices_must_know() -> None:
    settings = load(None, {"FEDRAP__ROUND__MIN_UPDATES": "7", "FEDRAP__PRIVACY__CAP": "3"})
    plan = settings.plan()
    assert (plan.min_updates, plan.privacy, plan.method) == (7, settings.privacy, settings.method)


def test_support_that_noise_would_drown_is_refused_with_what_to_do(tmp_path: Path) -> None:
    text = (
        "[privacy]\nclip = 30.0\nrow_clip = 30.0\nnoise = 1.0\n[method]\ndim = 32\n[learning]\n"
        "min_support = {}\n[round]\nmin_updates = 2\nmax_updates = {}"
    )
    with pytest.raises(ConfigError, match=r"min_support.*set it to 0"):
        load(written(tmp_path, text.format(5, 9)), {})
    load(written(tmp_path, text.format(0, 9)), {})
    load(written(tmp_path, text.format(5, 10)), {})  # ten of ten touch a row: some of it shows
