"""The hook for attestation: does this device run what it should? The operator brings the answer.

`attestation = "package.module:verify"` names a callable `verify(kind, blob, challenge)` that gives
a `Verdict`. It runs in a worker thread and may call a service. `kind` is a word that app and
verifier agree on (such as "play-integrity"); `challenge` are the 32 bytes that the blob must have
been made for, so that none serves for another key. The kind "none" never reaches a verifier.
"""

from __future__ import annotations

import importlib
import logging
from dataclasses import dataclass
from typing import Protocol

from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.settings import Enrolment
from fedrap_core.wire import problems

log = logging.getLogger(__name__)
NONE = "none"


@dataclass(frozen=True)
class Verdict:
    """What a verifier says. `level` goes into the certificate, `reason` to the device."""

    accepted: bool
    level: str = NONE
    reason: str = ""


class Verifier(Protocol):
    """An operator's own judgement."""

    def __call__(self, kind: str, blob: bytes, challenge: bytes) -> Verdict:
        """Accept or refuse; whatever it raises is a refusal for now."""
        ...


class Attestation:
    """Judges devices by the operator's settings."""

    def __init__(self, settings: Enrolment) -> None:
        """
        Raises:
            ConfigError: the verifier cannot be loaded, or nobody could ever enrol.
        """
        self._allow_none = settings.allow_unattested
        self._verifier = load_verifier(settings.attestation) if settings.attestation else None
        if self._verifier is None and not self._allow_none:
            raise ConfigError(
                "enrolment.allow_unattested is false, and enrolment.attestation names no verifier: "
                "no device could enrol"
            )

    def level(self, kind: str, blob: bytes, challenge: bytes) -> str:
        """The level of a device that may go on.

        Raises:
            Refusal: it may not.
        """
        if kind == NONE:
            if self._allow_none:
                return NONE
            raise Refusal(problems.ATTESTATION_REFUSED, "this task takes only attested devices")
        if self._verifier is None:
            if self._allow_none:  # an app may send one that nobody here can judge
                return NONE
            raise Refusal(problems.ATTESTATION_REFUSED)
        try:
            verdict = self._verifier(kind, blob, challenge)
        except Exception as error:
            log.exception("the attestation verifier failed")
            raise Refusal(problems.UNAVAILABLE, "attestation cannot be judged now", 60.0) from error
        if not verdict.accepted:
            raise Refusal(problems.ATTESTATION_REFUSED, verdict.reason[:200])
        return verdict.level[:40] or NONE


def load_verifier(name: str) -> Verifier:
    """The callable behind `package.module:function`.

    Raises:
        ConfigError: there is none.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"enrolment.attestation: {name!r} is not package.module:function ({error})"
        ) from error
    if not callable(found):
        raise ConfigError(f"enrolment.attestation: {name!r} cannot be called")
    verifier: Verifier = found
    return verifier
