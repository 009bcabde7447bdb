"""Schedules of the cluster tier: the workloads of the light tier, and faults only a node can have.

Durations are longer there: leases of 15 s, volumes that are provisioned, kubelets that back off.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.support.faults.generators import light
from tests.support.faults.generators.light import AWAY_SECONDS, LONG_SECONDS
from tests.support.faults.schedule import Op, Schedule, Step, Theme, Trigger
from tests.support.faults.workload import Kind, RequestSpec

RECOVERY_SECONDS = 180.0
LEASE_SECONDS = 15.0
"""How old a lease may be: then a standby may lead, and a leader that was away must not act."""

STRETCHES = (1.0, 3.0, 6.0)

CYCLE = (
    Theme.PROCESSES,
    Theme.NODE,
    Theme.LEADERS,
    Theme.PROCESSES,
    Theme.NODE,
    Theme.NAMESPACE,
    Theme.PROCESSES,
    Theme.LEADERS,
    Theme.NODE,
    Theme.PROCESSES,
)
"""Themes by the last digit of a seed."""

RARE = {19: Theme.AWAY, 39: Theme.FROZEN, 69: Theme.AWAY, 89: Theme.FROZEN}
"""Themes that take minutes, by the last two digits of a seed."""


def theme_of(seed: int) -> Theme:
    """Return the theme of a seed."""
    return RARE.get(seed % 100, CYCLE[seed % len(CYCLE)])


def generate(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    theme = theme_of(seed)
    rng = random.Random(f"efrit-cluster-{seed}")  # noqa: S311 - reproducible on purpose
    # The workload and the user steps of a light schedule whose theme is processes; none of its faults.
    base = _stretched(light.generate(10 * seed), rng.choice(STRETCHES))
    user_steps = tuple(step for step in base.steps if not step.op.fault)
    schedule = replace(
        base, seed=seed, theme=theme, steps=user_steps, warm=rng.random() < 0.85, recovery_seconds=RECOVERY_SECONDS
    )
    schedule = _busy(rng, schedule) if theme is Theme.AWAY else schedule
    faults = GENERATORS[theme](rng, schedule)
    controllers = 2 if theme is Theme.LEADERS else 1
    steps = sorted((*user_steps, *faults), key=lambda step: step.trigger.at)
    return replace(schedule, steps=tuple(steps), controllers=controllers)


def _stretched(schedule: Schedule, factor: float) -> Schedule:
    """Return the same workload over a longer time, so that some requests come after a node is back."""

    def later(at: float) -> float:
        return round(at * factor, 2)

    requests = tuple(replace(request, at=later(request.at)) for request in schedule.requests)
    steps = tuple(replace(step, trigger=replace(step.trigger, at=later(step.trigger.at))) for step in schedule.steps)
    return replace(schedule, requests=requests, steps=steps)


def _busy(rng: random.Random, schedule: Schedule) -> Schedule:
    """Return the schedule with more requests at once than two minutes without an API server suffice for."""
    requests = [
        replace(
            request,
            kind=Kind.SLEEP,
            at=round(request.at / 6, 2),
            seconds=round(rng.uniform(2.0, 8.0), 2),
            queue_timeout=0,
        )
        if request.kind in (Kind.COUNT, Kind.SLEEP, Kind.IMPATIENT)
        else request
        for request in schedule.requests
    ]
    more = [
        RequestSpec(
            f"m{number}",
            f"m{schedule.seed}w{number}",
            Kind.SLEEP,
            0.5,
            rng.choice(schedule.instances).name,
            seconds=5.0,
        )
        for number in range(20)
    ]
    instances = tuple(replace(instance, at=0.0, max_pending=1000) for instance in schedule.instances)
    return replace(schedule, instances=instances, requests=(*requests, *more), warm=True)


PROCESS_FAULTS = (
    (Op.KILL_CONTROLLER, 4),
    (Op.STOP_CONTROLLER, 2),
    (Op.KILL_BRIDGE, 4),
    (Op.STOP_BRIDGE, 2),
    (Op.KILL_EMACS, 4),
    (Op.STOP_EMACS, 2),
    (Op.KILL_POD, 2),
    (Op.DELETE_POD, 3),
    (Op.FORCE_POD, 3),
    (Op.EVICT_POD, 2),
    (Op.KILL_API, 2),
    (Op.STOP_API, 2),
    (Op.KILL_ETCD, 2),
    (Op.STOP_ETCD, 2),
)
NODE_FAULTS = (
    (Op.KILL_KUBELET, 4),
    (Op.KILL_RUNTIME, 4),
    (Op.KILL_NODE, 3),
    (Op.CUT_BRIDGE, 4),
    (Op.CUT_CONTROLLER, 3),
    (Op.ROLL_CONTROLLER, 3),
)
AMID = (Op.KILL_EMACS, Op.KILL_BRIDGE, Op.FORCE_POD, Op.KILL_POD, Op.KILL_CONTROLLER)
"""What may happen while the kubelet is away: all of it must be noticed afterwards."""
ON_THE_NODE = (Op.KILL_EMACS, Op.KILL_BRIDGE, Op.KILL_POD, Op.KILL_CONTROLLER)
"""Faults that need no API server."""
OF_CONTROLLERS = (Op.KILL_CONTROLLER, Op.STOP_CONTROLLER, Op.CUT_CONTROLLER)
AT_ONCE = (
    Op.KILL_CONTROLLER,
    Op.KILL_BRIDGE,
    Op.KILL_EMACS,
    Op.KILL_POD,
    Op.DELETE_POD,
    Op.FORCE_POD,
    Op.EVICT_POD,
    Op.ROLL_CONTROLLER,
)
OF_THE_NODE = (Op.KILL_KUBELET, Op.KILL_RUNTIME, Op.KILL_NODE)
OF_THE_PLANE = (Op.KILL_API, Op.STOP_API, Op.KILL_ETCD, Op.STOP_ETCD)


def _processes(rng: random.Random, schedule: Schedule) -> list[Step]:
    kinds, weights = zip(*PROCESS_FAULTS, strict=True)
    return [_fault(rng, schedule, op) for op in rng.choices(kinds, weights, k=rng.randint(2, 5))]


def _node(rng: random.Random, schedule: Schedule) -> list[Step]:
    kinds, weights = zip(*NODE_FAULTS, strict=True)
    first = _fault(rng, schedule, rng.choices(kinds, weights)[0])
    faults = [first]
    if rng.random() < 0.7:
        moment = Trigger(round(first.trigger.at + rng.uniform(0.1, 2.0), 2))
        faults.append(replace(_fault(rng, schedule, rng.choice(AMID)), trigger=moment))
    if rng.random() < 0.3:
        faults.append(_fault(rng, schedule, rng.choices(kinds, weights)[0]))
    return faults


def _leaders(rng: random.Random, schedule: Schedule) -> list[Step]:
    op = rng.choice(OF_CONTROLLERS)
    first = replace(_fault(rng, schedule, op), target=rng.choice(("leader", "leader", "leader", "standby")))
    if op is not Op.KILL_CONTROLLER:
        first = replace(first, seconds=round(rng.uniform(LEASE_SECONDS - 3, LEASE_SECONDS + 8), 1))
    faults = [first]
    if rng.random() < 0.6:
        faults.append(_fault(rng, schedule, rng.choice((*AMID, Op.ROLL_CONTROLLER, Op.STOP_API))))
    return faults


def _namespace(rng: random.Random, schedule: Schedule) -> list[Step]:
    faults = [Step(Op.DELETE_NAMESPACE, _moment(rng, schedule))]
    if rng.random() < 0.6:
        faults.append(_fault(rng, schedule, rng.choice((*AMID, Op.KILL_KUBELET, Op.ROLL_CONTROLLER))))
    return faults


def _frozen(rng: random.Random, schedule: Schedule) -> list[Step]:
    op = rng.choice((Op.STOP_CONTROLLER, Op.STOP_BRIDGE, Op.STOP_EMACS))
    return [replace(_fault(rng, schedule, op), seconds=LONG_SECONDS)]


def _away(rng: random.Random, schedule: Schedule) -> list[Step]:
    away = Step(rng.choice((Op.KILL_API, Op.KILL_ETCD)), Trigger(20.0, answered=3), seconds=AWAY_SECONDS)
    # A process dies while no status can be written.
    amid = replace(
        _fault(rng, schedule, rng.choice(ON_THE_NODE)), trigger=Trigger(round(rng.uniform(20.0, 100.0), 2))
    )
    return [away, amid]


def _fault(rng: random.Random, schedule: Schedule, op: Op) -> Step:
    seconds = 0.0
    if op in OF_THE_NODE:
        seconds = round(rng.choice((0.5, 3.0, 8.0)), 1)
    elif op in OF_THE_PLANE:
        seconds = round(rng.choice((0.5, 3.0, 8.0, 20.0)), 1)
    elif op not in AT_ONCE:
        seconds = round(rng.choice((1.0, 5.0, 12.0, 20.0)), 1)
    beyond_pods = (*OF_CONTROLLERS, *OF_THE_NODE, *OF_THE_PLANE, Op.ROLL_CONTROLLER)
    target = "" if op in beyond_pods else rng.choice(schedule.instances).name
    return Step(op, _moment(rng, schedule), "leader" if op in OF_CONTROLLERS else target, seconds)


def _moment(rng: random.Random, schedule: Schedule) -> Trigger:
    last = max((request.at for request in schedule.requests), default=1.0) + 1.5
    roll = rng.random()
    if roll < 0.35:
        return Trigger(round(last + 3, 2), running=rng.choice(schedule.requests).name)
    if roll < 0.6:
        return Trigger(round(last + 3, 2), answered=rng.randint(1, len(schedule.requests)))
    return Trigger(round(rng.uniform(0.0, last), 2))


GENERATORS: dict[Theme, Callable[[random.Random, Schedule], list[Step]]] = {
    Theme.PROCESSES: _processes,
    Theme.NODE: _node,
    Theme.LEADERS: _leaders,
    Theme.NAMESPACE: _namespace,
    Theme.FROZEN: _frozen,
    Theme.AWAY: _away,
}
