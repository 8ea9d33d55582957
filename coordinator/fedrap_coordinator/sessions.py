"""How a browser stays signed in: a cookie that this coordinator signed, and that says little.

It holds when it ends and the hash of the bearer token, under an HMAC whose key all processes
share through the store. Whoever loses the rights loses the session with the next request. With a
cookie one can only look: what changes something wants the bearer token itself.
"""

from __future__ import annotations

import hashlib
import hmac

COOKIE = "fedrap-session"
KEY_NAME = "session-key"


def make_session(key: bytes, digest: bytes, until: float) -> str:
    """The value of the cookie; `digest` is that of the bearer token."""
    said = f"{int(until)}.{digest.hex()}"
    return f"{said}.{_mac(key, said)}"


def read_session(key: bytes, cookie: str, now: float) -> bytes | None:
    """The digest of the token it was made for; None when it is over or not ours."""
    said, _, mac = cookie.rpartition(".")
    if not hmac.compare_digest(mac.encode("utf-8", "replace"), _mac(key, said).encode()):
        return None
    until, _, digest = said.partition(".")
    if int(until) <= now:
        return None
    return bytes.fromhex(digest)


def _mac(key: bytes, said: str) -> str:
    words = b"fedrap/1 session " + said.encode("utf-8", "replace")
    return hmac.new(key, words, hashlib.sha256).hexdigest()
