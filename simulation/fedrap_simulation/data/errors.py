"""What is wrong with a file of interactions, in words that say what to do."""

from __future__ import annotations

from fedrap_core.errors import FedRapError


class BadData(FedRapError):
    """A file can't be read, or can't serve the purpose it was given for."""


class MissingData(BadData):
    """A named data set is not in the data folder."""


class MissingExtra(FedRapError):
    """A package that only some commands need is not installed."""
