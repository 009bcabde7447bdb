"""When a finished request or plan is to be deleted: `spec.ttlSecondsAfterFinished` after its end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from efrit.api import FINAL_PHASES, EfritPlan, EfritRequest
from efrit.controller.model.actions import Action, Delete, DeleteLater, ResourceKind


def retention(kind: ResourceKind, final: EfritRequest | EfritPlan, now: datetime) -> list[Action]:
    """Return what deletes an object that has its final status, nothing where it is to be kept."""
    ttl, ended = final.spec.ttl_seconds_after_finished, final.status.completion_time
    if ttl is None or ended is None:
        return []
    due, uid = ended + timedelta(seconds=ttl), final.metadata.uid
    if due <= now:
        return [Delete(kind, final.key, uid)]
    return [DeleteLater(kind, final.key, uid, due)]


def due_of(obj: Mapping[str, Any], default_ttl: int | None = None) -> datetime | None:
    """Return when an object, as the API server lists it, is to be deleted; None where it is not, or not yet known.

    default_ttl: for one that names no time to live and is not part of a plan: a plan reads its requests to go on.
    """
    status, ttl = obj.get("status", {}), obj["spec"].get("ttlSecondsAfterFinished")
    if ttl is None and not _is_part_of_plan(obj):
        ttl = default_ttl
    if ttl is None or status.get("phase") not in FINAL_PHASES or status.get("completionTime") is None:
        return None
    try:
        return datetime.fromisoformat(status["completionTime"]).astimezone(UTC) + timedelta(seconds=ttl)
    except (ValueError, OverflowError):
        return None


def _is_part_of_plan(obj: Mapping[str, Any]) -> bool:
    owners = obj["metadata"].get("ownerReferences", [])
    return any(owner["kind"] == EfritPlan.kind for owner in owners)  # gate: plan-keeps-requests
