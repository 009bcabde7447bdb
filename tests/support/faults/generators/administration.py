"""Schedules of what administrators and clusters do: idleness, upgrades, refusals, full volumes, deleted namespaces.

Pure functions of a seed's random source, as those of light.py, which decides the theme of a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.support.faults.generators import parts
from tests.support.faults.schedule import FileEffect, FileFault, Op, Schedule, Step, Theme, Trigger
from tests.support.faults.workload import InstanceSpec, Kind, RequestSpec, SuspendedPlanSpec

IDLE_SECONDS = 10
"""The smallest value that spec.idle accepts."""
PLAIN = InstanceSpec("i0", ephemeral_queue=True, ephemeral_workspace=True)
"""The first instance where all others would be idle too long before the clock starts."""
PROOF = "proof/counter"
"""Counter file of evals on a volume that fills up: it lies outside of the volume."""

REFUSED = ("result secrets", "result secrets", "secrets", "statefulsets", "pods", "persistentvolumeclaims")
QUOTAS = ("count/secrets", "pods", "persistentvolumeclaims", "count/statefulsets.apps")


def _restart(rng: random.Random, at: float) -> Step:
    """Return a kill of the controller around a moment."""
    seconds = rng.choice((0.0, 0.5, 2.0))
    return Step(Op.KILL_CONTROLLER, Trigger(round(at + rng.uniform(-0.5, 1.0), 2)), "operator-0", seconds)


def _idle(seed: int, rng: random.Random) -> Schedule:
    """Return a schedule of three idle limits: a long request, a late request, a suspended plan alone."""
    suspended = rng.random() < 0.5
    instances = (
        PLAIN,
        InstanceSpec(
            "i1",
            ephemeral_queue=rng.random() < 0.3,
            suspend_after=IDLE_SECONDS if suspended else 0,
            delete_after=0 if suspended else IDLE_SECONDS,
        ),
        InstanceSpec("i2", suspend_after=IDLE_SECONDS, delete_after=rng.choice((0, 3600))),
        InstanceSpec("i3", suspend_after=rng.choice((0, IDLE_SECONDS)), delete_after=IDLE_SECONDS + 1),
    )
    number = iter(range(1, 20))

    def request(kind: Kind, instance: str, at: float, **fields: object) -> RequestSpec:
        name = next(number)
        spec = RequestSpec(f"r{name}", f"s{seed}w{name}", kind, round(at, 2), instance)
        return replace(spec, **fields)  # type: ignore[arg-type]

    length = IDLE_SECONDS + rng.uniform(2.5, 5.0)
    requests = [
        request(Kind.COUNT, "i1", rng.uniform(0, 0.5)),
        request(Kind.SLEEP, "i1", rng.uniform(0.5, 1.5), seconds=round(length, 2)),
        request(Kind.COUNT, "i1", rng.uniform(2, length)),
        request(Kind.COUNT, "i2", rng.uniform(0, 1.0)),
        # About when it is to be suspended, or just after.
        request(Kind.COUNT, "i2", IDLE_SECONDS + rng.uniform(0.5, 5.0)),
    ]
    faults = [_restart(rng, IDLE_SECONDS + rng.choice((0.0, 1.0, 2.0)))]
    if rng.random() < 0.5:
        op = rng.choice((Op.KILL_BRIDGE, Op.STOP_BRIDGE, Op.STOP_CONTROLLER))
        target = "operator-0" if op is Op.STOP_CONTROLLER else "i1"
        at = round(IDLE_SECONDS + rng.uniform(-2.0, 2.0), 2)
        faults.append(Step(op, Trigger(at), target, 0.0 if op is Op.KILL_BRIDGE else 3.0))
    if rng.random() < 0.3:
        faults.append(_restart(rng, length))
    schedule = Schedule(seed, Theme.IDLE, instances, tuple(sorted(requests, key=lambda request: request.at)), ())
    return parts.finish(replace(schedule, plans=(SuspendedPlanSpec("p1", "i3", 0.1),)), faults)


def _rollout(seed: int, rng: random.Random) -> Schedule:
    span = rng.choice((2.0, 4.0))
    schedule = replace(parts.base(seed, rng, Theme.ROLLOUT, count=(8, 20), span=span), warm=True)
    # Longer than the grace period of a pod on the light tier: the pod must not be replaced meanwhile.
    kinds = (Kind.COUNT, Kind.HOSTILE, Kind.SLEEP)
    long = rng.choice([request.name for request in schedule.requests if request.kind in kinds] or [""])
    seconds = round(rng.uniform(7.0, 9.0), 2)
    requests = tuple(replace(e, kind=Kind.SLEEP, seconds=seconds) if e.name == long else e for e in schedule.requests)
    schedule = replace(schedule, requests=requests)
    steps = [
        Step(Op.CHANGE, Trigger(round(rng.uniform(0.2, span), 2)), rng.choice(schedule.instances).name)
        for _ in range(rng.randint(0, 2))
    ]
    steps += [
        Step(
            Op.UPGRADE,
            Trigger(round(span + 3, 2), running=long)
            if long and rng.random() < 0.6
            else parts.random_trigger(rng, schedule, span),
            "operator-0",
            rng.choice((0.0, 0.5, 2.0)),
        )
        for _ in range(rng.choice((1, 1, 2)))
    ]
    if rng.random() < 0.6:
        op = rng.choice((Op.KILL_CONTROLLER, Op.KILL_BRIDGE, Op.STOP_BRIDGE))
        steps.append(parts.process_fault(rng, schedule, op, span + 1))
    return parts.finish(schedule, steps)


def _refusals(seed: int, rng: random.Random) -> Schedule:
    span = rng.choice((1.0, 2.0))
    schedule = parts.base(seed, rng, Theme.REFUSALS, count=(6, 16), span=span)
    large = [
        replace(request, kind=Kind.LARGE, size=50_000)
        if request.kind in (Kind.COUNT, Kind.HOSTILE) and rng.random() < 0.4
        else request
        for request in schedule.requests
    ]
    schedule = replace(schedule, requests=tuple(large), warm=rng.random() < 0.6)
    steps = []
    for _ in range(rng.randint(1, 3)):
        op = rng.choice((Op.REFUSE, Op.QUOTA))
        detail = rng.choice(REFUSED if op is Op.REFUSE else QUOTAS)
        at, seconds = Trigger(round(rng.uniform(-1.0, span), 2)), round(rng.choice((1.0, 3.0, 5.0)), 1)
        steps.append(Step(op, at, seconds=seconds, detail=detail))
    if rng.random() < 0.6:
        op = rng.choice((Op.KILL_CONTROLLER, Op.KILL_EMACS, Op.FORCE_POD))
        steps.append(parts.process_fault(rng, schedule, op, span + 1))
    return parts.finish(schedule, [*steps, *parts.instance_steps(rng, schedule, span)])


def _volumes(seed: int, rng: random.Random) -> Schedule:
    span = rng.choice((1.0, 2.0, 4.0))
    schedule = parts.base(seed, rng, Theme.VOLUMES, count=(6, 20), span=span)
    schedule = replace(schedule, requests=tuple(replace(request, counter=PROOF) for request in schedule.requests))
    steps = []
    for _ in range(rng.randint(1, 3)):
        trigger, target = Trigger(round(rng.uniform(0.0, span), 2)), rng.choice(schedule.instances).name
        seconds = round(rng.choice((0.5, 1.5, 3.0)), 1)
        if rng.random() < 0.35:
            program = rng.choice(("any", "bridge", "emacs"))
            fault = FileFault(FileEffect.HANG, program, "fsync", "*", lasting=True)
            steps.append(Step(Op.FILE, trigger, target, seconds, file=fault))
        else:
            detail = f"{rng.choice(('queue', 'queue', 'workspace'))} {rng.choice(('bytes', 'inodes'))}"
            steps.append(Step(Op.FILL, trigger, target, seconds, detail=detail))
    if rng.random() < 0.5:
        op = rng.choice((Op.KILL_CONTROLLER, Op.KILL_BRIDGE, Op.KILL_EMACS, Op.DELETE_POD))
        steps.append(parts.process_fault(rng, schedule, op, span + 1))
    return parts.finish(schedule, steps)


TENANT_FAULTS = {
    Op.DELETE_TENANT: 4,
    Op.FORBID_TENANT: 4,
    Op.REFUSE_TENANT: 2,
    Op.STOP_TENANT: 2,
    Op.FLOOD_TENANT: 2,
}


def _tenants(seed: int, rng: random.Random) -> Schedule:
    span = rng.choice((1.0, 2.0, 4.0))
    schedule = parts.base(seed, rng, Theme.TENANTS, count=(6, 16), span=span)
    kinds, weights = list(TENANT_FAULTS), list(TENANT_FAULTS.values())
    # Without an end: the fault lasts until all requests of this tenant are final, late ones included.
    steps = [Step(rng.choices(kinds, weights)[0], Trigger(round(rng.uniform(0.0, 0.5), 2)))]
    late = tuple(
        RequestSpec(f"late{number}", f"s{seed}late{number}", Kind.COUNT, round(span + rng.uniform(2.5, 4.0), 2), "i1")
        for number in range(3)
    )
    schedule = replace(schedule, requests=(*schedule.requests, *late))
    if rng.random() < 0.7:
        steps.append(_restart(rng, span + 1.0))
    if rng.random() < 0.3:
        steps.append(parts.process_fault(rng, schedule, rng.choice((Op.KILL_EMACS, Op.KILL_BRIDGE)), span + 1))
    return parts.finish(schedule, steps)


def _terminating(seed: int, rng: random.Random) -> Schedule:
    span = rng.choice((1.0, 2.0, 4.0))
    schedule = parts.base(seed, rng, Theme.TERMINATING, count=(6, 20), span=span)
    seconds = round(rng.choice((1.0, 3.0, 5.0)), 1)
    step = Step(Op.KEEP_POD, parts.random_trigger(rng, schedule, span), rng.choice(schedule.instances).name, seconds)
    steps = [step]
    if rng.random() < 0.6:
        steps.append(_restart(rng, min(step.trigger.at, span) + 1.0))
    if rng.random() < 0.3:
        steps.append(Step(Op.CHANGE, Trigger(round(rng.uniform(0.5, span + 1), 2)), step.target))
    return parts.finish(schedule, [*steps, *parts.instance_steps(rng, schedule, span)])


GENERATORS: dict[Theme, Callable[[int, random.Random], Schedule]] = {
    Theme.IDLE: _idle,
    Theme.ROLLOUT: _rollout,
    Theme.REFUSALS: _refusals,
    Theme.VOLUMES: _volumes,
    Theme.TENANTS: _tenants,
    Theme.TERMINATING: _terminating,
}
