"""What is right and what is wrong on this machine, the cause before its effects. Starts and changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from efrit.backend.errors import ClientError
from efrit.backend.interface import Finding
from efrit.backend.local.answers import time_if_valid
from efrit.backend.local.daemon import LOG, Daemon
from efrit.backend.local.emacs_process import emacs_program, lisp_directory
from efrit.backend.local.files import QueueFiles
from efrit.backend.local.heartbeat import check_heartbeat
from efrit.backend.local.model import differences, settings_in
from efrit.backend.local.model_probe import probe_here
from efrit.backend.local.mounts import mount_of
from efrit.backend.local.settings import LocalInstance, LocalSettings
from efrit.backend.local.unknown_keys import foreign_keys

_OLDEST_EMACS = 28
_SILENT_SECONDS = 10.0
_LITTLE_SPACE = 64 << 20
_NO_SPACE = 256 << 10
_MAX_KEYS = 20


def examine(settings: LocalSettings) -> list[Finding]:
    """Check everything a request needs to get its response."""
    findings = [_configuration(settings), *_foreign_keys(settings), _emacs(), _lisp(), probe_here()]
    for name in sorted(settings.instances):
        findings += _instance(settings.instances[name])
    return findings


def _configuration(settings: LocalSettings) -> Finding:
    if settings.missing:
        return Finding("configuration", False, f"there is no {settings.path}", "correct the path in --config")
    exists = settings.path.exists()
    detail = f"{settings.path}" if exists else f"no {settings.path}: one instance, called default"
    return Finding("configuration", True, detail)


def _foreign_keys(settings: LocalSettings) -> Iterator[Finding]:
    keys = foreign_keys(settings.path)
    for key in keys[:_MAX_KEYS]:
        yield Finding("configuration", False, f"{settings.path}: the key {key!r} has no effect", "remove it")
    if len(keys) > _MAX_KEYS:
        more = len(keys) - _MAX_KEYS
        yield Finding("configuration", False, f"{settings.path}: {more} more keys have no effect", "remove them")


def _emacs() -> Finding:
    try:
        program = emacs_program()
    except ClientError as error:
        return Finding("Emacs", False, error.message, error.advice)
    try:
        output = subprocess.run([program, "--version"], capture_output=True, check=False, timeout=30).stdout
    except OSError as error:
        problem = f"{program} cannot be run: {error.strerror}"
        return Finding("Emacs", False, problem, "set EFRIT_EMACS to another")
    except subprocess.TimeoutExpired:
        output = b""
    version = re.search(r"Emacs (\d+)\S*", output.decode(errors="replace"))
    if version is None:
        return Finding("Emacs", False, f"{program} does not say which Emacs it is", "set EFRIT_EMACS to another")
    recent = int(version[1]) >= _OLDEST_EMACS
    return Finding(
        "Emacs",
        recent,
        f"{version[0]} at {program}",
        "" if recent else f"install Emacs {_OLDEST_EMACS} or later, or set EFRIT_EMACS to one",
    )


def _lisp() -> Finding:
    try:
        return Finding("Emacs Lisp", True, str(lisp_directory()))
    except ClientError as error:
        return Finding("Emacs Lisp", False, error.message, error.advice)


def _instance(instance: LocalInstance) -> Iterator[Finding]:
    subject = f"instance {instance.id}"
    queue = instance.queue_dir
    if not queue.is_dir():
        yield _never_started(subject, queue)
        return
    if not os.access(queue, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(subject, False, f"{queue} may not be written", f"chown -R $USER {queue}")
        return
    free = shutil.disk_usage(queue).free
    if free < _NO_SPACE:
        yield Finding(subject, False, f"the disk of {queue} is full", "free some space on it")
    elif free < _LITTLE_SPACE:
        yield Finding(subject, False, f"{free >> 20} MiB are free for {queue}", "free some space")
    mount = mount_of(queue)
    if (problem := mount.refusal or (mount.warning if mount.remote else None)) is not None:
        yield Finding(subject, mount.refusal is None, problem, "see docs/shared-queues.md")
    files = QueueFiles(queue)
    try:
        yield _daemon(subject, Daemon(instance, files))
    except ClientError as error:
        yield Finding(subject, False, error.message, error.advice)
    finally:
        files.close()


def _never_started(subject: str, queue: Path) -> Finding:
    nearest = next(place for place in (queue, *queue.absolute().parents) if os.path.lexists(place))
    if not nearest.is_dir():
        problem = "is not a directory"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        problem = "may not be written"
    else:
        return Finding(subject, True, f"never started; its queue will be {queue}")
    remedy = "set XDG_STATE_HOME, or queue_dir in the configuration, to a directory of yours"
    return Finding(subject, False, f"{queue} cannot be made: {nearest} {problem}", remedy)


def _daemon(subject: str, daemon: Daemon) -> Finding:
    name = daemon.instance.id
    pending, processing, oldest = daemon.files.counts()
    emacs = daemon.running()
    other = daemon.remote_emacs() if emacs is None else None
    if other is not None and other.serves:
        return Finding(subject, True, f"{other}: {pending} wait, {processing} run")
    if other is not None and (pending or processing):
        detail = f"{other} and silent since: {pending + processing} requests wait"
        return Finding(subject, False, detail, f"efrit start {name} takes it over")
    if emacs is None:
        # A `ClientError` is a finding, too.
        check_heartbeat(daemon)
        if pending or processing:
            detail = f"not running, and {pending + processing} requests wait for it"
            return Finding(subject, False, detail, f"efrit start {name}; its log: {daemon.instance.queue_dir / LOG}")
        return Finding(subject, True, "not running; work sent to it starts it")
    problem = daemon.files.heartbeat().get("problem")
    if isinstance(problem, str) and problem:
        return Finding(subject, False, f"Emacs cannot serve: {problem}", f"see {daemon.instance.queue_dir / LOG}")
    check = daemon.files.heartbeat().get("self_check")
    if isinstance(check, dict) and check.get("passed") is False:
        detail = f"Emacs {emacs.pid} fails its self-check: {check.get('problem')}"
        return Finding(subject, False, detail, f"efrit restart {name}")
    if (init := daemon.init_problem()) is not None:
        return Finding(
            subject, False, f"its init file failed: {init}", f"see {daemon.log}, then efrit restart {name}"
        )
    daemon_model = daemon.model_settings()
    if daemon_model is not None and (difference := differences(daemon_model, settings_in(os.environ))):
        detail = f"it was started with other settings of the model: {difference}"
        return Finding(subject, False, detail, f"efrit restart {name}")
    if emacs.stopped:
        return Finding(subject, False, f"Emacs {emacs.pid} is stopped by a signal", f"kill -CONT {emacs.pid}")
    silent = time.time() - emacs.beat.timestamp()
    if silent > _SILENT_SECONDS and not processing:
        return Finding(subject, False, f"Emacs {emacs.pid} has been silent for {silent:.0f} s", f"efrit stop {name}")
    if (overdue := _overdue(daemon.files.heartbeat())) is not None:
        rid, seconds = overdue
        detail = f"the request {rid} is {seconds:.0f} s past its time limit and does not stop"
        return Finding(subject, False, detail, f"efrit cancel {rid}")
    if silent > _SILENT_SECONDS and oldest > _SILENT_SECONDS:
        detail = f"Emacs {emacs.pid} has been busy with one request for {silent:.0f} s, and {pending} wait"
        return Finding(subject, True, detail, "efrit requests, then efrit cancel")
    return Finding(subject, True, f"Emacs {emacs.version} runs as {emacs.pid}: {pending} wait, {processing} run")


def _overdue(heartbeat: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return the request that occupies Emacs beyond its time, and the seconds it is late; None where none does."""
    rid, timeout, started = (
        heartbeat.get("current"),
        heartbeat.get("timeout"),
        time_if_valid(heartbeat.get("started")),
    )
    if not isinstance(rid, str) or not isinstance(timeout, int | float) or started is None:
        return None
    late = time.time() - started.timestamp() - timeout
    return (rid, late) if late > _SILENT_SECONDS else None
