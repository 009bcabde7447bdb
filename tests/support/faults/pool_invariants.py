"""The promises about pools and exclusive claims, as pure functions of a `History`.

I13 a pool makes no member beyond its size, and comes to rest. I14 a member that a claim has is that claim's alone.
I15 no request waits while a member may take it. I16 no flow is served beyond its share while another waits, and none
has more members than it may. I17 a claim ends only as its holder, its time or the loss of its member has it. I18 the
requests of a session run where it began, unless the pool only prefers that, and the time to wait is over. I19 a
broken template takes no work, and costs no more members than may be unavailable. I20 no eviction takes a member that
has had the same work for long. I21 nothing is interrupted but for one request of higher priority each, where the pool
allows it, what is interrupted may run twice, and that often at most. I22 a request is turned away only where as many
of its flow waited as may, and no more of a flow are let wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import TypeVar

from efrit.api.request import MAX_PREEMPTIONS
from tests.support.faults.history import REMOVED, History, ObjectVersion, RequestVersion, SubmittedRequest
from tests.support.faults.pool_workload import PREFERRED, SESSION_FLOW, PoolSpec
from tests.support.faults.schedule import Op
from tests.support.faults.violation import Violation

STALE_SECONDS = 15.0
"""How long a controller may decide by an earlier spec of a pool, faults included."""
RETURN_SECONDS = 2.0
"""For how long after a member came back from a claim one may still be made that was decided on before."""
KNOWN_SECONDS = 2.0
"""After what time, undisturbed, a controller knows of a request."""
IDLE_SECONDS = 10.0
"""How long, undisturbed, a request may wait beside a free member: much less than a second on an idle machine."""
CLOCK_SECONDS = 1.5
"""By how much less a controller may have waited: creations have no fractions of seconds."""
GUARDED_SECONDS = 15.0
"""After what time with the same work, undisturbed, a member is guarded: seven seconds by docs/pools.md."""
CONCURRENT = 2.0
"""Requests that may be given out by decisions made before another was observed."""


def members_are_within_bounds(history: History) -> Iterator[Violation]:
    """Yield violations of I13."""
    pool = history.pool
    if pool is None:
        return
    if history.pool_unsettled:
        yield Violation("I13", "", "the pool or a claim is not at rest at the end", history.pool_unsettled)
    sizes = [version for version in history.objects if version.kind == "efritpools"]
    members: dict[str, ObjectVersion] = {}
    claims: dict[str, ObjectVersion] = {}
    returned: dict[str, float] = {}
    for version in _in_order(history.objects):
        if version.kind == "efritclaims":
            _keep(claims, version, _waits(version))
        if version.kind != "efritinstances":
            continue
        is_new = version.uid not in members and version.event == "ADDED" and _of_pool(version, pool)
        if version.uid not in members and not is_new:
            returned[version.uid] = version.at
        members[version.uid] = version
        if version.event in REMOVED or not _of_pool(version, pool):
            del members[version.uid]
        elif is_new:
            bound = _bound(sizes, version)
            is_rollout = len({member.revision for member in members.values()}) > 1
            surge = pool.surge if is_rollout else 0
            back = sum(version.at - returned.get(uid, -math.inf) <= RETURN_SECONDS for uid in members)
            # A member that a claim is about to have is replaced beside the write that gives it away, and one may be
            # made beside the write that brings another back.
            if len(members) > bound + surge + len(claims) + back:
                evidence = f"at {version.at:.2f} s: {', '.join(sorted(one.name for one in members.values()))}"
                yield Violation("I13", "", f"the pool made member {len(members)} of {bound}", evidence)


def _bound(sizes: list[ObjectVersion], member: ObjectVersion) -> int:
    """Return the largest size that the pool may have been taken to have when a member was made."""
    before = [size for size in sizes if size.resource_version < member.resource_version]
    recent = [first for first, then in pairwise(before) if member.at - then.at < STALE_SECONDS]
    return max((size.largest for size in [*recent, *before[-1:]]), default=0)


def claimed_members_are_exclusive(history: History) -> Iterator[Violation]:
    """Yield violations of I14, judged in the order of the API server's resource versions."""
    bound: set[str] = set()
    instances: dict[str, ObjectVersion] = {}
    by_name: dict[str, ObjectVersion] = {}
    bound_to: dict[str, str] = {}
    for version in _everything(history):
        if isinstance(version, RequestVersion):
            instance = str(version.status.get("instanceName") or "")
            request = history.by_uid.get(version.uid)
            is_bound = bool(instance) and bound_to.get(version.uid) != instance
            bound_to[version.uid] = instance
            if request is None or not request.pool or not is_bound or version.final:
                continue
            member = by_name.get(instance)
            if member is not None and member.owner.startswith("EfritClaim/"):
                sentence = f"it was bound to {instance}, which {member.owner} has"
                yield Violation("I14", request.name, sentence, f"at {version.at:.2f} s")
        elif version.kind == "efritinstances":
            instances[version.uid] = by_name[version.name] = version
        elif version.kind == "efritclaims" and version.phase == "Bound" and version.uid not in bound:
            bound.add(version.uid)
            member = instances.get(version.instance_uid)
            if member is not None and member.owner_uid != version.uid:
                evidence = f"at {version.at:.2f} s; its owner was {member.owner or 'nobody'}"
                yield Violation(
                    "I14", "", f"claim {version.name} has {version.instance}, which is not its own", evidence
                )


def claims_end_for_a_reason(history: History) -> Iterator[Violation]:
    """Yield violations of I17."""
    for version in history.objects:
        lost = version.kind == "efritclaims" and version.phase == "Failed" and version.event not in REMOVED
        if lost and version.instance not in history.deleted_by_users:
            yield Violation("I17", "", f"claim {version.name} lost {version.instance}, which nobody deleted")


_Version = TypeVar("_Version", ObjectVersion, RequestVersion)


@dataclass
class _State:
    """What a pool was at a moment of the history."""

    pool: PoolSpec
    members: dict[str, ObjectVersion] = field(default_factory=dict)
    requests: dict[str, RequestVersion] = field(default_factory=dict)
    claims: dict[str, ObjectVersion] = field(default_factory=dict)
    size: ObjectVersion | None = None

    def take_in(self, version: ObjectVersion | RequestVersion) -> None:
        """Take in the next version."""
        if isinstance(version, RequestVersion):
            _keep(self.requests, version, not version.final)
        elif version.kind == "efritinstances":
            _keep(self.members, version, _of_pool(version, self.pool))
        elif version.kind == "efritclaims":
            _keep(self.claims, version, _waits(version))
        elif version.kind == "efritpools":
            self.size = version

    def load(self, name: str) -> int:
        """Return how many open requests a member has."""
        return sum(request.status.get("instanceName") == name for request in self.requests.values())

    def free_members(self) -> list[str]:
        """Return the members with room that are sure to stay."""
        size = self.size
        if size is None or self.claims:
            # As many members as claims wait get no more requests.
            return []
        free = [
            member.name
            for member in self.members.values()
            if member.ready and member.revision == size.revision and self.load(member.name) < self.pool.max_load
        ]
        wanted = size.smallest
        if self.pool.autoscaled:
            wanted = min(size.largest, max(wanted, math.ceil(len(self.requests)) + self.pool.spares))
        return free[max(0, len(self.members) - wanted) :]


def _keep(kept: dict[str, _Version], version: _Version, stays: bool) -> None:
    if stays and version.event not in REMOVED:
        kept[version.uid] = version
    else:
        kept.pop(version.uid, None)


def free_members_take_what_waits(history: History) -> Iterator[Violation]:
    """Yield violations of I15, counted only while a controller led undisturbed."""
    if history.pool is None:
        return
    state, since = _State(history.pool), dict[tuple[str, str], float]()
    by_uid = history.by_uid
    for version in _everything(history):
        state.take_in(version)
        waiting = _waiting(state, by_uid, math.inf)
        pairs = {(uid, name) for uid in waiting for name in (state.free_members() if waiting else ())}
        for uid, name in since:
            begin = max(since[uid, name], by_uid[uid].at + KNOWN_SECONDS)
            idle = max((min(version.at, end) - max(begin, start) for start, end in history.undisturbed), default=0.0)
            if idle > IDLE_SECONDS:
                sentence = f"it waited for {idle:.1f} s while {name} had room"
                yield Violation("I15", by_uid[uid].name, sentence, f"until {version.at:.1f} s, undisturbed")
                return
        since = {pair: since.get(pair, version.at) for pair in pairs}


def _waiting(state: _State, by_uid: Mapping[str, SubmittedRequest], now: float) -> dict[str, SubmittedRequest]:
    """Return the requests of the pool that wait for a member and may have one."""
    most, running = state.pool.max_running, dict[str, int]()
    for uid, version in state.requests.items():
        if uid in by_uid and version.status.get("instanceName"):
            running[by_uid[uid].flow] = running.get(by_uid[uid].flow, 0) + 1
    return {
        uid: by_uid[uid]
        for uid, version in state.requests.items()
        if uid in by_uid
        and by_uid[uid].pool
        # It waits for the member that has its session.
        and not by_uid[uid].session
        and not version.status.get("instanceName")
        and not version.cancel
        and now - by_uid[uid].at > KNOWN_SECONDS
        and not (most and running.get(by_uid[uid].flow, 0) >= most)
    }


def flows_have_their_shares(history: History) -> Iterator[Violation]:
    """Yield violations of I16.

    Two flows that both wait for a time get, by their weights, the same but for one request of each (start-time fair
    queueing, Goyal et al. 1996). Counted only while a controller led undisturbed: another begins anew.
    """
    pool = history.pool
    if pool is None:
        return
    state, served, given = _State(pool), dict[tuple[str, str], list[float]](), set[str]()
    by_uid = history.by_uid
    for version in _everything(history):
        request = by_uid.get(version.uid) if isinstance(version, RequestVersion) else None
        is_given = request is not None and bool(request.pool) and version.uid not in given
        is_given = is_given and request is not None and request.flow != SESSION_FLOW
        if not isinstance(version, RequestVersion) or not is_given or not version.status.get("instanceName"):
            state.take_in(version)
            continue
        assert request is not None
        given.add(version.uid)
        undisturbed = any(begin <= version.at <= end for begin, end in history.undisturbed)
        flows = {waiting.flow for waiting in _waiting(state, by_uid, version.at).values()} if undisturbed else set()
        flows.discard(SESSION_FLOW)
        pairs = {(one, other) for one in flows for other in flows if one < other}
        served = {pair: served.get(pair, [0.0, 0.0]) for pair in pairs}
        state.take_in(version)
        for (one, other), counts in served.items():
            weights = [pool.weights.get(one, 1), pool.weights.get(other, 1)]
            if request.flow in (one, other):
                place = (one, other).index(request.flow)
                counts[place] += 1 / weights[place]
            if abs(counts[0] - counts[1]) > 1 / weights[0] + 1 / weights[1] + CONCURRENT:
                evidence = f"at {version.at:.2f} s, by weight: {counts[0]:.1f} and {counts[1]:.1f}"
                yield Violation("I16", request.name, f"flows {one} and {other} are not served alike", evidence)
                return
        yield from _within_flow_bound(state, by_uid, request, version)


def _within_flow_bound(
    state: _State, by_uid: Mapping[str, SubmittedRequest], request: SubmittedRequest, version: RequestVersion
) -> Iterator[Violation]:
    most = state.pool.max_running
    running = [
        by_uid[uid].name
        for uid, other in state.requests.items()
        if uid in by_uid
        and by_uid[uid].flow == request.flow
        and other.status.get("instanceName")
        # Its place is another's already.
        and not other.preemption.get("inProgress")
    ]
    if most and len(running) > most:
        sentence = f"members had {len(running)} requests of flow {request.flow}, which may have {most}"
        yield Violation("I16", request.name, sentence, f"at {version.at:.2f} s: {', '.join(running)}")


def sessions_stay_on_their_member(history: History) -> Iterator[Violation]:
    """Yield violations of I18."""
    pool = history.pool
    if pool is None:
        return
    session_members: dict[str, str] = {}
    left: set[str] = set()
    for version in _everything(history):
        if isinstance(version, ObjectVersion):
            if version.kind == "efritinstances" and (version.event in REMOVED or not _of_pool(version, pool)):
                left.add(version.name)
            elif version.kind == "efritinstances":
                left.discard(version.name)
            continue
        request, instance = history.by_uid.get(version.uid), str(version.status.get("instanceName") or "")
        if request is None or not request.pool or not instance:
            continue
        own = str((version.status.get("session") or {}).get("id") or "")
        session_member = session_members.get(request.session, "")
        if request.session and instance != session_member:
            waited = version.at - request.at + CLOCK_SECONDS >= pool.affinity_wait
            may_leave = pool.affinity == PREFERRED and (waited or session_member in left)
            if not may_leave or version.status.get("sessionLeft") != request.session:
                sentence = f"it was bound to {instance}, its session is on {session_member or 'no member'}"
                yield Violation(
                    "I18", request.name, sentence, f"at {version.at:.2f} s, created at {request.at:.2f} s"
                )
                return
            if own == request.session:
                yield Violation("I18", request.name, f"{instance} continues a session that it does not have", own)
                return
        elif request.session and own and own != request.session:
            yield Violation("I18", request.name, "it has another session than the one that it continues", own)
            return
        if own:
            session_members.setdefault(own, instance)


def broken_templates_take_nothing(history: History) -> Iterator[Violation]:
    """Yield violations of I19."""
    pool = history.pool
    if pool is None:
        return
    members, broken, sizes = dict[str, ObjectVersion](), set[str](), list[ObjectVersion]()
    taken: list[float] = []
    """When a user or a claim has taken a member."""
    for version in _everything(history):
        if isinstance(version, RequestVersion):
            request = history.by_uid.get(version.uid)
            instance = str(version.status.get("instanceName") or "")
            if request is not None and request.pool and instance in broken:
                sentence = f"it was bound to {instance}, whose image cannot be pulled"
                yield Violation("I19", request.name, sentence, f"at {version.at:.2f} s")
                return
        elif version.kind == "efritpools":
            sizes.append(version)
        elif version.kind == "efritinstances" and version.broken:
            broken.add(version.name)
        elif version.kind == "efritinstances":
            before = members.get(version.uid)
            _keep(members, version, _of_pool(version, pool))
            if before is None or version.uid in members:
                continue
            if version.event not in REMOVED or version.name in history.deleted_by_users:
                taken.append(version.at)
            elif before.ready and sizes and sizes[-1].broken:
                recent = sum(version.at - at < STALE_SECONDS for at in taken)
                least = min(size.smallest for size in sizes) - pool.unavailable
                if len(members) + recent < least:
                    sentence = f"{version.name} was taken out for a broken template, {len(members)} members are left"
                    yield Violation("I19", "", sentence, f"at {version.at:.2f} s, at least {least}")
                    return


def evictions_spare_long_work(history: History) -> Iterator[Violation]:
    """Yield violations of I20."""
    if history.pool is None:
        return
    for eviction in history.evictions:
        since = eviction.at - GUARDED_SECONDS
        undisturbed = any(begin <= since and eviction.at <= end for begin, end in history.undisturbed)
        # One that is not Ready is evicted whatever it has. That an eviction is asked for is not a hit.
        was_hit = any(
            note.fault
            and note.event != Op.EVICT_POD.value
            and note.instance == eviction.instance
            and since - GUARDED_SECONDS < note.at < eviction.at
            for note in history.notes
        )
        if not undisturbed or was_hit:
            continue
        for request in history.submitted:
            versions = [one for one in history.versions_of.get(request.uid, ()) if one.at <= eviction.at]
            on_it = [one.at for one in _last_stretch(versions, eviction.instance)]
            if on_it and on_it[0] < since:
                sentence = f"its member was evicted, though it had run for {eviction.at - on_it[0]:.1f} s"
                yield Violation("I20", request.name, sentence, f"{eviction.instance} at {eviction.at:.2f} s")
                return


def _last_stretch(versions: Sequence[RequestVersion], instance: str) -> list[RequestVersion]:
    """Return the last versions in which a request runs on an instance: it may have been interrupted in between."""
    return list(takewhile(lambda one: _runs_on(one, instance), reversed(versions)))[::-1]


def _runs_on(version: RequestVersion, instance: str) -> bool:
    return version.phase == "Running" and version.status.get("instanceName") == instance


def urgent_work_takes_what_may_run_twice(history: History) -> Iterator[Violation]:
    """Yield violations of I21."""
    pool, taken = history.pool, dict[str, str]()
    if pool is None:
        return
    for version in history.versions:
        request = history.by_uid.get(version.uid)
        if request is None or not version.preemption:
            continue
        by, times = str(version.preemption.get("byUID", "")), int(version.preemption.get("count", 0))
        urgent, evidence = history.by_uid.get(by), f"at {version.at:.2f} s for {version.preemption.get('byName')}"
        if not pool.preempts or not request.pool:
            yield Violation("I21", request.name, "it was interrupted, though its pool does not allow that", evidence)
        elif request.attempts == 1 or request.session:
            yield Violation("I21", request.name, "it was interrupted, though it may not run twice", evidence)
        elif urgent is not None and urgent.priority <= request.priority:
            yield Violation("I21", request.name, "it was interrupted for one that is not more urgent", evidence)
        elif times > MAX_PREEMPTIONS:
            yield Violation("I21", request.name, f"it was interrupted {times} times", evidence)
        elif taken.setdefault(by, request.name) != request.name:
            yield Violation("I21", request.name, f"it was interrupted, and so was {taken[by]}", evidence)
        else:
            continue
        return


def as_many_wait_as_may(history: History) -> Iterator[Violation]:
    """Yield violations of I22. What a member had once may come back to the line, however many wait."""
    pool = history.pool
    if pool is None or not pool.max_pending:
        return
    since, left = dict[str, float](), set[str]()
    """Since when requests wait that had no member yet, by UID, and which do so no more."""
    most = dict[str, int]()
    """How many of a flow have waited at a time."""
    for version in history.versions:
        request = history.by_uid.get(version.uid)
        if request is None or not request.pool or version.uid in left:
            continue
        since.setdefault(version.uid, version.at)
        flow = [uid for uid in since if history.by_uid[uid].flow == request.flow]
        most[request.flow] = max(most.get(request.flow, 0), len(flow))
        if version.final and version.reason == "Rejected" and most[request.flow] <= pool.max_pending:
            sentence = (
                f"it was turned away, of flow {request.flow} never more than {most[request.flow] - 1} others waited"
            )
            yield Violation("I22", request.name, sentence, f"at {version.at:.2f} s, {pool.max_pending} may")
            return
        if version.final or version.event in REMOVED or version.cancel or version.status.get("instanceName"):
            left.add(version.uid)
            del since[version.uid]
        known = [
            uid for uid in flow if uid in since and _undisturbed(history, since[uid], version.at) > KNOWN_SECONDS
        ]
        if len(known) > pool.max_pending + CONCURRENT:
            sentence = f"{len(known)} requests of flow {request.flow} were let wait"
            yield Violation("I22", request.name, sentence, f"at {version.at:.2f} s, {pool.max_pending} may")
            return


def _undisturbed(history: History, since: float, until: float) -> float:
    """Return for how long of a time one controller led undisturbed at a stretch."""
    return max((min(until, end) - max(since, begin) for begin, end in history.undisturbed), default=0.0)


def _of_pool(version: ObjectVersion, pool: PoolSpec) -> bool:
    return version.owner == f"EfritPool/{pool.name}"


def _waits(claim: ObjectVersion) -> bool:
    return not claim.final and claim.phase not in ("Bound", "Failed")


def _in_order(objects: Iterable[ObjectVersion]) -> list[ObjectVersion]:
    return sorted(objects, key=lambda one: one.resource_version)


def _everything(history: History) -> list[ObjectVersion | RequestVersion]:
    """Return the versions of all objects and requests in the API server's order; none where there is no pool."""
    if history.pool is None:
        return []
    versions: list[ObjectVersion | RequestVersion] = [*history.objects, *history.versions]
    return sorted(versions, key=lambda version: version.resource_version)


INVARIANTS: tuple[Callable[[History], Iterator[Violation]], ...] = (
    members_are_within_bounds,
    claimed_members_are_exclusive,
    free_members_take_what_waits,
    flows_have_their_shares,
    claims_end_for_a_reason,
    sessions_stay_on_their_member,
    broken_templates_take_nothing,
    evictions_spare_long_work,
    urgent_work_takes_what_may_run_twice,
    as_many_wait_as_may,
)
