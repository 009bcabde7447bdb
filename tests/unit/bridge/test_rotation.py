"""Tokens and certificates that change while the bridge serves."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from cryptography.x509 import load_der_x509_certificate

from efrit.bridge.auth import Tokens
from efrit.bridge.tls import Certificate
from efrit.errors import ConfigurationError
from tests.support.certificates import TOKEN, put, trusting, write_certificate
from tests.support.timeout import TIMEOUT
from tests.unit.bridge.conftest import Served


async def eventually(ask: Callable[[], Awaitable[int]], expected: int) -> None:
    """Asks until the answer is `wanted`; each question is a round trip, so no pause is needed."""
    async with asyncio.timeout(TIMEOUT):
        while await ask() != expected:
            continue


async def status_with(served: Served, token: str) -> int:
    answer = await served.client.get("/v1/stats", headers={"authorization": f"Bearer {token}"})
    return answer.status_code


async def test_a_new_token_is_accepted_at_once_and_the_old_one_while_it_is_kept(served: Served) -> None:
    put(served.secrets / "token-previous", TOKEN.encode())
    put(served.secrets / "token", b"token-two")
    assert await status_with(served, "token-two") == 200
    assert await status_with(served, TOKEN) == 200
    (served.secrets / "token-previous").unlink()
    await eventually(lambda: status_with(served, TOKEN), 401)
    assert await status_with(served, "token-two") == 200


async def test_a_secret_that_vanishes_locks_nobody_out(served: Served) -> None:
    (served.secrets / "token").unlink()
    assert await status_with(served, "wrong") == 401
    assert await status_with(served, TOKEN) == 200


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


def test_a_pair_that_does_not_fit_is_not_served(secrets: Path) -> None:
    certificate = Certificate(secrets)
    good = (secrets / "tls.key").read_bytes()
    write_certificate(secrets)
    put(secrets / "tls.key", good)
    certificate.refresh()
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
    assert peer.version() == "TLSv1.3"


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key"])
def test_without_a_certificate_the_bridge_does_not_start(secrets: Path, missing: str) -> None:
    (secrets / missing).unlink()
    with pytest.raises(ConfigurationError, match=r"tls\.crt"):
        Certificate(secrets)


@pytest.mark.parametrize("content", [None, b"", b"  \n"])
def test_without_a_token_the_bridge_does_not_start(secrets: Path, content: bytes | None) -> None:
    if content is None:
        (secrets / "token").unlink()
    else:
        put(secrets / "token", content)
    with pytest.raises(ConfigurationError, match="token"):
        Tokens(secrets)


def test_the_scheme_is_read_in_any_case_and_the_token_exactly(secrets: Path) -> None:
    tokens = Tokens(secrets)
    assert tokens.accepts(f"bearer {TOKEN}")
    assert tokens.accepts(f"BEARER  {TOKEN} ")
    assert not tokens.accepts(f"Bearer {TOKEN.upper()}")
    assert not tokens.accepts(f"Bearer {TOKEN[:-1]}")
    assert not tokens.accepts("Bearer ")
    assert not tokens.accepts(TOKEN)
