"""Which admin role may do what."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """None contains another: who runs rounds need not see single charges, and vice versa."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    PRIVACY = "privacy"


PERMISSIONS: dict[str, frozenset[Role]] = {
    "status": frozenset(Role),
    "rounds": frozenset(Role),
    "keys": frozenset(Role),
    "ledger": frozenset(Role),
    "overview": frozenset(Role),
    "releases": frozenset(Role),
    "items": frozenset(Role),
    "quality": frozenset(Role),
    "metrics": frozenset(Role),
    "import-items": frozenset({Role.OPERATOR}),
    "retire-items": frozenset({Role.OPERATOR}),
    "roll-back": frozenset({Role.OPERATOR}),
    "note-quality": frozenset({Role.OPERATOR}),
    "ask": frozenset({Role.OPERATOR}),
    "roll-out": frozenset({Role.OPERATOR}),
    "devices": frozenset({Role.OPERATOR}),
    "revoke": frozenset({Role.OPERATOR}),
    "tokens": frozenset({Role.OPERATOR}),
    "rotate-keys": frozenset({Role.OPERATOR, Role.PRIVACY}),
    "policy": frozenset(Role),
    "change-policy": frozenset({Role.PRIVACY}),
    "charges": frozenset({Role.PRIVACY}),
    "issuers": frozenset({Role.PRIVACY}),
    "audit": frozenset({Role.PRIVACY}),
}


def may(role: str, action: str) -> bool:
    """Does this role have that permission?"""
    return role in PERMISSIONS[action]
