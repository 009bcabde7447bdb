"""Histories for the tests of the invariants: one request that ended well, and ways to break it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.faults.history import (
    Answer,
    Digest,
    End,
    History,
    Loss,
    QueueFile,
    Ran,
    Submitted,
    Version,
)

UID = "uid-a"
RESULT = '"alpha"'
SUCCEEDED = End("Succeeded", Digest.of(RESULT))


def asked(name: str = "a", uid: str = UID, word: str = "alpha", **fields: Any) -> Submitted:
    made = Submitted("ns", name, uid, 1.0, word, ("one",), (End("Succeeded", Digest.of(f'"{word}"')),))
    return replace(made, **fields)


def version(
    at: float = 2.0, rv: int = 10, *, uid: str = UID, name: str = "a", event: str = "MODIFIED", **status: Any
) -> Version:
    return Version(at, event, "ns", name, uid, rv, status)


def final(
    at: float = 2.0, rv: int = 10, *, uid: str = UID, name: str = "a", event: str = "MODIFIED", **status: Any
) -> Version:
    usual = {
        "phase": "Succeeded",
        "reason": "Succeeded",
        "result": RESULT,
        "attempt": 1,
        "startTime": "2026-01-01T00:00:00Z",
        "instanceName": "one",
    }
    told = {key: value for key, value in {**usual, **status}.items() if value is not None}
    return version(at, rv, uid=uid, name=name, event=event, **told)


def failed(reason: str, at: float = 2.0, rv: int = 10, **status: Any) -> Version:
    return final(at, rv, **{"phase": "Failed", "reason": reason, "result": None, **status})


def ran(word: str = "alpha", instance: str = "one") -> Ran:
    return Ran("ns", instance, word, 7)


def answer(uid: str = UID, instance: str = "one", queue: str = "q1", **response: Any) -> Answer:
    given = {"id": uid, "reason": "Succeeded", "result": RESULT, "sha256": Digest.of(RESULT).sha256, **response}
    return Answer("ns", instance, queue, "archive", uid, given)


def archived(uid: str = UID, queue: str = "q1") -> tuple[QueueFile, ...]:
    return tuple(QueueFile("ns", "one", queue, "archive", f"{kind}_{uid}.json") for kind in ("req", "resp"))


def left(area: str, name: str = f"req_{UID}.json", *, live: bool = True) -> QueueFile:
    return QueueFile("ns", "one", "q1", area, name, live)


def loss(begin: float = 1.5, end: float = 1.6, *, queue: bool = False) -> Loss:
    return Loss("ns", "one", begin, end, "Emacs killed", queue)


def history(**fields: Any) -> History:
    """One request, submitted, run once, answered, acknowledged, archived; `fields` replace what they name."""
    good = History(
        submitted=(asked(),),
        versions=(version(1.1, 5, event="ADDED"), final()),
        ran=(ran(),),
        files=archived(),
        answers=(answer(),),
        results={UID: Digest.of(RESULT)},
        instances_ready={("ns", "one"): True},
        quiet_at=1.0,
        ended_at=10.0,
    )
    return replace(good, **fields)
