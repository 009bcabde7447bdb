"""Token and certificate of a bridge, derived from the controller's key so that nothing need be read back.

Everything is a function of (key, instance UID, period): Ed25519 keys come from an HMAC and Ed25519 signs without
randomness, so two controllers, or one after a restart, write the same bytes. A certificate is valid for two
periods and replaced at the start of the next one.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PERIOD = timedelta(days=90)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HOST_SUFFIX = "instances.efrit.dev"


@dataclass(frozen=True, slots=True)
class Identity:
    """The controller's own secrets: the HMAC key, its CA (PEM), and during a rotation the former HMAC key."""

    hmac_key: bytes
    ca_certificate: bytes
    ca_key: bytes
    previous_hmac_key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one bridge gets: PEM certificate and key, bearer tokens."""

    certificate: bytes
    private_key: bytes
    token: str
    previous_token: str | None


def server_name(instance_uid: str) -> str:
    """Return the host name in the certificate of an instance's bridge."""
    return f"{instance_uid}.{HOST_SUFFIX}"


def token(key: bytes, instance_uid: str) -> str:
    """Return the bearer token of an instance: HMAC-SHA256 of its UID, in hexadecimal."""
    return hmac.new(key, b"token:" + instance_uid.encode(), hashlib.sha256).hexdigest()


def period_of(now: datetime) -> int:
    """Return the number of the certificate period that `now` is in."""
    return (now - EPOCH) // PERIOD


def credentials(identity: Identity, instance_uid: str, now: datetime) -> Credentials:
    """Return the bridge's credentials for the period that `now` is in."""
    period = period_of(now)
    seed = hmac.new(identity.hmac_key, f"key:{instance_uid}:{period}".encode(), hashlib.sha256).digest()
    key = Ed25519PrivateKey.from_private_bytes(seed)
    serial = int.from_bytes(hashlib.sha256(b"serial" + seed).digest()[:16]) | 1
    ca_key = load_pem_private_key(identity.ca_key, None)
    if not isinstance(ca_key, Ed25519PrivateKey):
        raise TypeError("the identity's ca.key must be an Ed25519 key: delete the identity Secret to make a new one")
    ca = x509.load_pem_x509_certificate(identity.ca_certificate)
    start = EPOCH + period * PERIOD
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "efrit-bridge")]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(serial)
        # A day early: clocks of nodes differ.
        .not_valid_before(start - timedelta(days=1))
        .not_valid_after(start + 2 * PERIOD)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(server_name(instance_uid))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, None)
    )
    previous = identity.previous_hmac_key
    return Credentials(
        certificate=certificate.public_bytes(Encoding.PEM),
        private_key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        token=token(identity.hmac_key, instance_uid),
        previous_token=token(previous, instance_uid) if previous is not None else None,
    )
