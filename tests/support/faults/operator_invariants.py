"""The promises about instances, and about one tenant beside another, as pure functions of a `History`.

I9 an instance with open work is never deleted or suspended by the operator. I10 a held change never interrupts.
I11 no request is open for long without a reason in its status. I12 a fault of one tenant does not delay another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.support.faults.history import REMOVED, History, Loss, ObjectVersion, RequestVersion, SubmittedRequest
from tests.support.faults.violation import Violation

CREATED_BEFORE_SECONDS = 2.0
"""Requests created later than this before a deletion race with it: no precondition can exclude that."""
USER_SECONDS = 5.0
"""How long after a user's own suspension its effect may be observed."""
REASON_SECONDS = 30.0
"""How long, undisturbed, a request may be open without a reason: a second or two on an idle machine."""


def open_work_keeps_its_instance(history: History) -> Iterator[Violation]:
    """Yield violations of I9, judged in the order of the API server's resource versions."""
    for gone in history.objects:
        if gone.namespace in history.namespaces_deleted or gone.name in history.deleted_by_users:
            continue
        if gone.kind == "efritinstances" and gone.event == "DELETED":
            yield from _with_work(history, gone, "deleted")
    for suspended in _suspensions(history):
        yield from _with_work(history, suspended, "suspended")


def _with_work(history: History, event: ObjectVersion, done: str) -> Iterator[Violation]:
    evidence = f"at {event.at:.2f} s, version {event.resource_version} of {event.kind} {event.name}"
    for request in history.submitted:
        before = _before(history.versions_of.get(request.uid, ()), event.resource_version)
        if before is None or before.final or before.event in REMOVED or request.namespace != event.namespace:
            continue
        only = request.instances[0] if len(request.instances) == 1 and not request.pool else ""
        bound_instance = before.status.get("instanceName") or only
        if bound_instance == event.instance and event.at - request.at >= CREATED_BEFORE_SECONDS:
            sentence = f"its instance {event.instance} was {done} while it was open"
            yield Violation("I9", request.name, sentence, f"{evidence}; the request was {before.reason or 'new'}")
    plans = [
        version for version in history.objects if version.kind == "efritplans" and version.instance == event.instance
    ]
    for uid in dict.fromkeys(plan.uid for plan in plans):
        versions = [
            version for version in plans if version.uid == uid and version.resource_version < event.resource_version
        ]
        if not versions or event.at - versions[0].at < CREATED_BEFORE_SECONDS:
            continue
        last = max(versions, key=lambda version: version.resource_version)
        is_open = not last.final and last.event not in REMOVED
        # A suspended plan needs its volumes, not its pod.
        if is_open and (done == "deleted" or not last.suspended):
            sentence = f"instance {event.instance} was {done} while plan {last.name} was open"
            yield Violation("I9", "", sentence, evidence)


def _before(versions: tuple[RequestVersion, ...], resource_version: int) -> RequestVersion | None:
    earlier = [version for version in versions if version.resource_version < resource_version]
    return earlier[-1] if earlier else None


def _suspensions(history: History) -> Iterator[ObjectVersion]:
    """Yield each version of a StatefulSet that removes its pod though no user has suspended the instance."""
    instances = [version for version in history.objects if version.kind == "efritinstances"]
    before: dict[str, ObjectVersion] = {}
    sets = (version for version in history.objects if version.kind == "statefulsets")
    for stateful_set in sorted(sets, key=lambda version: version.resource_version):
        last, before[stateful_set.uid] = before.get(stateful_set.uid), stateful_set
        if stateful_set.event in REMOVED or stateful_set.replicas or last is None or not last.replicas:
            continue
        own = [
            one
            for one in instances
            if (one.namespace, one.name) == (stateful_set.namespace, stateful_set.instance)
            and one.at <= stateful_set.at
        ]
        by_user = any(one.mode == "Suspended" and stateful_set.at - _until(own, one) < USER_SECONDS for one in own)
        if not by_user and own and own[-1].event not in REMOVED:
            yield stateful_set


def _until(versions: list[ObjectVersion], one: ObjectVersion) -> float:
    """Return when a version was replaced by the next; for the last one, never."""
    later = [version.at for version in versions if version.resource_version > one.resource_version]
    return min(later, default=float("inf"))


def held_changes_interrupt_nothing(history: History) -> Iterator[Violation]:
    """Yield violations of I10: not even what waits on a queue in the pod may be lost with it."""
    for request in history.submitted:
        final = history.final(request)
        if final is None or final.reason != "Interrupted" or any(e.reason == "Interrupted" for e in request.ends):
            continue
        losses = [loss for loss in history.losses if _meets(loss, request, final.at)]
        if losses and all(loss.held_back for loss in losses):
            evidence = f"{', '.join(loss.cause for loss in losses)}; it ran {history.runs(request)} times"
            yield Violation("I10", request.name, "a change of the template alone interrupted it", evidence)


def _meets(loss: Loss, request: SubmittedRequest, end: float) -> bool:
    affected = loss.namespace == request.namespace and loss.instance in request.instances
    return affected and loss.begin <= end and request.at <= loss.end


def waits_have_a_reason(history: History) -> Iterator[Violation]:
    """Yield violations of I11, counted only while a controller led undisturbed."""
    for request in history.submitted:
        if request.deleted or request.namespace in history.namespaces_deleted:
            continue
        versions = history.versions_of.get(request.uid, ())
        reported = next(
            (version.at for version in versions if version.reason or version.event in REMOVED), history.ended_at
        )
        for begin, end in history.undisturbed:
            silent = min(end, reported) - max(begin, request.at)
            if silent > REASON_SECONDS:
                sentence = f"it was open for {silent:.1f} s without a reason in its status"
                yield Violation(
                    "I11", request.name, sentence, f"while the controller led undisturbed from {begin:.1f} s"
                )
                break


def tenants_are_apart(history: History) -> Iterator[Violation]:
    """Yield violations of I12: this tenant's requests must end while the other tenant's fault lasts."""
    if history.tenant_fault_until is None:
        return
    for request in history.submitted:
        final = history.final(request)
        if request.deleted or request.expires:
            continue
        if final is None or final.at > history.tenant_fault_until:
            how = "never" if final is None else f"only at {final.at:.1f} s"
            sentence = f"it ended {how}, not while the other tenant's trouble lasted"
            yield Violation("I12", request.name, sentence, f"until {history.tenant_fault_until:.1f} s")
    for name in history.other_tenant_open:
        yield Violation("I12", "", f"request {name} of the other tenant is still open though its trouble is over")


INVARIANTS: tuple[Callable[[History], Iterator[Violation]], ...] = (
    open_work_keeps_its_instance,
    held_changes_interrupt_nothing,
    waits_have_a_reason,
    tenants_are_apart,
)
