"""Two servers: both choices of noise, against whom which epsilon holds, and the certificate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedrap_coordinator.commands import run
from fedrap_coordinator.settings import HelperServer, SplitSettings
from fedrap_core.plan import Adapt, Privacy
from fedrap_core.privacy.accounting import charged_epsilon
from fedrap_core.privacy.statement import epsilon_against

ASKED = ["privacy", "plan", "--devices", "6040", "--cohort", "600", "--rounds", "60",
         "--epsilon", "8", "--split"]  # fmt: skip


def test_full_noise_from_each_keeps_epsilon_against_a_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*ASKED, "--json"]) == 0
    full, shared = json.loads(capsys.readouterr().out)["split"]
    assert full["leader"] == full["helper"] == pytest.approx(8.0, abs=0.02)
    assert full["public"] == pytest.approx(5.3, abs=0.2)
    assert shared["public"] == pytest.approx(8.0, abs=0.02)
    assert shared["leader"] == pytest.approx(12.3, abs=0.4)
    assert run(ASKED) == 0
    assert "against leader or helper" in capsys.readouterr().out


def test_one_servers_noise_is_charged_and_bits_count() -> None:
    rule = Privacy(noise=2.0, cap=4, adapt=Adapt(noise=3.0))
    found = epsilon_against(rule)
    assert found["leader"] == pytest.approx(charged_epsilon(4, rule.charged_noise, rule.delta))
    # both parts of the mechanism are noised by both servers: mu falls by sqrt(2)
    assert found["public"] == pytest.approx(
        charged_epsilon(4, rule.charged_noise * 2**0.5, rule.delta)
    )


@pytest.mark.parametrize(
    ("row_clip", "clip", "peak"), [(2.0, 6.0, 0.2), (3.0, 100.0, 0.03), (None, 50.0, 0.2)]
)
def test_steps_are_no_coarser_than_the_row_bound_asks_for(
    row_clip: float | None, clip: float, peak: float
) -> None:
    """A number at the row bound is still the largest that can be sent, where S leaves room."""
    helper = HelperServer(url="https://helper.invalid", identity="04" + 128 * "0")
    rule = Privacy(clip=clip, row_clip=row_clip)
    assert SplitSettings(helper=helper).plan(20, rule).peak == pytest.approx(peak)
    assert SplitSettings(helper=helper, peak=0.5).plan(20, rule).peak == 0.5


def test_the_certificate_may_be_redirected_into_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shell makes an empty leader.pem before the command runs."""
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "leader.pem"
    own.write_bytes(b"")
    assert run(["helper", "certificate"]) == 0
    first = own.read_text()
    assert first.startswith("-----BEGIN CERTIFICATE-----")
    assert first.strip() in capsys.readouterr().out
    assert run(["helper", "certificate"]) == 0
    assert own.read_text() == first
