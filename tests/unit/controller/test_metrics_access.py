"""metrics_access.py and metrics_server.py: who may read /metrics, over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from efrit.controller import metrics_access
from efrit.controller.metrics_access import KEPT_SECONDS, LONGEST_TOKEN, MAX_KEPT, MAX_REVIEWS, MetricsAccess
from efrit.controller.metrics_server import MAX_CONNECTIONS, serve_metrics
from efrit.errors import ApiUnavailable
from efrit.resources import TOKEN_REVIEWS, Resource
from tests.support.timeout import TIMEOUT


@dataclass
class Reviewer:
    """Knows tokens by their names: `reader…` may read, `other…` is a user who may not."""

    reviews: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    down: bool = False
    denied: bool = False
    meanwhile: Callable[[], Any] | None = None
    """Called while a token is being reviewed."""

    async def review(self, resource: Resource, spec: Mapping[str, Any]) -> dict[str, Any]:
        self.reviews.append((resource.kind, spec))
        if self.down:
            raise ApiUnavailable("the API server does not answer")
        if resource == TOKEN_REVIEWS:
            if self.meanwhile is not None:
                await self.meanwhile()
            is_known = spec["token"].startswith(("reader", "other"))
            return {"authenticated": True, "user": {"username": spec["token"], "groups": ["g"]}} if is_known else {}
        return {"allowed": spec["user"].startswith("reader"), "denied": self.denied}


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def reviewer() -> Reviewer:
    return Reviewer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(reviewer: Reviewer, clock: Clock) -> MetricsAccess:
    return MetricsAccess(reviewer.review, clock)


@pytest.fixture
async def client(access: MetricsAccess) -> AsyncIterator[httpx.AsyncClient]:
    runner = await serve_metrics(access, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as client:  # noqa: S501 - for encryption
        yield client
    await runner.cleanup()


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("Basic reader", 401),
        ("Bearer", 401),
        ("Bearer nobody", 401),
        (f"Bearer reader{'x' * LONGEST_TOKEN}", 401),
        ("Bearer read\u00e9r", 401),
        ("Bearer other", 403),
        ("Bearer reader", 200),
        ("bearer reader", 200),
    ],
)
async def test_metrics_are_shown_to_readers_alone(
    client: httpx.AsyncClient, authorization: str | None, status: int
) -> None:
    headers = [] if authorization is None else [(b"Authorization", authorization.encode())]

    response = await client.get("/metrics", headers=headers)

    assert response.status_code == status
    assert ("efrit_open_requests" in response.text) == (status == 200)
    assert response.headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)


async def test_the_user_is_asked_for_the_path(access: MetricsAccess, reviewer: Reviewer) -> None:
    assert await access.status("Bearer reader") == 200

    assert reviewer.reviews[1][1] == {
        "user": "reader",
        "uid": "",
        "groups": ["g"],
        "extra": {},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_a_user_who_is_denied_is_no_reader_though_something_else_allows_it(
    access: MetricsAccess, reviewer: Reviewer
) -> None:
    reviewer.denied = True

    assert await access.status("Bearer reader") == 403


@pytest.mark.parametrize(("token", "status"), [("reader", 200), ("other", 403)])
async def test_an_answer_is_believed_for_a_while(
    access: MetricsAccess, reviewer: Reviewer, clock: Clock, token: str, status: int
) -> None:
    for passed, calls in ((0.0, 2), (KEPT_SECONDS - 1, 2), (KEPT_SECONDS, 4)):
        clock.now = passed
        assert await access.status(f"Bearer {token}") == status
        assert len(reviewer.reviews) == calls


async def test_the_newest_answers_are_kept_and_none_about_tokens_of_nobody(
    access: MetricsAccess, reviewer: Reviewer
) -> None:
    for number in range(MAX_KEPT + 1):
        await access.status(f"Bearer reader{number}")
        await access.status(f"Bearer nobody{number}")
    reviewer.reviews.clear()

    for number in range(1, MAX_KEPT + 1):
        await access.status(f"Bearer reader{number}")
    assert reviewer.reviews == []
    await access.status("Bearer reader0")
    assert len(reviewer.reviews) == 2


async def test_only_so_many_are_asked_about_at_once(access: MetricsAccess, reviewer: Reviewer) -> None:
    statuses: list[int] = []

    async def another() -> None:
        statuses.append(await access.status(f"Bearer reader{len(reviewer.reviews)}"))

    reviewer.meanwhile = another

    assert await access.status("Bearer reader") == 200
    assert statuses == [503, *[200] * (MAX_REVIEWS - 1)]


async def test_nobody_reads_while_nobody_can_be_asked(
    access: MetricsAccess, reviewer: Reviewer, caplog: pytest.LogCaptureFixture
) -> None:
    reviewer.down = True
    assert await access.status("Bearer reader") == 503
    assert "access to /metrics cannot be checked" in caplog.text

    reviewer.down = False
    assert await access.status("Bearer reader") == 200
    assert metrics_access.log.name in {record.name for record in caplog.records}


async def end_of(reader: asyncio.StreamReader) -> bytes:
    """Return what a connection says until its other side has ended it."""
    with contextlib.suppress(ConnectionResetError):
        return await asyncio.wait_for(reader.read(), TIMEOUT)
    return b""


# asyncio drops the one that is too many without closing its socket.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_connections_that_do_not_finish_their_handshake_are_bounded(access: MetricsAccess) -> None:
    runner = await serve_metrics(access, "127.0.0.1", 0, handshake_seconds=600)
    opened = [await asyncio.open_connection(*runner.addresses[0]) for _ in range(MAX_CONNECTIONS + 1)]

    assert await end_of(opened[-1][0]) == b""
    assert not any(reader.at_eof() for reader, _ in opened[:-1])

    for _, writer in opened:
        writer.transport.abort()
    await runner.cleanup()
    gc.collect()


async def test_a_connection_that_reads_nothing_is_ended_and_that_of_a_reader_is_not(access: MetricsAccess) -> None:
    runner = await serve_metrics(access, "127.0.0.1", 0, unproven_seconds=0.3)
    host, port = runner.addresses[0]
    trusting = httpx.create_ssl_context(verify=False)
    # However long the machine stands still, it is not the client that ends its connection.
    kept = httpx.Limits(keepalive_expiry=None)
    url = f"https://{host}:{port}"
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=trusting, limits=kept) as client:
        while (first := await _read(client)) is None:
            """On a slow machine it may be too late."""
        with contextlib.suppress(ConnectionResetError):
            reader, _ = await asyncio.open_connection(host, port, ssl=trusting)
            await end_of(reader)

        assert await _read(client) == first, "the connection is the same"
    await runner.cleanup()


async def _read(client: httpx.AsyncClient) -> Any:
    """Return the address from which the metrics were read, None where the connection was ended before."""
    try:
        response = await client.get("/metrics", headers={"Authorization": "Bearer reader"})
    except httpx.TransportError:
        return None
    assert response.status_code == 200
    return response.extensions["network_stream"].get_extra_info("client_addr")
