"""What the SDK raises, beyond the core's errors.

    FedRapError
    ├─ InvalidArgument         a call with something else than it takes; also a ValueError
    ├─ StoreBusy               another process has this store open
    ├─ StoreLocked             the key does not open this store
    ├─ StoreDamaged            the file is not a store, or of another schema
    ├─ BrokenExport            a file that is no export, or needs another passphrase
    ├─ StoreClosed             the device was closed or erased; open it again
    ├─ InsideEventLoop         a blocking call inside an event loop; await the async form
    ├─ AnotherAuthority        the coordinator is not the one whose key the app pins
    ├─ CoordinatorUnreachable  no answer; try again later
    └─ UpdateRefused           the coordinator said no: a problem, and perhaps when to come back

`record` and `recommend` never raise for network reasons; `run_round` reports them instead.
"""

from __future__ import annotations

from fedrap_core.errors import FedRapError
from fedrap_core.wire.problems import INTERNAL, Family, Problem


class InvalidArgument(FedRapError, ValueError):
    """A call with something else than it takes; the message says what. Nothing was changed."""


class StoreBusy(FedRapError):
    """Another process has this store open; close it there first."""


class StoreLocked(FedRapError):
    """The key is not the one that this store was made with."""


class StoreDamaged(FedRapError):
    """The file is not a store of this version; the message says what can be done."""


class BrokenExport(FedRapError):
    """A file is no export, or another passphrase opens it; nothing was taken over."""


class StoreClosed(FedRapError):
    """The device was closed or erased; open it again."""


class InsideEventLoop(FedRapError, RuntimeError):
    """A blocking call inside a running event loop; the message names the form to await."""


class AnotherAuthority(FedRapError):
    """The coordinator names another authority than the app pins; this device does not join it."""


class CoordinatorUnreachable(FedRapError):
    """No usable answer from the coordinator; the same call may work later."""


class UpdateRefused(FedRapError):
    """The coordinator refused a request."""

    def __init__(self, problem: Problem, detail: str, retry_after: float | None) -> None:
        super().__init__(f"{problem.code}: {detail}")
        self.problem = problem
        self.retry_after = retry_after

    @property
    def final(self) -> bool:
        """Sending the same bytes again cannot help."""
        return self.problem.family is not Family.RETRY and self.problem is not INTERNAL
