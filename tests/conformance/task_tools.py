"""Tools of the suite that take long, and their tasks: kept in memory, at work until a time known at the beginning."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from mcp import types

from efrit.mcp.tasks import Context, Task, unknown_task
from tests.conformance.rounds import CONFIRM, NAME

NAMES = ("slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input")
REQUIRED = ("failing_job", "protocol_error_job", "test_tool_with_task")
"""Those that only a client with tasks may call."""
_ASKS: dict[str, types.InputRequests] = {
    "confirm_delete": {"confirm": CONFIRM},
    "multi_input": {"first": NAME, "second": CONFIRM},
}
HOUR_MS = 3_600_000


@dataclass
class _Work:
    task: Task
    due: float
    end: dict[str, Any]
    asks: dict[str, types.InputRequest] = field(default_factory=dict)
    cancelled: bool = False


class MemoryTasks:
    """The tasks of one process."""

    def __init__(self) -> None:
        self._works: dict[str, _Work] = {}

    def begin(self, name: str, arguments: dict[str, Any], result: types.CallToolResult) -> Task:
        """Begin the work of a tool; return its task as the result of the call."""
        now = datetime.now(UTC)
        task = Task(task_id=uuid4().hex, status="working", created_at=now, last_updated_at=now, ttl_ms=HOUR_MS)
        end: dict[str, Any] = {"status": "completed", "result": result.model_dump(by_alias=True, exclude_none=True)}
        if name == "protocol_error_job":
            end = {"status": "failed", "error": {"code": types.INTERNAL_ERROR, "message": "It failed on purpose."}}
        due = time.monotonic() + float(arguments.get("seconds", 0))
        self._works[task.task_id] = _Work(task, due, end, dict(_ASKS.get(name, {})))
        return task.created()

    async def get(self, _: Context, task_id: str) -> Task:
        """Return the task as it is now."""
        work = self._work(task_id)
        if work.cancelled:
            return work.task.model_copy(update={"status": "cancelled"})
        if work.asks:
            return work.task.model_copy(update={"status": "input_required", "input_requests": dict(work.asks)})
        return work.task.model_copy(update=work.end) if time.monotonic() >= work.due else work.task

    async def update(self, _: Context, task_id: str, responses: Mapping[str, Any]) -> None:
        """Take answers; those to no question are left out."""
        work = self._work(task_id)
        work.asks = {key: request for key, request in work.asks.items() if key not in responses}

    async def cancel(self, context: Context, task_id: str) -> None:
        """Cancel what is not over."""
        if (await self.get(context, task_id)).status in ("working", "input_required"):
            self._work(task_id).cancelled = True

    def _work(self, task_id: str) -> _Work:
        if task_id not in self._works:
            raise unknown_task(task_id)
        return self._works[task_id]
