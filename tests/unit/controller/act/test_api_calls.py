"""act/api_calls.py: patches over connections of the controller's own, to a server that answers with any bytes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio.client import Configuration

from efrit.controller.act import api_calls
from efrit.controller.act.kube import Kube
from efrit.errors import ApiConflict, ApiError, ApiRefused, ApiTooLarge, ApiUnavailable, ApiUnreachable
from efrit.resources import REQUESTS
from tests.support.certificates import make_secrets
from tests.support.timeout import TIMEOUT
from tests.support.transports import abort_all
from tests.unit.controller.fake_api import FakeApi

STATUS = f"{REQUESTS.path('team', 'work')}/status"


def answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


DONE = answer(b'{"status": {"phase": "x"}}')
LEAVES = None
"""The server closes the connection."""


@dataclass
class Server:
    """Gives these answers, one for each call; `received` are the heads it has got."""

    answers: list[bytes | None]
    port: int = 0
    opened: int = 0
    received: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError), contextlib.closing(writer):
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
                self.received.append(head)
                writer.write(self.answers.pop(0) or b"")
                if self.answers and self.answers[0] is LEAVES:
                    self.answers.pop(0)
                    return
            await reader.read()


@contextlib.asynccontextmanager
async def serving(*answers: bytes | None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    served = Server(list(answers))
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0, ssl=tls)
    served.port = server.sockets[0].getsockname()[1]
    async with server:
        try:
            yield served
        finally:
            # A call may be given up before its connection is taken up: a closed server would leave that open.
            await abort_all(asyncio.get_running_loop())


@contextlib.asynccontextmanager
async def calling(server: Server, **settings: Any) -> AsyncIterator[Kube]:
    configuration = Configuration(host=f"http://127.0.0.1:{server.port}")
    for name, value in settings.items():
        setattr(configuration, name, value)
    kube = Kube(configuration)
    try:
        yield kube
    finally:
        await kube.close()


async def patch(kube: Kube) -> Any:
    return await kube.patch_status(REQUESTS, "team", "work", {"status": {"phase": "x"}})


@pytest.mark.parametrize("rounds", range(5))
async def test_the_server_leaves_no_connection_whenever_it_was_made(rounds: int) -> None:
    async with serving() as server:
        connection = socket.create_connection(("127.0.0.1", server.port))
        for _ in range(rounds):
            await asyncio.sleep(0)
    with connection, contextlib.suppress(ConnectionError):
        connection.setblocking(False)
        async with asyncio.timeout(TIMEOUT):
            assert await asyncio.get_running_loop().sock_recv(connection, 1) == b""


async def test_patches_share_a_connection() -> None:
    async with serving(DONE, DONE, DONE) as server, calling(server) as kube:
        assert [await patch(kube) for _ in range(3)] == [{"status": {"phase": "x"}}] * 3
        assert server.opened == 1
        assert server.received[0].startswith(f"PATCH {STATUS}?fieldManager=efrit-operator HTTP/1.1\r\n".encode())
        assert b"\r\nContent-Type: application/merge-patch+json\r\n" in server.received[0]


async def test_an_answer_without_a_body_says_nothing() -> None:
    async with serving(answer(b"")) as server, calling(server) as kube:
        assert await patch(kube) == {}


async def test_an_api_server_may_have_a_path_of_its_own() -> None:
    async with serving(DONE) as server, calling(server) as plain:
        async with calling(server, host=f"{plain._configuration.host}/clusters/one/") as kube:
            await patch(kube)
        assert server.received[0].startswith(f"PATCH /clusters/one{STATUS}?".encode())


async def test_a_token_that_is_renewed_goes_with_the_next_patch() -> None:
    numbers = itertools.count()

    async def renew(configuration: Configuration) -> None:
        configuration.api_key["BearerToken"] = f"Bearer {next(numbers)}"

    settings = {"api_key": {"BearerToken": "Bearer old"}, "refresh_api_key_hook": renew}
    async with serving(DONE, DONE) as server, calling(server, **settings) as kube:
        await patch(kube)
        await patch(kube)
        assert [b"\r\nauthorization: Bearer %d\r\n" % number in server.received[number] for number in range(2)] == [
            True,
            True,
        ]


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        DONE[:10],
        DONE[:-3],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}",
        b"no HTTP",
    ],
    ids=["nothing", "head", "body", "chunks", "no HTTP"],
)
async def test_a_patch_without_an_answer_is_not_repeated_and_the_next_one_has_a_connection_of_its_own(
    broken: bytes,
) -> None:
    async with serving(broken, LEAVES, DONE) as server, calling(server) as kube:
        with pytest.raises(ApiUnreachable, match="no answer from the API server"):
            await patch(kube)
        assert len(server.received) == 1
        assert await patch(kube) == {"status": {"phase": "x"}}
        assert server.opened == 2


async def test_an_answer_that_is_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_calls, "MAX_BODY_BYTES", 500)
    async with serving(answer(b"x" * 501), DONE) as server, calling(server) as kube:
        with pytest.raises(ApiUnreachable, match="longer than 500 bytes"):
            await patch(kube)
        assert await patch(kube) == {"status": {"phase": "x"}}


async def test_a_connection_that_the_api_server_closed_while_it_rested_is_not_used_again() -> None:
    async with serving(answer(b"{}"), LEAVES, DONE) as server, calling(server) as kube:
        assert await patch(kube) == {}
        assert kube._calls is not None
        while any(resting.is_usable for resting in kube._calls._connections._idle):  # noqa: ASYNC110 - the loop tells the connection, and nobody else
            await asyncio.sleep(0)
        assert await patch(kube) == {"status": {"phase": "x"}}
        assert server.opened == 2


async def test_an_api_server_that_does_not_answer_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_calls, "TIMEOUT_SECONDS", 0.05)
    async with serving() as server, calling(server) as kube:
        with pytest.raises(ApiUnreachable, match="TimeoutError"):
            await patch(kube)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, ApiUnavailable),
        (409, ApiConflict),
        (413, ApiTooLarge),
        (422, ApiRefused),
        (429, ApiUnavailable),
        (500, ApiUnavailable),
    ],
)
async def test_a_refusal_of_a_patch_is_the_error_it_stands_for(
    api: FakeApi, kube: Kube, status: int, kind: type[ApiError]
) -> None:
    api.retry_after = "7"
    api.fail("PATCH", STATUS, status, {"message": "the reason"})

    with pytest.raises(kind, match=f"{status}: the reason") as raised:
        await patch(kube)
    assert getattr(raised.value, "retry_after", None) == (7 if issubclass(kind, ApiUnavailable) else None)
    assert len(api.calls) == 1


async def test_a_pause_that_is_a_date_counts_by_the_clock_of_the_api_server() -> None:
    busy = (
        b"HTTP/1.1 429 Too Many Requests\r\nDate: Fri, 01 Jan 1999 00:00:00 GMT\r\n"
        b"Retry-After: Fri, 01 Jan 1999 00:00:09 GMT\r\nContent-Length: 0\r\n\r\n"
    )
    async with serving(busy) as server, calling(server) as kube:
        with pytest.raises(ApiUnavailable) as raised:
            await patch(kube)
        assert raised.value.retry_after == 9


@pytest.mark.parametrize("where", ["configuration", "environment"])
async def test_a_patch_goes_through_a_proxy_where_there_is_one(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(DONE) as proxy:
        settings: dict[str, Any] = {"host": "http://api.example"}
        if where == "environment":
            monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        else:
            settings["proxy"] = f"http://127.0.0.1:{proxy.port}"
        async with calling(proxy, **settings) as kube:
            assert await patch(kube) == {"status": {"phase": "x"}}
        assert proxy.received[0].startswith(f"PATCH http://api.example{STATUS}".encode())


async def test_certificates_and_the_name_of_the_server_are_those_of_the_configuration(tmp_path: Path) -> None:
    secrets = make_secrets(tmp_path / "secrets")
    certificate, key = str(secrets / "tls.crt"), str(secrets / "tls.key")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(certificate, key)
    ours = {"ssl_ca_cert": certificate, "cert_file": certificate, "key_file": key}
    async with serving(DONE, DONE, tls=tls) as server:
        host = f"https://localhost:{server.port}"
        async with calling(server, host=host, tls_server_name="127.0.0.1", **ours) as kube:
            assert await patch(kube) == {"status": {"phase": "x"}}
        # The certificate names the address alone.
        async with calling(server, host=host, **ours) as kube:
            with pytest.raises(ApiUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
                await patch(kube)
        async with calling(server, host=host, tls_server_name="127.0.0.1", ssl_ca_cert=certificate) as kube:
            with pytest.raises(ApiUnreachable):
                await patch(kube)
        assert len(server.received) == 1


async def test_no_patch_is_made_once_the_connections_are_closed() -> None:
    async with serving(DONE) as server, calling(server) as kube:
        await kube.close()
        with pytest.raises(ApiUnreachable, match="closed"):
            await patch(kube)
        assert server.opened == 0
