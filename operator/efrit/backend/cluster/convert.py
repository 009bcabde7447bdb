"""Custom resources in the client's words, and work as a custom resource. Pure: JSON in, values out."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct

from efrit.api_group import MAX_CONTENT_CHARS, QUEUE_DIR, WORKSPACE
from efrit.backend.errors import Refused, content_too_long
from efrit.backend.interface import (
    Error,
    Handle,
    Instance,
    InstanceStats,
    InstanceStatus,
    Outcome,
    Phase,
    Progress,
    RequestReason,
    RequestState,
    RequestType,
    Session,
    Usage,
    Work,
)
from efrit.backend.resource_fields import DIGEST, EnumReader, condition, likely_phase, reason_of
from efrit.protocol.enums import BROKEN_REASONS, RetryPolicy
from efrit.protocol.resource_case import from_resource, resource_word, to_resource
from efrit.protocol.times import parse_time
from efrit.resources import POOLS, REQUESTS

Json = Mapping[str, Any]
S = TypeVar("S", bound=Struct)

DAEMON = "efrit"


def instance_of(obj: Json, now: datetime) -> Instance:
    """Return the instance that an EfritInstance describes."""
    meta, spec, status = obj["metadata"], obj.get("spec", {}), obj.get("status", {})
    ready, queue = condition(obj, "Ready"), status.get("queue") or {}
    is_ready = ready.get("status") == "True"
    reason = str(ready.get("reason") or "Pending")
    broken = not is_ready and reason in BROKEN_REASONS
    started = parse_time(status.get("startTime"))
    return Instance(
        meta["name"],
        InstanceStatus.ACTIVE if is_ready else InstanceStatus.ERROR if broken else InstanceStatus.INACTIVE,
        reason,
        str(ready.get("message") or "The operator has not reconciled it yet."),
        can_start=bool(status.get("suspendedIdle")) and spec.get("operatingMode") != "Suspended",
        queue_dir=QUEUE_DIR,
        daemon_name=(spec.get("emacs") or {}).get("daemonName") or DAEMON,
        workspace_dir=WORKSPACE,
        namespace=meta.get("namespace"),
        labels=meta.get("labels") or {},
        pool=_pool_of(meta),
        emacs_version=status.get("emacsVersion"),
        pending=queue.get("pending", 0),
        processing=queue.get("processing", 0),
        processed=queue.get("processed", 0),
        started=started,
        uptime_seconds=max(0.0, (now - started).total_seconds()) if started and is_ready else None,
        last_activity=parse_time(status.get("lastActivityTime")),
    )


def _pool_of(meta: Json) -> str | None:
    """Return the pool that an instance is a member of: not one that a claim has, which keeps the pool's label."""
    owners = meta.get("ownerReferences") or ()
    return next((owner["name"] for owner in owners if owner.get("controller") and owner["kind"] == POOLS.kind), None)


def stats_of(obj: Json, now: datetime) -> InstanceStats:
    """Return the figures in the status of an EfritInstance."""
    queue = obj.get("status", {}).get("queue") or {}
    return InstanceStats(
        obj["metadata"]["name"],
        queue.get("pending", 0),
        queue.get("processing", 0),
        queue.get("processed", 0),
        queue.get("succeeded", 0),
        queue.get("failed", 0),
        queue.get("interrupted", 0),
        float(queue.get("averageProcessingSeconds", 0)),
        float(queue.get("oldestPendingSeconds", 0)),
        instance_of(obj, now).uptime_seconds or 0.0,
    )


def request_of(obj: Json) -> RequestState:
    """Return the state that an EfritRequest describes."""
    meta, spec, status = obj["metadata"], obj.get("spec", {}), obj.get("status", {})
    complete, enums = condition(obj, "Complete"), EnumReader()
    outcome = enums.read(Outcome, status.get("outcome"), "outcome")
    phase = enums.read(Phase, status.get("phase"), "phase")
    if phase is None:
        phase = likely_phase(Phase, status, succeeded=outcome is Outcome.SUCCESS)
    request_type = enums.read(RequestType, spec.get("type"), "type")
    named = (spec.get("instanceRef") or {}).get("name")
    # Nothing is said of one that is bound and handed over at once before it has waited for a moment.
    unsaid = "Bound to an instance." if status.get("instanceName") else "The operator has not reconciled it yet."
    result, reference = status.get("result"), status.get("resultRef") or {}
    return RequestState(
        Handle(meta["name"], status.get("instanceName") or named),
        phase,
        reason_of(RequestReason, status.get("reason"), RequestReason.PENDING),
        enums.named_in(str(complete.get("message") or unsaid)),
        type=request_type,
        content=spec.get("content"),
        outcome=outcome,
        result=result,
        truncated=bool(status.get("truncated")) or bool(reference),
        result_bytes=reference.get("bytes") or len((result or "").encode()),
        output=status.get("output") or "",
        messages=status.get("messages") or "",
        error=_error(status.get("error")),
        context=_context(status.get("context")),
        session=_part(Session, status.get("session")),
        progress=_part(Progress, status.get("progress")),
        usage=_part(Usage, status.get("usage")),
        attempt=status.get("attempt") or 0,
        created=parse_time(meta.get("creationTimestamp")),
        queued=parse_time(status.get("queuedTime")),
        started=parse_time(status.get("startTime")),
        completed=parse_time(status.get("completionTime")),
        execution_seconds=status.get("executionSeconds"),
        preemptions=(status.get("preemption") or {}).get("count") or 0,
    )


def _error(value: Json | None) -> Error | None:
    return None if not value else Error(str(value.get("code")), str(value.get("message")))


_CONTEXT = {
    "currentBuffer": "current_buffer",
    "bufferCount": "buffer_count",
    "cursorPosition": "cursor_position",
    "majorMode": "major_mode",
    "defaultDirectory": "default_directory",
    "emacsVersion": "emacs_version",
}


def _context(value: Json | None) -> dict[str, Any] | None:
    return None if not value else {_CONTEXT.get(key, key): item for key, item in value.items()}


def _part(kind: type[S], value: Json | None) -> S | None:
    """Return what a part of a status is."""
    if not value:
        return None
    try:
        return from_resource(kind, value)
    except ValueError:
        # A later operator's word, in what only accompanies an answer.
        return None


# Work as a custom resource


def request_name(work: Work, chance: str) -> str:
    """Return the name for a new request: derived from the key, so that it is the same each time, or from `chance`."""
    return f"efrit-{chance}" if work.key is None else name_of_key(work.key)


def name_of_key(key: str) -> str:
    """Return the name of a request with this key."""
    return f"efrit-{hashlib.sha256(key.encode()).hexdigest()[:40]}"


def manifest(work: Work, name: str, target: Json) -> dict[str, Any]:
    """Return the EfritRequest for `work`, to be executed by `target`. Raises `Refused`."""
    work.require_content()
    if len(work.content) > MAX_CONTENT_CHARS:
        raise content_too_long(f"{len(work.content)} characters", "in a cluster", MAX_CONTENT_CHARS)
    if work.directory is not None:
        raise Refused("in a cluster work begins in the instance's workspace", "leave --dir out")
    spec: dict[str, Any] = {"type": work.type.value, "content": work.content}
    if work.return_context:
        spec["returnContext"] = True
    if work.timeout is not None:
        spec["timeoutSeconds"] = math.ceil(work.timeout)
    if work.queue_timeout is not None:
        spec["queueTimeoutSeconds"] = math.ceil(work.queue_timeout)
    if work.keep is not None:
        spec["ttlSecondsAfterFinished"] = math.ceil(work.keep)
    if work.priority:
        spec["priority"] = work.priority
    if work.retry:
        spec["retryPolicy"] = resource_word(RetryPolicy.IF_INTERRUPTED)
        spec |= {} if work.max_attempts is None else {"maxAttempts": work.max_attempts}
    if work.budget is not None:
        # A resource has whole seconds.
        spec["budget"] = {name: math.ceil(bound) for name, bound in to_resource(work.budget).items()}
    if work.session is not None:
        spec["session"] = {"id": work.session}
    metadata: dict[str, Any] = {"name": name}
    if work.key is not None:
        metadata["annotations"] = {DIGEST: digest(work, spec)}
    return REQUESTS.manifest(metadata, spec={**spec, **target})


def digest(work: Work, spec: Json) -> str:
    """Return the digest of what a key stands for: the work and the target named for it, not the instance chosen."""
    named = [work.instance, work.pool, dict(work.selector or {})]
    return hashlib.sha256(json.dumps([spec, named], sort_keys=True).encode()).hexdigest()
