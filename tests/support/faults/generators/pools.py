"""Schedules with a pool: flows that share it, claims of its members, changes of its size and template, faults.

Pure functions of a random source, as parts.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from tests.support.faults.api_proxy.rules import WRITE_EFFECTS, Effect
from tests.support.faults.generators import parts
from tests.support.faults.pool_workload import (
    MEMBER,
    ON_DELETE,
    ON_REPLENISH,
    PREFERRED,
    REQUIRED,
    ROLLING_UPDATE,
    SESSION_FLOW,
    ClaimSpec,
    PoolSpec,
)
from tests.support.faults.schedule import CallFault, Op, Schedule, Step, Theme, Trigger
from tests.support.faults.workload import InstanceSpec, Kind, RequestSpec

POOL = "crew"
LONG_SECONDS = 28.0
"""Longer than it takes until the budget guards a member with this request, and until it may be held against that."""
EVICTED_AFTER_SECONDS = 24.0
"""When the member with it is evicted: it has run for long, and has not ended."""
FLOWS = (("a", 6), ("b", 2), ("c", 1))
"""Flows, and how many of ten requests each has."""
QUIET_SECONDS = 6.0
"""After what time most requests have ended."""
PRIORITIES = (0, 0, 0, 5, 50, 100)
"""Of requests of which some take the place of others."""
WRITES = (
    ("create", "efritinstances", ""),
    ("delete", "efritinstances", ""),
    ("patch", "efritinstances", ""),
    ("patch", "efritrequests", "status"),
    ("patch", "efritrequests", "status"),
    ("patch", "efritpools", "status"),
    ("patch", "efritclaims", "status"),
)
EVENTS = (Effect.EVENT_DELAYED, Effect.EVENT_DROPPED, Effect.EVENT_REORDERED, Effect.STREAM_EXPIRED)
WATCHED = ("efritpools", "efritclaims", "efritinstances", "efritrequests")
OPS = (
    (Op.KILL_CONTROLLER, 6),
    (Op.STOP_CONTROLLER, 1),
    (Op.KILL_BRIDGE, 3),
    (Op.STOP_BRIDGE, 1),
    (Op.KILL_EMACS, 4),
    (Op.KILL_POD, 2),
    (Op.DELETE_POD, 2),
    (Op.FORCE_POD, 2),
    (Op.KILL_API, 1),
    (Op.STOP_API, 1),
)


def generate(seed: int, rng: random.Random) -> Schedule:
    """Return a schedule in which a pool takes most of the requests."""
    span = rng.choice((1.0, 2.0, 4.0))
    schedule = parts.base(seed, rng, Theme.POOLS, count=(8, 24), span=span)
    # Small: what is tried is the pool, and each member is an Emacs that starts.
    instances = (InstanceSpec("i1", ephemeral_queue=rng.random() < 0.5),)
    pool = _pool(rng, autoscaled=seed % 2 == 0)
    requests = tuple(_to_pool(rng, request) for request in schedule.requests)
    schedule = replace(schedule, instances=instances, requests=requests, pool=pool, warm=rng.random() < 0.7)
    claims = tuple(_claim(rng, number, span) for number in range(1, rng.choice((0, 1, 1, 2, 3)) + 1))
    steps = [*_ends(rng, claims), *_changes(rng, pool, span)]
    controllers = 2 if rng.random() < 0.2 else 1
    if controllers == 1 and rng.random() < 0.4:
        steps += [_call(rng, span) for _ in range(rng.randint(1, 4))]
    steps += [_fault(rng, schedule, span, controllers) for _ in range(rng.choice((0, 1, 1, 2)))]
    schedule = replace(schedule, claims=claims, controllers=controllers)
    parts_of_it = {
        "sessions": _sessions,
        "rollout": _broken_rollout,
        "drain": _drain,
        "preemption": _preemption,
    }
    for name, add in parts_of_it.items():
        # A random source of its own, so that the rest of a seed's schedule does not depend on it.
        schedule, more = add(random.Random(f"{name} {seed}"), schedule, span)  # noqa: S311
        steps += more
    breaks = any(step.op is Op.BREAK for step in steps)
    return parts.finish(_strategy(random.Random(f"strategy {seed}"), schedule, breaks=breaks), steps)  # noqa: S311


def _sessions(rng: random.Random, schedule: Schedule, span: float) -> tuple[Schedule, list[Step]]:
    """Have users talk to members, and go on with what they began."""
    pool = schedule.pool
    if pool is None or rng.random() < 0.5:
        return schedule, []
    preferred = rng.random() < 0.5
    wait = rng.choice((0, 2, 2, 5)) if preferred else 0
    pool = replace(pool, affinity=PREFERRED if preferred else REQUIRED, affinity_wait=wait)
    # The members have a model: a chat that none may answer is for the instance beside them. So is what ends its
    # Emacs, and with it the command of a session that waits for its model meanwhile.
    elsewhere = {Kind.CHAT, Kind.DIE}
    requests = [
        replace(request, instance="i1", pool="", flow="") if request.kind in elsewhere else request
        for request in schedule.requests
    ]
    for _ in range(rng.choice((1, 1, 2))):
        at, before = round(rng.uniform(0.0, span / 2), 2), ""
        for _ in range(rng.randint(2, 4)):
            number = len(requests) + 1
            talk = RequestSpec(
                f"t{number}",
                f"s{schedule.seed}t{number}",
                Kind.TALK,
                at,
                pool=pool.name,
                flow=SESSION_FLOW,
                attempts=rng.choice((1, 1, 2)),
                continues=before,
            )
            requests.append(talk)
            before, at = talk.name, round(at + rng.choice((0.0, 0.5, rng.uniform(0.0, 3.0))), 2)
    return replace(schedule, requests=tuple(requests), pool=pool), []


def _broken_rollout(rng: random.Random, schedule: Schedule, span: float) -> tuple[Schedule, list[Step]]:
    """Have a user roll out an image that cannot be pulled, and take it back."""
    pool = schedule.pool
    if pool is None or rng.random() < 0.6:
        return schedule, []
    pool = replace(pool, surge=rng.choice((1, 1, 2)), unavailable=rng.choice((0, 0, 1)))
    at = round(rng.uniform(0.1, span), 2)
    back = round(at + rng.choice((0.3, 2.0, 5.0)), 2)
    steps = [Step(Op.BREAK, Trigger(at), pool.name), Step(Op.ROLL_BACK, Trigger(back), pool.name)]
    return replace(schedule, pool=pool), steps


def _drain(rng: random.Random, schedule: Schedule, span: float) -> tuple[Schedule, list[Step]]:
    """Have pods of members evicted, some of which have had the same request for long."""
    if rng.random() < 0.6:
        return schedule, []
    steps = []
    for _ in range(rng.choice((1, 2, 3))):
        seconds = rng.choice((0.5, 5.0, 20.0))
        steps.append(Step(Op.EVICT_POD, parts.random_trigger(rng, schedule, span + 1), _member(rng), seconds))
    if rng.random() < 0.3:
        number = len(schedule.requests) + 1
        long = RequestSpec(
            f"l{number}",
            f"s{schedule.seed}l{number}",
            Kind.SLEEP,
            0.0,
            pool=POOL,
            flow=FLOWS[-1][0],
            seconds=LONG_SECONDS,
        )
        # Warm, and no other evictions: a start or an eviction shortly before it would excuse it.
        schedule = replace(schedule, requests=(long, *schedule.requests), warm=True)
        evicted = Trigger(EVICTED_AFTER_SECONDS)
        steps = [Step(Op.EVICT_POD, evicted, f"{MEMBER}{number}", 10.0) for number in range(3)]
    return schedule, steps


def _preemption(rng: random.Random, schedule: Schedule, span: float) -> tuple[Schedule, list[Step]]:
    """Have urgent requests take the place of others, most of which may run twice."""
    pool = schedule.pool
    if pool is None or rng.random() < 0.5:
        return schedule, []
    requests = [_with_priority(rng, request) if request.pool else request for request in schedule.requests]
    # Once most have ended there are enough for all places, and urgent ones that come while those run.
    places = max(pool.largest, 2) * pool.max_load
    for number in range(1, places + rng.choice((2, 3, 4)) + 1):
        is_urgent = number > places
        at = span + QUIET_SECONDS + (rng.uniform(1.0, 4.0) if is_urgent else 0.0)
        request = RequestSpec(
            f"p{number}",
            f"s{schedule.seed}p{number}",
            Kind.SLEEP,
            round(at, 2),
            pool=pool.name,
            flow=rng.choice([FLOWS[0][0], FLOWS[0][0], FLOWS[1][0]]) if is_urgent else FLOWS[0][0],
            seconds=0.2 if is_urgent else 5.0,
            attempts=rng.choice((1, 2)) if is_urgent else 2,
            priority=rng.choice((50, 100)) if is_urgent else 0,
        )
        requests.append(request)
    return replace(schedule, pool=replace(pool, preempts=True), requests=tuple(requests)), []


def _strategy(rng: random.Random, schedule: Schedule, *, breaks: bool) -> Schedule:
    """Have the pool change its members by another strategy, keep a share of spares, or let few requests wait."""
    pool = schedule.pool
    if pool is None or rng.random() < 0.4:
        return schedule
    # Where the image breaks, nobody else would replace the member that cannot start.
    update = ROLLING_UPDATE if breaks else rng.choice((ROLLING_UPDATE, ON_REPLENISH, ON_DELETE))
    min_ready, percent, most = rng.choice((0, 1, 3)), rng.choice((0, 25, 100)), rng.choice((0, 0, 2, 4))
    pool = replace(
        pool,
        update=update,
        min_ready=min_ready,
        spares_percent=percent if pool.autoscaled else 0,
        # What goes on with a session takes that the one before it was not turned away.
        max_pending=0 if pool.affinity else most,
    )
    return replace(schedule, pool=pool)


def _with_priority(rng: random.Random, request: RequestSpec) -> RequestSpec:
    attempts = max(request.attempts, 2) if request.kind is not Kind.CHAT and rng.random() < 0.7 else request.attempts
    if request.kind is Kind.COUNT and rng.random() < 0.5:
        request = replace(request, kind=Kind.SLEEP, seconds=rng.choice((0.5, 1.5, 3.0)))
    return replace(request, attempts=attempts, priority=rng.choice(PRIORITIES))


def _pool(rng: random.Random, *, autoscaled: bool) -> PoolSpec:
    largest = rng.choice((1, 2, 2, 3))
    return PoolSpec(
        POOL,
        smallest=rng.choice((0, 0, 1)) if autoscaled else largest,
        largest=largest,
        autoscaled=autoscaled,
        spares=rng.choice((0, 0, 1)) if autoscaled else 0,
        max_load=rng.choice((1, 1, 2)),
        max_running=rng.choice((0, 0, 1, 2)),
        weights=rng.choice(({}, {}, {"b": 2})),
        strategy=rng.choice(("Spread", "Packed")),
        ephemeral_queue=rng.random() < 0.7,
        suspend_after=rng.choice((0, 0, 0, 10)),
    )


def _to_pool(rng: random.Random, request: RequestSpec) -> RequestSpec:
    """Return a request for the pool, or for the instance beside it."""
    if request.kind is Kind.LOST:
        return request
    if rng.random() < 0.2:
        return replace(request, instance="i1", team="")
    flow = rng.choices([name for name, _ in FLOWS], [share for _, share in FLOWS])[0]
    return replace(request, instance="", team="", pool=POOL, flow=flow)


def _claim(rng: random.Random, number: int, span: float) -> ClaimSpec:
    at = round(rng.uniform(0.0, span), 2)
    return ClaimSpec(f"c{number}", POOL, at, rng.choice(("Recycle", "Return")), rng.choice((2, 3600, 3600)))


def _ends(rng: random.Random, claims: tuple[ClaimSpec, ...]) -> Iterator[Step]:
    """Yield the end of each claim by its holder: it may come before a member is the claim's."""
    for claim in claims:
        at = round(claim.at + rng.choice((0.05, rng.uniform(0.2, 3.0), rng.uniform(1.0, 6.0))), 2)
        yield Step(rng.choice((Op.RELEASE, Op.RELEASE, Op.DELETE_CLAIM)), Trigger(at), claim.name)


def _changes(rng: random.Random, pool: PoolSpec, span: float) -> Iterator[Step]:
    """Yield what users do to the pool and its members."""
    at = round(rng.uniform(0.1, span), 2)
    if not pool.autoscaled and rng.random() < 0.6:
        sizes = [rng.choice((0, 1, 2, 3)) for _ in range(rng.choice((1, 2)))]
        for number, size in enumerate([*sizes[:-1], max(1, sizes[-1])]):
            yield Step(Op.SCALE, Trigger(round(at + 1.5 * number, 2)), pool.name, detail=str(size))
    if rng.random() < 0.3:
        yield Step(Op.TEMPLATE, Trigger(round(rng.uniform(0.1, span), 2)), pool.name)
    if rng.random() < 0.3:
        yield Step(Op.DELETE_MEMBER, Trigger(round(rng.uniform(0.1, span + 1), 2)), _member(rng))


def _member(rng: random.Random) -> str:
    return f"{MEMBER}{rng.randrange(3)}"


def _call(rng: random.Random, span: float) -> Step:
    seconds, skip = round(rng.choice((0.3, 1.0, 3.0)), 1), rng.choice((0, 0, 1, 2))
    if rng.random() < 0.7:
        verb, resource, sub = rng.choice(WRITES)
        call = CallFault(rng.choice(WRITE_EFFECTS), verb, resource, sub, False, skip, rng.choice((1, 1, 2)), seconds)
    else:
        call = CallFault(rng.choice(EVENTS), "", rng.choice(WATCHED), "", False, skip, 1, seconds)
    return Step(Op.CALL, Trigger(round(rng.uniform(-1.0, span), 2)), call=call)


def _fault(rng: random.Random, schedule: Schedule, span: float, controllers: int) -> Step:
    op = rng.choices([op for op, _ in OPS], [weight for _, weight in OPS])[0]
    fault = parts.process_fault(rng, schedule, op, span + 1)
    if op in parts.CONTROLLERS and controllers > 1:
        return replace(fault, target=rng.choice(("leader", "leader", "standby")))
    return replace(fault, target=_member(rng)) if op in parts.IN_A_POD else fault
