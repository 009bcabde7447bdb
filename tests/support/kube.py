"""The product's client of the API server for synchronous tests, with the calls that tests make often.

Paths, credentials, errors and the lines of a watch are those of `efrit.kube`: nothing of the API is known twice.

That does not hide defects of the product's client, because it is judged without this module. In tests/unit/kube, what
it sends and how it reads answers is compared with plain data; on a real API server, kubectl makes what it reads, and
reads what it wrote, in tests/integration/test_kube_client.py.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import aiohttp

from efrit.errors import ApiError, ApiExpired, ApiNotFound
from efrit.kube.client import KubeClient, name_selector
from efrit.kube.connection import load_connection
from efrit.kube.media_types import JSON, MERGE_PATCH
from efrit.kube.watch import abandon, follow_events
from efrit.resources import resource_named
from tests.support.timeout import TIMEOUT, poll_interval

Json = dict[str, Any]
T = TypeVar("T")

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""A list as `kubectl get` asks for it."""
WATCH_SECONDS = 3600
"""Of a watch whose end nobody names."""


class Access(Protocol):
    """How to reach an API server: a control plane of the tests, or a kubeconfig."""

    @property
    def kubeconfig(self) -> Path | None:
        """None for that of KUBECONFIG as it was when the process began."""

    @property
    def context(self) -> str | None:
        """Of the kubeconfig; None for its current one."""


async def open_client(access: Access) -> KubeClient:
    """Return a client of the running loop, whose calls wait as long as a test does. Close it when done."""
    connection = await load_connection(access.kubeconfig, access.context)
    client = KubeClient(connection.configuration, field_manager="efrit-tests")
    client.call_timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    return client


class Events(Iterator[Json]):
    """Events of a watch until its connection ends, by the API server or by `end`; ApiExpired at an error event."""

    def __init__(self, loop: asyncio.AbstractEventLoop, response: aiohttp.ClientResponse) -> None:
        self._loop = loop
        self._response = response
        self._events = follow_events(response)

    def __next__(self) -> Json:
        event = _result(self._loop, self._next())
        if event is None:
            raise StopIteration
        return {"type": event[0], "object": event[1]}

    def end(self) -> None:
        """Wake up who waits for the next event. From any thread."""
        with suppress(RuntimeError):  # The loop has ended, and the watch with it.
            self._loop.call_soon_threadsafe(abandon, self._response)

    async def _next(self) -> tuple[str, Json] | None:
        return await anext(self._events, None)


class Kube:
    """The administrator's connection: of any thread. Its calls run in the loop of all of them (`_LoopThread`)."""

    def __init__(self, access: Access, headers: Sequence[tuple[str, str]] = ()) -> None:
        """headers: of every call, also several of one name."""
        self._loop = _LOOP.begin()
        self._closed = False
        try:
            self._client = _result(self._loop, open_client(access))
        except BaseException:
            _LOOP.end()
            raise
        self._client.headers = tuple(headers)

    def close(self) -> None:
        """Close the connections. A call that is under way, or comes later, ends with a RuntimeError."""
        if not self._closed:
            self._closed = True
            _result(self._loop, self._client.close())
            _LOOP.end()

    def call(self, method: str, path: str, body: Any = None, *, content_type: str = JSON, **query: str) -> Json:
        """Make a call; a body of bytes is sent as it is. Raises ApiError; ApiUnreachable where no answer comes."""
        call = self._client.call
        return self._patiently(path, lambda: call(method, path, body=body, content_type=content_type, query=query))

    def read(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        **query: str,
    ) -> bytes:
        """Make a call and return the bytes of its answer."""
        read = functools.partial(self._client.read, method, path, query=query, max_bytes=None)
        answer = self._patiently(path, lambda: read(body=body, content_type=content_type, accept=accept))
        return answer or b""

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
        except ApiNotFound:
            return None

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
        except ApiError as error:
            if error.status != 404:
                raise

    def table(self, plural: str, namespace: str) -> Json:
        """Return columns and rows of a list."""
        path = self.path(plural, namespace)
        return self._patiently(path, lambda: self._client.call("GET", path, accept=TABLE))

    @contextmanager
    def events(
        self, plural: str, namespace: str | None, *, seconds: float | None = TIMEOUT, **query: str
    ) -> Iterator[Events]:
        """Open a watch, of the objects that are there first unless `query` says since when.

        seconds: a silence that long is a dead connection; None for as long as it may be.
        """
        version = query.pop("resourceVersion", "")
        query.setdefault("timeoutSeconds", str(WATCH_SECONDS))
        opening = self._client.open_watch(self.path(plural, namespace), version, query, silence=seconds)
        events = Events(self._loop, _result(self._loop, opening))
        try:
            yield events
        finally:
            events.end()

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
        """Yield the events of a watch, from the objects that are there on, for `seconds` at most.

        One that fell behind ends sooner: whoever needs more begins another.
        """
        query |= {"timeoutSeconds": str(math.ceil(seconds))}
        with self.events(plural, namespace, seconds=seconds + 10, **query) as events:
            try:
                yield from events
            except ApiExpired:
                return

    def _patiently(self, path: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what a call answers, which is made again where the API server has just started.

        It says so of what it has not read yet, though it is ready; of an eviction, that a budget is in its way.
        """
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return _result(self._loop, call())
            except ApiError as error:
                if error.status != 429 or path.endswith("/eviction") or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

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
            for event in self.follow(plural, namespace, left, fieldSelector=name_selector(name)):
                if value := probe(event["object"]):
                    return value
        raise AssertionError(f"after {seconds:.0f} s: {diagnostics()}")


class _LoopThread:
    """One event loop in one thread, which is there while there is a client: a process forks without it.

    It serves any thread, also one with a loop of its own; the hop costs a call less than a tenth of a millisecond.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients = 0
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event
        self._thread: threading.Thread

    def begin(self) -> asyncio.AbstractEventLoop:
        """Return the loop for one more client."""
        with self._lock:
            self._clients += 1
            if self._clients == 1:
                began = threading.Event()
                self._thread = threading.Thread(target=self._run, args=(began,), name="kube", daemon=True)
                self._thread.start()
                began.wait()
            return self._loop

    def end(self) -> None:
        """Count a client less; after the last one, end the thread."""
        with self._lock:
            self._clients -= 1
            if not self._clients:
                self._loop.call_soon_threadsafe(self._over.set)
                self._thread.join()

    def _run(self, began: threading.Event) -> None:
        asyncio.run(self._main(began))

    async def _main(self, began: threading.Event) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        began.set()
        await self._over.wait()


_LOOP = _LoopThread()


def _result(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns in the loop. Raises RuntimeError where the loop has ended."""
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
    except concurrent.futures.CancelledError as error:
        raise RuntimeError("the connection was closed") from error
    except RuntimeError:
        coroutine.close()
        raise


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
