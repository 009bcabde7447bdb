"""A small synchronous client of the API server for tests: JSON in, JSON out, refusals as an exception."""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
import urllib3

from efrit.kube.media_types import JSON, MERGE_PATCH
from efrit.resources import resource_named
from tests.cluster.control_plane import ControlPlane
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


class Kube:
    """The administrator's connection.

    Calls go through urllib3, which takes half a millisecond less of a processor for each than httpx: most are polls.
    """

    def __init__(self, plane: ControlPlane) -> None:
        context, self.headers = plane.administrator()
        """Headers of every call."""
        self._client = httpx.Client(base_url=plane.url, verify=context, timeout=TIMEOUT, trust_env=False)
        self._pool = urllib3.HTTPSConnectionPool(
            plane.host, plane.ports.api, timeout=TIMEOUT, maxsize=CONNECTIONS, retries=False, ssl_context=context
        )

    def close(self) -> None:
        self._client.close()
        self._pool.close()

    def call(self, method: str, path: str, body: object = None, *, content_type: str = JSON, **query: str) -> Json:
        content = None if body is None else json.dumps(body).encode()
        return self.send(method, path, content, content_type=content_type, **query)

    def send(self, method: str, path: str, content: bytes | None, *, content_type: str = JSON, **query: str) -> Json:
        """Send bytes as they are; httpx.TransportError where no answer comes."""
        headers = {"Accept": JSON, **self.headers}
        if content is not None:
            headers["Content-Type"] = content_type
        target = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                response = self._pool.request(method, target, body=content, headers=headers)
            except urllib3.exceptions.HTTPError as error:
                raise httpx.TransportError(str(error)) from error
            # An API server that has just started says so of what it has not read yet, though it is ready. Of an
            # eviction it says that a budget is in its way.
            if response.status != 429 or path.endswith("/eviction") or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if response.status >= 400:
            raise Refused(response.status, _message(response.data))
        answer: Json = json.loads(response.data)
        return answer

    @staticmethod
    def path(plural: str, namespace: str, name: str = "", sub: str = "") -> str:
        return resource_named(plural).path(namespace, name, sub)

    def create(self, plural: str, namespace: str, manifest: Json, **query: str) -> Json:
        resource = resource_named(plural)
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
        return self.call("POST", self.path(plural, namespace), whole, **query)

    def get(self, plural: str, namespace: str, name: str) -> Json:
        return self.call("GET", self.path(plural, namespace, name))

    def find(self, plural: str, namespace: str, name: str) -> Json | None:
        """Return the object, or None where there is none."""
        try:
            return self.get(plural, namespace, name)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def list(self, plural: str, namespace: str, **query: str) -> list[Json]:
        items: list[Json] = self.call("GET", self.path(plural, namespace), **query)["items"]
        return items

    def replace(self, plural: str, namespace: str, manifest: Json, sub: str = "", **query: str) -> Json:
        return self.call("PUT", self.path(plural, namespace, manifest["metadata"]["name"], sub), manifest, **query)

    def patch(self, plural: str, namespace: str, name: str, body: Json, sub: str = "", **query: str) -> Json:
        return self.call("PATCH", self.path(plural, namespace, name, sub), body, content_type=MERGE_PATCH, **query)

    def delete(self, plural: str, namespace: str, name: str, **options: object) -> None:
        self.call("DELETE", self.path(plural, namespace, name), options or None)

    def table(self, plural: str, namespace: str) -> Json:
        """Return a list as `kubectl get` asks for it: columns and rows."""
        accept = {**self.headers, "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        body: Json = self._client.get(self.path(plural, namespace), headers=accept).json()
        return body

    @contextmanager
    def watch(
        self, plural: str, namespace: str, *, seconds: int = int(TIMEOUT), **query: str
    ) -> Iterator[Iterator[Json]]:
        """Open a watch on what happens from now on; it ends by itself after `seconds`."""
        now = self.call("GET", self.path(plural, namespace), limit="1")["metadata"]["resourceVersion"]
        query |= {"watch": "true", "resourceVersion": now, "timeoutSeconds": str(seconds)}
        path = self.path(plural, namespace)
        with self._client.stream("GET", path, params=query, headers=self.headers, timeout=seconds + 10) as response:
            if response.status_code >= 400:
                raise Refused(response.status_code, _message(response.read()))
            yield (json.loads(line) for line in response.iter_lines())


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
