"""A run as a person reads it: when, who, what, about which request; faults marked; one request's own history.

Pure: a `History` in, text out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.support.faults.history import History, Note, RequestVersion, SubmittedRequest
from tests.support.faults.violation import Violation

FAULT_MARK = "!!"


def timeline(history: History) -> str:
    """Return every event, one line each, in order of time."""
    return "\n".join(_lines(_notes(history)))


def life_of(history: History, name: str) -> str:
    """Return the events of one request, with every fault and what happened to its instances meanwhile."""
    request = next((submitted for submitted in history.submitted if submitted.name == name), None)
    if request is None:
        return f"no request {name}"
    final = history.final(request)
    end = final.at if final else history.ended_at
    chosen = [
        note
        for note in _notes(history)
        if note.request == name
        or (note.instance in request.instances and request.at <= note.at <= end)
        or (note.fault and not note.instance and request.at <= note.at <= end)
    ]
    facts = [f"  may end: {end}" for end in request.ends]
    facts += [
        f"  answer: on {answer.instance}, queue {answer.queue}, {answer.area}/: {_short(answer.response)}"
        for answer in history.answers
        if history.of_run(answer.uid) == request
    ]
    where = "/".join(request.instances)
    head = f"{name} ({request.uid}), marker {request.marker}, on {where}, {request.attempts} attempts"
    return "\n".join([head, *_lines(chosen), *facts])


def report(history: History, violations: Sequence[Violation]) -> str:
    """Return the verdict, the events of the requests concerned, then the whole run."""
    parts = [f"{len(history.submitted)} requests, {len(violations)} violations", *map(str, violations)]
    for name in dict.fromkeys(violation.request for violation in violations if violation.request):
        parts += ["", life_of(history, name)]
    return "\n".join([*parts, "", "The whole run:", timeline(history)])


def _notes(history: History) -> list[Note]:
    notes = [*history.notes]
    notes += [_submitted(request) for request in history.submitted]
    names = {(request.namespace, request.marker): request.name for request in history.submitted}
    notes += [
        Note(
            execution.written,
            f"Emacs {execution.pid}",
            f"runs {execution.marker}",
            names.get((execution.namespace, execution.marker), "?"),
            execution.instance,
        )
        for execution in history.ran
    ]
    before: dict[str, RequestVersion] = {}
    for version in sorted(history.versions, key=lambda version: (version.at, version.resource_version)):
        notes.append(_version(version, before.get(version.uid)))
        before[version.uid] = version
    notes += [Note(at, "recorder", "its own watch broke: it listed anew", fault=True) for at in history.watch_gaps]
    return sorted(notes, key=lambda note: note.at)


def _submitted(request: SubmittedRequest) -> Note:
    return Note(request.at, "user", f"creates it for {'/'.join(request.instances)}", request.name)


def _version(version: RequestVersion, before: RequestVersion | None) -> Note:
    status = version.status
    parts = [version.event.lower(), version.phase or "no status", version.reason]
    if version.cancel and not (before and before.cancel):
        parts.append("spec.cancel")
    for key in ("instanceName", "attempt", "startTime"):
        value = status.get(key)
        if value is not None and value != (before.status.get(key) if before else None):
            parts.append(f"{key}={value}")
    if version.final:
        parts.append(f"result={str(status.get('result'))[:40]!r}")
        if error := status.get("error"):
            parts.append(f"error={error.get('message')!r}")
    parts.append(f"(rv {version.resource_version})")
    return Note(version.at, "API server", " ".join(filter(None, parts)), version.name)


def _lines(notes: Iterable[Note]) -> list[str]:
    return [
        f"{note.at:9.3f} {FAULT_MARK if note.fault else '  '} {note.actor:<14} "
        f"{' '.join(filter(None, (note.request, note.instance))):<14} {note.event}"
        for note in notes
    ]


def _short(response: object) -> str:
    text = str(response)
    return text if len(text) <= 400 else f"{text[:400]}…"
