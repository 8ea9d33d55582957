"""The hook for attestation: loaded by name, never asked about `none`, never a way around."""

from __future__ import annotations

from typing import Any

import pytest

from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.identity.attestation import Attestation, Verdict
from fedrap_coordinator.settings import Enrolment

asked: list[tuple[str, bytes, bytes]] = []
NOT_CALLABLE = 3


def strict(kind: str, blob: bytes, challenge: bytes) -> Verdict:
    asked.append((kind, blob, challenge))
    return Verdict(blob == b"good", "strong", "not good")


def judged(**settings: Any) -> Attestation:
    return Attestation(Enrolment(**settings))


@pytest.mark.spec("3.7")
@pytest.mark.parametrize(
    ("verifier", "allow", "kind", "blob", "level"),
    [
        ("", True, "none", b"", "none"),
        ("", True, "play-integrity", b"unjudged", "none"),  # nobody vouched for it
        ("strict", True, "none", b"", "none"),
        ("strict", True, "x", b"good", "strong"),
        ("strict", True, "x", b"bad", None),
        ("strict", False, "x", b"good", "strong"),
        ("strict", False, "x", b"bad", None),
        ("strict", False, "none", b"", None),
        ("strict", False, "none", b"good", None),
    ],
)
def test_who_is_taken_for_what(
    verifier: str, allow: bool, kind: str, blob: bytes, level: str | None
) -> None:
    asked.clear()
    name = f"{__name__}:{verifier}" if verifier else ""
    attestation = judged(attestation=name, allow_unattested=allow)
    if level is None:
        with pytest.raises(Refusal) as caught:
            attestation.level(kind, blob, b"challenge")
        assert caught.value.problem.code == "attestation-refused"
    else:
        assert attestation.level(kind, blob, b"challenge") == level
    assert asked == ([(kind, blob, b"challenge")] if verifier and kind != "none" else [])


@pytest.mark.parametrize(
    "name", ["no.such.module:verify", f"{__name__}:absent", f"{__name__}:NOT_CALLABLE", "nonsense"]
)
def test_a_verifier_that_is_not_there_stops_the_start(name: str) -> None:
    with pytest.raises(ConfigError, match=r"enrolment\.attestation"):
        judged(attestation=name)


def test_settings_under_which_nobody_could_enrol_stop_the_start() -> None:
    with pytest.raises(ConfigError, match="no device could enrol"):
        judged(allow_unattested=False)
