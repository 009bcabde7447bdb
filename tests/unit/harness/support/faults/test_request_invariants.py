"""Each invariant is broken by a history that breaks nothing else, and kept by what is allowed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.faults.checker import check
from tests.support.faults.history import Allowance, Digest, ExpectedEnd, History
from tests.unit.harness.support.faults.histories import (
    RESULT,
    SUCCEEDED,
    UID,
    answer,
    archived,
    failed,
    final,
    history,
    leftover_file,
    loss,
    ran,
    submitted_request,
    version,
)

LARGE = "x" * 40_000
OPEN = version(1.1, 5, event="ADDED")
SECOND = submitted_request("b", "uid-b", "beta")
MORTAL = submitted_request(expires=True)
RETRIED = submitted_request(attempts=2)
TWICE = history(submitted=(RETRIED,), versions=(OPEN, final(attempt=2)), ran=(ran(), ran()), losses=(loss(),))
TWO_ANSWERS = history(answers=(answer(), answer(queue="q2")))
DELETED = (OPEN, final(), final(3.0, 12, event="DELETED"))
UNSEEN = (OPEN, version(3.0, 12, event="UNSEEN"))
SLOW = history(versions=(OPEN, final(62.0)), ended_at=70.0)
INTERRUPTED = history(versions=(OPEN, failed("Interrupted")), results={})
LATE = history(versions=(OPEN, failed("TimedOut")), results={})
BOTH_INTERRUPTED = history(
    submitted=(submitted_request(), SECOND),
    versions=(OPEN, failed("Interrupted"), failed("Interrupted", uid="uid-b", name="b")),
    ran=(ran(), ran("beta")),
    losses=(loss(),),
    results={},
    answers=(),
    files=(),
)
# On a full volume what never ran may have its cancelled answer alone.
ANSWER_ALONE = history(
    submitted=(submitted_request(ends=(ExpectedEnd("Cancelled", runs=(0,)),)),),
    versions=(OPEN, failed("Cancelled", attempt=None, startTime=None)),
    answers=(answer(reason="Cancelled", result=None),),
    files=archived()[1:],
    ran=(),
    results={},
)
NAMESPACE_GONE = history(
    versions=(OPEN,),
    namespaces_deleted=("ns",),
    instances_ready={("ns", "one"): False},
    results={},
    answers=(),
    files=(),
)


def large(whole: Digest, stored: str, *, cut_by_emacs: bool = False, reported_sha256: str | None = None) -> History:
    """Return the history of a result in its Secret; the status has the beginning and `reported_sha256`."""
    sha256 = whole.sha256 if reported_sha256 is None else reported_sha256
    reference = {"secretName": "efrit-result-uid-a", "bytes": whole.size, "sha256": sha256}
    full = (Allowance("Succeeded", "its workspace was full while it ran", request="a"),)
    return history(
        submitted=(submitted_request(ends=(ExpectedEnd("Succeeded", whole),)),),
        versions=(OPEN, final(result=LARGE[:32_768], truncated=True, resultRef=reference)),
        answers=(answer(result=LARGE, truncated=cut_by_emacs, sha256=whole.sha256),),
        results={UID: Digest.of(stored)},
        secrets=(("ns", "efrit-result-uid-a"),),
        allowances=full if cut_by_emacs else (),
    )


WHOLE, LONGER = Digest.of(LARGE), Digest.of(LARGE + "and more")


def cancelled_of(*ends: str, **status: Any) -> History:
    expected = tuple(ExpectedEnd(end, runs=(0, 1)) for end in ends)
    reason = status.pop("reason", "Cancelled")
    return history(
        submitted=(submitted_request(ends=(SUCCEEDED, *expected)),),
        versions=(OPEN, failed(reason, **status)),
        results={},
    )


def with_files(*more: Any) -> History:
    return history(files=(*archived(), *more))


def answered_with(result: str) -> History:
    return history(
        versions=(OPEN, final(result=result)),
        answers=(answer(result=result, sha256=Digest.of(result).sha256),),
        results={UID: Digest.of(result)},
    )


def preempted(count: int = 1, runs: int = 2, **status: Any) -> History:
    """Return the history of a request whose first run was interrupted for another request, and settled."""
    last = f"{UID}.{count}" if count else UID
    status_fields = {"instanceName": "two", "preemption": {"count": count} if count else None, **status}
    return history(
        submitted=(submitted_request(instances=("one", "two"), attempts=2),),
        versions=(OPEN, final(**status_fields)),
        ran=(ran(), *(ran(instance="two"),) * (runs - 1)),
        files=(*archived(), *archived(f"{UID}.1", "q2")),
        answers=(answer(reason="Cancelled", result=None), answer(last, "two", "q2")),
    )


def allowing(**where: Any) -> History:
    return replace(LATE, allowances=(Allowance("TimedOut", "Emacs stood still", **where),))


KEPT: dict[str, History] = {
    "a request that ran once and was answered": history(),
    "I1 is judged in order of resource versions, whatever the order of arrival": history(
        versions=(final(2.0, 10), version(2.1, 9, phase="Running", reason="Running"))
    ),
    "I1 a deletion after the end is not a change": history(
        submitted=(submitted_request(deleted=True),), versions=DELETED
    ),
    "I1 answers on two queues of which one was lost": replace(TWO_ANSWERS, losses=(loss(queue=True),)),
    "I2 a request that goes after its end": history(submitted=(MORTAL,), versions=DELETED),
    "I2 a request that went while nobody could look, and may": history(submitted=(MORTAL,), versions=UNSEEN),
    "I2 one that had ended before nobody could look": history(
        submitted=(MORTAL,), versions=(OPEN, final(), final(3.0, 12, event="UNSEEN"))
    ),
    "I2 an end in time after the faults": replace(SLOW, healed_at=5.0),
    "I3 as many runs as attempts": TWICE,
    "I3 and one more on another member after each preemption": preempted(),
    "I4 a large result": large(WHOLE, LARGE),
    "I4 a large result that Emacs cut": large(LONGER, LARGE, cut_by_emacs=True, reported_sha256=""),
    "I5 what was cancelled while it ran": cancelled_of("Cancelled"),
    "I5 what was cancelled while it waited to run again": cancelled_of(
        "Cancelled", attempt=None, startTime=None, preemption={"count": 1}
    ),
    "I6 the space that a queue keeps for answers": with_files(leftover_file("tmp", "reserve_31")),
    "I6 the pause of a run that was killed": with_files(leftover_file("control", "pause_2")),
    "I6 nobody tidies a queue that went with its pod": with_files(leftover_file("processing", live=False)),
    "I6 a cancelled answer alone on a full volume": replace(ANSWER_ALONE, hits={"fill a volume of": 1}),
    "I8 interrupted where an Emacs was lost while the request was open": replace(INTERRUPTED, losses=(loss(),)),
    "I8 two lost Emacs interrupt two requests": replace(BOTH_INTERRUPTED, losses=(loss(), loss(1.7, 1.8))),
    "I8 a lost queue interrupts all": replace(BOTH_INTERRUPTED, losses=(loss(queue=True),)),
    "I8 a fault allows another end": allowing(instance="one"),
    "requests of a deleted namespace need not end": NAMESPACE_GONE,
}

BROKEN: dict[str, tuple[History, set[str]]] = {
    "a final status that changes": (history(versions=(OPEN, final(), final(3.0, 11, attempt=2))), {"I1"}),
    "answers on two queues": (TWO_ANSWERS, {"I1"}),
    "a request that is never final": (history(versions=(OPEN,)), {"I2"}),
    "a request that was never seen again": (history(versions=()), {"I2"}),
    "a request that vanishes": (history(versions=(OPEN, version(1.5, 6, event="DELETED"))), {"I2"}),
    "a request that vanishes after its end": (history(versions=DELETED), {"I2"}),
    "a request that stays after its time": (history(submitted=(MORTAL,)), {"I2"}),
    "a request that goes before its end": (
        history(submitted=(MORTAL,), versions=(OPEN, version(3.0, 12, event="DELETED"))),
        {"I2"},
    ),
    "a request that went while nobody could look, and may not": (history(versions=UNSEEN), {"I2"}),
    "a request that ends too late after the faults": (SLOW, {"I2"}),
    "an instance that is not ready again": (history(instances_ready={("ns", "one"): False}), {"I2"}),
    "a deleted namespace that stays": (history(namespaces_left=("ns",)), {"I2"}),
    # The result is right and the status is final once: only the counter shows it.
    "a second run without a policy": (history(ran=(ran(), ran())), {"I3", "I8"}),
    "more runs than attempts": (
        replace(TWICE, versions=(OPEN, final()), ran=(ran(),) * 3, losses=(loss(), loss(1.7, 1.8))),
        {"I3"},
    ),
    "a status that tells of fewer attempts than there were": (replace(TWICE, versions=(OPEN, final())), {"I3"}),
    "more runs than attempts and preemptions": (preempted(runs=4, attempt=3), {"I3", "I8"}),
    "two runs, none of which was interrupted": (preempted(count=0, attempt=2), {"I1", "I7", "I8"}),
    "success without a run": (history(ran=()), {"I4", "I8"}),
    "a result that is not the response's": (history(answers=(answer(result='"other"'),)), {"I4"}),
    "a large result that is not what its reference says": (large(WHOLE, LARGE[:-1]), {"I4", "I8"}),
    "a result that Emacs cut said to be whole": (large(LONGER, LARGE, cut_by_emacs=True), {"I4"}),
    "another beginning stored than the one that was answered": (
        large(LONGER, LARGE[:-1], cut_by_emacs=True, reported_sha256=""),
        {"I4"},
    ),
    "success without any response": (history(answers=(), files=()), {"I4"}),
    "success that was not answered so": (history(answers=(answer(reason="Interrupted", result=None),)), {"I4"}),
    "a run of what was cancelled before it began": (
        cancelled_of("Cancelled", attempt=None, startTime=None),
        {"I5"},
    ),
    "a run of what was rejected": (
        cancelled_of("Rejected", reason="Rejected", attempt=None, startTime=None),
        {"I5"},
    ),
    "a run of what is said to have waited too long": (
        cancelled_of("Cancelled", error={"code": "Cancelled", "message": "It waited too long and never ran."}),
        {"I5"},
    ),
    **{
        f"a file that is left in {area}": (with_files(leftover_file(area)), {"I6"})
        for area in ("requests", "processing", "responses", "tmp", "control", "progress")
    },
    **{
        f"{area}/{name}": (with_files(leftover_file(area, name)), {"I6"})
        for area, name in (
            ("tmp", "reserve_me"),
            ("tmp", "reserve_32"),
            ("requests", "reserve_1"),
            ("control", "pause"),
        )
    },
    "an archived file of nobody": (with_files(*archived("uid-x")), {"I6"}),
    "half a pair in the archive": (history(files=archived()[:1]), {"I6"}),
    "a cancelled answer alone": (ANSWER_ALONE, {"I6"}),
    "a result Secret of nobody": (history(secrets=(("ns", "efrit-result-uid-x"),)), {"I6"}),
    "a run on another instance": (history(ran=(ran(instance="two"),)), {"I7"}),
    "a run that nobody asked for": (history(ran=(ran(), ran("stranger"))), {"I7"}),
    "one request on two instances of a selector": (
        replace(
            TWICE,
            submitted=(submitted_request(instances=("one", "two"), attempts=2),),
            ran=(ran(), ran(instance="two")),
        ),
        {"I7"},
    ),
    "a response on an instance that was not asked": (history(answers=(answer(instance="two"),)), {"I7"}),
    "a response that answers another": (history(answers=(answer(id="uid-b"),)), {"I7"}),
    "a status with the words of another request": (
        history(
            submitted=(submitted_request(), SECOND),
            versions=(OPEN, final(output="beta"), final(uid="uid-b", name="b", result='"beta"')),
            ran=(ran(), ran("beta")),
            files=(*archived(), *archived("uid-b")),
            answers=(answer(), answer("uid-b", result='"beta"', sha256=Digest.of('"beta"').sha256)),
            results={UID: Digest.of(RESULT), "uid-b": Digest.of('"beta"')},
        ),
        {"I7"},
    ),
    "another result than without faults": (answered_with('"gamma"'), {"I8"}),
    "interrupted though no Emacs was lost": (INTERRUPTED, {"I8"}),
    "interrupted by an Emacs that was lost after its end": (replace(INTERRUPTED, losses=(loss(5.0, 6.0),)), {"I8"}),
    "interrupted by an Emacs that was lost before it": (replace(INTERRUPTED, losses=(loss(0.1, 0.9),)), {"I8"}),
    "two requests interrupted by one lost Emacs": (BOTH_INTERRUPTED, {"I8"}),
    "an end that nothing allows": (LATE, {"I8"}),
    "an end that is allowed on another instance": (allowing(instance="two"), {"I8"}),
    "an end that is allowed to another request": (allowing(request="b"), {"I8"}),
    "two runs in a deleted namespace": (replace(NAMESPACE_GONE, ran=(ran(), ran())), {"I3"}),
}


@pytest.mark.parametrize("history", KEPT.values(), ids=KEPT)
def test_what_is_allowed_breaks_nothing(history: History) -> None:
    assert check(history) == []


@pytest.mark.parametrize(("history", "invariants"), BROKEN.values(), ids=BROKEN)
def test_what_is_not_allowed_breaks_its_invariant_alone(history: History, invariants: set[str]) -> None:
    assert {violation.invariant for violation in check(history)} == invariants


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a final status that changes", "attempt"),
        ("a request that is never final", "not final"),
        ("a request that was never seen again", "it was accepted and never seen again"),
        ("a file that is left in tmp", ""),
    ],
)
def test_a_violation_names_its_request_and_says_what_was_wrong(name: str, sentence: str) -> None:
    (violation,) = check(BROKEN[name][0])
    assert violation.request == "a"
    assert sentence in violation.sentence
