"""TLS of the coordinator: a certificate made here, real sockets, a client that checks it."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedrap_coordinator.app import ADMIN_RUNNER, create_app
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.settings import AdminApi, load, server_context
from fedrap_coordinator.store.memory import MemoryStore
from testkit.harness import ITEMS, small_settings


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Self-signed, for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "coordinator")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return chain, secret


async def test_both_ports_speak_tls_and_only_that(tmp_path: Path) -> None:
    chain, secret = make_certificate(tmp_path)
    settings = small_settings()
    where = msgspec.structs.replace(
        settings.serve, certificate=str(chain), private_key=str(secret), port=0
    )
    settings = msgspec.structs.replace(settings, serve=where, admin=AdminApi(port=0))
    app = create_app(settings, MemoryStore(), fresh_keyring())
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    context = server_context(settings.serve)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    await app[COORDINATOR].add_items(ITEMS)
    trusting = ssl.create_default_context(cafile=str(chain))
    try:
        async with aiohttp.ClientSession() as http:
            for port in (runner.addresses[0][1], app[ADMIN_RUNNER].addresses[0][1]):
                url = f"127.0.0.1:{port}/healthz"
                async with http.get(f"https://{url}", ssl=trusting) as answer:
                    assert answer.status == 200
                with pytest.raises(aiohttp.ClientConnectorCertificateError):
                    await http.get(f"https://{url}")  # nobody vouches for it
                with pytest.raises(aiohttp.ClientError):
                    await http.get(f"http://{url}")
    finally:
        await runner.cleanup()


def test_a_certificate_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    chain, secret = make_certificate(tmp_path)
    other = make_certificate(tmp_path)[1]  # overwrites: chain and key of another pair
    chain.write_bytes(b"not PEM")
    serve = msgspec.structs.replace(
        small_settings().serve, certificate=str(chain), private_key=str(other)
    )
    with pytest.raises(ConfigError, match=r"chain\.pem"):
        server_context(serve)
    assert secret == other
    config = tmp_path / "fedrap.toml"
    config.write_text('[serve]\ncertificate = "x"\n')
    with pytest.raises(ConfigError, match="belong together"):
        load(config, {})
