"""Base images are pinned to what a registry has: a real one, and servers that answer as registries should not."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.cluster import base_images
from tests.cluster.progress import ClusterError
from tests.support.image_registry import image_registry

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
FIRST_SCHEMA = "application/vnd.docker.distribution.manifest.v1+prettyjws"
BODY = b'{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"}'
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


class FakeRegistry(ThreadingHTTPServer):
    """Answers every manifest with one body under one digest."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.digest, self.body, self.media_type = DIGEST, BODY, MANIFEST


class _Handler(BaseHTTPRequestHandler):
    server: FakeRegistry

    def do_GET(self) -> None:
        if "/manifests/" in self.path:
            fields = {"Content-Type": self.server.media_type, "Docker-Content-Digest": self.server.digest}
            self._answer(self.server.body, **fields)
        else:
            self._answer(b"")

    do_HEAD = do_GET  # noqa: N815 -- the name that the library looks for

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def _answer(self, body: bytes, **fields: str) -> None:
        self.send_response(200)
        for name, value in {**fields, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@contextmanager
def _served(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    server = FakeRegistry()
    with _served(server):
        yield server


def test_a_pinned_reference_is_the_first_image_after_its_tag_has_moved_to_a_second(tmp_path: Path) -> None:
    with image_registry(tmp_path) as registry:
        tag = registry.push("base:slim", "first")
        first = base_images.resolved(tag)
        registry.push("base:slim", "second")

        assert base_images.resolved(tag) != first
        base_images.verify(f"{tag}@{first}")


@pytest.mark.parametrize("name", ["base:gone", "gone:slim"])
def test_a_tag_or_a_name_that_the_registry_does_not_have_is_an_error_that_says_what_to_look_at(
    tmp_path: Path, name: str
) -> None:
    with image_registry(tmp_path) as registry:
        registry.push("base:slim", "first")
        with pytest.raises(ClusterError, match=r"see whether the name is right.* crane says: .*UNKNOWN"):
            base_images.resolved(f"{registry.host}/{name}")


def test_a_digest_that_the_registry_does_not_have_is_refused(tmp_path: Path) -> None:
    with image_registry(tmp_path) as registry:
        tag = registry.push("base:slim", "first")
        with pytest.raises(ClusterError, match="MANIFEST_UNKNOWN"):
            base_images.verify(f"{tag}@{DIGEST}")


@pytest.mark.parametrize("media_type", [MANIFEST, FIRST_SCHEMA])
def test_a_body_that_does_not_fit_the_digest_is_refused(fake: FakeRegistry, media_type: str) -> None:
    fake.body, fake.media_type = BODY.replace(b"2", b"3"), media_type
    with pytest.raises(ClusterError, match=r"does not match requested digest|does not fit that digest"):
        base_images.resolved(f"{fake.host}/base:slim")
    with pytest.raises(ClusterError, match=r"does not match requested digest|does not fit that digest"):
        base_images.verify(f"{fake.host}/base:slim@{DIGEST}")


def test_a_digest_of_another_kind_is_refused(fake: FakeRegistry) -> None:
    fake.digest = f"sha512:{hashlib.sha512(BODY).hexdigest()}"
    with pytest.raises(ClusterError, match="which is not SHA-256"):
        base_images.resolved(f"{fake.host}/base:slim")


def test_a_registry_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"The registry of {host}/base:slim did not answer within"):
            base_images.resolved(f"{host}/base:slim", limit=0.2)


def test_nothing_that_listens_is_an_error_of_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(ClusterError, match="cannot be reached") as refusal:
        base_images.resolved(f"{host}/base:slim")
    assert len(str(refusal.value).splitlines()) == 1
