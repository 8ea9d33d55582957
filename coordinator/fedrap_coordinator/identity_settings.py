"""Settings of identity: who may enrol, how long keys are good, who may administer."""

from __future__ import annotations

from typing import Annotated

import msgspec

from fedrap_coordinator.store.identity_protocol import Terms

DAY = 86400.0
Days = Annotated[float, msgspec.Meta(gt=0, le=36500)]


class Enrolment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On what terms a device becomes one of the task's."""

    certificate_days: Days = 30.0
    wait_steps: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0  # released steps for a new key
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    wait_most_days: Days = 30.0  # then steps are not waited for any longer
    audience: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] = "fedrap"
    account_devices: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 5  # in an account's life
    attestation: str = ""  # package.module:function that verifies attestations
    allow_unattested: bool = True

    def terms(self, now: float, level: str) -> Terms:
        """The terms of a device that enrols now."""
        return Terms(
            wait_steps=self.wait_steps,
            wait_seconds=self.wait_seconds,
            wait_most_seconds=self.wait_most_days * DAY,
            valid_until=now + self.certificate_days * DAY,
            level=level,
        )


class Sealing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a sealing key is named by new rounds."""

    rotate_hours: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 24.0  # 0 never


class AdminFace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where people with rights reach the coordinator; without a port, nowhere."""

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = None
    open_metrics: bool = False  # /metrics without a token
    session_hours: Annotated[float, msgspec.Meta(gt=0, le=720)] = 12.0  # of the operator's page
