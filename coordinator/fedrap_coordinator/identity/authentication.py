"""Signed requests of devices: what a request says of its sender, and whether that is true."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Signed:
    """A request as it came, and what it says of its sender."""

    device: bytes
    nonce: int
    signature: bytes
    method: str
    path: str
    body: bytes
