"""Plans for the real cluster, from their seeds alone: the light tier's workloads, and faults only a node can have.

What takes longer there takes longer here: leases of 15 s, volumes that are provisioned, kubelets that back off.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.support.faults.generators import light
from tests.support.faults.generators.light import AWAY_SECONDS, LONG_SECONDS
from tests.support.faults.schedule import Do, Plan, Step, Theme, When
from tests.support.faults.workload import Kind, Work

PATIENCE_SECONDS = 120.0
LEASE_SECONDS = 15.0
"""After that a standby may lead, and a leader that was away must not act any more."""

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
    return RARE.get(seed % 100, CYCLE[seed % len(CYCLE)])


def make(seed: int) -> Plan:
    """Return the plan of a seed."""
    theme = theme_of(seed)
    rng = random.Random(f"efrit-cluster-{seed}")  # noqa: S311 - another run must be able to have the same numbers
    # Workload and users' wishes of a light plan whose theme is processes; none of its faults.
    base = _stretched(light.make(10 * seed), rng.choice(STRETCHES))
    wishes = tuple(each for each in base.steps if not each.do.fault)
    plan = replace(base, seed=seed, theme=theme, steps=wishes, warm=rng.random() < 0.85, patience=PATIENCE_SECONDS)
    plan = _busy(rng, plan) if theme is Theme.AWAY else plan
    faults = MAKERS[theme](rng, plan)
    controllers = 2 if theme is Theme.LEADERS else 1
    steps = sorted((*wishes, *faults), key=lambda each: each.when.at)
    return replace(plan, steps=tuple(steps), controllers=controllers)


def _stretched(plan: Plan, factor: float) -> Plan:
    """Return the same work over a longer time, so that some of it still comes when a node is back."""

    def later(at: float) -> float:
        return round(at * factor, 2)

    work = tuple(replace(each, at=later(each.at)) for each in plan.work)
    steps = tuple(replace(each, when=replace(each.when, at=later(each.when.at))) for each in plan.steps)
    return replace(plan, work=work, steps=steps)


def _busy(rng: random.Random, plan: Plan) -> Plan:
    """Return the plan with more to do at once than two minutes without an API server suffice for."""
    work = [
        replace(
            each, kind=Kind.SLEEP, at=round(each.at / 6, 2), seconds=round(rng.uniform(2.0, 8.0), 2), queue_timeout=0
        )
        if each.kind in (Kind.COUNT, Kind.SLEEP, Kind.IMPATIENT)
        else each
        for each in plan.work
    ]
    more = [
        Work(f"m{number}", f"m{plan.seed}w{number}", Kind.SLEEP, 0.5, rng.choice(plan.instances).name, seconds=5.0)
        for number in range(20)
    ]
    instances = tuple(replace(each, at=0.0, max_pending=1000) for each in plan.instances)
    return replace(plan, instances=instances, work=(*work, *more), warm=True)


PROCESS_FAULTS = (
    (Do.KILL_CONTROLLER, 4),
    (Do.STOP_CONTROLLER, 2),
    (Do.KILL_BRIDGE, 4),
    (Do.STOP_BRIDGE, 2),
    (Do.KILL_EMACS, 4),
    (Do.STOP_EMACS, 2),
    (Do.KILL_POD, 2),
    (Do.DELETE_POD, 3),
    (Do.FORCE_POD, 3),
    (Do.EVICT_POD, 2),
    (Do.KILL_API, 2),
    (Do.STOP_API, 2),
    (Do.KILL_ETCD, 2),
    (Do.STOP_ETCD, 2),
)
NODE_FAULTS = (
    (Do.KILL_KUBELET, 4),
    (Do.KILL_RUNTIME, 4),
    (Do.KILL_NODE, 3),
    (Do.CUT_BRIDGE, 4),
    (Do.CUT_CONTROLLER, 3),
    (Do.ROLL_CONTROLLER, 3),
)
AMID = (Do.KILL_EMACS, Do.KILL_BRIDGE, Do.FORCE_POD, Do.KILL_POD, Do.KILL_CONTROLLER)
"""What may happen while the node does not look: it must all be noticed afterwards."""
ON_THE_NODE = (Do.KILL_EMACS, Do.KILL_BRIDGE, Do.KILL_POD, Do.KILL_CONTROLLER)
"""What needs no API server to happen."""
OF_CONTROLLERS = (Do.KILL_CONTROLLER, Do.STOP_CONTROLLER, Do.CUT_CONTROLLER)
AT_ONCE = (
    Do.KILL_CONTROLLER,
    Do.KILL_BRIDGE,
    Do.KILL_EMACS,
    Do.KILL_POD,
    Do.DELETE_POD,
    Do.FORCE_POD,
    Do.EVICT_POD,
    Do.ROLL_CONTROLLER,
)
OF_THE_NODE = (Do.KILL_KUBELET, Do.KILL_RUNTIME, Do.KILL_NODE)
OF_THE_PLANE = (Do.KILL_API, Do.STOP_API, Do.KILL_ETCD, Do.STOP_ETCD)


def _processes(rng: random.Random, plan: Plan) -> list[Step]:
    kinds, weights = zip(*PROCESS_FAULTS, strict=True)
    return [_fault(rng, plan, do) for do in rng.choices(kinds, weights, k=rng.randint(2, 5))]


def _node(rng: random.Random, plan: Plan) -> list[Step]:
    kinds, weights = zip(*NODE_FAULTS, strict=True)
    first = _fault(rng, plan, rng.choices(kinds, weights)[0])
    faults = [first]
    if rng.random() < 0.7:
        moment = When(round(first.when.at + rng.uniform(0.1, 2.0), 2))
        faults.append(replace(_fault(rng, plan, rng.choice(AMID)), when=moment))
    if rng.random() < 0.3:
        faults.append(_fault(rng, plan, rng.choices(kinds, weights)[0]))
    return faults


def _leaders(rng: random.Random, plan: Plan) -> list[Step]:
    do = rng.choice(OF_CONTROLLERS)
    first = replace(_fault(rng, plan, do), target=rng.choice(("leader", "leader", "leader", "standby")))
    if do is not Do.KILL_CONTROLLER:
        first = replace(first, seconds=round(rng.uniform(LEASE_SECONDS - 3, LEASE_SECONDS + 8), 1))
    faults = [first]
    if rng.random() < 0.6:
        faults.append(_fault(rng, plan, rng.choice((*AMID, Do.ROLL_CONTROLLER, Do.STOP_API))))
    return faults


def _namespace(rng: random.Random, plan: Plan) -> list[Step]:
    faults = [Step(Do.DELETE_NAMESPACE, _moment(rng, plan))]
    if rng.random() < 0.6:
        faults.append(_fault(rng, plan, rng.choice((*AMID, Do.KILL_KUBELET, Do.ROLL_CONTROLLER))))
    return faults


def _frozen(rng: random.Random, plan: Plan) -> list[Step]:
    do = rng.choice((Do.STOP_CONTROLLER, Do.STOP_BRIDGE, Do.STOP_EMACS))
    return [replace(_fault(rng, plan, do), seconds=LONG_SECONDS)]


def _away(rng: random.Random, plan: Plan) -> list[Step]:
    away = Step(rng.choice((Do.KILL_API, Do.KILL_ETCD)), When(20.0, answered=3), seconds=AWAY_SECONDS)
    # Something dies while nobody can be told.
    amid = replace(_fault(rng, plan, rng.choice(ON_THE_NODE)), when=When(round(rng.uniform(20.0, 100.0), 2)))
    return [away, amid]


def _fault(rng: random.Random, plan: Plan, do: Do) -> Step:
    seconds = 0.0
    if do in OF_THE_NODE:
        seconds = round(rng.choice((0.5, 3.0, 8.0)), 1)
    elif do in OF_THE_PLANE:
        seconds = round(rng.choice((0.5, 3.0, 8.0, 20.0)), 1)
    elif do not in AT_ONCE:
        seconds = round(rng.choice((1.0, 5.0, 12.0, 20.0)), 1)
    beyond_pods = (*OF_CONTROLLERS, *OF_THE_NODE, *OF_THE_PLANE, Do.ROLL_CONTROLLER)
    target = "" if do in beyond_pods else rng.choice(plan.instances).name
    return Step(do, _moment(rng, plan), "leader" if do in OF_CONTROLLERS else target, seconds)


def _moment(rng: random.Random, plan: Plan) -> When:
    last = max((each.at for each in plan.work), default=1.0) + 1.5
    roll = rng.random()
    if roll < 0.35:
        return When(round(last + 3, 2), running=rng.choice(plan.work).name)
    if roll < 0.6:
        return When(round(last + 3, 2), answered=rng.randint(1, len(plan.work)))
    return When(round(rng.uniform(0.0, last), 2))


MAKERS: dict[Theme, Callable[[random.Random, Plan], list[Step]]] = {
    Theme.PROCESSES: _processes,
    Theme.NODE: _node,
    Theme.LEADERS: _leaders,
    Theme.NAMESPACE: _namespace,
    Theme.FROZEN: _frozen,
    Theme.AWAY: _away,
}
