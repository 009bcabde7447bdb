"""Certificates, and their exchange while the bridge serves."""

import asyncio
import ssl
from pathlib import Path

import httpx
import pytest
from cryptography.x509 import load_der_x509_certificate

from efrit.bridge.tls import Certificate
from efrit.errors import ConfigurationError
from tests.support.certificates import put, trusting, write_certificate
from tests.support.descriptors import no_descriptors
from tests.support.timeout import TIMEOUT
from tests.unit.bridge.conftest import Served, eventually


async def serial_served(served: Served) -> int:
    """Return the serial number of the certificate a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", served.bridge.port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return load_der_x509_certificate(shown).serial_number


async def test_a_new_certificate_is_shown_to_new_connections_and_old_ones_live_on(served: Served) -> None:
    assert (await served.client.get("/v1/stats")).status_code == 200
    serial = write_certificate(served.secrets)
    await eventually(lambda: serial_served(served), serial)
    assert (await served.client.get("/v1/stats")).status_code == 200
    url, context = served.client.base_url, trusting(served.secrets)
    async with httpx.AsyncClient(base_url=url, verify=context, timeout=TIMEOUT) as fresh:
        assert (await fresh.get("/healthz")).status_code == 200


def handshake(certificate: Certificate) -> ssl.SSLObject:
    """Return the client's end of a connection that is served with a certificate."""
    server, client = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = certificate.context.wrap_bio(client, server, server_side=True)
    insecure = ssl.create_default_context()
    insecure.check_hostname, insecure.verify_mode = False, ssl.CERT_NONE
    peer = insecure.wrap_bio(server, client)
    for _ in range(6):
        for end in (peer, side):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return peer


def test_a_pair_that_does_not_fit_is_not_served(secrets: Path) -> None:
    certificate = Certificate(secrets)
    good = (secrets / "tls.key").read_bytes()
    write_certificate(secrets)
    put(secrets / "tls.key", good)
    certificate.refresh()
    assert handshake(certificate).version() == "TLSv1.3"


def test_a_certificate_that_could_not_be_read_once_is_served_with_the_next_look(
    secrets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = Certificate(secrets)
    serial = write_certificate(secrets)
    with no_descriptors():
        certificate.refresh()
        certificate.refresh()
    assert len(caplog.messages) == 1, "it is said once"

    certificate.refresh()

    shown = handshake(certificate).getpeercert(binary_form=True)
    assert shown is not None
    assert load_der_x509_certificate(shown).serial_number == serial


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key"])
def test_without_a_certificate_the_bridge_does_not_start(secrets: Path, missing: str) -> None:
    (secrets / missing).unlink()
    with pytest.raises(ConfigurationError, match=r"tls\.crt"):
        Certificate(secrets)
