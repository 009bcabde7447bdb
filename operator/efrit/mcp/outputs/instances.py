"""Structured output about instances."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from efrit.backend.interface import Instance
from efrit.mcp.schema_models import Output


class InstanceSummary(Output):
    """One instance of the list."""

    id: str
    status: Literal["active", "inactive", "error"]
    queue_dir: str | None = None
    uptime_seconds: float | None = None
    last_activity: datetime | None = None


class InstanceList(Output):
    """Output of efrit_list_instances."""

    instances: list[InstanceSummary]


def instance_list(instances: Sequence[Instance]) -> InstanceList:
    """Return the instances, sorted by id."""
    return InstanceList(
        instances=[
            InstanceSummary(
                id=instance.id,
                status=instance.status.value,
                queue_dir=instance.queue_dir,
                uptime_seconds=instance.uptime_seconds,
                last_activity=instance.last_activity,
            )
            for instance in sorted(instances, key=lambda instance: instance.id)
        ]
    )
