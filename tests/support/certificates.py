"""Self-signed certificates and the Secret directory a bridge reads, for tests."""

import os
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

TOKEN = "token-one"


def write_certificate(directory: Path, name: str = "bridge") -> int:
    """Make tls.crt and tls.key in `directory`; return the serial number."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    serial = x509.random_serial_number()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    put(directory / "tls.key", private)
    put(directory / "tls.crt", certificate.public_bytes(pem))
    return serial


def put(path: Path, data: bytes) -> None:
    """Replace a file in one step, as the kubelet does."""
    part = path.with_name(f"..{path.name}")
    part.write_bytes(data)
    os.replace(part, path)  # noqa: PTH105 - both are one directory's names


def make_secrets(directory: Path) -> Path:
    """Return a Secret with a certificate and `TOKEN`."""
    directory.mkdir(parents=True)
    write_certificate(directory)
    put(directory / "token", f"{TOKEN}\n".encode())
    return directory


def trusting(secrets: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(secrets / "tls.crt"))
