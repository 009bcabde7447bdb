"""The controller's own secrets: read at start, made at the very first start.

The controller makes them rather than the chart, so that rendering the chart anew never invalidates them. Keys of
the Secret: hmac.key, ca.crt, ca.key, and hmac-previous.key while a rotation is under way.
"""

from __future__ import annotations

import base64
import logging
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from efrit.controller.act.kube import Kube
from efrit.controller.model import names
from efrit.controller.model.credentials import Identity
from efrit.errors import ApiExists, ApiNotFound, ConfigurationError
from efrit.kube.resources import SECRETS

log = logging.getLogger(__name__)

CA_LIFETIME = timedelta(days=20 * 365)


async def load_identity(kube: Kube, namespace: str, name: str) -> Identity:
    """Return the identity in Secret `name`, made first where it does not exist.

    Raises ConfigurationError where the Secret lacks a key.
    """
    try:
        secret = await kube.get(SECRETS, namespace, name)
    except ApiNotFound:
        try:
            secret = await kube.create(_manifest(namespace, name))
            log.info("made the identity Secret %s/%s", namespace, name)
        except ApiExists:
            secret = await kube.get(SECRETS, namespace, name)
    return _identity(secret)


def _identity(secret: dict[str, Any]) -> Identity:
    data = {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
    missing = sorted({"hmac.key", "ca.crt", "ca.key"} - data.keys())
    if missing:
        meta = secret["metadata"]
        raise ConfigurationError(
            f"Secret {meta['namespace']}/{meta['name']} lacks {', '.join(missing)}: add them, or delete the Secret "
            "and restart the operator to have it made anew"
        )
    return Identity(
        hmac_key=data["hmac.key"],
        ca_certificate=data["ca.crt"],
        ca_key=data["ca.key"],
        previous_hmac_key=data.get("hmac-previous.key"),
    )


def new_identity(now: datetime) -> Identity:
    """Return fresh keys and a fresh CA."""
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "efrit-operator")])
    public = key.public_key()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                crl_sign=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, None)
    )
    return Identity(
        hmac_key=secrets.token_bytes(32),
        ca_certificate=certificate.public_bytes(Encoding.PEM),
        ca_key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _manifest(namespace: str, name: str) -> dict[str, Any]:
    identity = new_identity(datetime.now(UTC))
    data = {"hmac.key": identity.hmac_key, "ca.crt": identity.ca_certificate, "ca.key": identity.ca_key}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY},
        },
        "type": "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
