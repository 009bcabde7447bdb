"""Tools about instances: results as the original design's MCP server writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from efrit.backend.interface import Setup, StopStatus
from tests.support.mcp_results import structured_content
from tests.unit.mcp.conftest import Call
from tests.unit.mcp.scripted import ScriptedBackend

LISTED: dict[str, Any] = {
    "id": "default",
    "status": "active",
    "queue_dir": "~/.emacs.d/.efrit/queues",
    "uptime_seconds": 3600,
    "last_activity": "2025-01-03T18:30:00Z",
}
COUNTED = {
    "requests_processed": 42,
    "requests_succeeded": 38,
    "requests_failed": 4,
    "currently_processing": 2,
    "average_processing_time": 1.8,
    "uptime_seconds": 7200,
}


async def test_the_list_of_instances_and_the_figures_of_one(call: Call, backend: ScriptedBackend) -> None:
    last = datetime(2025, 1, 3, 18, 30, tzinfo=UTC)
    backend.add("default", queue_dir=LISTED["queue_dir"], uptime_seconds=3600.0, last_activity=last)
    backend.add("a")
    # What is not known of an instance is left out.
    listed = [{"id": "a", "status": "active"}, LISTED]
    assert structured_content(await call("efrit_list_instances")) == {"instances": listed}
    assert structured_content(await call("efrit_get_queue_stats", {"instance_id": "default"})) == COUNTED


async def test_starting_and_stopping(call: Call, backend: ScriptedBackend) -> None:
    setup: dict[str, Any] = {"queue_dir": "/path/to/queue", "daemon_name": "efrit-ai", "workspace_dir": "/path"}
    for expected in ("started", "already_running"):
        begun = structured_content(await call("efrit_start_instance", {"instance_id": "b", **setup}))
        assert begun.keys() == {"status", "message", "queue_dir", "daemon_name"}
        assert (begun["status"], begun["daemon_name"]) == (expected, "efrit-ai")
    assert backend.setups == [Setup(**setup)] * 2
    for expected in (StopStatus.STOPPED, "error"):
        result = await call("efrit_stop_instance", {"instance_id": "b"})
        assert structured_content(result).keys() == {"status", "message"}
        assert (structured_content(result)["status"], result.is_error) == (expected, expected == "error")
    assert "efrit_list_instances" in structured_content(result)["message"]
