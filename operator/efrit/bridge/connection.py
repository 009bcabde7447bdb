"""One connection to the port of the calls, within limits of number and time: whoever reaches it may open any.

Non-HTTP input gets a JSON error, like every other error. Knows nothing of routes.
"""

from __future__ import annotations

from typing import Any

from efrit.connection_limit import ConnectionLimit
from efrit.protocol.view import ErrorBody
from efrit.timed_connection import TimedConnection

MAX_CONNECTIONS = 160
"""A controller opens nine."""
_limit: ConnectionLimit[Connection] = ConnectionLimit(MAX_CONNECTIONS, collect_seconds=1.0)


class Connection(TimedConnection):
    """A connection that counts, from before its handshake. One too many is refused."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _limit.check()
        super().__init__(*args, **kwargs)
        _limit.add(self)

    def refusal(self, status: int, message: str) -> tuple[str, bytes]:
        """Return the JSON of an error."""
        return "application/json", ErrorBody.of("Invalid", message).to_json().encode()
