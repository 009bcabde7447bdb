"""A small real HTTP server that speaks as much of the Kubernetes API as the controller uses.

It keeps objects, counts resource versions, checks preconditions and pages lists. `fail` makes the next calls of a
method to a path end as `failures` says; `calls` is what came in.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web
from kubernetes.aio.client import Configuration

from efrit.controller.act.kube import Kube
from tests.support.timeout import TIMEOUT

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One request that came in."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str
    body: Any
    accept: str = ""


@dataclass
class FakeApi:
    """The state of the server."""

    url: str = ""
    objects: dict[str, Json] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    failures: dict[tuple[str, str], list[tuple[int, Any]]] = field(default_factory=dict)
    retry_after: str | None = None
    """The header that comes with every failure."""
    date: str | None = None
    """What every answer says of the time; None for what it is."""
    page_size: int = 500
    version: int = 100
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    """Calls to these paths are answered once the event is set."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def put(self, path: str, obj: Json) -> Json:
        """Place an object as if somebody else had written it."""
        self.version += 1
        stored = copy.deepcopy(obj)
        stored["metadata"] = {**stored.get("metadata", {}), "resourceVersion": str(self.version)}
        stored["metadata"].setdefault("uid", f"uid-{path.rsplit('/', 1)[-1]}")
        self.objects[path] = stored
        return stored

    def fail(self, method: str, path: str, status: int, body: Any = None, *, times: int = 1) -> None:
        """Make the next calls end with this status; 0 cuts the connection."""
        self.failures.setdefault((method, path), []).extend([(status, body)] * times)

    def made(self, method: str) -> list[Call]:
        """Return the calls of one method, in their order."""
        return [call for call in self.calls if call.method == method]

    async def until(self, holds: Any) -> None:
        """Wait until `holds()` after some call."""
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(holds), TIMEOUT)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        query = dict(parse_qsl(request.query_string, keep_blank_values=True))
        accept = request.headers.get("Accept", "")
        self.calls.append(Call(request.method, request.path, query, request.content_type, body, accept))
        if request.path in self.gates:
            async with self.changed:
                self.changed.notify_all()
            await self.gates[request.path].wait()
        failures = self.failures.get((request.method, request.path))
        if failures:
            status, answer = failures.pop(0)
            if status == 0:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            text = answer if isinstance(answer, str) else None
            response: web.StreamResponse = (
                web.Response(status=status, text=text)
                if text is not None
                else web.json_response(answer or {"kind": "Status", "message": f"failure {status}"}, status=status)
            )
            if self.retry_after is not None:
                response.headers["Retry-After"] = self.retry_after
        else:
            status, answer = self._answer(request.method, request.path, query, body, request.content_type)
            response = web.json_response(answer, status=status)
        if self.date is not None:
            response.headers["Date"] = self.date
        async with self.changed:
            self.changed.notify_all()
        return response

    def _answer(
        self, method: str, path: str, query: dict[str, str], body: Any, content_type: str
    ) -> tuple[int, Json]:
        if method == "POST" and query.get("dryRun") == "All":
            return 201, body
        if method == "POST":
            return self._create(f"{path}/{body['metadata']['name']}", body)
        if method == "GET" and path not in self.objects and path.endswith("s"):
            return 200, self._page(path, query)
        target = path.removesuffix("/status")
        stored = self.objects.get(target)
        if method == "PATCH" and content_type == "application/apply-patch+yaml":
            uid = body["metadata"].get("uid")
            if uid is not None and uid != (stored or {"metadata": {}})["metadata"].get("uid"):
                return _status(409, "the uid is another one by now")
            return 200, self.put(target, {**(stored or {}), **body})
        if stored is None:
            return _status(404, f'"{path.rsplit("/", 1)[-1]}" not found')
        if method == "GET":
            return 200, stored
        if content_type == "application/json-patch+json":
            differs = [
                operation["path"]
                for operation in body
                if operation["op"] == "test" and _at(stored, operation["path"]) != operation["value"]
            ]
            if differs:
                return _status(422, f"testing value {differs[0]} failed")
            added = {each["path"]: each["value"] for each in body if each["op"] == "add"}
            return (200, self.put(target, _with(stored, added))) if added else (200, stored)
        expected = (body or {}).get("preconditions") or (body or {}).get("metadata") or {}
        for key in ("uid", "resourceVersion"):
            if key in expected and expected[key] != stored["metadata"][key]:
                return _status(409, f"the {key} is another one by now")
        if method == "DELETE":
            return 200, self.objects.pop(target)
        patch = {key: body[key] for key in ("status", "spec") if key in body}
        metadata = {
            key: value for key, value in body.get("metadata", {}).items() if key not in ("uid", "resourceVersion")
        }
        return 200, self.put(target, _merged(stored, {**patch, "metadata": metadata}))

    def _create(self, path: str, body: Json) -> tuple[int, Json]:
        if path in self.objects:
            return 409, {
                "kind": "Status",
                "code": 409,
                "reason": "AlreadyExists",
                "message": f"{path} already exists",
            }
        return 201, self.put(path, body)

    def _page(self, path: str, query: dict[str, str]) -> Json:
        parts = path.rsplit("/", 1)
        cluster_wide = "/namespaces/" not in path
        items = [
            obj
            for where, obj in sorted(self.objects.items())
            if (where.startswith(f"{path}/") or (cluster_wide and _below(where, *parts))) and _selected(obj, query)
        ]
        first = int(query.get("continue") or 0)
        size = min(int(query.get("limit", self.page_size)), self.page_size)
        rest = first + size
        meta = {"resourceVersion": str(self.version), **({"continue": str(rest)} if rest < len(items) else {})}
        return {"metadata": meta, "items": items[first:rest]}


def _below(where: str, root: str, plural: str) -> bool:
    return where.startswith(f"{root}/namespaces/") and where.split("/")[-2] == plural


def _selected(obj: Json, query: dict[str, str]) -> bool:
    for part in filter(None, query.get("fieldSelector", "").split(",")):
        negated = "!=" in part
        path, _, expected = part.partition("!=" if negated else "=")
        value: Any = obj
        for step in path.split("."):
            value = (value or {}).get(step)
        if ((value or "") == expected) == negated:
            return False
    return True


def _merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _at(obj: Any, pointer: str) -> Any:
    """RFC 6901, None where there is nothing."""
    for step in pointer.split("/")[1:]:
        try:
            obj = obj[int(step)] if isinstance(obj, list) else obj[step.replace("~1", "/")]
        except (KeyError, IndexError):
            return None
    return obj


def _with(obj: Json, values: Json) -> Json:
    """Return an object with values at JSON pointers whose parents are there."""
    result = copy.deepcopy(obj)
    for pointer, value in values.items():
        parent, _, name = pointer.rpartition("/")
        _at(result, parent)[name] = value
    return result


def _status(code: int, message: str) -> tuple[int, Json]:
    return code, {"kind": "Status", "code": code, "message": message}


@contextlib.asynccontextmanager
async def fake_api() -> AsyncIterator[tuple[FakeApi, Kube]]:
    """Yield a server and the controller's connection to it."""
    api = FakeApi()
    app = web.Application(client_max_size=8 * 1024 * 1024)
    app.router.add_route("*", "/{tail:.*}", api.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    api.url = f"http://127.0.0.1:{port}"
    kube = Kube(Configuration(host=api.url))
    try:
        yield api, kube
    finally:
        await kube.close()
        await runner.cleanup()
