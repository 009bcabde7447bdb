"""The sockets of the HTTP transport, within limits of number and time for whoever reaches the port.

The server accepts by itself, because asyncio's own accepting says of a connection neither its address nor that it is
open until TLS has been agreed on. Where there are too many connections, one that does no call makes place for the new
one, the oldest first: whoever opens many and does nothing with them ends their own. Knows nothing of MCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.types import Scope

from efrit.connection_limit import OUT_OF_RESOURCES
from efrit.mcp.settings import Limits
from efrit.timed_connection import TimedConnection

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 10.0
SHUTDOWN_SECONDS = 5
ACCEPT_PAUSE_SECONDS = 0.1
COLLECT_EVERY = 64
"""Connections dropped in their handshake after which memory is collected: each leaves a cycle with TLS's buffers."""
_STATE = "efrit.connection"


class Connection(TimedConnection):
    """uvicorn's protocol, which a request finds in its state."""

    def __init__(self, ended: Callable[[], None], *, app_state: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(app_state={**app_state, _STATE: self}, **kwargs)
        self._ended = ended
        self.calls = 0
        """Calls of an authenticated caller that it is the connection of; with any, it is not dropped for others."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Make place for others."""
        super().connection_lost(exc)
        self._ended()


@contextlib.contextmanager
def busy(scope: Scope) -> Iterator[None]:
    """Keep the connection of a request from making place for others."""
    connection = scope.get("state", {}).get(_STATE)
    if connection is None:
        yield
        return
    connection.calls += 1
    try:
        yield
    finally:
        connection.calls -= 1


@dataclass(eq=False)
class _Accepted:
    """A connection from its acceptance to its end."""

    address: str
    socket: socket.socket
    protocol: Connection | None = None
    handshake: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return self.protocol is None or self.protocol.calls == 0

    def drop(self) -> None:
        if self.handshake is not None:
            self.handshake.cancel()
        elif self.protocol is not None:
            self.protocol.transport.abort()
        if self.protocol is None:
            # It was not even begun: no transport will close this.
            self.socket.close()


@dataclass
class Connections:
    """Those that are open, oldest first; at most `limits` of them, all together and from one address."""

    limits: Limits
    _open: dict[_Accepted, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    def connections_from(self, address: str) -> list[_Accepted]:
        """Return those from one address."""
        return [accepted for accepted in self._open if accepted.address == address]

    def admit(self, accepted: _Accepted) -> bool:
        """Take in a connection, at the cost of an idle one if need be; False where all the others are busy."""
        same_address = self.connections_from(accepted.address)
        if len(same_address) >= self.limits.connections_per_address:
            crowded: Iterable[_Accepted] = same_address
        elif len(self._open) >= self.limits.connections:
            crowded = self._open
        else:
            crowded = ()
        if crowded:
            victim = next((other for other in crowded if other.is_idle), None)
            if victim is None:
                return False
            self.remove(victim)
            victim.drop()
        self._open[accepted] = None
        return True

    def remove(self, accepted: _Accepted) -> None:
        """Forget one that has ended."""
        self._open.pop(accepted, None)

    def drop_all(self) -> None:
        """End those that are in their handshake: uvicorn does not know them."""
        for accepted in list(self._open):
            if accepted.handshake is not None:
                accepted.drop()


class Server(uvicorn.Server):
    """uvicorn, with connections accepted here."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], limits: Limits) -> None:
        super().__init__(config)
        self.connections = Connections(limits)
        self._sockets = sockets
        self._accepting: list[asyncio.Task[None]] = []
        self._dropped = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await super().startup(sockets=[])
        for listening in self._sockets:
            listening.setblocking(False)
            self._accepting.append(asyncio.create_task(self._accept(listening)))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and end what is open."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for listening in self._sockets:
            listening.close()
        self.connections.drop_all()
        await super().shutdown(sockets=[])

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
            except OSError as error:
                # One that was reset before it was accepted is nobody's; without descriptors, one has to end first.
                if error.errno in OUT_OF_RESOURCES:
                    log.error("cannot accept a connection: %s", error)
                    await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            accepted = _Accepted(str(address[0]), connection)
            if self.connections.admit(accepted):
                accepted.handshake = asyncio.create_task(self._connect(accepted))
            else:
                connection.close()

    async def _connect(self, accepted: _Accepted) -> None:
        """Agree on TLS; afterwards the connection is uvicorn's."""

        def protocol() -> Connection:
            accepted.protocol = Connection(
                lambda: self.connections.remove(accepted),
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )
            return accepted.protocol

        encrypted: ssl.SSLContext | None = self.config.ssl
        seconds = HANDSHAKE_SECONDS if encrypted else None
        # asyncio does this only for sockets that name their protocol; without it every answer waits 40 ms.
        with contextlib.suppress(OSError):
            accepted.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol, accepted.socket, ssl=encrypted, ssl_handshake_timeout=seconds
            )
        except OSError:
            # Not agreed in time, or broken off: there is nobody to answer.
            self._failed(accepted)
        except asyncio.CancelledError:
            self._failed(accepted)
            raise
        accepted.handshake = None

    def _failed(self, accepted: _Accepted) -> None:
        self.connections.remove(accepted)
        self._dropped += 1
        if self._dropped % COLLECT_EVERY == 0:
            gc.collect()
