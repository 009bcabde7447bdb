"""What the plans of all themes are made of: a workload, users' wishes, moments and faults of processes.

Pure functions of a random source; seeds.py and seeds_operations.py put them together.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.support.faults import workload
from tests.support.faults.schedule import Do, Plan, Step, Theme, When
from tests.support.faults.workload import Kind, Work


def base(
    seed: int, rng: random.Random, theme: Theme, *, count: tuple[int, int], span: float, cancelled: float = 0.12
) -> Plan:
    """Return a plan with instances, work and users who change their minds, and no faults yet."""
    made = workload.instances(rng)
    asked = workload.work(rng, seed, made, count=count, span=span)
    asked, steps = changes_of_mind(rng, asked, cancelled)
    return Plan(seed, theme, made, asked, steps, warm=rng.random() < 0.85)


def changes_of_mind(
    rng: random.Random, asked: Sequence[Work], cancelled: float
) -> tuple[tuple[Work, ...], tuple[Step, ...]]:
    """Return the work and the steps of users who cancel or delete some of it."""
    changed, steps = [], []
    for each in asked:
        roll = rng.random()
        moment = round(each.at + rng.choice((0.0, 0.02, 0.1, rng.uniform(0, 1.5))), 2)
        when = When(moment) if rng.random() < 0.6 else When(round(each.at + 3, 2), running=each.name)
        if roll < cancelled and each.kind is not Kind.STILLBORN:
            changed.append(replace(each, cancelled=True))
            steps.append(Step(Do.CANCEL, when, each.name))
        elif roll < cancelled + 0.04:
            changed.append(replace(each, deleted=True))
            steps.append(Step(Do.DELETE, when, each.name))
        else:
            changed.append(each)
    return tuple(changed), tuple(steps)


def instance_steps(rng: random.Random, plan: Plan, span: float) -> tuple[Step, ...]:
    """Return what users do to instances meanwhile: most often nothing."""
    steps: list[Step] = []
    for each in plan.instances:
        roll = rng.random()
        at = round(each.at + rng.uniform(0.2, span), 2)
        if roll < 0.12:
            steps.append(Step(Do.SUSPEND, When(at), each.name))
            steps.append(Step(Do.RESUME, When(round(at + rng.uniform(0.05, 3.0), 2)), each.name))
        elif roll < 0.24:
            steps.append(Step(Do.CHANGE, When(at), each.name))
    return tuple(steps)


def moment(rng: random.Random, plan: Plan, span: float) -> When:
    """Return when something happens: at a time, when a request runs, or when some are final."""
    at = round(rng.uniform(0.0, span), 2)
    roll = rng.random()
    runs = [
        each
        for each in plan.work
        if each.kind in (Kind.COUNT, Kind.HOSTILE, Kind.SLEEP, Kind.LARGE, Kind.HUGE, Kind.LOOP)
    ]
    if roll < 0.35 and runs:
        return When(round(span + 1, 2), running=rng.choice(runs).name)
    if roll < 0.5:
        return When(round(span + 1, 2), answered=rng.randint(1, len(plan.work)))
    return When(at)


PROCESS_FAULTS = (
    (Do.KILL_CONTROLLER, 6),
    (Do.STOP_CONTROLLER, 2),
    (Do.KILL_BRIDGE, 6),
    (Do.STOP_BRIDGE, 2),
    (Do.KILL_EMACS, 6),
    (Do.STOP_EMACS, 3),
    (Do.KILL_POD, 3),
    (Do.DELETE_POD, 3),
    (Do.FORCE_POD, 3),
    (Do.KILL_API, 1),
    (Do.STOP_API, 2),
    (Do.KILL_ETCD, 1),
    (Do.STOP_ETCD, 1),
)
IN_A_POD = (Do.KILL_BRIDGE, Do.STOP_BRIDGE, Do.KILL_EMACS, Do.STOP_EMACS, Do.KILL_POD, Do.DELETE_POD, Do.FORCE_POD)
CONTROLLERS = (Do.KILL_CONTROLLER, Do.STOP_CONTROLLER)
STOPS = (Do.STOP_CONTROLLER, Do.STOP_BRIDGE, Do.STOP_EMACS, Do.STOP_API, Do.STOP_ETCD)
OUTAGES = (Do.KILL_API, Do.KILL_ETCD)


def process_fault(rng: random.Random, plan: Plan, do: Do, span: float) -> Step:
    """Return a fault of a process: of which one, when, and for how long."""
    seconds = 0.0
    if do in STOPS:
        seconds = round(rng.choice((0.3, 1.0, 3.0)), 1)
    elif do in OUTAGES:
        seconds = round(rng.choice((0.0, 1.0, 2.0)), 1)
    elif do is Do.KILL_CONTROLLER:
        seconds = round(rng.choice((0.0, 0.0, 0.5, 2.0)), 1)
    target = rng.choice(plan.instances).name if do in IN_A_POD else "operator-0" if do in CONTROLLERS else ""
    return Step(do, moment(rng, plan, span), target, seconds)


def later(when: When) -> When:
    return replace(when, at=round(when.at + 2.0, 2))


def finish(plan: Plan, steps: Sequence[Step]) -> Plan:
    """Return the plan with these steps as well, in order of time."""
    if not plan.warm:
        # What can be hit is not there in the first seconds: every other fault waits for it.
        steps = [
            replace(each, when=later(each.when)) if at % 2 and each.do.fault else each
            for at, each in enumerate(steps)
        ]
    return replace(plan, steps=tuple(sorted((*plan.steps, *steps), key=lambda each: each.when.at)))
