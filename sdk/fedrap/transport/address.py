"""Which addresses of a coordinator are spoken to: https, and http only within this machine."""

from __future__ import annotations

from fedrap import arguments
from fedrap.errors import InvalidArgument


def check_address(server: str, *, allow_http: bool = False) -> None:
    """Does nothing for an address that may be used.

    Raises:
        InvalidArgument: it is no address, or without TLS to another machine and not `allow_http`.
    """
    if not isinstance(server, str):
        raise arguments.wrong("server", arguments.ADDRESS)
    import ipaddress  # only a device that is given a server needs these
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(server)
        host = parts.hostname
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError as error:
        raise arguments.wrong("server", arguments.ADDRESS) from error
    odd = any(sign.isspace() or sign in "\\@" for sign in server)
    if parts.scheme not in ("http", "https") or not host or odd:
        raise arguments.wrong("server", arguments.ADDRESS)
    if parts.scheme == "https" or allow_http or host == "localhost":
        return
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        ip = None
    if ip is None or not (ip in ipaddress.ip_network("127.0.0.0/8") or str(ip) == "::1"):
        raise InvalidArgument(
            f"server: http://{host} is not encrypted, and whoever is in between reads and changes "
            "everything; use https, or ask for it with allow_http=True (--allow-http)"
        )
