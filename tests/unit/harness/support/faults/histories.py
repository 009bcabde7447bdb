"""Histories for the tests of the invariants: one request that ended well, and variations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.faults.history import (
    Answer,
    Digest,
    Execution,
    ExpectedEnd,
    History,
    Loss,
    QueueFile,
    RequestVersion,
    SubmittedRequest,
)

UID = "uid-a"
RESULT = '"alpha"'
SUCCEEDED = ExpectedEnd("Succeeded", Digest.of(RESULT))


def submitted_request(name: str = "a", uid: str = UID, marker: str = "alpha", **fields: Any) -> SubmittedRequest:
    """Return a submitted request; `fields` replace what they name."""
    made = SubmittedRequest(
        "ns", name, uid, 1.0, marker, ("one",), (ExpectedEnd("Succeeded", Digest.of(f'"{marker}"')),)
    )
    return replace(made, **fields)


def version(
    at: float = 2.0, rv: int = 10, *, uid: str = UID, name: str = "a", event: str = "MODIFIED", **status: Any
) -> RequestVersion:
    """Return a version of a request."""
    return RequestVersion(at, event, "ns", name, uid, rv, status)


def final(
    at: float = 2.0, rv: int = 10, *, uid: str = UID, name: str = "a", event: str = "MODIFIED", **status: Any
) -> RequestVersion:
    """Return a final version of a request; `status` replaces what it names."""
    usual = {
        "phase": "Succeeded",
        "reason": "Succeeded",
        "result": RESULT,
        "attempt": 1,
        "startTime": "2026-01-01T00:00:00Z",
        "instanceName": "one",
    }
    status_fields = {key: value for key, value in {**usual, **status}.items() if value is not None}
    return version(at, rv, uid=uid, name=name, event=event, **status_fields)


def failed(reason: str, at: float = 2.0, rv: int = 10, **status: Any) -> RequestVersion:
    """Return a final version of a request that failed."""
    return final(at, rv, **{"phase": "Failed", "reason": reason, "result": None, **status})


def ran(marker: str = "alpha", instance: str = "one") -> Execution:
    """Return an execution."""
    return Execution("ns", instance, marker, 7)


def answer(uid: str = UID, instance: str = "one", queue: str = "q1", **response: Any) -> Answer:
    """Return a response in the archive; `response` replaces what it names."""
    body = {"id": uid, "reason": "Succeeded", "result": RESULT, "sha256": Digest.of(RESULT).sha256, **response}
    return Answer("ns", instance, queue, "archive", uid, body)


def archived(uid: str = UID, queue: str = "q1") -> tuple[QueueFile, ...]:
    """Return the files of a request in the archive."""
    return tuple(QueueFile("ns", "one", queue, "archive", f"{kind}_{uid}.json") for kind in ("req", "resp"))


def leftover_file(area: str, name: str = f"req_{UID}.json", *, live: bool = True) -> QueueFile:
    """Return a file on a queue."""
    return QueueFile("ns", "one", "q1", area, name, live)


def loss(begin: float = 1.5, end: float = 1.6, *, queue: bool = False) -> Loss:
    """Return the loss of an Emacs."""
    return Loss("ns", "one", begin, end, "Emacs killed", queue)


def history(**fields: Any) -> History:
    """Return the history of one request that ended well; `fields` replace what they name."""
    good = History(
        submitted=(submitted_request(),),
        versions=(version(1.1, 5, event="ADDED"), final()),
        ran=(ran(),),
        files=archived(),
        answers=(answer(),),
        results={UID: Digest.of(RESULT)},
        instances_ready={("ns", "one"): True},
        healed_at=1.0,
        ended_at=10.0,
    )
    return replace(good, **fields)
