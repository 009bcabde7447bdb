"""The HTTP transport's socket: its certificate is exchanged while it serves, and it ends though calls wait."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from efrit.backend.interface import Backend
from efrit.errors import ConfigurationError
from efrit.mcp import http
from efrit.mcp.settings import Http, Limits
from tests.cluster.ports import free_port
from tests.support.timeout import TIMEOUT
from tests.unit.mcp.scripted import ScriptedBackend

LIMITS = Limits()


def write_pair(place: Path, name: str) -> None:
    """Put a certificate for `name` and its key in place of what is there as the kubelet does: all at once."""
    key = Ed25519PrivateKey.generate()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, None)
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    for file, data in (("tls.crt", certificate.public_bytes(pem)), ("tls.key", private)):
        replace(place / file, data)


def replace(file: Path, data: bytes) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(data)
    new.replace(file)


@asynccontextmanager
async def listening(place: Path, limits: Limits = LIMITS, **options: Any) -> AsyncIterator[int]:
    """Yield the server on a free port, with the certificate in `place`."""
    port = free_port()

    async def opening(_: str | None) -> Backend:
        return ScriptedBackend()

    settings = Http(
        port=port, certificate=place / "tls.crt", key=place / "tls.key", authenticated=False, limits=limits
    )
    app = http.make_app(
        http.Backends(opening), None, http.transport_security(settings), limits=settings.limits, **options
    )
    task = asyncio.create_task(http.listen(app, settings))
    try:
        yield port
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def served_name(port: int) -> str:
    """Return the name in the certificate that the server shows; empty while it does not listen."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except OSError:
        return ""
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    (name,) = x509.load_der_x509_certificate(shown).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


async def until_served(port: int, name: str) -> None:
    with anyio.fail_after(TIMEOUT):
        while await served_name(port) != name:
            await anyio.lowlevel.checkpoint()


async def test_a_renewed_certificate_is_taken_up_and_a_broken_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http, "CERTIFICATE_CHECK_SECONDS", 0.02)
    write_pair(tmp_path, "first")
    async with listening(tmp_path) as port:
        await until_served(port, "first")
        write_pair(tmp_path, "second")
        await until_served(port, "second")
        replace(tmp_path / "tls.crt", b"no certificate")
        with anyio.fail_after(TIMEOUT):
            while "unusable" not in caplog.text:
                assert await served_name(port) == "second"
        write_pair(tmp_path, "third")
        await until_served(port, "third")


@pytest.mark.parametrize("length", [0, 31])
def test_a_key_that_is_too_short_is_refused(tmp_path: Path, length: int) -> None:
    file = tmp_path / "key"
    file.write_bytes(os.urandom(length))
    with pytest.raises(ConfigurationError, match="32 or more"):
        http._read_key(file)


def test_a_key_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        http._read_key(tmp_path / "key")
