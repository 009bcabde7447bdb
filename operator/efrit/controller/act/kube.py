"""The controller's connection to the API server: the package's client, which leaves a terminating namespace alone.

Its answers say what time it is (`cluster_clock.py`).

Its patches, which is most of what it calls, go over connections of their own (`api_calls.py`).
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import aiohttp
import msgspec

from efrit.controller.act.api_calls import ApiCalls
from efrit.controller.act.terminating import TerminatingNamespaces
from efrit.controller.cluster_clock import ClusterClock
from efrit.errors import ApiError, ApiNotFound, ApiNotServed, ApiUnavailable
from efrit.kube.client import Body, Json, KubeClient, json_of, query_string
from efrit.kube.connection import Configuration, load_connection
from efrit.kube.errors import api_error
from efrit.kube.media_types import JSON
from efrit.resources import Resource, resource_of

FIELD_MANAGER = "efrit-operator"


@contextlib.contextmanager
def _of_api_server() -> Iterator[None]:
    """Raise ApiUnavailable where a call about an object ended with a 404 that is not the API server's own."""
    try:
        yield
    except ApiNotServed as error:  # gate: own-not-found
        raise ApiUnavailable(str(error), error.sentence, status=error.status) from error


def _encoded(body: Body) -> bytes:
    """Return a body as JSON. msgspec takes neither half a surrogate pair nor what is derived from str."""
    try:
        return msgspec.json.encode(body)
    except (UnicodeEncodeError, TypeError):
        return json.dumps(body).encode()


class Kube(KubeClient):
    """A connection to the API server. Close it when done."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration, field_manager=FIELD_MANAGER)
        self.clock = ClusterClock()
        self._terminating = TerminatingNamespaces(time.monotonic)
        self._calls = ApiCalls.over(configuration, self._client.rest_client.ssl_context)

    @classmethod
    async def connect(cls) -> Kube:
        """Return a connection by the pod's service account, or by KUBECONFIG outside a cluster."""
        return cls((await load_connection()).configuration)

    async def close(self) -> None:
        """Close the connections."""
        if self._calls is not None:
            self._calls.close()
        await super().close()

    async def _send(self, method: str, path: str, **options: Any) -> aiohttp.ClientResponse:
        began = time.monotonic()
        response = await super()._send(method, path, **options)
        self.clock.observe(response.headers.get("Date"), time.monotonic() - began)
        return response

    async def send_patch(self, path: str, body: Body, content_type: str, query: Mapping[str, str]) -> Json:
        """Patch what is at a path and return what it is then. Raises the ApiError that the answer stands for."""
        with _of_api_server():
            if self._calls is None:
                return await super().send_patch(path, body, content_type, query)
            with self._raise_unreachable("PATCH", path):
                headers, began = await self._head(JSON, content_type), time.monotonic()
                answer = await self._calls.call("PATCH", path + query_string(query), headers, _encoded(body))
            self.clock.observe(answer.headers.get("Date"), time.monotonic() - began)
            if not 200 <= answer.status < 300:
                raise api_error("PATCH", path, answer.status, answer.body, answer.headers)
            return await json_of(answer.body)

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        """Return one object. Raises ApiNotFound where the API server itself says that it or its kind is not there."""
        with _of_api_server():
            try:
                return await super().get(resource, namespace, name)
            except ApiNotServed as error:
                if await self._knows(resource):  # gate: kind-missing
                    raise
                raise ApiNotFound(str(error), error.sentence, status=error.status) from error

    async def _knows(self, resource: Resource) -> bool:
        """Return whether the API server serves a kind, as long as it does not say itself that it does not."""
        try:
            group = await self.call("GET", resource.root)
        except ApiError:
            return True
        is_list = group.get("kind") == "APIResourceList"
        return not is_list or any(served["name"] == resource.plural for served in group["resources"])

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str | None, resource_version: str | None = None
    ) -> None:
        """Delete an object as the package's client does. Raises ApiNotFound as `get` does."""
        with _of_api_server():
            await super().delete(resource, namespace, name, uid=uid, resource_version=resource_version)

    async def create(self, manifest: Mapping[str, Any], namespace: str | None = None) -> Json:
        """Create an object.

        Raises ApiExists where one of its name is there, ApiNamespaceTerminating where its namespace is being deleted.
        """
        with self._terminating.creating(namespace or manifest["metadata"]["namespace"]):
            return await super().create(manifest, namespace)

    async def apply(self, manifest: Mapping[str, Any], *, uid: str | None = None) -> Json:
        """Apply an object server-side, if it has this UID; fields of ours win.

        Raises ApiConflict where it is gone or another one, ApiNamespaceTerminating where it would be created in a
        namespace that is being deleted.
        """
        with self._terminating.creating(manifest["metadata"]["namespace"]):
            return await super().apply(manifest, uid=uid)

    async def test_create(self, manifest: Mapping[str, Any]) -> None:
        """Have the API server check a create, and make nothing. Raises what `create` raises."""
        namespace = manifest["metadata"]["namespace"]
        with self._terminating.creating(namespace):
            path = resource_of(manifest).path(namespace)
            await self.call("POST", path, body=manifest, query={"dryRun": "All"})

    async def test(self, resource: Resource, namespace: str, name: str, expected: Mapping[str, Any]) -> Json:
        """Return an object that has these values by JSON pointer, and change nothing; needs no right to read.

        Raises ApiRefused where a value is another one, ApiNotFound.
        """
        operations = [{"op": "test", "path": pointer, "value": value} for pointer, value in expected.items()]
        return await self.json_patch(resource, namespace, name, operations)
