"""Each promise about instances and tenants is broken by a history that breaks nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.faults.checker import check
from tests.support.faults.history import History, Loss, ObjectVersion
from tests.support.faults.violation import Violation
from tests.unit.chaos.histories import failed, final, history, submitted_request, version

NEW = version(1.1, 5, event="ADDED", reason="Queued")
RUNNING = ObjectVersion(0.5, "ADDED", "efritinstances", "ns", "one", "uid-i", 1, "one", mode="Running")
SERVED = ObjectVersion(0.6, "ADDED", "statefulsets", "ns", "efrit-one", "uid-s", 2, "one", replicas=1)
LATE = final(8.0, 30)
PLAN = ObjectVersion(0.7, "ADDED", "efritplans", "ns", "p", "uid-p", 3, "one")


def broken(found: History) -> set[str]:
    return {each.invariant for each in check(found)}


def only(found: History) -> Violation:
    (violation,) = check(found)
    return violation


def deleted(at: float = 5.0, rv: int = 20) -> ObjectVersion:
    return replace(RUNNING, at=at, event="DELETED", resource_version=rv)


def scaled_down(at: float = 5.0, rv: int = 20) -> ObjectVersion:
    return replace(SERVED, at=at, event="MODIFIED", resource_version=rv, replicas=0)


def seen(*objects: ObjectVersion, **fields: Any) -> History:
    """Return the history of a request that is open from 1.1 s to 8 s, beside these objects."""
    return history(**{"versions": (NEW, LATE), "objects": (RUNNING, SERVED, *objects), **fields})


def test_i9_an_instance_that_is_deleted_under_an_open_request() -> None:
    found = only(seen(deleted()))
    assert (found.invariant, found.request) == ("I9", "a")
    assert "deleted" in found.sentence


def test_i9_an_instance_that_is_suspended_under_an_open_request() -> None:
    found = only(seen(scaled_down()))
    assert (found.invariant, found.request) == ("I9", "a")
    assert "suspended" in found.sentence


def test_i9_is_judged_in_order_of_resource_versions() -> None:
    # The watch of requests was slow: the end was stored before the instance went.
    assert check(seen(deleted(rv=40))) == []
    assert check(seen(scaled_down(rv=40))) == []


def test_i9_work_made_in_the_moment_of_the_deletion_is_a_race() -> None:
    assert check(seen(deleted(at=2.9))) == []
    assert broken(seen(deleted(at=3.1))) == {"I9"}


def test_i9_a_request_bound_to_another_instance_is_not_its_work() -> None:
    either = submitted_request(instances=("one", "two"))
    elsewhere = version(1.1, 5, event="ADDED", reason="Queued", instanceName="two")
    unbound = version(1.1, 5, event="ADDED", reason="Pending")
    bound = version(1.1, 5, event="ADDED", reason="Queued", instanceName="one")
    assert check(seen(deleted(), submitted=(either,), versions=(elsewhere, LATE))) == []
    assert check(seen(deleted(), submitted=(either,), versions=(unbound, LATE))) == []
    assert broken(seen(deleted(), submitted=(either,), versions=(bound, LATE))) == {"I9"}


def test_i9_a_user_may_suspend_an_instance_with_open_work() -> None:
    by_user = replace(RUNNING, at=4.5, event="MODIFIED", resource_version=15, mode="Suspended")
    again = replace(RUNNING, at=4.8, event="MODIFIED", resource_version=17, mode="Running")
    assert check(seen(by_user, scaled_down())) == []
    assert check(seen(by_user, again, scaled_down())) == []
    long_ago = (replace(by_user, at=-9.0), replace(again, at=-8.0))
    assert broken(seen(*long_ago, scaled_down())) == {"I9"}


def test_i9_a_statefulset_that_is_made_without_a_pod_suspends_nothing() -> None:
    made = replace(SERVED, event="ADDED", resource_version=20, at=5.0, replicas=0)
    assert check(history(versions=(NEW, LATE), objects=(RUNNING, made))) == []


def test_i9_a_suspended_plan_keeps_its_instance_from_deletion_and_an_open_one_also_from_suspension() -> None:
    done: dict[str, Any] = {"versions": (NEW, final())}
    suspended = replace(PLAN, suspended=True)
    assert broken(seen(PLAN, deleted(), **done)) == {"I9"}
    assert broken(seen(suspended, deleted(), **done)) == {"I9"}
    assert broken(seen(PLAN, scaled_down(), **done)) == {"I9"}
    assert check(seen(suspended, scaled_down(), **done)) == []
    ended = replace(PLAN, at=3.0, event="MODIFIED", resource_version=12, final=True)
    assert check(seen(PLAN, ended, deleted(), **done)) == []


def test_i9_a_deleted_namespace_takes_everything() -> None:
    assert "I9" not in broken(seen(deleted(), namespaces_deleted=("ns",)))


def test_i10_a_request_that_only_a_changed_template_interrupted() -> None:
    held = Loss("ns", "one", 1.5, 1.6, "its pod template was changed", held=True)
    found: dict[str, Any] = {"versions": (NEW, failed("Interrupted")), "results": {}}
    assert only(history(**found, losses=(held,))).invariant == "I10"
    # Nor may what waits on an ephemeral queue go with its pod.
    lost = replace(held, queue=True)
    assert broken(history(**found, losses=(lost,), ran=())) == {"I10"}
    assert broken(history(**found, losses=(lost,))) == {"I10"}
    # Another loss explains it.
    assert check(history(**found, losses=(held, replace(held, held=False, cause="Emacs killed")))) == []


def test_i10_a_changed_template_gives_no_second_attempt() -> None:
    held = Loss("ns", "one", 1.5, 1.6, "its pod template was changed", held=True)
    twice = history(
        submitted=(submitted_request(attempts=2),),
        versions=(NEW, final(attempt=2)),
        ran=(*history().ran, *history().ran),
        losses=(held,),
    )
    assert broken(twice) == {"I8"}
    assert check(replace(twice, losses=(replace(held, held=False),))) == []


@pytest.mark.parametrize(("reason_at", "kept"), [(5.0, True), (35.0, False)])
def test_i11_a_request_that_waits_without_a_reason(reason_at: float, kept: bool) -> None:
    silent = version(1.1, 5, event="ADDED")
    reported = version(reason_at, 7, phase="Pending", reason="InstanceNotReady")
    waits = history(
        versions=(silent, reported, final(50.0, 30)), undisturbed=((0.0, 60.0),), healed_at=45.0, ended_at=60.0
    )
    assert broken(waits) == (set() if kept else {"I11"})


def test_i11_counts_only_while_a_controller_led_undisturbed() -> None:
    silent = version(1.1, 5, event="ADDED")
    spans = ((0.0, 25.0), (34.0, 52.0))
    waits = history(versions=(silent, final(50.0, 30)), undisturbed=spans, healed_at=45.0, ended_at=60.0)
    assert check(waits) == []
    assert broken(replace(waits, undisturbed=((0.0, 60.0),))) == {"I11"}


def test_i12_what_ended_only_after_the_other_tenants_trouble() -> None:
    assert check(history(tenant_fault_until=2.5)) == []
    assert only(history(tenant_fault_until=1.9)).invariant == "I12"


def test_i12_the_other_tenants_own_work_ends_once_its_trouble_is_over() -> None:
    assert only(history(tenant_fault_until=2.5, other_tenant_open=("before",))).invariant == "I12"
