"""Token, certificate and CA of a bridge, derived from the controller's key so that nothing need be read back.

Everything is a function of (key, instance UID, time): Ed25519 keys come from an HMAC and Ed25519 signs without
randomness, so two controllers, or one after a restart, write the same bytes. All of it ends, and is replaced before:

- A token is used for a week. The bridge is given it the week before: when the controller begins to use it, the bridge
  knows it, however late the kubelet is.
- A certificate is valid for two periods of 90 days and replaced at the start of the second.
- A CA signs for a generation of four such periods and is valid for two. The controller alone verifies what it has
  signed, and trusts the CAs of the generation before and after as well.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from efrit.api_group import GROUP

TOKEN_PERIOD = timedelta(days=7)
PERIOD = timedelta(days=90)
GENERATION = 4 * PERIOD
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SKEW = timedelta(days=1)
"""By how much a certificate is valid early: clocks of nodes differ."""
HOST_SUFFIX = f"instances.{GROUP}"
MAX_CERTIFICATES = 1024
"""Kept with their keys, 1 KB each; one that is not kept is derived anew."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The controller's own secret: the key that all is derived from, and during a rotation the former one."""

    hmac_key: bytes
    previous_hmac_key: bytes | None = None

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The key, and the former one where there is one."""
        return (self.hmac_key, self.previous_hmac_key) if self.previous_hmac_key is not None else (self.hmac_key,)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one bridge gets: PEM certificate and key, bearer tokens."""

    certificate: bytes
    private_key: bytes
    token: str
    next_token: str
    previous_token: str | None
    """The one under the former key, during a rotation."""


def server_name(instance_uid: str) -> str:
    """Return the host name in the certificate of an instance's bridge."""
    return f"{instance_uid}.{HOST_SUFFIX}"


def token(key: bytes, instance_uid: str, now: datetime) -> str:
    """Return the bearer token of an instance for the week that `now` is in: an HMAC-SHA256, in hexadecimal."""
    return _token(key, instance_uid, (now - EPOCH) // TOKEN_PERIOD)


# Each call to a bridge carries it.
@functools.lru_cache(maxsize=MAX_CERTIFICATES)
def _token(key: bytes, instance_uid: str, week: int) -> str:
    return _derive(key, f"token:{instance_uid}:{week}").hex()


def period_of(now: datetime) -> int:
    """Return the number of the certificate period that `now` is in."""
    return (now - EPOCH) // PERIOD


def generation_of(now: datetime) -> int:
    """Return the number of the CA that signs at this time."""
    return (now - EPOCH) // GENERATION


def trusted_certificates(identity: Identity, now: datetime) -> bytes:
    """Return the certificates (PEM) of the CAs that a bridge's certificate may be signed by at this time."""
    generation = generation_of(now)
    return b"".join(
        _authority(key, signing_generation)[0].public_bytes(Encoding.PEM)
        for key in identity.keys
        for signing_generation in (generation - 1, generation, generation + 1)
    )


def credentials(identity: Identity, instance_uid: str, now: datetime) -> Credentials:
    """Return the bridge's credentials for the time `now`."""
    certificate, private_key = _certificate(identity.hmac_key, instance_uid, period_of(now))
    previous = identity.previous_hmac_key
    return Credentials(
        certificate=certificate,
        private_key=private_key,
        token=token(identity.hmac_key, instance_uid, now),
        next_token=token(identity.hmac_key, instance_uid, now + TOKEN_PERIOD),
        previous_token=token(previous, instance_uid, now) if previous is not None else None,
    )


# Each decision about an instance compares them with what is applied; they change once in a period.
@functools.lru_cache(maxsize=MAX_CERTIFICATES)
def _certificate(hmac_key: bytes, instance_uid: str, period: int) -> tuple[bytes, bytes]:
    """Return the certificate of a bridge for a period and its private key, both PEM."""
    seed = _derive(hmac_key, f"key:{instance_uid}:{period}")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    start = EPOCH + period * PERIOD
    ca, ca_key = _authority(hmac_key, generation_of(start))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name("efrit-bridge"))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(_serial(seed))
        .not_valid_before(start - SKEW)
        .not_valid_after(start + 2 * PERIOD)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(server_name(instance_uid))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, None)
    )
    return (
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


@functools.lru_cache(maxsize=16)
def _authority(key: bytes, generation: int) -> tuple[x509.Certificate, Ed25519PrivateKey]:
    """Return a CA and its key. It is never stored."""
    seed = _derive(key, f"ca:{generation}")
    private = Ed25519PrivateKey.from_private_bytes(seed)
    public = private.public_key()
    # Of its own for each CA: OpenSSL looks for an issuer by the name first.
    fingerprint = hashlib.sha256(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]
    name = _name(f"efrit-operator {fingerprint}")
    start = EPOCH + generation * GENERATION
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(_serial(seed))
        .not_valid_before(start - SKEW)
        .not_valid_after(start + 2 * GENERATION)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=False,
                key_cert_sign=True,
                crl_sign=False,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(private, None)
    )
    return certificate, private


def _derive(key: bytes, purpose: str) -> bytes:
    return hmac.new(key, purpose.encode(), hashlib.sha256).digest()


def _serial(seed: bytes) -> int:
    return int.from_bytes(hashlib.sha256(b"serial" + seed).digest()[:16]) | 1


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
