"""FedRAP for apps: recommendations that learn from everyone, with the history kept here.

    from fedrap import FedRap

    with FedRap.open("~/.local/share/shop/fedrap", server="https://fed.example.org") as fr:
        fr.record("sku-123")
        for item, score in fr.recommend(10):
            ...

Importing this package opens no socket and loads no network, server or training library.
"""

import logging as _logging

from fedrap.background.conditions import Conditions
from fedrap.background.scheduler import Pace
from fedrap.device import FedRap
from fedrap.errors import (
    BrokenExport,
    CoordinatorUnreachable,
    InsideEventLoop,
    InvalidArgument,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreLocked,
    UpdateRefused,
)
from fedrap.recommend.kinds import Kinds
from fedrap.results import (
    Because,
    Erased,
    Exported,
    Interaction,
    Reason,
    Recommendation,
    RoundReport,
    Status,
)
from fedrap.rounds.ledger import Floor
from fedrap.storage.history import Retention
from fedrap.transport import Proof
from fedrap_core.errors import FedRapError

__all__ = [
    "Because",
    "BrokenExport",
    "Conditions",
    "CoordinatorUnreachable",
    "Erased",
    "Exported",
    "FedRap",
    "FedRapError",
    "Floor",
    "InsideEventLoop",
    "Interaction",
    "InvalidArgument",
    "Kinds",
    "Pace",
    "Proof",
    "Reason",
    "Recommendation",
    "Retention",
    "RoundReport",
    "Status",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreLocked",
    "UpdateRefused",
]

_logging.getLogger("fedrap").addHandler(_logging.NullHandler())
