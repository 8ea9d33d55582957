"""Certificates by which leader and helper know each other: self-signed, handed over."""

from __future__ import annotations

import ipaddress
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def self_signed(
    private: ec.EllipticCurvePrivateKey, name: str, hosts: list[str], since: Any, until: Any
) -> bytes:
    """A certificate of this key as PEM, for those host names; `since` and `until` are datetimes."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([_named(host) for host in hosts]), critical=False
        )
    )
    return built.sign(private, SHA256()).public_bytes(Encoding.PEM)


def private_pem(private: ec.EllipticCurvePrivateKey) -> bytes:
    """The key of a certificate, as TLS libraries read it."""
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _named(host: str) -> x509.GeneralName:
    """A host name, or an address where it is written as one."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
