"""What one queue accepts and keeps."""

from dataclasses import dataclass


@dataclass(frozen=True)
class QueueLimits:
    """What the queue accepts (counts, bytes of content) and keeps in archive/ (seconds, requests, bytes).

    `max_kept_bytes` bounds the memory of all requests that are not acknowledged. It has room for the highest
    `max_pending` of an EfritInstance, each request with as much metadata as is allowed. `session_seconds` is how long
    a session stays after its last use even on a full volume.
    """

    max_pending: int = 1000
    max_request_bytes: int = 65536
    archive_seconds: float = 86400
    archive_requests: int = 10_000
    archive_bytes: int = 512 << 20
    max_kept_bytes: int = 32 << 20
    session_seconds: float = 3600
