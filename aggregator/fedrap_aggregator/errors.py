"""What the helper raises on purpose.

FedRapError
├─ ConfigError    the operator must fix something; exit code 2
└─ Refusal        an answer for the leader, with a code that it can act on
"""

from __future__ import annotations

from fedrap_core.errors import FedRapError
from fedrap_core.wire.shares import HelperProblem


class ConfigError(FedRapError):
    """The settings or key files are not usable; the message says what to do."""


class Refusal(FedRapError):
    """The leader asked for something that the helper does not do."""

    def __init__(self, problem: HelperProblem, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem
        self.detail = detail
