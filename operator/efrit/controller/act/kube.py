"""The Kubernetes API as the controller uses it: JSON in, JSON out, one exception tree.

Goes through the official client's transport (authentication, TLS, connection pool) and skips its typed models,
which would cost more than the call itself. API paths are spelled here and nowhere else.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration

from efrit.controller.act.terminating import TerminatingNamespaces
from efrit.errors import (
    ApiConflict,
    ApiError,
    ApiExists,
    ApiFailed,
    ApiForbidden,
    ApiNamespaceTerminating,
    ApiNotFound,
    ApiRefused,
    ApiTooLarge,
    ApiUnavailable,
)

FIELD_MANAGER = "efrit-operator"
PAGE = 500
TIMEOUT_SECONDS = 30
MAX_PAGE_BYTES = 1 << 20
"""Of a first page, whose objects anybody may have written: a single one may have more than a megabyte."""
UNREADABLE = ("failed to create typed patch object", "failed to convert new object")

JSON = "application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

PLURALS: Mapping[tuple[str, str], str] = {
    ("efrit.dev/v1alpha1", "EfritInstance"): "efritinstances",
    ("efrit.dev/v1alpha1", "EfritRequest"): "efritrequests",
    ("efrit.dev/v1alpha1", "EfritPlan"): "efritplans",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("v1", "PersistentVolumeClaim"): "persistentvolumeclaims",
    ("v1", "Pod"): "pods",
    ("v1", "Secret"): "secrets",
    ("v1", "ServiceAccount"): "serviceaccounts",
    ("v1", "Event"): "events",
    ("networking.k8s.io/v1", "NetworkPolicy"): "networkpolicies",
}


def path(api_version: str, kind: str, namespace: str | None, name: str | None = None, sub: str | None = None) -> str:
    """Return the URL path of a collection, an object or its subresource."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    parts = [root]
    if namespace is not None:
        parts.append(f"namespaces/{namespace}")
    parts.append(PLURALS[api_version, kind])
    parts += [part for part in (name, sub) if part is not None]
    return "/".join(parts)


def _behind_proxy(url: str) -> bool:
    """Whether the environment names a proxy for `url`."""
    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.hostname or "")


class Kube:
    """A connection to the API server. Close it when done."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._terminating = TerminatingNamespaces(time.monotonic)

    @classmethod
    async def connect(cls) -> Kube:
        """Return a connection by the pod's service account, or by KUBECONFIG outside a cluster."""
        configuration = Configuration()
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
            kube_config.load_incluster_config(client_configuration=configuration)
        else:
            await kube_config.load_kube_config(client_configuration=configuration)
        if not _behind_proxy(configuration.host):
            # Where it may look, aiohttp reads environment and ~/.netrc for each call, each time in a thread.
            configuration.client_session_kwargs = {"trust_env": False}
        return cls(ApiClient(configuration))

    @property
    def client(self) -> ApiClient:
        """The official client, for libraries that want it."""
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """Return one object. Raises ApiNotFound."""
        return await self.call("GET", path(api_version, kind, namespace, name))

    async def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object.

        Raises ApiExists where one of its name is there, ApiNamespaceTerminating where its namespace is being deleted.
        """
        meta = manifest["metadata"]
        where = path(manifest["apiVersion"], manifest["kind"], meta["namespace"])
        with self._terminating.creating(meta["namespace"]):
            return await self.call("POST", where, body=manifest, query={"fieldManager": FIELD_MANAGER})

    async def apply(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Apply an object server-side; fields of ours win.

        Raises ApiNamespaceTerminating where it would be created in a namespace that is being deleted.
        """
        meta = manifest["metadata"]
        where = path(manifest["apiVersion"], manifest["kind"], meta["namespace"], meta["name"])
        with self._terminating.creating(meta["namespace"]):
            return await self.call(
                "PATCH",
                where,
                body=manifest,
                content_type="application/apply-patch+yaml",
                query={"fieldManager": FIELD_MANAGER, "force": "true"},
            )

    async def patch_status(
        self, api_version: str, kind: str, namespace: str, name: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Merge-patch the status subresource. Raises ApiConflict where body names an outdated resourceVersion."""
        return await self.call(
            "PATCH",
            path(api_version, kind, namespace, name, "status"),
            body=body,
            content_type="application/merge-patch+json",
            query={"fieldManager": FIELD_MANAGER},
        )

    async def patch(
        self, api_version: str, kind: str, namespace: str, name: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Merge-patch an object. Raises ApiNotFound, ApiConflict where body names another UID."""
        return await self.call(
            "PATCH",
            path(api_version, kind, namespace, name),
            body=body,
            content_type="application/merge-patch+json",
            query={"fieldManager": FIELD_MANAGER},
        )

    async def test(
        self, api_version: str, kind: str, namespace: str, name: str, expected: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return an object that has these values by JSON pointer, and change nothing; needs no right to read.

        Raises ApiRefused where a value is another one, ApiNotFound.
        """
        body = [{"op": "test", "path": pointer, "value": value} for pointer, value in expected.items()]
        return await self.call(
            "PATCH",
            path(api_version, kind, namespace, name),
            body=body,
            content_type="application/json-patch+json",
            query={"fieldManager": FIELD_MANAGER},
        )

    async def delete(
        self, api_version: str, kind: str, namespace: str, name: str, uid: str, resource_version: str | None = None
    ) -> None:
        """Delete an object if it is still this one, and still this version if one is given.

        Raises ApiNotFound, ApiConflict.
        """
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        await self.call("DELETE", path(api_version, kind, namespace, name), body=body)

    async def pages(
        self, api_version: str, kind: str, namespace: str | None, *, accept: str = JSON, **selectors: str
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the objects of a collection, page by page; selectors are labelSelector and fieldSelector.

        accept: METADATA_LIST for their metadata alone.
        """
        query = {"limit": str(PAGE), **selectors}
        while True:
            page = await self.call("GET", path(api_version, kind, namespace), query=query, accept=accept)
            # An empty list of metadata comes with null.
            for item in page.get("items") or ():
                yield item
            token = page.get("metadata", {}).get("continue")
            if not token:
                return
            query["continue"] = token

    async def first_page(
        self, api_version: str, kind: str, namespace: str, limit: int, **selectors: str
    ) -> list[dict[str, Any]]:
        """Return at most `limit` objects of a collection, whatever else there is.

        None of them where they have more than MAX_PAGE_BYTES together.
        """
        query = {"limit": str(limit), **selectors}
        page = await self.call("GET", path(api_version, kind, namespace), query=query, max_bytes=MAX_PAGE_BYTES)
        items: list[dict[str, Any]] = page.get("items") or []
        return items[:limit]

    async def call(
        self,
        method: str,
        where: str,
        *,
        body: Mapping[str, Any] | list[dict[str, Any]] | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        max_bytes: int | None = None,
    ) -> dict[str, Any]:
        """Make one call and return the JSON of its answer. Raises the ApiError that the answer stands for.

        max_bytes: the answer is given up, and empty, where it is longer.
        """
        try:
            serialized = await self._client.param_serialize(
                method=method,
                resource_path=where,
                query_params=list((query or {}).items()),
                header_params={"Accept": accept, "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = await self._client.call_api(*serialized, _request_timeout=TIMEOUT_SECONDS)
            data = await (response.read() if max_bytes is None else _read(response.response, max_bytes))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiUnavailable(f"{method} {where}: no answer from the API server: {error!r}") from error
        if response.status >= 400:
            raise _error(method, where, response.status, data, response.headers.get("Retry-After"))
        result: dict[str, Any] = json.loads(data) if data else {}
        return result


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the body, nothing where it is longer than `most` bytes: the connection is then closed."""
    data = bytearray()
    async for part in response.content.iter_any():
        data += part
        if len(data) > most:
            response.close()
            return b""
    return bytes(data)


def _error(method: str, where: str, status: int, data: bytes, retry_after: str | None = None) -> ApiError:
    reason = ""
    details: Mapping[str, Any] = {}
    try:
        body = json.loads(data)
        message, reason = str(body.get("message") or body), str(body.get("reason"))
        details = found if isinstance(found := body.get("details"), Mapping) else {}
    except (ValueError, AttributeError):
        message = data[:500].decode("utf-8", "replace")
    text = f"{method} {where}: {status}: {message}"
    if _is_namespace_terminating(method, status, details):
        return ApiNamespaceTerminating(text, sentence=message)
    if status == 404:
        return ApiNotFound(text)
    if status == 409:
        # A create may also collide with somebody who counts it (a ResourceQuota), and then made nothing.
        return ApiExists(text) if reason == "AlreadyExists" else ApiConflict(text)
    # etcd's limit comes as a 500 (its own bytes, JSON with every < as six of them), the API server's as a 413.
    if status == 413 or (status == 500 and "request is too large" in message):
        return ApiTooLarge(text, sentence=message)
    # What server-side apply cannot read comes as a 500 (kubernetes/kubernetes#139253), however often it is asked.
    if status == 403:
        return ApiForbidden(text, sentence=message)
    if status in (400, 415, 422) or (status == 500 and message.startswith(UNREADABLE)):
        return ApiRefused(text, sentence=message)
    pause = _seconds(retry_after) or _seconds(details.get("retryAfterSeconds"))
    if status == 500:
        return ApiFailed(text, sentence=message, retry_after=pause)
    return ApiUnavailable(text, retry_after=pause)


def _is_namespace_terminating(method: str, status: int, details: Mapping[str, Any]) -> bool:
    """Whether a create was refused because its namespace is being deleted, or is gone."""
    if status == 403:
        causes = details.get("causes") or ()
        return any(isinstance(cause, Mapping) and cause.get("reason") == "NamespaceTerminating" for cause in causes)
    return status == 404 and method != "GET" and details.get("kind") == "namespaces"


def _seconds(value: object) -> float | None:
    """Return a number of seconds to wait; None for a date, which HTTP also allows, and for what makes no sense."""
    try:
        seconds = float(str(value))
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None
