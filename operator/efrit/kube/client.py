"""The Kubernetes API as this package uses it: JSON in, JSON out, one exception tree (`efrit.errors.ApiError`).

Uses the official client's configuration, authentication and connection pool, and skips its typed models and what
it does around a call, which would cost more than the call itself. Nothing is repeated here: whoever calls decides
when to try again.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration

from efrit.errors import ApiExpired, ApiTooLarge, ApiUnreachable
from efrit.kube.errors import api_error
from efrit.kube.exec import exec_stream, with_headers
from efrit.kube.listing import Listing, Pace
from efrit.kube.media_types import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH
from efrit.kube.nested_json import decoded
from efrit.kube.output_budget import OutputBudget
from efrit.kube.watch import abandon, follow_events, read_events
from efrit.resources import Resource, resource_of

Json = dict[str, Any]
Body = Mapping[str, Any] | Sequence[Mapping[str, Any]]

TIMEOUT_SECONDS = 30
CALL_TIMEOUT = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
WATCH_SECONDS = 300
MAX_OUTPUT_BYTES = 256 << 20
"""Of a command in a container."""
WHOLE_BODY_BYTES = 1 << 20
"""Of a body that is handed to the transport at once; it warns of a longer one."""
MAX_PAGE_BYTES = 1 << 20
"""Of a first page, whose objects anybody may have written: a single one may have more than a megabyte."""


class KubeClient:
    """A connection to the API server. Close it when done."""

    call_timeout = CALL_TIMEOUT
    """Of a call, its answer included; a watch has bounds of its own."""
    max_output_bytes = MAX_OUTPUT_BYTES
    """Of a command in a container: a server of many has less."""
    output_budget: OutputBudget | None = None
    """Of all outputs that are read at once, where many share the memory."""
    output_reader = ""
    """Who has them read."""

    def __init__(
        self, configuration: Configuration, *, field_manager: str, field_validation: str | None = None
    ) -> None:
        """Write as `field_manager`; field_validation ("Strict") says what becomes of fields that are unknown.

        `headers` go with every call, also several of one name.
        """
        self._configuration = configuration
        self._client = ApiClient(configuration)
        self._connecting = _connecting(configuration)
        self.headers: tuple[tuple[str, str], ...] = ()
        self._manager = {"fieldManager": field_manager}
        self._validated = self._manager | ({"fieldValidation": field_validation} if field_validation else {})

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        """Return one object. Raises ApiNotFound."""
        return await self.call("GET", resource.path(namespace, name))

    async def create(self, manifest: Mapping[str, Any], namespace: str | None = None) -> Json:
        """Create an object in `namespace`, or in that of its metadata. Raises ApiExists where its name is taken."""
        path = resource_of(manifest).path(namespace or manifest["metadata"].get("namespace"))
        return await self.call("POST", path, body=manifest, query=self._validated)

    async def apply(self, manifest: Mapping[str, Any], *, uid: str | None = None) -> Json:
        """Apply an object server-side; fields of ours win. Raises ApiConflict where it has not this UID."""
        metadata = manifest["metadata"]
        path = resource_of(manifest).path(metadata.get("namespace"), metadata["name"])
        query = {**self._manager, "force": "true"}
        if uid is not None:
            manifest = {**manifest, "metadata": {**metadata, "uid": uid}}
        return await self.send_patch(path, manifest, APPLY_PATCH, query)

    async def patch(self, resource: Resource, namespace: str, name: str, body: Mapping[str, Any]) -> Json:
        """Merge-patch an object. Raises ApiNotFound, ApiConflict where body names another UID."""
        path = resource.path(namespace, name)
        return await self.send_patch(path, body, MERGE_PATCH, self._manager)

    async def patch_status(self, resource: Resource, namespace: str, name: str, body: Mapping[str, Any]) -> Json:
        """Merge-patch the status subresource. Raises ApiConflict where body names an outdated resourceVersion."""
        path = resource.path(namespace, name, "status")
        return await self.send_patch(path, body, MERGE_PATCH, self._manager)

    async def patch_scale(self, resource: Resource, namespace: str, name: str, replicas: int) -> Json:
        """Set spec.replicas of the scale subresource and return that. Raises ApiNotFound."""
        path = resource.path(namespace, name, "scale")
        body = {"spec": {"replicas": replicas}}
        return await self.send_patch(path, body, MERGE_PATCH, self._manager)

    async def json_patch(
        self, resource: Resource, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]
    ) -> Json:
        """Carry out the operations of a JSON patch. Raises ApiRefused where a `test` among them fails."""
        path = resource.path(namespace, name)
        return await self.send_patch(path, operations, JSON_PATCH, self._validated)

    async def send_patch(self, path: str, body: Body, content_type: str, query: Mapping[str, str]) -> Json:
        """Patch what is at a path and return what it is then. Raises the ApiError that the answer stands for."""
        return await self.call("PATCH", path, body=body, content_type=content_type, query=query)

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str | None, resource_version: str | None = None
    ) -> None:
        """Delete an object if it still has this UID and this version; None leaves that condition out.

        Raises ApiNotFound, ApiConflict.
        """
        conditions = {"uid": uid, "resourceVersion": resource_version}  # gate: deletion-uid
        preconditions = {key: value for key, value in conditions.items() if value is not None}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        await self.call("DELETE", resource.path(namespace, name), body=body)

    async def review(self, resource: Resource, spec: Mapping[str, Any]) -> Json:
        """Create a review and return its status; empty where the answer has none."""
        review = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        status = (await self.call("POST", resource.path(), body=review)).get("status")
        return status if isinstance(status, dict) else {}

    def pages(self, resource: Resource, namespace: str | None, *, accept: str = JSON, **selectors: str) -> Listing:
        """Return the objects of a collection, read page by page; selectors are labelSelector and fieldSelector.

        accept: METADATA_LIST for their metadata alone.
        """
        return self.paced_pages(resource, namespace, None, accept=accept, **selectors)

    def paced_pages(
        self, resource: Resource, namespace: str | None, pace: Pace | None, /, *, accept: str = JSON, **selectors: str
    ) -> Listing:
        """Return what `pages` does, at a pace where nobody waits for them."""
        path = resource.path(namespace)
        limit = selectors.pop("limit", None)

        async def fetch(limit: int, token: str | None, max_bytes: int | None) -> bytes | None:
            query = {"limit": str(limit), **selectors, **({"continue": token} if token else {})}
            return await self.read("GET", path, query=query, accept=accept, max_bytes=max_bytes)

        return Listing(fetch, int(limit) if limit is not None else None, pace)

    def named(self, resource: Resource, namespace: str, name: str, **selectors: str) -> Listing:
        """Return a list of the one object of a name, empty where there is none: for who may list but not get it."""
        return self.pages(resource, namespace, fieldSelector=name_selector(name), **selectors)

    async def list(self, resource: Resource, namespace: str | None, **selectors: str) -> tuple[Sequence[Json], str]:
        """Return all objects of a collection, and the version to watch from."""
        pages = self.pages(resource, namespace, **selectors)
        return [obj async for obj in pages], pages.version

    async def first_page(
        self, resource: Resource, namespace: str | None, limit: int, **selectors: str
    ) -> Sequence[Json]:
        """Return at most `limit` objects of a collection, whatever else there is.

        None of them where they have more than MAX_PAGE_BYTES together.
        """
        query = {"limit": str(limit), **selectors}
        page = await self.call("GET", resource.path(namespace), query=query, max_bytes=MAX_PAGE_BYTES)
        return _items(page)[:limit]

    async def watch(
        self, resource: Resource, namespace: str, version: str, **selectors: str
    ) -> AsyncGenerator[tuple[str, Json], None]:
        """Yield (ADDED | MODIFIED | DELETED, object) from `version` on until the watch ends.

        To go on, list again. Raises the ApiError of a refusal.
        """
        try:
            response = await self.open_watch(resource.path(namespace), version, selectors)
        except (ApiUnreachable, ApiExpired):
            # The next list says so.
            return
        async with contextlib.aclosing(read_events(response)) as events:
            async for event in events:
                yield event

    async def follow(
        self, resource: Resource, namespace: str | None, version: str, **selectors: str
    ) -> AsyncGenerator[tuple[str, Json], None]:
        """Yield (ADDED | MODIFIED | DELETED | BOOKMARK, object) from `version` on until the watch ends.

        To go on, follow from the version of the last one. Raises ApiExpired where one has to list again, and the
        ApiError of a refusal. One object is in memory at a time.
        """
        bookmarks = {**selectors, "allowWatchBookmarks": "true"}
        response = await self.open_watch(resource.path(namespace), version, bookmarks)
        async with contextlib.aclosing(follow_events(response)) as events:
            async for event in events:
                yield event

    async def open_watch(
        self, path: str, version: str, selectors: Mapping[str, str], *, silence: float | None = WATCH_SECONDS + 30
    ) -> aiohttp.ClientResponse:
        """Return the answer of a watch of a collection from `version` on, whose events `efrit.kube.watch` reads.

        silence: a connection that is silent for so many seconds is dead; None for as long as it may be. Raises the
        ApiError of a refusal.
        """
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS), **selectors}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_SECONDS, sock_read=silence)
        response = await self._send("GET", path, query=query, timeout=timeout)
        if response.status >= 400:
            with self._raise_unreachable("GET", path):
                data = await response.read()
            raise api_error("GET", path, response.status, data, response.headers)
        return response

    async def exec_stream(
        self, namespace: str, pod: str, container: str, command: Sequence[str]
    ) -> AsyncGenerator[bytes, None]:
        """Yield what `command` writes to standard output in a container, as it comes; see `efrit.kube.exec`."""
        output = exec_stream(self._configuration, namespace, pod, container, command, self.headers)
        async with contextlib.aclosing(output):
            async for data in output:
                yield data

    async def exec_output(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *, max_bytes: int | None = None
    ) -> bytes:
        """Return what `command` writes to standard output in a container.

        Raises ApiTooLarge where that is more than `max_bytes` or `max_output_bytes`, ApiUnavailable where the budget
        has no more for it now, ApiCommandFailed, ApiError.
        """
        limit = self.max_output_bytes if max_bytes is None else min(max_bytes, self.max_output_bytes)
        parts = []
        size = 0
        budget = self.output_budget or OutputBudget(limit, limit)
        with budget.reading(self.output_reader) as count:
            async with contextlib.aclosing(self.exec_stream(namespace, pod, container, command)) as output:
                async for data in output:
                    parts.append(data)
                    size += len(data)
                    if size > limit:  # gate: output-bytes
                        raise ApiTooLarge(f"{command[0]} in the pod {pod} writes more than {limit} bytes")
                    count(len(data))  # gate: output-budget
            return b"".join(parts)

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Body | bytes | None = None,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        max_bytes: int | None = None,
    ) -> Json:
        """Make one call and return the JSON of its answer. Raises the ApiError that the answer stands for.

        A body of bytes is sent as it is. max_bytes: the answer is given up, and empty, where it is longer.
        """
        data = await self.read(
            method, path, body=body, content_type=content_type, query=query, accept=accept, max_bytes=max_bytes
        )
        return await json_of(data)

    async def read(
        self, method: str, path: str, *, query: Mapping[str, str] | None, max_bytes: int | None, **options: Any
    ) -> bytes | None:
        """Make one call and return the body of its answer, None where that is longer than `max_bytes`."""
        response = await self._send(method, path, query=query, **options)
        with self._raise_unreachable(method, path):
            data = await (response.read() if max_bytes is None else _read(response, max_bytes))
        if response.status >= 400:
            raise api_error(method, path, response.status, bytes(data or b""), response.headers)
        return bytes(data) if data is not None else None

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: Body | bytes | None = None,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        timeout: aiohttp.ClientTimeout | None = None,  # noqa: ASYNC109 - the transport's own
    ) -> aiohttp.ClientResponse:
        options: dict[str, Any] = {} if body is None else {"data": _payload(body)}
        url = self._configuration.host + path + query_string(query)
        with self._raise_unreachable(method, path):
            headers = await self._head(accept, content_type)
            return await self._session().request(
                method,
                url,
                headers=with_headers(headers, self.headers) if self.headers else headers,
                timeout=timeout or self.call_timeout,
                **self._connecting,
                **options,
            )

    async def _head(self, accept: str, content_type: str) -> dict[str, str]:
        """Return the headers of a call. Whoever can renew a token looks at it here, before each call."""
        headers = {"Accept": accept, "Content-Type": content_type, **self._client.default_headers}
        token = (await self._configuration.auth_settings()).get("BearerToken")
        return headers | ({token["key"]: token["value"]} if token is not None and token["value"] else {})

    def _session(self) -> aiohttp.ClientSession:
        """Return the official client's session, which it would make at its first call."""
        transport = self._client.rest_client
        if transport.pool_manager is None:
            transport.pool_manager = transport._create_pool_manager()
        session: aiohttp.ClientSession = transport.pool_manager
        return session

    @contextlib.contextmanager
    def _raise_unreachable(self, method: str, path: str) -> Iterator[None]:
        """Raise ApiUnreachable for what the transport raises."""
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            text = f"{method} {path}: no answer from the API server: {error!r}"
            sentence = f"the API server {self._configuration.host} does not answer: {error or type(error).__name__}"
            raise ApiUnreachable(text, sentence) from error


def _connecting(configuration: Configuration) -> dict[str, Any]:
    """Return what each call says of the way to the API server."""
    options = {
        "server_hostname": configuration.tls_server_name,
        "proxy": configuration.proxy,
        "proxy_headers": configuration.proxy_headers,
    }
    return {name: value for name, value in options.items() if value}


def encoded(body: Body) -> bytes:
    """Return a body as the API server itself writes JSON.

    What it keeps as text, the data of a ControllerRevision, would otherwise be another one after a patch of the
    object, which it refuses: nobody could label it, and no garbage collector take its owner away.
    """
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # Half a surrogate pair has no bytes in UTF-8.
    return text.encode(errors="backslashreplace")


def _payload(body: Body | bytes) -> bytes | io.BytesIO:
    """Return a body as the transport takes it: of a long one a part at a time, between which other tasks run."""
    data = body if isinstance(body, bytes) else encoded(body)
    return data if len(data) <= WHOLE_BODY_BYTES else io.BytesIO(data)


async def json_of(data: bytes | None) -> Json:
    """Return what the body of an answer says; one without a body says nothing."""
    result: Json = await decoded(data) if data else {}
    return result


def name_selector(name: str) -> str:
    """Return the field selector of the one object of a name."""
    return f"metadata.name={name}"


def query_string(query: Mapping[str, str] | None) -> str:
    """Return what follows a path, the question mark included."""
    return "?" + "&".join(f"{name}={quote(value)}" for name, value in query.items()) if query else ""


def _items(page: Json) -> list[Json]:
    """Return the objects of a page. An empty list of metadata comes with null."""
    return page.get("items") or []


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes | bytearray | None:
    """Return the body, None where it is longer than `limit` bytes: the connection is then closed."""
    data = bytearray()
    async for part in response.content.iter_any():
        data += part
        if len(data) > limit:
            abandon(response)
            return None
    return data
