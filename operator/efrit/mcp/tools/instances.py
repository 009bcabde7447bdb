"""Tools for instances: list, statistics, start, stop. The names of their arguments and output are published."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from efrit.backend.errors import ClientError
from efrit.backend.interface import Setup
from efrit.mcp.access import Effect
from efrit.mcp.error_text import error_text
from efrit.mcp.outputs.instances import InstanceList, instance_list
from efrit.mcp.schema_models import Arguments, InstanceName, Output
from efrit.mcp.tools.call import ToolCall
from efrit.mcp.tools.tool import Tool


class ListInstancesArguments(Arguments):
    """Arguments of efrit_list_instances: none."""


async def _list_instances(call: ToolCall, _: ListInstancesArguments) -> InstanceList:
    return instance_list(await call.backend.instances())


LIST_INSTANCES = Tool(
    name="efrit_list_instances",
    title="List instances",
    description="List the Efrit instances and their status.",
    arguments=ListInstancesArguments,
    output=InstanceList,
    effect=Effect.READS,
    permissions=frozenset({"list efritinstances"}),
    handler=_list_instances,
    idempotent=True,
)


class QueueStatsArguments(Arguments):
    """Arguments of efrit_get_queue_stats."""

    instance_id: InstanceName = Field(description="Target Efrit instance.")


class QueueStatsOutput(Output):
    """Output of efrit_get_queue_stats. Times are in seconds."""

    requests_processed: int
    requests_succeeded: int
    requests_failed: int
    currently_processing: int
    average_processing_time: float
    uptime_seconds: float


async def _get_queue_stats(call: ToolCall, arguments: QueueStatsArguments) -> QueueStatsOutput:
    stats = await call.backend.stats(arguments.instance_id)
    return QueueStatsOutput(
        requests_processed=stats.processed,
        requests_succeeded=stats.succeeded,
        requests_failed=stats.failed,
        currently_processing=stats.processing,
        average_processing_time=stats.average_processing_seconds,
        uptime_seconds=stats.uptime_seconds,
    )


GET_QUEUE_STATS = Tool(
    name="efrit_get_queue_stats",
    title="Queue statistics",
    description="Return statistics of an instance's queue: how many requests it has processed and is processing, and "
    "how long they take.",
    arguments=QueueStatsArguments,
    output=QueueStatsOutput,
    effect=Effect.READS,
    permissions=frozenset({"get efritinstances"}),
    handler=_get_queue_stats,
    idempotent=True,
)


class StartArguments(Arguments):
    """Arguments of efrit_start_instance."""

    instance_id: InstanceName = Field(description="Instance identifier.")
    queue_dir: str | None = Field(default=None, description="Custom queue directory path.")
    daemon_name: str | None = Field(default=None, description="Emacs daemon name.")
    workspace_dir: str | None = Field(default=None, description="Workspace directory path.")


class StartOutput(Output):
    """Output of efrit_start_instance."""

    status: Literal["started", "already_running", "error"]
    message: str
    queue_dir: str
    daemon_name: str

    @property
    def is_error(self) -> bool:
        """Whether the instance could not be started."""
        return self.status == "error"


async def _start_instance(call: ToolCall, arguments: StartArguments) -> StartOutput:
    setup = Setup(
        queue_dir=arguments.queue_dir, daemon_name=arguments.daemon_name, workspace_dir=arguments.workspace_dir
    )
    try:
        async with call.keep_alive(f"starting {arguments.instance_id}"):
            started = await call.backend.start(arguments.instance_id, setup)
    except ClientError as error:
        return StartOutput(
            status="error",
            message=error_text(error),
            queue_dir=arguments.queue_dir or "",
            daemon_name=arguments.daemon_name or "",
        )
    return StartOutput(
        status=started.status.value,
        message=started.message,
        queue_dir=started.queue_dir,
        daemon_name=started.daemon_name,
    )


START_INSTANCE = Tool(
    name="efrit_start_instance",
    title="Start an instance",
    description="Start an Efrit instance, and create it if it does not exist. Work sent to a stopped instance starts "
    "it too.",
    arguments=StartArguments,
    output=StartOutput,
    effect=Effect.ADDS,
    permissions=frozenset({"get efritinstances", "patch efritinstances", "create efritinstances"}),
    handler=_start_instance,
    only_in={"queue_dir": "local", "daemon_name": "local", "workspace_dir": "local"},
    idempotent=True,
)


class StopArguments(Arguments):
    """Arguments of efrit_stop_instance."""

    instance_id: InstanceName = Field(description="Target instance to stop.")


class StopOutput(Output):
    """Output of efrit_stop_instance."""

    status: Literal["stopped", "not_running", "error"]
    message: str

    @property
    def is_error(self) -> bool:
        """Whether the instance could not be stopped."""
        return self.status == "error"


async def _stop_instance(call: ToolCall, arguments: StopArguments) -> StopOutput:
    try:
        async with call.keep_alive(f"waiting for the current work of {arguments.instance_id}"):
            stopped = await call.backend.stop(arguments.instance_id)
    except ClientError as error:
        return StopOutput(status="error", message=error_text(error))
    return StopOutput(status=stopped.status.value, message=stopped.message)


STOP_INSTANCE = Tool(
    name="efrit_stop_instance",
    title="Stop an instance",
    description="Stop a running Efrit instance after its current work has ended. Its files and its waiting requests "
    "are kept; unsaved buffers are lost.",
    arguments=StopArguments,
    output=StopOutput,
    effect=Effect.DESTROYS,
    permissions=frozenset({"get efritinstances", "patch efritinstances"}),
    handler=_stop_instance,
    idempotent=True,
)

TOOLS = (LIST_INSTANCES, GET_QUEUE_STATS, START_INSTANCE, STOP_INSTANCE)
