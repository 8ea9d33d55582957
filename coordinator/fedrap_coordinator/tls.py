"""TLS of the coordinator itself, for those who have no proxy in front."""

from __future__ import annotations

import ssl

from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.settings import Serve


def server_context(serve: Serve) -> ssl.SSLContext | None:
    """What both ports speak; None without a certificate.

    Raises:
        ConfigError: a file is missing, unreadable, or not what it should be.
    """
    if not serve.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(serve.certificate, serve.private_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"serve.certificate {serve.certificate} with private_key {serve.private_key}: {error}"
        ) from error
    return context
