"""Each promise about pools and claims is broken by a history that breaks nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.faults.checker import check
from tests.support.faults.history import Eviction, History, Note, ObjectVersion, RequestVersion, SubmittedRequest
from tests.support.faults.pool_invariants import IDLE_SECONDS
from tests.support.faults.pool_workload import PoolSpec
from tests.support.faults.schedule import Op
from tests.unit.harness.support.faults.histories import SUCCEEDED, failed, version

CREW = PoolSpec("crew", 1, 1, max_load=1)
END = 60.0
UNDISTURBED = ((0.0, END),)


def pool(at: float = 0.1, rv: int = 1, largest: int = 1, revision: str = "r1") -> ObjectVersion:
    return ObjectVersion(
        at,
        "MODIFIED",
        "efritpools",
        "ns",
        "crew",
        "uid-p",
        rv,
        "",
        revision=revision,
        smallest=largest,
        largest=largest,
    )


def member(name: str, at: float, rv: int, event: str = "ADDED", **fields: Any) -> ObjectVersion:
    made = ObjectVersion(
        at, event, "efritinstances", "ns", name, f"uid-{name}", rv, name, owner="EfritPool/crew", owner_uid="uid-p"
    )
    return replace(made, **{"ready": True, "revision": "r1", **fields})


def claim(at: float, rv: int, phase: str = "", instance: str = "", **fields: Any) -> ObjectVersion:
    held = {"phase": phase, "instance_uid": f"uid-{instance}" if instance else "", "final": phase == "Released"}
    event = "MODIFIED" if phase else "ADDED"
    made = ObjectVersion(at, event, "efritclaims", "ns", "ada", "uid-ada", rv, instance)
    return replace(made, **{**held, **fields})


def taken(name: str, at: float, rv: int, owner: str = "ada") -> ObjectVersion:
    return member(name, at, rv, "MODIFIED", owner=f"EfritClaim/{owner}", owner_uid=f"uid-{owner}")


def request(name: str, flow: str = "a", at: float = 1.0) -> SubmittedRequest:
    # Deleted by its user: what becomes of it is not judged here.
    return SubmittedRequest(
        "ns", name, f"uid-{name}", at, name, ("m1",), (SUCCEEDED,), deleted=True, pool="crew", flow=flow
    )


def waits(name: str, at: float, rv: int) -> RequestVersion:
    return version(at, rv, uid=f"uid-{name}", name=name, event="ADDED", reason="WaitingForMember")


def given(name: str, at: float, rv: int, to: str = "m1") -> RequestVersion:
    return version(at, rv, uid=f"uid-{name}", name=name, reason="Queued", instanceName=to)


def gone(name: str, at: float, rv: int) -> RequestVersion:
    return version(at, rv, uid=f"uid-{name}", name=name, event="DELETED", reason="Queued", instanceName="m1")


def history(*objects: ObjectVersion, **fields: Any) -> History:
    """Return the history of a pool of one member, and of what else there was."""
    first = (pool(), member("m1", 0.2, 2))
    made = History(submitted=(), objects=(*first, *objects), pool=CREW, undisturbed=UNDISTURBED, ended_at=END)
    return replace(made, **fields)


def line(*order: str, weights: dict[str, int] | None = None, most: int = 0, spec: PoolSpec = CREW) -> History:
    """Return the history of six requests of each of the flows a and b, given out in the order of these flows."""
    requests = [request(f"{flow}{number}", flow) for flow in "ab" for number in range(6)]
    versions: list[RequestVersion] = [waits(one.name, 1.0, 10 + place) for place, one in enumerate(requests)]
    left = {flow: [one.name for one in requests if one.flow == flow] for flow in "ab"}
    for place, flow in enumerate(order):
        name, at, rv = left[flow].pop(0), 4.0 + place, 100 + 2 * place
        versions.append(given(name, at, rv))
        if not most:
            versions.append(gone(name, at + 0.5, rv + 1))
    chosen = replace(spec, weights=weights or {}, max_running=most, max_load=12 if most else 1)
    return history(submitted=tuple(requests), versions=tuple(versions), pool=chosen, ended_at=20.0)


def talks(name: str = "r", at: float = 1.0, session: str = "s1") -> SubmittedRequest:
    return replace(request(name, "s", at), session=session)


def began(at: float = 0.5, rv: int = 5, to: str = "m1") -> RequestVersion:
    """Return the version of a request that begins session s1."""
    return version(at, rv, uid="uid-first", name="first", reason="Running", instanceName=to, session={"id": "s1"})


def continued(at: float, rv: int, to: str, **status: Any) -> RequestVersion:
    return version(at, rv, uid="uid-r", name="r", reason="Queued", instanceName=to, **status)


def session(*versions: RequestVersion, objects: tuple[ObjectVersion, ...] = (), wait: int = 0) -> History:
    """Return the history of a request that goes on with session s1, in a pool that waits so long for its member."""
    crew = replace(CREW, affinity="Preferred" if wait else "Required", affinity_wait=wait)
    both = (request("first", "s", 0.4), talks())
    objects = (pool(0.2, 3, largest=2), member("m2", 0.3, 4), *objects)
    return history(*objects, submitted=both, versions=(began(), *versions), pool=crew)


def running(name: str, at: float, rv: int, to: str = "m1") -> RequestVersion:
    return version(at, rv, uid=f"uid-{name}", name=name, phase="Running", reason="Running", instanceName=to)


def broken(at: float = 1.0, rv: int = 5, size: int = 1) -> ObjectVersion:
    return replace(pool(at, rv, largest=size, revision="r2"), broken=True)


def preempted(by: str = "urgent", preempts: bool = True, more: tuple[str, ...] = (), **fields: Any) -> History:
    """Return the history of a request that is interrupted for one of priority 5, and of others that are too."""
    count = fields.pop("count", 1)
    victims = [replace(request(name), **{"attempts": 2, **fields}) for name in ("r", *more)]
    urgent = replace(request("urgent", at=0.5), priority=5)
    mark = {"inProgress": True, "byUID": f"uid-{by}", "byName": by, "count": count}
    versions = [given("urgent", 0.6, 9)]
    versions += [given(victim.name, 1.1, 10 + place) for place, victim in enumerate(victims)]
    versions += [replace(one, at=2.0, status={**one.status, "preemption": mark}) for one in versions[1:]]
    numbered = tuple(replace(one, resource_version=20 + place) for place, one in enumerate(versions))
    return history(submitted=(urgent, *victims), versions=numbered, pool=replace(CREW, preempts=preempts))


LEFT = {"sessionLeft": "s1"}
EVICTED: dict[str, Any] = {"submitted": (request("r"),), "evictions": (Eviction(30.0, "m1"),)}
ONE = {"submitted": (request("r"),)}
LATE = 2.0 + 1.5 * IDLE_SECONDS
BUSY = {"submitted": (request("r"), request("other"))}
OTHER_RUNS = (waits("other", 1.0, 10), given("other", 1.1, 11))


def few_wait(others: int, *later: RequestVersion) -> History:
    """Return the history of a request that comes while others of its flow wait, of which two may."""
    names = [f"o{number}" for number in range(others)]
    versions = [waits(name, 1.0, 10 + place) for place, name in enumerate(names)]
    return history(
        submitted=tuple(request(name) for name in [*names, "r"]),
        versions=(*versions, waits("r", 1.5, 30), *later),
        pool=replace(CREW, max_pending=2),
        undisturbed=((0.0, 0.5), (1.0, 4.0)),
    )


def turned_away() -> RequestVersion:
    return failed("Rejected", 1.6, 31, uid="uid-r", name="r", instanceName=None, startTime=None, attempt=None)


KEPT: dict[str, History] = {
    "I13 a pool that grows by its spec": history(pool(1.0, 5, largest=2), member("m2", 1.1, 6)),
    "I13 a member made while the smaller size is on its way": history(
        pool(1.0, 5, largest=2), pool(1.1, 6, largest=1), member("m2", 1.2, 7)
    ),
    "I13 one more while a template is rolled out": history(
        pool(1.0, 5, revision="r2"), member("m2", 1.1, 6, revision="r2")
    ),
    "I13 one that takes the place of a claimed one": history(taken("m1", 1.0, 5), member("m2", 1.1, 6)),
    "I13 and of one that a claim is about to have": history(claim(1.0, 5), member("m2", 1.1, 6), taken("m1", 1.2, 7)),
    "I13 one that takes the place of a deleted one": history(member("m1", 1.0, 5, "DELETED"), member("m2", 1.1, 6)),
    "I13 one that comes back from its claim is not made": history(
        taken("m1", 1.0, 5), member("m2", 1.1, 6), member("m1", 2.0, 7, "MODIFIED")
    ),
    "I13 one that was to be made when another came back": history(
        taken("m1", 1.0, 5), member("m1", 2.0, 6, "MODIFIED"), member("m2", 2.1, 7)
    ),
    "I14 the member of a claim": history(claim(1.0, 5), taken("m1", 1.1, 6), claim(1.2, 7, "Bound", "m1")),
    "I14 one after the other": history(
        claim(1.0, 5),
        taken("m1", 1.1, 6),
        claim(1.2, 7, "Bound", "m1"),
        member("m1", 2.0, 8, "MODIFIED"),
        taken("m1", 2.1, 9, "bob"),
        claim(2.2, 10, "Bound", "m1", uid="uid-bob", name="bob"),
        # The final status of the first comes after its member has gone back.
        claim(2.3, 11, "Released", "m1"),
    ),
    "I15 a request is given out soon": history(
        **ONE, versions=(waits("r", 1.0, 10), given("r", LATE - IDLE_SECONDS, 11))
    ),
    "I15 a member that is full has no room": history(
        **BUSY, versions=(*OTHER_RUNS, waits("r", 1.0, 12), given("r", LATE, 20))
    ),
    "I15 nor has one that is kept for a claim": history(
        claim(0.9, 5), **ONE, versions=(waits("r", 1.0, 10), given("r", LATE, 20))
    ),
    "I15 a member that is one too many takes nothing": history(
        pool(0.9, 5, largest=0), **ONE, versions=(waits("r", 1.0, 10), given("r", LATE, 20))
    ),
    "I15 nor does one of a former template": history(
        pool(0.9, 5, revision="r2"), **ONE, versions=(waits("r", 1.0, 10), given("r", LATE, 20))
    ),
    "I15 nor one that is not Ready": history(
        member("m1", 0.9, 5, "MODIFIED", ready=False), **ONE, versions=(waits("r", 1.0, 10), given("r", LATE, 20))
    ),
    "I15 counts only while a controller led": history(
        **ONE,
        versions=(waits("r", 1.0, 10), given("r", LATE, 20)),
        undisturbed=((0.0, 8.0), (12.0, END)),
    ),
    "I16 flows take turns": line(*"abababab"),
    "I16 one that is alone has all": line(*"aaaaaa"[:3]),
    "I16 by their weights": line(*"abbabbab", weights={"b": 2}),
    "I16 as many as may run": line(*"aabb", most=2),
    "I17 a claim that is released": history(
        claim(1.0, 5), taken("m1", 1.1, 6), claim(1.2, 7, "Bound", "m1"), claim(2.0, 8, "Released", "m1")
    ),
    "I18 a request on the member with its session": session(continued(1.1, 10, "m1", session={"id": "s1"})),
    "I18 one that has waited as long as the pool says": session(continued(6.0, 10, "m2", **LEFT), wait=5),
    "I18 one whose member is gone": session(
        continued(1.2, 11, "m2", **LEFT), objects=(member("m1", 1.1, 10, "DELETED"),), wait=50
    ),
    "I18 one whose member a claim has": session(
        continued(1.2, 11, "m2", **LEFT), objects=(taken("m1", 1.1, 10),), wait=50
    ),
    "I18 another session begins there": session(
        continued(6.0, 10, "m2", **LEFT), continued(6.1, 11, "m2", **LEFT, session={"id": "s2"}), wait=5
    ),
    "I19 a broken template that makes a member": history(
        broken(), member("m2", 1.1, 6, revision="r2", broken=True, ready=False)
    ),
    "I19 and takes one that may be unavailable": history(
        broken(), member("m1", 1.1, 6, "DELETED"), pool=replace(CREW, unavailable=1)
    ),
    "I19 one that a user deletes meanwhile": history(
        broken(), member("m1", 1.1, 6, "DELETED"), deleted_by_users=("m1",)
    ),
    "I19 and beside one that a claim takes, one that was on its way": history(
        pool(0.8, 3, largest=2),
        member("m2", 0.9, 4),
        broken(size=2),
        taken("m2", 1.1, 6),
        member("m1", 1.2, 7, "DELETED"),
    ),
    "I20 an eviction of a member with shorter work": history(
        **EVICTED, versions=(given("r", 20.0, 10), running("r", 20.1, 11))
    ),
    "I20 one whose work has ended": history(**EVICTED, versions=(running("r", 2.0, 10), gone("r", 29.0, 12))),
    "I20 one that was hit": history(
        **EVICTED, versions=(running("r", 2.0, 10),), notes=(Note(20.0, "fault", "SIGKILL", "", "m1", True),)
    ),
    "I20 one while no controller led": history(
        **EVICTED, versions=(running("r", 2.0, 10),), undisturbed=((0.0, 10.0),)
    ),
    "I21 work that is interrupted for urgent work": preempted(),
    "I21 as it may be five times": preempted(count=5),
    "I21 and for what nobody knows any more": preempted("stranger"),
    "I22 one that is turned away beside as many as may wait": few_wait(2, turned_away()),
    "I22 one that is given out beside more than may wait for a moment": few_wait(4, given("r", 2.0, 32)),
    "I17 a claim whose member a user has deleted": history(
        taken("m1", 1.1, 6),
        claim(1.2, 7, "Bound", "m1"),
        claim(2.0, 8, "Failed", "m1"),
        deleted_by_users=("m1",),
    ),
}
BROKEN: dict[str, tuple[History, str]] = {
    "a member beyond the size": (history(member("m2", 1.1, 6)), "I13"),
    "a member for a size of long ago": (
        history(pool(1.0, 5, largest=2), pool(1.1, 6, largest=1), member("m2", 30.0, 7)),
        "I13",
    ),
    "two members made when one came back": (
        history(taken("m1", 1.0, 5), member("m1", 2.0, 6, "MODIFIED"), member("m2", 2.1, 7), member("m3", 2.2, 8)),
        "I13",
    ),
    "a member made long after another came back": (
        history(taken("m1", 1.0, 5), member("m1", 2.0, 6, "MODIFIED"), member("m2", 5.0, 7)),
        "I13",
    ),
    "two more while a template is rolled out": (
        history(
            pool(1.0, 5, revision="r2"), member("m2", 1.1, 6, revision="r2"), member("m3", 1.2, 7, revision="r2")
        ),
        "I13",
    ),
    "a pool that does not come to rest": (history(pool_unsettled="EfritPool crew: …"), "I13"),
    "a claim that says it has the member of another": (
        history(claim(1.0, 5), taken("m1", 1.1, 6, "bob"), claim(1.2, 7, "Bound", "m1")),
        "I14",
    ),
    "a claim that says it has a member of the pool": (
        history(claim(1.0, 5), claim(1.2, 7, "Bound", "m1")),
        "I14",
    ),
    "a request given to a claimed member": (
        history(taken("m1", 0.9, 5), **ONE, versions=(waits("r", 1.0, 10), given("r", 1.1, 11))),
        "I14",
    ),
    "a request that waits beside a free member": (
        history(**ONE, versions=(waits("r", 1.0, 10), given("r", LATE, 20))),
        "I15",
    ),
    "a flow that is served while another waits": (line(*"aaaaa"), "I16"),
    "flows served alike though one weighs more": (line(*"aaaaabbb", weights={"b": 5}), "I16"),
    "more of a flow than may run": (line(*"aba", most=1), "I16"),
    "a request that leaves its session though the pool requires it": (
        session(continued(9.0, 10, "m2", **LEFT)),
        "I18",
    ),
    "one that does not wait": (session(continued(2.0, 10, "m2", **LEFT), wait=5), "I18"),
    "one that does not say what it left": (session(continued(9.0, 10, "m2"), wait=5), "I18"),
    "one that goes on elsewhere": (session(continued(9.0, 10, "m2", **LEFT, session={"id": "s1"}), wait=5), "I18"),
    "one that begins another session at home": (session(continued(1.1, 10, "m1", session={"id": "s2"})), "I18"),
    "a broken member that gets a request": (
        history(
            broken(),
            member("m2", 1.1, 6, revision="r2", broken=True),
            **ONE,
            versions=(waits("r", 1.0, 10), given("r", 1.2, 11, "m2")),
        ),
        "I19",
    ),
    "a broken template that takes the last member": (history(broken(), member("m1", 1.1, 6, "DELETED")), "I19"),
    "an eviction of a member that has worked for long": (
        history(
            **EVICTED,
            versions=(running("r", 2.0, 10), running("r", 40.0, 12)),
            # As the nemesis notes that it asks for one.
            notes=(Note(29.9, "fault", Op.EVICT_POD.value, "", "m1", True),),
        ),
        "I20",
    ),
    "an interruption that the pool does not allow": (preempted(preempts=False), "I21"),
    "one of work that may not run twice": (preempted(attempts=1), "I21"),
    "one of work that is as urgent": (preempted(priority=5), "I21"),
    "one too many": (preempted(count=6), "I21"),
    "two for one request": (preempted(more=("s",)), "I21"),
    "one that is turned away beside fewer than may wait": (few_wait(1, turned_away()), "I22"),
    "more that wait than may": (few_wait(6, given("r", 3.9, 32)), "I22"),
    "a claim that lost a member that nobody deleted": (
        history(taken("m1", 1.1, 6), claim(1.2, 7, "Bound", "m1"), claim(2.0, 8, "Failed", "m1")),
        "I17",
    ),
}


@pytest.mark.parametrize("history", KEPT.values(), ids=KEPT)
def test_what_is_allowed_breaks_nothing(history: History) -> None:
    assert check(history) == []


@pytest.mark.parametrize(("history", "invariant"), BROKEN.values(), ids=BROKEN)
def test_what_is_not_allowed_breaks_its_invariant_alone(history: History, invariant: str) -> None:
    assert {violation.invariant for violation in check(history)} == {invariant}


def test_a_request_of_a_pool_is_lost_with_the_members_that_had_it_and_no_others() -> None:
    moved = replace(request("r"), instances=("m1", "m2", "m3"))
    versions = (given("r", 1.1, 11, "m1"), given("r", 1.2, 12, "m2"))
    assert history(submitted=(moved,), versions=versions).homes(moved) == ("m1", "m2")
