"""Each promise about instances and tenants is broken by a history that breaks nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.faults.checker import check
from tests.support.faults.history import History, Loss, ObjectVersion, RequestVersion
from tests.unit.harness.support.faults.histories import failed, final, history, submitted_request, version

NEW = version(1.1, 5, event="ADDED", reason="Queued")
RUNNING = ObjectVersion(0.5, "ADDED", "efritinstances", "ns", "one", "uid-i", 1, "one", mode="Running")
SERVED = ObjectVersion(0.6, "ADDED", "statefulsets", "ns", "efrit-one", "uid-s", 2, "one", replicas=1)
LATE = final(8.0, 30)
PLAN = ObjectVersion(0.7, "ADDED", "efritplans", "ns", "p", "uid-p", 3, "one")


def deleted(at: float = 5.0, rv: int = 20) -> ObjectVersion:
    return replace(RUNNING, at=at, event="DELETED", resource_version=rv)


def scaled_down(at: float = 5.0, rv: int = 20) -> ObjectVersion:
    return replace(SERVED, at=at, event="MODIFIED", resource_version=rv, replicas=0)


def history_of(*objects: ObjectVersion, **fields: Any) -> History:
    """Return the history of a request that is open from 1.1 s to 8 s, beside these objects."""
    return history(**{"versions": (NEW, LATE), "objects": (RUNNING, SERVED, *objects), **fields})


BY_USER = replace(RUNNING, at=4.5, event="MODIFIED", resource_version=15, mode="Suspended")
AGAIN = replace(RUNNING, at=4.8, event="MODIFIED", resource_version=17, mode="Running")
EITHER = submitted_request(instances=("one", "two"))
DONE: dict[str, Any] = {"versions": (NEW, final())}
SUSPENDED = replace(PLAN, suspended=True)
ENDED = replace(PLAN, at=3.0, event="MODIFIED", resource_version=12, final=True)
HELD = Loss("ns", "one", 1.5, 1.6, "its pod template was changed", held_back=True)
INTERRUPTED: dict[str, Any] = {"versions": (NEW, failed("Interrupted")), "results": {}}
TWICE = history(
    submitted=(submitted_request(attempts=2),),
    versions=(NEW, final(attempt=2)),
    ran=(*history().ran, *history().ran),
    losses=(HELD,),
)
SILENT = version(1.1, 5, event="ADDED")
OTHER_TENANT: dict[str, Any] = {"tenant_fault_until": 2.5}


def bound(reason: str, **status: str) -> History:
    """Return the history of a request of either instance, bound as its status says, when one was deleted."""
    first = version(1.1, 5, event="ADDED", reason=reason, **status)
    return history_of(deleted(), submitted=(EITHER,), versions=(first, LATE))


def waits(*reported: RequestVersion, undisturbed: tuple[tuple[float, float], ...] = ((0.0, 60.0),)) -> History:
    """Return the history of a request that waits for 50 s, without a reason but for what is reported."""
    versions = (SILENT, *reported, final(50.0, 30))
    return history(versions=versions, undisturbed=undisturbed, healed_at=45.0, ended_at=60.0)


def reason_at(at: float) -> RequestVersion:
    return version(at, 7, phase="Pending", reason="InstanceNotReady")


KEPT: dict[str, History] = {
    # The watch of requests was slow: the end was stored before the instance went.
    "I9 a deletion is judged in order of resource versions": history_of(deleted(rv=40)),
    "I9 a suspension is judged in order of resource versions": history_of(scaled_down(rv=40)),
    "I9 work made in the moment of the deletion is a race": history_of(deleted(at=2.9)),
    "I9 a request bound to another instance is not its work": bound("Queued", instanceName="two"),
    "I9 nor is one that is bound to none": bound("Pending"),
    "I9 a user may suspend an instance with open work": history_of(BY_USER, scaled_down()),
    "I9 though they resume it": history_of(BY_USER, AGAIN, scaled_down()),
    "I9 a StatefulSet that is made without a pod suspends nothing": history(
        versions=(NEW, LATE),
        objects=(RUNNING, replace(SERVED, event="ADDED", resource_version=20, at=5.0, replicas=0)),
    ),
    "I9 a suspended plan does not keep its instance from suspension": history_of(SUSPENDED, scaled_down(), **DONE),
    "I9 a plan that is over keeps nothing": history_of(PLAN, ENDED, deleted(), **DONE),
    "I10 another loss explains an interruption": history(
        **INTERRUPTED, losses=(HELD, replace(HELD, held_back=False, cause="Emacs killed"))
    ),
    "I10 another loss gives a second attempt": replace(TWICE, losses=(replace(HELD, held_back=False),)),
    "I11 a reason is reported in time": waits(reason_at(5.0)),
    "I11 counts only while a controller led undisturbed": waits(undisturbed=((0.0, 25.0), (34.0, 52.0))),
    "I12 what ended before the other tenant's trouble was over": history(**OTHER_TENANT),
}

BROKEN: dict[str, tuple[History, str]] = {
    "an instance deleted under an open request": (history_of(deleted()), "I9"),
    "an instance suspended under an open request": (history_of(scaled_down()), "I9"),
    "a deletion when the request was no longer new": (history_of(deleted(at=3.1)), "I9"),
    "an instance deleted to which a request is bound": (bound("Queued", instanceName="one"), "I9"),
    "an instance that its user resumed long ago": (
        history_of(replace(BY_USER, at=-9.0), replace(AGAIN, at=-8.0), scaled_down()),
        "I9",
    ),
    "the instance of an open plan deleted": (history_of(PLAN, deleted(), **DONE), "I9"),
    "the instance of a suspended plan deleted": (history_of(SUSPENDED, deleted(), **DONE), "I9"),
    "the instance of an open plan suspended": (history_of(PLAN, scaled_down(), **DONE), "I9"),
    "a request that only a changed template interrupted": (history(**INTERRUPTED, losses=(HELD,)), "I10"),
    # Nor may what waits on an ephemeral queue go with its pod.
    "one on a lost queue that never ran": (
        history(**INTERRUPTED, losses=(replace(HELD, queue=True),), ran=()),
        "I10",
    ),
    "one on a lost queue": (history(**INTERRUPTED, losses=(replace(HELD, queue=True),)), "I10"),
    "a second attempt for a changed template": (TWICE, "I8"),
    "a reason that comes too late": (waits(reason_at(35.0)), "I11"),
    "no reason at all": (waits(), "I11"),
    "an end after the other tenant's trouble": (history(tenant_fault_until=1.9), "I12"),
    "the other tenant's own work left open": (history(**OTHER_TENANT, other_tenant_open=("before",)), "I12"),
}


@pytest.mark.parametrize("history", KEPT.values(), ids=KEPT)
def test_what_is_allowed_breaks_nothing(history: History) -> None:
    assert check(history) == []


@pytest.mark.parametrize(("history", "invariant"), BROKEN.values(), ids=BROKEN)
def test_what_is_not_allowed_breaks_its_invariant_alone(history: History, invariant: str) -> None:
    assert {violation.invariant for violation in check(history)} == {invariant}


@pytest.mark.parametrize("word", ["deleted", "suspended"])
def test_a_violation_names_its_request_and_what_was_done_to_its_instance(word: str) -> None:
    (violation,) = check(BROKEN[f"an instance {word} under an open request"][0])
    assert violation.request == "a"
    assert word in violation.sentence


def test_i9_a_deleted_namespace_takes_everything() -> None:
    history = history_of(deleted(), namespaces_deleted=("ns",))
    assert "I9" not in {violation.invariant for violation in check(history)}
