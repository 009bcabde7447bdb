"""A second kube-apiserver on the same etcd, whose view can be frozen: what a lagging replica serves.

Between it and etcd is a relay that can stop passing bytes. Reads that must be current then hang, watches go silent,
and a watch that begins later than what it knows is refused: "Too large resource version".
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.cluster.control_plane import ControlPlane, Ports
from tests.cluster.processes import Daemon
from tests.support.kube import until
from tests.support.timeout import TIMEOUT

CHUNK = 65_536


class Relay:
    """Passes bytes between its connections and one port, unless it is frozen. Runs in a thread of its own."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="relay", daemon=True)

    def start(self) -> None:
        """Start the thread. Return once it listens."""
        self._thread.start()
        assert self._ready.wait(TIMEOUT), "the relay did not start"

    def close(self) -> None:
        """Cut every connection and end the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(TIMEOUT)
        self._listener.close()

    def freeze(self, frozen: bool) -> None:
        """Stop passing bytes, or go on with all that were kept back."""
        self._loop.call_soon_threadsafe(self._flowing.clear if frozen else self._flowing.set)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping, self._flowing = asyncio.Event(), asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, sock=self._listener)
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, there_writer))
                group.create_task(self._pass(there_reader, writer))
        finally:
            for stream in (writer, there_writer):
                stream.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK):
                await self._flowing.wait()
                sink.write(data)
                await sink.drain()
            sink.close()


class SecondServer:
    """The lagging replica."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.relay = Relay(plane.ports.etcd)
        self._port = Ports.free().api
        self.url = f"https://127.0.0.1:{self._port}"
        own = {"--etcd-servers": f"http://127.0.0.1:{self.relay.port}", "--secure-port": str(self._port)}
        words = [
            f"{flag}={own[flag]}" if (flag := word.partition("=")[0]) in own else word
            for word in plane.apiserver.command
            if not word.startswith("--audit-")
        ]
        self._daemon = Daemon("kube-apiserver-2", tuple(words), plane.directory)

    def start(self) -> None:
        """Start the relay and the server. Return once it is ready."""
        self.relay.start()
        self._daemon.start(dies_with_parent=True)
        until(lambda: self._plane.request("/readyz", port=self._port), f"not ready: {self._daemon.log_tail()}")

    def close(self) -> None:
        """Kill the server and end the relay."""
        self._daemon.stop()
        self.relay.close()


@contextmanager
def second_server(plane: ControlPlane) -> Iterator[SecondServer]:
    """Run a second API server beside the plane's own."""
    server = SecondServer(plane)
    try:
        server.start()
        yield server
    finally:
        server.close()
