"""What the schedules of all themes are made of: a workload, steps of users, triggers and faults of processes.

Pure functions of a random source; light.py and administration.py compose them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.support.faults import workload
from tests.support.faults.schedule import Op, Schedule, Step, Theme, Trigger
from tests.support.faults.workload import Kind, RequestSpec


def base(
    seed: int, rng: random.Random, theme: Theme, *, count: tuple[int, int], span: float, cancelled: float = 0.12
) -> Schedule:
    """Return a schedule with instances, requests and steps of users, and no faults yet."""
    instances = workload.instances(rng)
    requests = workload.requests(rng, seed, instances, count=count, span=span)
    requests, steps = user_changes(rng, requests, cancelled)
    return Schedule(seed, theme, instances, requests, steps, warm=rng.random() < 0.85)


def user_changes(
    rng: random.Random, requests: Sequence[RequestSpec], cancelled: float
) -> tuple[tuple[RequestSpec, ...], tuple[Step, ...]]:
    """Return the requests, and the steps of users who cancel or delete some of them."""
    changed, steps = [], []
    for request in requests:
        roll = rng.random()
        moment = round(request.at + rng.choice((0.0, 0.02, 0.1, rng.uniform(0, 1.5))), 2)
        trigger = Trigger(moment) if rng.random() < 0.6 else Trigger(round(request.at + 3, 2), running=request.name)
        if roll < cancelled and request.kind is not Kind.STILLBORN:
            changed.append(replace(request, cancelled=True))
            steps.append(Step(Op.CANCEL, trigger, request.name))
        elif roll < cancelled + 0.04:
            changed.append(replace(request, deleted=True))
            steps.append(Step(Op.DELETE, trigger, request.name))
        else:
            changed.append(request)
    return tuple(changed), tuple(steps)


def instance_steps(rng: random.Random, schedule: Schedule, span: float) -> tuple[Step, ...]:
    """Return what users do to instances meanwhile: most often nothing."""
    steps: list[Step] = []
    for instance in schedule.instances:
        roll = rng.random()
        at = round(instance.at + rng.uniform(0.2, span), 2)
        if roll < 0.12:
            steps.append(Step(Op.SUSPEND, Trigger(at), instance.name))
            steps.append(Step(Op.RESUME, Trigger(round(at + rng.uniform(0.05, 3.0), 2)), instance.name))
        elif roll < 0.24:
            steps.append(Step(Op.CHANGE, Trigger(at), instance.name))
    return tuple(steps)


def random_trigger(rng: random.Random, schedule: Schedule, span: float) -> Trigger:
    """Return when a step is due: at a time, when a request runs, or when some are final."""
    at = round(rng.uniform(0.0, span), 2)
    roll = rng.random()
    runs = [
        request
        for request in schedule.requests
        if request.kind in (Kind.COUNT, Kind.HOSTILE, Kind.SLEEP, Kind.LARGE, Kind.HUGE, Kind.LOOP)
    ]
    if roll < 0.35 and runs:
        return Trigger(round(span + 1, 2), running=rng.choice(runs).name)
    if roll < 0.5:
        return Trigger(round(span + 1, 2), answered=rng.randint(1, len(schedule.requests)))
    return Trigger(at)


PROCESS_FAULTS = (
    (Op.KILL_CONTROLLER, 6),
    (Op.STOP_CONTROLLER, 2),
    (Op.KILL_BRIDGE, 6),
    (Op.STOP_BRIDGE, 2),
    (Op.KILL_EMACS, 6),
    (Op.STOP_EMACS, 3),
    (Op.KILL_POD, 3),
    (Op.DELETE_POD, 3),
    (Op.FORCE_POD, 3),
    (Op.KILL_API, 1),
    (Op.STOP_API, 2),
    (Op.KILL_ETCD, 1),
    (Op.STOP_ETCD, 1),
)
IN_A_POD = (Op.KILL_BRIDGE, Op.STOP_BRIDGE, Op.KILL_EMACS, Op.STOP_EMACS, Op.KILL_POD, Op.DELETE_POD, Op.FORCE_POD)
CONTROLLERS = (Op.KILL_CONTROLLER, Op.STOP_CONTROLLER)
STOPS = (Op.STOP_CONTROLLER, Op.STOP_BRIDGE, Op.STOP_EMACS, Op.STOP_API, Op.STOP_ETCD)
OUTAGES = (Op.KILL_API, Op.KILL_ETCD)


def process_fault(rng: random.Random, schedule: Schedule, op: Op, span: float) -> Step:
    """Return a fault of a process: of which one, when, and for how long."""
    seconds = 0.0
    if op in STOPS:
        seconds = round(rng.choice((0.3, 1.0, 3.0)), 1)
    elif op in OUTAGES:
        seconds = round(rng.choice((0.0, 1.0, 2.0)), 1)
    elif op is Op.KILL_CONTROLLER:
        seconds = round(rng.choice((0.0, 0.0, 0.5, 2.0)), 1)
    target = rng.choice(schedule.instances).name if op in IN_A_POD else "operator-0" if op in CONTROLLERS else ""
    return Step(op, random_trigger(rng, schedule, span), target, seconds)


def later(trigger: Trigger) -> Trigger:
    """Return the trigger two seconds later."""
    return replace(trigger, at=round(trigger.at + 2.0, 2))


def finish(schedule: Schedule, steps: Sequence[Step]) -> Schedule:
    """Return the schedule with these steps as well, in order of time."""
    if not schedule.warm:
        # Pods do not exist in the first seconds: every other fault is delayed.
        steps = [
            replace(step, trigger=later(step.trigger)) if at % 2 and step.op.fault else step
            for at, step in enumerate(steps)
        ]
    return replace(schedule, steps=tuple(sorted((*schedule.steps, *steps), key=lambda step: step.trigger.at)))
