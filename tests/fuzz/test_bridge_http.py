"""The bridge's HTTP face in this process: any request gets an answer a program and a person understand."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from efrit.bridge.app import Bridge
from efrit.bridge.auth import Tokens
from efrit.bridge.routes import make_app
from efrit.bridge.settings import Settings
from efrit.protocol import Request
from efrit.protocol.view import ErrorBody
from tests.fuzz import documents
from tests.support.certificates import TOKEN, make_secrets

CODES = {
    401: {"Unauthorized"}, 404: {"NotFound"}, 405: {"MethodNotAllowed"}, 409: {"Conflict", "NotAnswered"},
    413: {"TooLarge"}, 422: {"Invalid"}, 429: {"QueueFull"}, 503: {"NotReady"},
}  # fmt: skip
_ids = st.sampled_from(
    (
        "a-1",
        ".",
        "..",
        "a%2f..%2fb",
        "%00",
        "a%00",
        "%2e%2e",
        "x" * 128,
        "x" * 129,
        "%c3%a9",
        "a%0ab",
        "a b",
        "~",
        "%",
    )
) | st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="?#"), min_size=1, max_size=40)
_paths = st.one_of(
    _ids.map(lambda rid: f"/v1/requests/{rid}"),
    _ids.map(lambda rid: f"/v1/requests/{rid}/cancel"),
    st.sampled_from(("/v1/requests", "/v1/requests/", "/v1/stats", "/v1/stats/", "/", "//", "/../etc/passwd", "/v1")),
    st.sampled_from(("/healthz", "/readyz", "/metrics", "/v1/requests/../stats", "/v1//stats", "/V1/stats")),
)
_authorizations = st.sampled_from(
    (f"Bearer {TOKEN}",) * 6 + (f"bearer  {TOKEN} ", "", "Bearer", "Bearer ", "Basic eDp5", f"Bearer {TOKEN}x", "é")
) | st.just("Bearer " + "x" * 60_000)


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_secrets(tmp_path_factory.mktemp("secrets") / "secrets")


@pytest.fixture
def place() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="http-"))
    yield made
    shutil.rmtree(made)


@asynccontextmanager
async def _served(place: Path, secrets: Path) -> Any:
    """Yield a client of the application over an open queue."""
    bridge = Bridge(
        Settings(bridge_secrets=secrets, bridge_host="127.0.0.1", bridge_port=0, queue_dir=place / "queue")
    )
    app = make_app(bridge.queue, bridge.events, Tokens(secrets), bridge)
    task = asyncio.create_task(bridge.run())
    try:
        while not bridge.queue.is_open:
            assert not task.done()
            await asyncio.sleep(0.005)
        # The transport raises what the application lets through: nothing may be.
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://bridge") as client:
            yield client
    finally:
        bridge.stop()
        await task


def test_any_request_gets_an_answer_that_says_what_to_change(place: Path, secrets: Path) -> None:
    calls = st.tuples(
        st.sampled_from(("PUT", "PUT", "PUT", "GET", "POST", "DELETE", "HEAD", "PATCH", "OPTIONS", "TRACE", "x")),
        _paths,
        _authorizations,
        documents.mangled(documents.REQUEST) | st.binary(max_size=50),
    )

    @given(st.lists(calls, min_size=5, max_size=40))
    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def answered(batch: list[tuple[str, str, str, bytes]]) -> None:
        asyncio.run(_answered(place, secrets, batch))

    answered()
    outside = [path for path in place.rglob("*") if path.is_file() and place / "queue" not in path.parents]
    assert outside == []


async def _answered(place: Path, secrets: Path, batch: list[tuple[str, str, str, bytes]]) -> None:
    async with _served(place, secrets) as client:
        for method, path, authorization, body in batch:
            url = httpx.URL("https://bridge").copy_with(raw_path=path.encode())
            headers = {"authorization": authorization.encode()}
            answer = await client.request(method, url, headers=headers, content=body)
            _understood(method, path, answer)
            if answer.status_code in (200, 201) and method == "PUT":
                stored = place / "queue/requests" / f"req_{answer.json()['id']}.json"
                assert Request.parse(stored.read_bytes()).id == path.rpartition("/")[2]


def _understood(method: str, path: str, answer: httpx.Response) -> None:
    if answer.status_code < 400:
        assert answer.status_code in (200, 201, 202, 204), (method, path)
        return
    if path in ("/readyz", "/healthz") and answer.status_code == 503:
        return
    if method == "HEAD":
        return
    error = ErrorBody.parse(answer.content).error
    assert error.code in CODES[answer.status_code], (method, path, answer.text)
    assert 10 < len(error.message) < 2000
    assert TOKEN not in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b'{"id":"a"}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"9" * 5000,
        b'"' + b"x" * 999,
    ],
    ids=lambda body: body[:8].decode("latin-1"),
)
async def test_a_body_that_is_no_request_is_refused_with_what_is_missing(
    place: Path, secrets: Path, body: bytes
) -> None:
    async with _served(place, secrets) as client:
        answer = await client.put("/v1/requests/a", headers={"authorization": f"Bearer {TOKEN}"}, content=body)
        assert answer.status_code == 422
        assert answer.json()["error"]["code"] == "Invalid"


async def test_a_request_submitted_again_is_the_same_whatever_it_carries(place: Path, secrets: Path) -> None:
    odd = {"x": None, "y": {"z": [None, 1e300, -0.0, 5e-324]}, "é": "\u202e"}
    body = json.dumps({"id": "a", "type": "eval", "content": "1", "options": odd, "metadata": odd, "more": odd})
    for expected in (201, 200):
        async with _served(place, secrets) as client:
            answer = await client.put("/v1/requests/a", headers={"authorization": f"Bearer {TOKEN}"}, content=body)
            assert answer.status_code == expected
            again = await client.put("/v1/requests/a", headers={"authorization": f"Bearer {TOKEN}"}, content=body)
            assert again.status_code == 200
