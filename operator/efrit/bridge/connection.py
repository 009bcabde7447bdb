"""One connection to the bridge, within limits of number and time: whoever reaches the port may open any.

Non-HTTP input gets a JSON error, like every other error. Knows nothing of routes.
"""

import gc
import time
import weakref
from typing import Any

from efrit.protocol import ErrorBody, ErrorDetail
from efrit.timed_connection import TimedConnection

MOST_CONNECTIONS = 160
"""Each takes a quarter of a megabyte for TLS, from before its first byte. A controller opens nine."""

# Those that have not finished their handshake included: such a one is never told that it is lost.
_alive: weakref.WeakSet["Connection"] = weakref.WeakSet()
_collected = 0.0


def _still_too_many() -> bool:
    """Count again, at most once a second, without what only garbage holds: a failed handshake leaves a cycle."""
    global _collected
    if time.monotonic() - _collected > 1:
        gc.collect()
        _collected = time.monotonic()
    return len(_alive) >= MOST_CONNECTIONS


class Connection(TimedConnection):
    """A connection that counts, from before its handshake."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(_alive) >= MOST_CONNECTIONS and _still_too_many():
            # Before TLS there is nobody to be told: asyncio drops the connection.
            raise ConnectionRefusedError("too many connections")
        super().__init__(*args, **kwargs)
        _alive.add(self)

    def refusal(self, status: int, message: str) -> tuple[str, bytes]:
        """Return the JSON of an error."""
        body = ErrorBody(error=ErrorDetail(code="Invalid", message=message)).to_json().encode()
        return "application/json", body
