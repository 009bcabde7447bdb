"""The tools for instances, seen by a client."""

from efrit.client.interface import Setup
from tests.unit.mcp.conftest import Open
from tests.unit.mcp.scripted import ScriptedBackend


async def test_instances_are_listed_in_the_published_shape(open_client: Open, backend: ScriptedBackend) -> None:
    backend.add("a")
    async with open_client() as client:
        result = await client.call_tool("efrit_list_instances")
    assert result.structured_content == {
        "instances": [
            {"id": "a", "status": "active"},
            {
                "id": "default",
                "status": "active",
                "queue_dir": "~/.emacs.d/.efrit/queues",
                "uptime_seconds": 3600.0,
            },
        ]
    }


async def test_queue_figures_have_the_published_names(open_client: Open) -> None:
    async with open_client() as client:
        result = await client.call_tool("efrit_get_queue_stats", {"instance_id": "default"})
    assert result.structured_content == {
        "requests_processed": 42,
        "requests_succeeded": 38,
        "requests_failed": 4,
        "currently_processing": 2,
        "average_processing_time": 1.8,
        "uptime_seconds": 7200.0,
    }


async def test_an_instance_is_started_with_what_was_said_of_it(open_client: Open, backend: ScriptedBackend) -> None:
    async with open_client() as client:
        result = await client.call_tool("efrit_start_instance", {"instance_id": "b", "daemon_name": "efrit-ai"})
    assert result.structured_content == {
        "status": "started",
        "message": "b runs",
        "queue_dir": "/queues/b",
        "daemon_name": "efrit-ai",
    }
    assert backend.setups == [Setup(daemon_name="efrit-ai")]


async def test_an_instance_that_cannot_be_stopped_is_an_error_in_the_published_shape(open_client: Open) -> None:
    async with open_client() as client:
        result = await client.call_tool("efrit_stop_instance", {"instance_id": "nobody"})
    assert result.is_error
    assert result.structured_content is not None
    assert result.structured_content["status"] == "error"
    assert "efrit_list_instances" in result.structured_content["message"]
