"""Which instance is recorded for a request that names none: the first one, and another where its node is lost."""

from __future__ import annotations

from efrit.api import RequestReason
from efrit.controller.decide import answers, placement
from efrit.controller.decide.actions import Action, FindSession, Wake
from efrit.controller.decide.case import Case
from efrit.controller.decide.views import InstanceSnapshot
from efrit.controller.decide.waiting import open_status, wait


def bind(case: Case) -> list[Action]:
    """Record the instance that gets the request; one that sleeps wakes up because the request is its own."""
    snapshot, request = case.snapshot, case.snapshot.request
    if request.spec.session is not None and snapshot.session_home != "":
        return _bind_to_session(case, request.spec.session.id)
    ready, asleep = placement.choose(snapshot.candidates), placement.to_wake(snapshot.candidates)
    chosen = ready or next(iter(asleep), None)
    if chosen is None:
        return wait(case, RequestReason.INSTANCE_NOT_READY, _no_match(case), [])
    return _bound(case, chosen)


def _no_match(case: Case) -> str:
    """Return why no instance gets the request: none matches, or none of those that do is ready."""
    spec, count = case.snapshot.request.spec, len(case.snapshot.candidates)
    if count:
        return f"None of the EfritInstances that match is ready ({count} match): waiting for one."
    if spec.pool_ref is not None:
        return f"There is no EfritInstance of the pool {spec.pool_ref.name}: waiting for one."
    return "No EfritInstance has the labels of spec.selector: waiting for one."


def move_from_lost_node(case: Case) -> list[Action] | None:
    """Record another instance where the node of the recorded one is lost, if the request was never handed over.

    A session stays where it is: no other instance knows it.
    """
    request, target = case.snapshot.request, case.snapshot.target
    if target is None or not placement.node_is_lost(target) or request.spec.instance_ref is not None:
        return None
    if request.spec.session is not None or case.may_be_handed_over:
        return None
    chosen = placement.choose(each for each in case.snapshot.candidates if each.instance.key != target.instance.key)
    if chosen is None:
        return None
    name = target.instance.metadata.name
    return _bound(case, chosen, f"Bound to another instance: the node of EfritInstance {name} is lost.")


def _bound(case: Case, chosen: InstanceSnapshot, message: str = "Bound to an instance.") -> list[Action]:
    update = {"instance_name": chosen.instance.metadata.name}
    status = open_status(case, RequestReason.PENDING, message, update)
    bound = answers.patch(case.snapshot.request, status)
    return [bound] if chosen.accepts_requests else [bound, Wake(chosen.instance.key)]


def _bind_to_session(case: Case, session: str) -> list[Action]:
    """Record the instance that has the session, ready or not: no other knows it."""
    snapshot, request = case.snapshot, case.snapshot.request
    home = snapshot.session_home
    if home is None:
        return [FindSession(request.key, request.metadata.uid, session)]
    for each in snapshot.candidates:
        if each.instance.metadata.name == home:
            return _bound(case, each)
    return answers.never_ran(
        request,
        RequestReason.REJECTED,
        f"Session {session} is on EfritInstance {home}, which is gone or is none of those asked for: name it with "
        "spec.instanceRef, or begin a new session.",
        case.now,
    )
