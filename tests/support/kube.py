"""A small synchronous client of the API server for tests: JSON in, JSON out, refusals as an exception."""

from __future__ import annotations

import json
import math
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

import httpx
import urllib3

from efrit.kube.media_types import JSON, MERGE_PATCH
from efrit.resources import resource_named
from tests.support.timeout import TIMEOUT, poll_interval

Json = dict[str, Any]
T = TypeVar("T")

CONNECTIONS = 8
"""Kept open for calls; one more is made for each call beyond that."""


class Refused(Exception):  # noqa: N818 - reads as what happened
    """The API server answered with an error status; the text is its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Access(Protocol):
    """How to reach an API server: a control plane of the tests, or a kubeconfig."""

    @property
    def url(self) -> str: ...

    def administrator(self) -> tuple[ssl.SSLContext, dict[str, str]]:
        """Return the TLS context, and headers of each call."""


class Events(Iterator[Json]):
    """Events of a watch until the API server or `end` ends it; httpx.TransportError where its connection breaks."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._lines = iter(response)

    def __next__(self) -> Json:
        with _transport_errors():
            event: Json = json.loads(next(self._lines))
        return event

    def end(self) -> None:
        """Wake up who waits for the next event. From any thread."""
        with suppress(ValueError, RuntimeError, OSError):  # It has ended.
            self._response.shutdown()


class Kube:
    """The administrator's connection: of any thread.

    Through urllib3, which takes half a millisecond less of a processor for each call than httpx: most are polls.
    """

    def __init__(self, access: Access) -> None:
        context, self.headers = access.administrator()
        """Headers of every call."""
        url = urllib.parse.urlsplit(access.url)
        self._root = url.path.rstrip("/")
        self._pool = urllib3.HTTPSConnectionPool(
            url.hostname or "", url.port, timeout=TIMEOUT, maxsize=CONNECTIONS, retries=False, ssl_context=context
        )

    def close(self) -> None:
        self._pool.close()

    def call(self, method: str, path: str, body: object = None, *, content_type: str = JSON, **query: str) -> Json:
        content = None if body is None else json.dumps(body).encode()
        return self.send(method, path, content, content_type=content_type, **query)

    def send(self, method: str, path: str, content: bytes | None, *, content_type: str = JSON, **query: str) -> Json:
        """Send bytes as they are; httpx.TransportError where no answer comes."""
        answer: Json = json.loads(self.read(method, path, content, content_type=content_type, **query))
        return answer

    def read(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        **query: str,
    ) -> bytes:
        """Send bytes as they are, and return those of the answer."""
        headers = {"Accept": accept, **self.headers}
        if content is not None:
            headers["Content-Type"] = content_type
        deadline = time.monotonic() + TIMEOUT
        while True:
            with _transport_errors():
                response = self._pool.request(method, self._target(path, query), body=content, headers=headers)
            # An API server that has just started says so of what it has not read yet, though it is ready. Of an
            # eviction it says that a budget is in its way.
            if response.status != 429 or path.endswith("/eviction") or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if response.status >= 400:
            raise Refused(response.status, _message(response.data))
        return response.data

    def _target(self, path: str, query: Mapping[str, str]) -> str:
        return f"{self._root}{path}?{urllib.parse.urlencode(query)}" if query else f"{self._root}{path}"

    @staticmethod
    def path(plural: str, namespace: str | None, name: str = "", sub: str = "") -> str:
        """Return the path of what a plural or a kind names; without a namespace, of the cluster."""
        return resource_named(plural).path(namespace, name, sub)

    def create(self, plural: str, namespace: str | None, manifest: Json, **query: str) -> Json:
        resource = resource_named(plural)
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
        return self.call("POST", self.path(plural, namespace), whole, **query)

    def get(self, plural: str, namespace: str | None, name: str) -> Json:
        return self.call("GET", self.path(plural, namespace, name))

    def find(self, plural: str, namespace: str | None, name: str) -> Json | None:
        """Return the object, or None where there is none."""
        try:
            return self.get(plural, namespace, name)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def list(self, plural: str, namespace: str | None, **query: str) -> list[Json]:
        items: list[Json] = self.call("GET", self.path(plural, namespace), **query)["items"]
        return items

    def replace(self, plural: str, namespace: str, manifest: Json, sub: str = "", **query: str) -> Json:
        return self.call("PUT", self.path(plural, namespace, manifest["metadata"]["name"], sub), manifest, **query)

    def patch(self, plural: str, namespace: str | None, name: str, body: Json, sub: str = "", **query: str) -> Json:
        return self.call("PATCH", self.path(plural, namespace, name, sub), body, content_type=MERGE_PATCH, **query)

    def delete(self, plural: str, namespace: str | None, name: str, **options: object) -> None:
        self.call("DELETE", self.path(plural, namespace, name), options or None)

    def discard(self, plural: str, namespace: str | None, name: str, **options: object) -> None:
        """Delete an object; one that is gone already is fine."""
        try:
            self.delete(plural, namespace, name, **options)
        except Refused as error:
            if error.status != 404:
                raise

    def table(self, plural: str, namespace: str) -> Json:
        """Return a list as `kubectl get` asks for it: columns and rows."""
        body: Json = json.loads(
            self.read("GET", self.path(plural, namespace), accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        )
        return body

    @contextmanager
    def events(
        self, plural: str, namespace: str | None, *, seconds: float | None = TIMEOUT, **query: str
    ) -> Iterator[Events]:
        """Open a watch, of the objects that are there first unless `query` says since when.

        seconds: a silence that long is a dead connection; None for as long as it may be.
        """
        target = self._target(self.path(plural, namespace), {"watch": "true", **query})
        headers = {"Accept": JSON, **self.headers}
        with _transport_errors():
            response = self._pool.request("GET", target, headers=headers, timeout=seconds, preload_content=False)
        try:
            if response.status >= 400:
                raise Refused(response.status, _message(response.data))
            yield Events(response)
        finally:
            response.close()

    @contextmanager
    def watch(
        self, plural: str, namespace: str, *, seconds: int = int(TIMEOUT), **query: str
    ) -> Iterator[Iterator[Json]]:
        """Open a watch on what happens from now on; it ends by itself after `seconds`."""
        now = self.call("GET", self.path(plural, namespace), limit="1")["metadata"]["resourceVersion"]
        query |= {"resourceVersion": now, "timeoutSeconds": str(seconds)}
        with self.events(plural, namespace, seconds=seconds + 10, **query) as events:
            yield events

    def follow(self, plural: str, namespace: str, seconds: float, **query: str) -> Iterator[Json]:
        """Yield the events of a watch, from the objects that are there on, for `seconds` at most."""
        query |= {"timeoutSeconds": str(math.ceil(seconds))}
        with self.events(plural, namespace, seconds=seconds + 10, **query) as events:
            for event in events:
                if event["type"] == "ERROR":
                    return  # Of a watch that fell behind; whoever needs more begins another.
                yield event

    def wait(
        self,
        plural: str,
        namespace: str,
        name: str,
        probe: Callable[[Json], T | None],
        diagnostics: Callable[[], str],
        seconds: float = TIMEOUT,
    ) -> T:
        """Return the first true value that `probe` makes of the object; AssertionError with the diagnostics.

        A watch tells of each change, at less cost than polls.
        """
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            for event in self.follow(plural, namespace, left, fieldSelector=f"metadata.name={name}"):
                if value := probe(event["object"]):
                    return value
        raise AssertionError(f"after {seconds:.0f} s: {diagnostics()}")


@contextmanager
def _transport_errors() -> Iterator[None]:
    """Raise what the tests' other HTTP client raises where no answer comes."""
    try:
        yield
    except urllib3.exceptions.HTTPError as error:
        raise httpx.TransportError(str(error)) from error


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")


def until(probe: Callable[[], T | None], what: str | Callable[[], str], seconds: float = TIMEOUT) -> T:
    """Return the first value that is true; AssertionError that names `what` after `seconds`."""
    began = time.monotonic()
    while True:
        value = probe()
        if value:
            return value
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(f"after {seconds:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(poll_interval(waited))
