"""The Kubernetes API as a client uses it: JSON in, JSON out, the errors of `efrit.client.errors`.

Goes through the official client's transport (kubeconfig, tokens, TLS) and skips its typed models. The only module of
the client that imports it: that is heavy.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.stream import WsApiClient

from efrit.client.errors import ClientError, Conflict, Forbidden, NoCluster, NotFound, NotReady, Refused

Json = dict[str, Any]

GROUP = "efrit.dev/v1alpha1"
MERGE = "application/merge-patch+json"
PAGE = 500
TIMEOUT_SECONDS = 30
WATCH_SECONDS = 300
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_STDOUT, _STDERR, _ERROR = b"\1", b"\2", b"\3"


def path(plural: str, namespace: str, name: str = "", sub: str = "") -> str:
    """The URL path of a collection or an object."""
    root = f"/apis/{GROUP}" if plural.startswith("efrit") else "/api/v1"
    return "/".join(part for part in (root, "namespaces", namespace, plural, name, sub) if part)


class WatchOver(Exception):  # noqa: N818 - it is what happened
    """The watch has ended; list again, and begin a new one."""


class Api:
    """A connection to an API server."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._client = ApiClient(configuration)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    async def get(self, plural: str, namespace: str, name: str) -> Json:
        """One object. Raises `NotFound`."""
        return await self.call("GET", path(plural, namespace, name))

    async def create(self, plural: str, namespace: str, manifest: Json) -> Json:
        """Raises `Conflict` where one of its name is there."""
        query = {"fieldManager": "efrit-client", "fieldValidation": "Strict"}
        return await self.call("POST", path(plural, namespace), body=manifest, query=query)

    async def patch(self, plural: str, namespace: str, name: str, body: Json) -> Json:
        """A JSON merge patch."""
        where = path(plural, namespace, name)
        return await self.call("PATCH", where, body=body, content_type=MERGE, query={"fieldManager": "efrit-client"})

    async def delete(self, plural: str, namespace: str, name: str) -> Json:
        """Delete one object. Raises `NotFound`."""
        return await self.call("DELETE", path(plural, namespace, name))

    async def list(self, plural: str, namespace: str, **query: str) -> tuple[list[Json], str]:
        """All objects of a collection, and the version to watch from."""
        found: list[Json] = []
        page: Json = {}
        asked = {"limit": str(PAGE), **query}
        while True:
            page = await self.call("GET", path(plural, namespace), query=asked)
            found += page.get("items", ())
            token = page.get("metadata", {}).get("continue")
            if not token:
                return found, str(page.get("metadata", {}).get("resourceVersion", ""))
            asked["continue"] = token

    async def watch(self, plural: str, namespace: str, version: str, **query: str) -> AsyncIterator[tuple[str, Json]]:
        """(ADDED | MODIFIED | DELETED, object) from `version` on. Raises `WatchOver` when it ends, however."""
        asked = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS), **query}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_SECONDS, sock_read=WATCH_SECONDS + 30)
        try:
            response = await self._send("GET", path(plural, namespace), query=asked, limits=timeout)
            if response.status >= 400:
                raise _error(response.status, await response.read())
            try:
                async for line in response.response.content:
                    event = json.loads(line)
                    if event.get("type") == "ERROR":
                        raise WatchOver
                    if event.get("type") != "BOOKMARK":
                        yield event["type"], event["object"]
            finally:
                # Closed, not given back: an unread stream is of no use to the next call.
                response.response.close()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise WatchOver from error
        raise WatchOver

    async def read(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> bytes:
        """What `command` writes to standard output in a container. Raises `NotFound` where it fails."""
        return b"".join([data async for data in self.stream(namespace, pod, container, command)])

    async def stream(
        self, namespace: str, pod: str, container: str, command: Sequence[str]
    ) -> AsyncGenerator[bytes, None]:
        """What `command` writes to standard output in a container, as it comes. Raises `NotFound` where it fails.

        Its standard input is open until nobody listens any more.
        """
        query = [("container", container), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
        query += [("command", word) for word in command]
        complaints, end = b"", b""
        async with WsApiClient(self._configuration) as client:
            where = path("pods", namespace, pod, "exec")
            asked = await _serialized(client, "GET", where, query, {"Accept": "*/*"})
            response = await client.call_api(*asked, _preload_content=False)
            try:
                async with response.response as socket:
                    async for message in socket:
                        channel, data = message.data[:1], message.data[1:]
                        if channel == _STDOUT:
                            yield data
                        elif channel == _STDERR:
                            complaints += data
                        elif channel == _ERROR:
                            end += data
            except aiohttp.WSServerHandshakeError as error:
                raise _refusal(error.status, f"exec in the pod {pod}: {error.message}") from error
            except (aiohttp.ClientError, OSError) as error:
                raise NotReady(f"cannot run a command in the pod {pod}: {error}", "try again") from error
        if end and b'"Success"' not in end:
            raise NotFound(complaints.decode(errors="replace").strip() or f"{command[0]} failed in {pod}")

    async def call(
        self,
        method: str,
        where: str,
        *,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Json:
        """One call and the JSON of its answer."""
        try:
            response = await self._send(method, where, body=body, content_type=content_type, query=query)
            data = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoCluster(
                f"the API server {self._configuration.host} does not answer: {error or type(error).__name__}",
                "check the context (`kubectl cluster-info`)",
            ) from error
        if response.status >= 400:
            raise _error(response.status, data)
        found: Json = json.loads(data) if data else {}
        return found

    async def _send(
        self,
        method: str,
        where: str,
        *,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        limits: object = TIMEOUT_SECONDS,
    ) -> Any:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        asked = await _serialized(self._client, method, where, list((query or {}).items()), headers, body)
        return await self._client.call_api(*asked, _request_timeout=limits)


async def _serialized(
    client: ApiClient,
    method: str,
    where: str,
    query: list[tuple[str, str]],
    headers: dict[str, str],
    body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
) -> Any:
    return await client.param_serialize(
        method=method,
        resource_path=where,
        query_params=query,
        header_params=headers,
        body=body,
        auth_settings=["BearerToken"],
    )


def _error(status: int, data: bytes) -> ClientError:
    try:
        message = str(json.loads(data).get("message"))
    except (ValueError, AttributeError):
        message = data[:500].decode(errors="replace")
    return _refusal(status, message)


def _refusal(status: int, message: str) -> ClientError:
    if status == 404:
        return NotFound(message)
    if status == 409:
        return Conflict(message)
    if status == 401:
        return Forbidden(f"the cluster does not know you: {message}", "log in again, or choose another context")
    if status == 403:
        return Forbidden(message, "ask for a role that allows it: the chart adds them to view, edit and admin")
    if status in (400, 413, 415, 422):
        return Refused(message)
    return NotReady(f"the API server answers {status}: {message}", "try again")


async def configuration(
    kubeconfig: Path | None, context: str | None, namespace: str | None
) -> tuple[Configuration, str, str]:
    """How to connect, the namespace, and a name for both, as kubectl finds them. Raises `NoCluster`."""
    found = Configuration()
    in_cluster = os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG")
    try:
        if in_cluster and kubeconfig is None and context is None:
            kube_config.load_incluster_config(client_configuration=found)
            own = namespace or _own_namespace()
            return found, own, f"this cluster, namespace {own}"
        loader = await kube_config.load_kube_config(
            None if kubeconfig is None else str(kubeconfig), context, client_configuration=found, persist_config=False
        )
        current = loader.current_context
    except (ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        raise NoCluster(
            f"no usable kubeconfig: {error}", "set KUBECONFIG, or name one with --kubeconfig and --context"
        ) from error
    own = namespace or current["context"].get("namespace") or "default"
    return found, own, f"context {current['name']}, namespace {own}"


def _own_namespace() -> str:
    return _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else "default"


def decoded(secret: Json, key: str) -> bytes | None:
    """The value of `key` in a Secret; None if it has none."""
    value = (secret.get("data") or {}).get(key)
    return None if value is None else base64.b64decode(value)
