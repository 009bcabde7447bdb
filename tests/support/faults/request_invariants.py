"""The promises of docs/queue.md about requests, as pure functions: a `History` in, violations out, with evidence.

I1 one final status, never changed. I2 every accepted request ends in time. I3 begun at most as often as allowed.
I4 Succeeded means it ran and the result is the response's. I5 what is reported as never run has not run. I6 no file
is left behind. I7 no answer crosses requests, instances or namespaces. I8 it ends as without faults, but for what a
fault allows: `Interrupted` where an Emacs or its queue was lost meanwhile, and what `History.allowances` names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from tests.support.faults.history import Answer, Digest, ExpectedEnd, History, Loss, RequestVersion, SubmittedRequest
from tests.support.faults.violation import Violation

INLINE_BYTES = 32_768
"""How much of a result a status holds."""

NOT_BEGUN = "never ran"
"""Part of the message in the final status of a request that was not begun."""

OPEN_AREAS = ("requests", "processing", "responses", "tmp", "control", "progress")

_UID = re.compile(r"^(?:req|resp|log)_(.+)\.(?:nd)?json$")
_WORD = re.compile(r"[A-Za-z0-9_-]+")


def one_final_status(history: History) -> Iterator[Violation]:
    """Yield violations of I1."""
    for request in history.submitted:
        final: RequestVersion | None = None
        for version in history.versions_of.get(request.uid, ()):
            if final is None:
                final = version if version.final else None
            elif version.status != final.status:
                changed = sorted(
                    key
                    for key in {*final.status, *version.status}
                    if final.status.get(key) != version.status.get(key)
                )
                yield Violation(
                    "I1",
                    request.name,
                    f"its final status was changed: {', '.join(changed)}",
                    f"{final.reason} at version {final.resource_version}, then {version.phase} {version.reason} at "
                    f"version {version.resource_version}",
                )
                break
        answers = _answers_of(history, request)
        if len({answer.queue for answer in answers}) > 1 and not _losses(history, request, queue=True):
            where = ", ".join(f"{answer.instance}/{answer.queue}" for answer in answers)
            yield Violation("I1", request.name, "it has an answer on more than one queue", where)


def everything_ends(history: History) -> Iterator[Violation]:
    """Yield violations of I2."""
    for request in history.submitted:
        if _exempt(history, request):
            continue
        last, final = history.last(request), history.final(request)
        if last is None:
            yield Violation("I2", request.name, "it was accepted and never seen again")
        elif last.event == "UNSEEN":
            # It ended and was deleted while the recorder had no watch: its end is unknown.
            if not request.expires:
                yield Violation("I2", request.name, "it is gone, though no user deleted it", f"at {last.at:.2f} s")
        elif request.expires and final is not None and last.event != "DELETED":
            yield Violation("I2", request.name, "its time to live is over, and it is still there", final.reason)
        elif last.event == "DELETED" and not (request.expires and final is not None):
            yield Violation("I2", request.name, "it was deleted, though no user did so", f"at {last.at:.2f} s")
        elif final is None:
            yield Violation(
                "I2",
                request.name,
                f"it is not final {history.ended_at - history.healed_at:.1f} s after the last fault",
                f"{last.phase or 'no status'} {last.reason}",
            )
        elif final.at - max(history.healed_at, request.at) > history.recovery_seconds:
            late = final.at - max(history.healed_at, request.at)
            yield Violation("I2", request.name, f"it ended {late:.1f} s after the last fault", final.reason)
    for namespace in history.namespaces_left:
        yield Violation("I2", "", f"namespace {namespace} was deleted and is still there")
    for (namespace, name), ready in history.instances_ready.items():
        if not ready and namespace not in history.namespaces_deleted:
            yield Violation("I2", "", f"EfritInstance {namespace}/{name} is not ready again")


def begun_as_often_as_allowed(history: History) -> Iterator[Violation]:
    """Yield violations of I3."""
    for request in history.submitted:
        # A run that was interrupted for another request is not an attempt.
        runs, allowed = history.runs(request), request.attempts + history.preemptions(request)
        if runs > allowed:
            yield Violation(
                "I3",
                request.name,
                f"it ran {runs} times, {allowed} allowed",
                ", ".join(
                    f"pid {execution.pid} on {execution.instance}"
                    for execution in history.ran
                    if execution.marker == request.marker
                ),
            )
            continue
        final = history.final(request)
        reported = final.status.get("attempt") if final else None
        counted = runs - history.preemptions(request)
        if final and isinstance(reported, int) and reported < counted and final.status.get("startTime"):
            yield Violation("I3", request.name, f"its status reports {reported} attempts, it ran {runs} times")


def success_is_real(history: History) -> Iterator[Violation]:
    """Yield violations of I4."""
    for request in history.submitted:
        final = history.final(request)
        if final is None or final.phase != "Succeeded":
            continue
        if history.runs(request) < 1:
            yield Violation("I4", request.name, "it is Succeeded and never ran")
        yield from _result_is_the_responses(history, request, final)


def _result_is_the_responses(
    history: History, request: SubmittedRequest, final: RequestVersion
) -> Iterator[Violation]:
    reference = final.status.get("resultRef")
    whole = history.results.get(request.uid)
    answers = _answers_of(history, request)
    # Emacs itself may have had to cut the result: then the whole is nowhere.
    cut_by_emacs = next((answer.response for answer in answers if answer.response.get("truncated") is True), None)
    if reference is not None and cut_by_emacs is None:
        named = Digest(int(reference.get("bytes", -1)), str(reference.get("sha256", "")))
        if whole is not None and whole != named:
            yield Violation("I4", request.name, "resultRef does not describe what it points at", f"{named} {whole}")
    if reference is not None and cut_by_emacs is not None:
        if reference.get("sha256") or not final.status.get("truncated"):
            yield Violation("I4", request.name, "its result was cut, and resultRef says that it is whole")
        if whole is not None and whole != Digest.of(cut_by_emacs.get("result") or ""):
            yield Violation("I4", request.name, "resultRef does not point at the beginning that was answered")
    if not answers:
        if request.namespace not in history.namespaces_deleted and not _losses(history, request, queue=True):
            yield Violation("I4", request.name, "it is Succeeded, and no queue has its response")
        return
    succeeded = [answer.response for answer in answers if answer.response.get("reason") == "Succeeded"]
    if not succeeded:
        yield Violation("I4", request.name, "it is Succeeded, its response is not", str(answers[0].response)[:400])
        return
    response = succeeded[-1]
    text, inline = response.get("result") or "", final.status.get("result") or ""
    if cut(text, INLINE_BYTES) != inline:
        yield Violation("I4", request.name, "its result is not the response's", f"{inline[:80]!r} {text[:80]!r}")
    if whole is not None and cut_by_emacs is None and response.get("sha256") not in (None, whole.sha256):
        yield Violation("I4", request.name, "its whole result is not what Emacs printed", f"{whole}")


def what_never_ran_never_ran(history: History) -> Iterator[Violation]:
    """Yield violations of I5."""
    for request in history.submitted:
        final, runs = history.final(request), history.runs(request)
        # What was interrupted for another request may never run again, and its status says that it has run.
        if final is None or runs <= history.preemptions(request) or final.phase == "Succeeded":
            continue
        message = str((final.status.get("error") or {}).get("message", ""))
        unbegun = final.reason in ("Cancelled", "TimedOut") and not final.status.get("attempt")
        if final.reason == "Rejected" or unbegun or NOT_BEGUN in message:
            yield Violation("I5", request.name, f"it ran {runs} times and ended as if it had not", message)


def nothing_is_left_behind(history: History) -> Iterator[Violation]:
    """Yield violations of I6."""
    archived: dict[tuple[str, str], set[str]] = {}
    for file in history.files:
        if not file.live or file.may_stay:
            continue
        place = f"{file.instance}/{file.queue}/{file.area}/{file.name}"
        uid = match[1] if (match := _UID.match(file.name)) else ""
        owner = history.of_run(uid)
        if file.area in OPEN_AREAS:
            yield Violation("I6", owner.name if owner else "", f"{file.area}/ still has a file at the end", place)
        elif file.area == "archive":
            if owner is None or owner.namespace != file.namespace:
                yield Violation("I6", "", "a file of the archive belongs to no request", place)
            else:
                archived.setdefault((file.queue, uid), set()).add(file.name.partition("_")[0])
        else:
            yield Violation("I6", "", "a file lies where none should be", place)
    for (queue, uid), kinds in archived.items():
        owner = history.of_run(uid)
        assert owner is not None
        if kinds == {"resp"} and _declined_on_a_full_volume(history, owner):
            continue
        if kinds - {"log"} != {"req", "resp"}:
            missing = "answer" if kinds == {"req"} else "request"
            yield Violation("I6", owner.name, f"the archive has no {missing} of it", queue)
    for namespace, name in history.secrets:
        owner = history.by_uid.get(name.removeprefix("efrit-result-"))
        if owner is None or owner.namespace != namespace:
            yield Violation("I6", "", "a result Secret belongs to no request", f"{namespace}/{name}")


def _declined_on_a_full_volume(history: History, request: SubmittedRequest) -> bool:
    """Return whether it was cancelled before it arrived, where there was space for the answer alone."""
    full = any(history.hits.get(fault) for fault in ("fill a volume of", "ENOSPC", "half written, ENOSPC"))
    reasons = {answer.response.get("reason") for answer in _answers_of(history, request)}
    return full and reasons == {"Cancelled"} and history.runs(request) == 0


def nothing_crosses(history: History) -> Iterator[Violation]:
    """Yield violations of I7."""
    yield from _runs_are_on_a_selected_instance(history)
    yield from _answers_are_on_a_selected_instance(history)
    for request in history.submitted:
        final = history.final(request)
        if final is None:
            continue
        placed = final.status.get("instanceName")
        if placed and placed not in request.instances:
            yield Violation("I7", request.name, f"its status names instance {placed}", ", ".join(request.instances))
        outputs = {key: final.status.get(key) for key in ("result", "output", "messages", "error")}
        others = {submitted.marker for submitted in history.submitted} - {request.marker}
        if crossed := others & set(_WORD.findall(json.dumps(outputs)[: 4 * INLINE_BYTES])):
            yield Violation("I7", request.name, "its status has words of other requests", ", ".join(sorted(crossed)))


def _runs_are_on_a_selected_instance(history: History) -> Iterator[Violation]:
    owners = {(submitted.namespace, submitted.marker): submitted for submitted in history.submitted}
    instances_of: dict[str, set[str]] = {}
    most = {request.name: 1 + history.preemptions(request) for request in history.submitted}
    for ran in history.ran:
        owner = owners.get((ran.namespace, ran.marker))
        if owner is None:
            yield Violation("I7", "", "something ran that was not requested there", f"{ran.marker} on {ran.instance}")
        elif ran.instance not in owner.instances:
            yield Violation("I7", owner.name, f"it ran on {ran.instance}", ", ".join(owner.instances))
        else:
            instances_of.setdefault(owner.name, set()).add(ran.instance)
    for name, places in instances_of.items():
        if len(places) > most[name]:
            yield Violation("I7", name, f"it ran on more than {most[name]} instances", ", ".join(sorted(places)))


def _answers_are_on_a_selected_instance(history: History) -> Iterator[Violation]:
    for answer in history.answers:
        owner = history.of_run(answer.uid)
        place = f"{answer.namespace}/{answer.instance}"
        if owner is None or owner.namespace != answer.namespace:
            yield Violation("I7", "", "there is a response to an unknown request", f"{answer.uid} on {place}")
        elif answer.instance not in owner.instances:
            yield Violation("I7", owner.name, f"instance {answer.instance} answered it", ", ".join(owner.instances))
        elif answer.response.get("id") != answer.uid:
            yield Violation("I7", owner.name, "its response file answers another", str(answer.response.get("id")))


def ends_as_without_faults(history: History) -> Iterator[Violation]:
    """Yield violations of I8."""
    for request in history.submitted:
        final = history.final(request)
        if final is None or _exempt(history, request):
            continue
        runs, digest = history.runs(request), _digest(history, request, final)
        if _as_expected(history, request, final, runs, digest) or _allowed_by_fault(history, request, final, runs):
            continue
        expected = " or ".join(f"{end.reason} after {end.runs} runs" for end in request.ends)
        message = (final.status.get("error") or {}).get("message", "")
        yield Violation(
            "I8",
            request.name,
            f"it ended {final.reason} after {runs} runs, without faults it is {expected}",
            f"result {digest}, wanted {[end.result for end in request.ends]}; {message}; losses: "
            f"{[loss.cause for loss in _losses(history, request)]}",
        )
    yield from _no_more_interrupted_than_lost(history)


def _as_expected(
    history: History, request: SubmittedRequest, final: RequestVersion, runs: int, digest: Digest | None
) -> bool:
    spare = sum(loss.runs for loss in _losses(history, request) if not loss.held_back) if request.attempts > 1 else 0
    spare += history.preemptions(request)

    def fits(end: ExpectedEnd) -> bool:
        same_result = end.any_result or end.result == digest
        return end.reason == final.reason and same_result and any(n <= runs <= n + spare for n in end.runs)

    return any(fits(end) for end in request.ends)


def _allowed_by_fault(history: History, request: SubmittedRequest, final: RequestVersion, runs: int) -> bool:
    lost = [loss for loss in _losses(history, request) if loss.queue or not loss.graceful]
    if final.reason == "Interrupted" and runs <= request.attempts + history.preemptions(request) and lost:
        return True
    for allowance in history.allowances:
        mine = allowance.instance in ("", *request.instances) and allowance.request in ("", request.name)
        if mine and allowance.reason == final.reason and runs in allowance.runs:
            return True
    return False


def _no_more_interrupted_than_lost(history: History) -> Iterator[Violation]:
    """Yield a violation where more requests were interrupted than Emacsen ended: each runs one at a time."""
    for namespace, instance in sorted({(loss.namespace, loss.instance) for loss in history.losses}):
        losses = [loss for loss in history.losses if (loss.namespace, loss.instance) == (namespace, instance)]
        if any(loss.queue for loss in losses):
            continue
        interrupted = [
            request.name
            for request in history.submitted
            if (final := history.final(request))
            and (request.namespace, final.status.get("instanceName")) == (namespace, instance)
            and final.reason == "Interrupted"
            and not any(end.reason == "Interrupted" for end in request.ends)
        ]
        if len(interrupted) > (allowed := sum(loss.runs for loss in losses)):
            yield Violation(
                "I8",
                interrupted[-1],
                f"{len(interrupted)} requests of {instance} were interrupted, {allowed} runs can have been",
                ", ".join(interrupted),
            )


def _exempt(history: History, request: SubmittedRequest) -> bool:
    return request.deleted or request.namespace in history.namespaces_deleted


def _digest(history: History, request: SubmittedRequest, final: RequestVersion) -> Digest | None:
    if (whole := history.results.get(request.uid)) is not None:
        return whole
    if (reference := final.status.get("resultRef")) is not None:
        return Digest(int(reference.get("bytes", -1)), str(reference.get("sha256", "")))
    text = final.status.get("result")
    return None if text is None else Digest.of(text)


def _answers_of(history: History, request: SubmittedRequest) -> list[Answer]:
    return [answer for answer in history.answers if answer.uid == history.last_run(request)]


def _losses(history: History, request: SubmittedRequest, *, queue: bool = False) -> list[Loss]:
    """Return what was lost on an instance of the request while the request was open."""
    final = history.final(request)
    end = final.at if final else history.ended_at
    homes = history.homes(request)
    return [
        loss
        for loss in history.losses
        if loss.namespace == request.namespace
        and loss.instance in homes
        and loss.begin <= end
        and request.at <= loss.end
        and (loss.queue or not queue)
    ]


def cut(text: str, limit: int) -> str:
    """Return the longest prefix of `text` that is at most `limit` bytes of UTF-8."""
    data = text.encode()
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


INVARIANTS: tuple[Callable[[History], Iterator[Violation]], ...] = (
    one_final_status,
    everything_ends,
    begun_as_often_as_allowed,
    success_is_real,
    what_never_ran_never_ran,
    nothing_is_left_behind,
    nothing_crosses,
    ends_as_without_faults,
)
