"""What is known of an instance of this machine: from its Emacs' heartbeat, and from the files of its queue."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from efrit.backend.interface import Instance, InstanceStats, InstanceStatus
from efrit.backend.local.daemon import Daemon
from efrit.backend.local.hosts import RemoteEmacs
from efrit.entry_point import load_entry_point


def instance_of(daemon: Daemon) -> Instance:
    """Return the instance in its present state."""
    instance = daemon.instance
    emacs = daemon.running()
    pending, processing, _ = daemon.files.counts() if instance.queue_dir.is_dir() else (0, 0, 0.0)
    other = daemon.remote_emacs() if emacs is None else None
    active = emacs is not None or (other is not None and other.serves)
    beat = daemon.files.heartbeat() if active else {}
    unread = None if active else load_entry_point("efrit.backend.local.heartbeat:heartbeat_problem")(daemon)
    broken = beat.get("state") == "degraded" or unread is not None
    status = InstanceStatus.ERROR if broken else InstanceStatus.ACTIVE if active else InstanceStatus.INACTIVE
    reason = "NotResponding" if broken else "Ready" if active else "Stopped"
    message = str(beat.get("problem")) if broken else "" if active else "Work sent to it starts it."
    if unread is not None:
        message = f"It is not known whether an Emacs serves the queue: {unread}"
    elif not active and not instance.auto_start:
        message = f"Start it with `efrit start {instance.id}`."
    if other is not None:
        message = f"{_server_phrase(other)}. {message}".rstrip()
    return Instance(
        instance.id,
        status,
        reason,
        message,
        can_start=not active and instance.auto_start,
        queue_dir=str(instance.queue_dir),
        daemon_name=instance.daemon_name,
        workspace_dir=str(instance.workspace_dir),
        emacs_version=_version(beat),
        pending=pending,
        processing=processing,
        processed=_count(beat, "processed"),
        started=datetime.fromtimestamp(emacs.started, UTC) if emacs is not None and emacs.started else None,
        uptime_seconds=_uptime(emacs.started if emacs is not None else None),
        last_activity=_last_activity(instance.queue_dir),
    )


def stats_of(daemon: Daemon) -> InstanceStats:
    """Return the figures of the instance's queue; responses are counted since Emacs was started."""
    name = daemon.instance.id
    if not daemon.instance.queue_dir.is_dir():
        return InstanceStats(name)
    pending, processing, oldest = daemon.files.counts()
    emacs = daemon.running()
    beat: dict[str, Any] = daemon.files.heartbeat() if daemon.is_served() else {}
    processed = _count(beat, "processed")
    seconds = beat.get("total_processing_seconds", 0.0)
    return InstanceStats(
        name,
        pending,
        processing,
        processed,
        _count(beat, "succeeded"),
        _count(beat, "failed"),
        _count(beat, "interrupted"),
        average_processing_seconds=seconds / processed if processed else 0.0,
        oldest_pending_seconds=oldest,
        uptime_seconds=_uptime(emacs.started if emacs is not None else None) or 0.0,
    )


def _server_phrase(other: RemoteEmacs) -> str:
    """Return who serves a queue, or did so until it was silent for too long, as a sentence without its end."""
    phrase = str(other)
    return f"S{phrase[1:]}" if other.serves else f"Was {phrase}; whoever starts it takes it over"


def _version(beat: dict[str, Any]) -> str | None:
    version = beat.get("emacs_version")
    return version if isinstance(version, str) else None


def _last_activity(queue: Path) -> datetime | None:
    times = []
    for part in ("requests", "responses", "archive"):
        try:
            times.append((queue / part).stat().st_mtime)
        except OSError:
            continue
    return datetime.fromtimestamp(max(times), UTC) if times else None


def _uptime(started: float | None) -> float | None:
    return None if started is None else max(0.0, time.time() - started)


def _count(beat: dict[str, Any], name: str) -> int:
    value = beat.get(name)
    return value if isinstance(value, int) and value >= 0 else 0
