"""One connection to a port of the bridge, within limits of number and time: whoever reaches the port may open any.

Non-HTTP input gets a JSON error, like every other error. Knows nothing of routes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from efrit.connection_limit import ConnectionLimit, OpenConnections
from efrit.protocol import ErrorBody, ErrorDetail
from efrit.timed_connection import TimedConnection

MOST_CONNECTIONS = 160
"""A controller opens nine."""
MOST_PROBE_CONNECTIONS = 32
"""A probe opens one and ends it."""
_limit: ConnectionLimit[Connection] = ConnectionLimit(MOST_CONNECTIONS, collect_seconds=1.0)
_probes: OpenConnections[ProbeConnection] = OpenConnections(MOST_PROBE_CONNECTIONS)


class _JsonRefusals(TimedConnection):
    def refusal(self, status: int, message: str) -> tuple[str, bytes]:
        """Return the JSON of an error."""
        body = ErrorBody(error=ErrorDetail(code="Invalid", message=message)).to_json().encode()
        return "application/json", body


class Connection(_JsonRefusals):
    """A connection that counts, from before its handshake. One too many is refused."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _limit.check()
        super().__init__(*args, **kwargs)
        _limit.add(self)


class ProbeConnection(_JsonRefusals):
    """A connection to the port of the probes. One of the address that has most makes place for one too many."""

    receive_seconds = 5.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to serve it, at the cost of another if need be."""
        super().connection_made(transport)
        other = _probes.add(self, transport)
        if other is not None:
            other.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make place for others."""
        _probes.remove(self)
        super().connection_lost(exc)
