"""What the requests of a plan cost: tokens and seconds, of one commit and of the plan so far. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from efrit.api import EfritRequest
from efrit.plan.cursor import Cursor
from efrit.plan.snapshot import SESSIONS, Snapshot


def cost_of(requests: Sequence[EfritRequest]) -> dict[str, Any]:
    """Return the cost that a commit records for these requests."""
    sent, received = _tokens([request for request in requests if request.final])
    seconds = round(sum(request.status.execution_seconds or 0.0 for request in requests), 3)
    return {"usage": {"input": sent, "output": received}, "seconds": seconds}


def sessions_of(snapshot: Snapshot, step: int) -> list[EfritRequest]:
    """Return the requests of one step that talk to the model."""
    requests = (snapshot.request(step, part) for part in SESSIONS)
    return [request for request in requests if request is not None]


def tokens_spent(snapshot: Snapshot, cursor: Cursor) -> int:
    """Return the tokens of the plan so far, both sent and received."""
    return cursor.totals.input_tokens + cursor.totals.output_tokens + sum(uncommitted_tokens(snapshot, cursor))


def uncommitted_tokens(snapshot: Snapshot, cursor: Cursor) -> tuple[int, int]:
    """Return the tokens sent and received by the requests that no commit records yet."""
    return _tokens(sessions_of(snapshot, cursor.step + 1))


def _tokens(requests: Sequence[EfritRequest]) -> tuple[int, int]:
    usages = [request.status.usage for request in requests if request.status.usage is not None]
    # Tokens from the model's cache count as sent.
    sent = sum(usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens for usage in usages)
    return sent, sum(usage.output_tokens for usage in usages)
