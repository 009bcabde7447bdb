"""What is left when a run is over, as a `History`: files of the queues, responses, whole results, Secrets.

Reads disks and the API server, changes nothing, judges nothing.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from tests.support.faults import large_results
from tests.support.faults.availability import seconds_of
from tests.support.faults.history import Answer, Clemency, Digest, History, QueueFile, Version
from tests.support.faults.light.run import GRACE_SECONDS, Stage
from tests.support.faults.operator_invariants import CREATED_BEFORE_SECONDS
from tests.support.faults.request_invariants import OPEN_AREAS
from tests.support.faults.schedule import Do, Theme
from tests.support.faults.workload import Kind
from tests.support.kube import Json, Refused
from tests.support.pod import Pod

SETTLE_SECONDS = 20.0
"""Until a controller leads again after whatever has disturbed it: a lease is at most 15 s old."""

MISSING = Digest(-1, "missing")
"""What a reference points at that is not there."""


def queues(stage: Stage) -> Iterator[tuple[Pod, str, bool]]:
    """Return one pod for each queue there ever was, a label for the queue, and whether anybody still serves it."""
    newest: dict[Path, Pod] = {pod.queue: pod for pod in stage.pods()}
    for number, (path, pod) in enumerate(newest.items(), 1):
        current = stage.find(pod.instance)
        served = current is not None and current.queue == path
        yield pod, f"{pod.instance}-claim" if pod.queue_outlives_it else f"{pod.instance}-p{number}", served


def queue_files(stage: Stage) -> tuple[QueueFile, ...]:
    """Return every file of every queue."""
    found = []
    for pod, label, served in queues(stage):
        for area in (*OPEN_AREAS, "archive"):
            with contextlib.suppress(FileNotFoundError):
                found += [
                    QueueFile(stage.namespace, pod.instance, label, area, path.name, served)
                    for path in sorted((pod.queue / area).iterdir())
                ]
    return tuple(found)


def tidy(files: tuple[QueueFile, ...]) -> bool:
    """Whether nothing is under way on any queue that is served."""
    return not any(each.live and each.area in OPEN_AREAS and not each.reserved for each in files)


def instances_ready(stage: Stage) -> dict[tuple[str, str], bool]:
    """Return whether each instance says that it is Ready, or sleeps because it is idle."""
    found = {}
    for each in stage.ground.kube.list("efritinstances", stage.namespace):
        conditions = each.get("status", {}).get("conditions", ())
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        asleep = bool(each["spec"].get("idle")) and each.get("status", {}).get("suspendedIdle") is True
        found[stage.namespace, each["metadata"]["name"]] = ready or asleep
    return found


def collect(
    stage: Stage,
    *,
    quiet_at: float,
    files: tuple[QueueFile, ...],
    ready: dict[tuple[str, str], bool],
    namespace_left: bool,
    suffered_until: float | None = None,
) -> History:
    """Return the whole history of a run that is over."""
    ended_at = stage.clock()
    deleted = (stage.namespace,) if stage.namespace_deleted else ()
    return History(
        submitted=tuple(stage.submitted),
        versions=stage.recorder.versions,
        ran=stage.ran(),
        files=files,
        answers=(*_answers(stage), *stage.lost_answers()),
        results={} if deleted else _results(stage),
        secrets=() if deleted else _secrets(stage),
        notes=tuple(stage.notes),
        losses=stage.closed_losses(ended_at),
        clemency=tuple(_clemency(stage)),
        gaps=stage.recorder.gaps,
        namespaces_deleted=deleted,
        namespaces_left=deleted if namespace_left else (),
        instances_ready={} if deleted else ready,
        hits=dict(stage.hits),
        objects=stage.objects,
        undisturbed=_undisturbed(stage, ended_at),
        suffered_until=suffered_until,
        others_open=stage.others_open(),
        quiet_at=quiet_at,
        ended_at=ended_at,
        # On a busy machine a controller may take long to start; that is no fault of it.
        patience=stage.plan.patience + seconds_of(stage.unserved),
    )


def _undisturbed(stage: Stage, ended_at: float) -> tuple[tuple[float, float], ...]:
    """Return the spans in which a controller led and the API server answered, without the time to settle."""
    if stage.shares_controller:
        return ()
    spans, begin = [], 0.0 if stage.plan.warm else SETTLE_SECONDS
    for disturbed, over in sorted([*stage.disturbances, *stage.unserved]):
        if disturbed > begin:
            spans.append((begin, disturbed))
        begin = max(begin, over + SETTLE_SECONDS)
    return tuple([*spans, (begin, ended_at)] if ended_at > begin else spans)


def _answers(stage: Stage) -> Iterator[Answer]:
    for pod, label, _ in queues(stage):
        for area in ("responses", "archive"):
            for path in sorted((pod.queue / area).glob("resp_*.json")):
                try:
                    response = json.loads(path.read_text())
                except (OSError, ValueError) as error:
                    response = {"unreadable": str(error)}
                uid = path.stem.removeprefix("resp_")
                yield Answer(stage.namespace, pod.instance, label, area, uid, response)


def _secrets(stage: Stage) -> tuple[tuple[str, str], ...]:
    found = stage.ground.kube.list("secrets", stage.namespace, fieldSelector="type=efrit.dev/result")
    # Nobody collects garbage here: the Secret of a request that was deleted stays.
    gone = {each.uid for each in stage.submitted if each.deleted}
    names = [each["metadata"]["name"] for each in found]
    return tuple((stage.namespace, name) for name in names if name.removeprefix("efrit-result-") not in gone)


def _results(stage: Stage) -> dict[str, Digest]:
    found = {}
    for uid, version in stage.recorder.final.items():
        if version.phase == "Succeeded" and (whole := _whole(stage, version)) is not None:
            found[uid] = whole
    return found


def _whole(stage: Stage, version: Version) -> Digest | None:
    reference: Json | None = version.status.get("resultRef")
    if reference is None:
        text = version.status.get("result")
        return None if text is None or version.status.get("truncated") else Digest.of(text)
    if path := reference.get("workspacePath"):
        with contextlib.suppress(OSError):
            return Digest.of(stage.file(version.status["instanceName"], path).read_bytes())
        return MISSING
    try:
        secret = stage.ground.kube.get("secrets", stage.namespace, reference["secretName"])
    except Refused:
        deleted = any(each.uid == version.uid and (each.deleted or each.goes) for each in stage.submitted)
        return None if deleted else MISSING
    return Digest.of(base64.b64decode(secret["data"][reference["key"]]))


def _clemency(stage: Stage) -> Iterator[Clemency]:
    """Return what the faults of this run allow beyond what `losses` says."""
    kinds = {each.name: each.kind for each in stage.plan.work}
    restarted = any(note.event.endswith("is started again") for note in stage.notes)
    restarted = restarted or stage.plan.controllers > 1 or not stage.plan.warm
    for each in stage.submitted:
        if kinds[each.name] is Kind.LOST and restarted:
            why = "a controller that leads only since then cannot know whether an instance that is gone had it"
            yield Clemency("Interrupted", why, request=each.name, runs=(0,))
        late = min((stage.made_at.get(name, float("inf")) for name in each.instances), default=0.0)
        if late - each.at > GRACE_SECONDS - 1 and kinds[each.name] is not Kind.LOST:
            for reason in ("Rejected", "Interrupted"):
                yield Clemency(reason, "its instance was made too late", request=each.name, runs=(0,))
    yield from _of_refusals(stage)
    yield from _of_idleness(stage)
    if stage.plan.theme is Theme.CLOCKS:
        for step in stage.plan.faults:
            for work in stage.plan.work:
                if step.do is Do.SET_CLOCK and work.kind is Kind.SLEEP:
                    # Emacs sleeps by the wall clock: set back, it sleeps that much longer.
                    why = "the clock was set while it slept"
                    yield Clemency("TimedOut", why, instance=step.target, request=work.name, runs=(1, 2, 3))
    if stage.plan.theme is Theme.FROZEN:
        for step in stage.plan.faults:
            if step.do in (Do.STOP_EMACS, Do.STOP_BRIDGE):
                why = "its time ran out while Emacs, or who guards it, stood still"
                yield Clemency("TimedOut", why, instance=step.target, runs=(0, 1, 2, 3))


def _of_refusals(stage: Stage) -> Iterator[Clemency]:
    """Return which large results could not be stored whole."""
    if stage.plan.theme not in (Theme.REFUSALS, Theme.VOLUMES, Theme.FILES):
        return
    yield from large_results.clemency(
        stage.submitted,
        dict(stage.recorder.final),
        _answers(stage),
        stage.ran(),
        refused=large_results.refused_secrets(stage.ground.audit_log, stage.namespace),
        filled=stage.operations.filled,
    )


def _of_idleness(stage: Stage) -> Iterator[Clemency]:
    """A request that is made about when its instance is deleted for idleness, or later, finds none."""
    gone = {
        each.instance: each.at for each in stage.objects if each.kind == "efritinstances" and each.event == "DELETED"
    }
    for each in stage.submitted:
        deleted = min((gone.get(name, float("inf")) for name in each.instances), default=float("inf"))
        if each.at > deleted - CREATED_BEFORE_SECONDS:
            for reason in ("Rejected", "Interrupted"):
                yield Clemency(reason, "its instance was deleted for idleness", request=each.name, runs=(0,))
