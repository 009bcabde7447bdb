"""A request as a task of the protocol, while it is at work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from efrit.backend.interface import RequestState
from efrit.mcp.error_text import for_model
from efrit.mcp.progress import request_position
from efrit.mcp.tasks import Task

KEPT = timedelta(hours=1)
"""How long a final request is there at least: a day on a laptop, 30 days in a cluster that sets no other time."""


def task_of(first: RequestState, last: RequestState) -> Task:
    """Return the task of the request `first`, which goes on with `last`, as if it were at work."""
    now = datetime.now(UTC)
    created = first.created or first.queued or first.started or now
    updated = next((time for time in (last.completed, last.started, last.queued, last.created) if time), created)
    certain = (last.completed or now) - created + KEPT
    return Task(
        task_id=first.handle.id,
        status="working",
        status_message=for_model(request_position(last)),
        created_at=created,
        last_updated_at=updated,
        ttl_ms=max(certain, KEPT) // timedelta(milliseconds=1),
    )
