"""Schedules of the light tier: `generate(seed)` returns the same one on every machine, and only the seed decides.

What a schedule can say is in schedule.py and workload.py; run.py executes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.support.faults.api_proxy.rules import WRITE_EFFECTS, Effect
from tests.support.faults.generators import administration, parts, pools
from tests.support.faults.schedule import CallFault, FileEffect, FileFault, Op, Schedule, Step, Theme, Trigger

LONG_SECONDS = 90.0
AWAY_SECONDS = 120.0

CYCLE = (
    Theme.PROCESSES,
    Theme.CALLS,
    Theme.FILES,
    Theme.LEADERS,
    Theme.IDLE,
    Theme.ROLLOUT,
    Theme.REFUSALS,
    Theme.CLOCKS,
    Theme.NAMESPACE,
    Theme.VOLUMES,
    Theme.PROCESSES,
    Theme.POOLS,
    Theme.TENANTS,
    Theme.LEADERS,
    Theme.TERMINATING,
    Theme.ROLLOUT,
    Theme.POOLS,
    Theme.CLOCKS,
    Theme.IDLE,
    Theme.FILES,
    Theme.PROCESSES,
    Theme.CALLS,
    Theme.TENANTS,
    Theme.VOLUMES,
    Theme.REFUSALS,
    Theme.POOLS,
    Theme.TERMINATING,
    Theme.FILES,
    Theme.POOLS,
    Theme.IDLE,
)
"""Themes of the seeds, in turn; each tenth is `processes`, on which the schedules of the cluster tier are based."""

RARE = {98: Theme.FROZEN, 99: Theme.AWAY}
"""Themes that take minutes, by the last two digits of a seed."""


FIXED = (*range(len(CYCLE)), 226, 3127, 4043)
"""The seeds of every test run: a list, not a time, so that two test runs of one commit execute the same schedules.

Those behind the first round broke a promise once."""


def theme_of(seed: int) -> Theme:
    """Return the theme of a seed."""
    return RARE.get(seed % 100, CYCLE[seed % len(CYCLE)])


def generate(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    theme = theme_of(seed)
    # Reproducible on purpose: nothing here is a secret.
    rng = random.Random(f"efrit-{seed}")  # noqa: S311
    return GENERATORS[theme](seed, rng)


def _processes(seed: int, rng: random.Random) -> Schedule:
    span = rng.choice((1.0, 2.0, 4.0))
    schedule = parts.base(seed, rng, Theme.PROCESSES, count=(6, 24), span=span)
    chosen = rng.choices(
        [op for op, _ in parts.PROCESS_FAULTS], [weight for _, weight in parts.PROCESS_FAULTS], k=rng.randint(1, 4)
    )
    faults = [parts.process_fault(rng, schedule, op, span + 1) for op in chosen]
    if rng.random() < 0.25:
        # The same again, during the recovery from the first.
        first = faults[0]
        faults.append(replace(first, trigger=Trigger(round(min(first.trigger.at, span) + rng.uniform(0.2, 1.5), 2))))
    return parts.finish(schedule, [*faults, *parts.instance_steps(rng, schedule, span)])


EVENTS = (
    Effect.EVENT_DELAYED,
    Effect.EVENT_DROPPED,
    Effect.EVENT_DUPLICATED,
    Effect.EVENT_REORDERED,
    Effect.STREAM_EXPIRED,
    Effect.STREAM_ENDED,
    Effect.STREAM_CUT,
    Effect.STREAM_SILENT,
)
READS = (Effect.ERROR_500, Effect.TOO_MANY_429, Effect.GONE_410, Effect.DELAYED, Effect.RESET)
WATCHED = ("efritrequests", "efritrequests", "efritrequests", "efritinstances", "pods", "statefulsets")


def _call_fault(rng: random.Random) -> CallFault:
    seconds, skip = round(rng.choice((0.3, 1.0, 3.0)), 1), rng.choice((0, 0, 1, 2, 5))
    roll = rng.random()
    if roll < 0.55:
        resource, sub = rng.choice(
            (("efritrequests", "status"),) * 4
            + (("efritinstances", "status"), ("secrets", ""), ("statefulsets", ""), ("leases", ""))
        )
        verb = "" if resource in ("secrets", "statefulsets", "leases") else "patch"
        final = resource == "efritrequests" and rng.random() < 0.6
        effect = rng.choice(WRITE_EFFECTS)
        if not verb:
            # These are read as well: only writes commit anything.
            verb = {"secrets": "create", "statefulsets": "apply", "leases": "patch"}[resource]
        return CallFault(effect, verb, resource, sub, final, skip, rng.choice((1, 1, 2, 3)), seconds)
    if roll < 0.85:
        return CallFault(rng.choice(EVENTS), "", rng.choice(WATCHED), "", False, skip, rng.choice((1, 1, 2)), seconds)
    return CallFault(
        rng.choice(READS), rng.choice(("list", "watch", "get")), rng.choice(WATCHED), "", False, 0, 1, seconds
    )


def _calls(seed: int, rng: random.Random) -> Schedule:
    span = rng.choice((1.0, 2.0, 4.0))
    schedule = parts.base(seed, rng, Theme.CALLS, count=(6, 24), span=span)
    faults = [
        Step(Op.CALL, Trigger(round(rng.uniform(-1.0, span), 2)), call=_call_fault(rng))
        for _ in range(rng.randint(2, 7))
    ]
    if rng.random() < 0.4:
        op = rng.choice((Op.KILL_CONTROLLER, Op.KILL_BRIDGE, Op.KILL_EMACS, Op.DELETE_POD))
        faults.append(parts.process_fault(rng, schedule, op, span + 1))
    return parts.finish(schedule, [*faults, *parts.instance_steps(rng, schedule, span)])


def _leaders(seed: int, rng: random.Random) -> Schedule:
    span = rng.choice((3.0, 6.0))
    schedule = replace(parts.base(seed, rng, Theme.LEADERS, count=(8, 24), span=span, cancelled=0.4), controllers=2)
    faults = []
    at = rng.uniform(0.0, 2.0)
    for _ in range(rng.randint(1, 2)):
        op = rng.choice(parts.CONTROLLERS)
        target = rng.choice(("leader", "leader", "leader", "standby"))
        seconds = round(rng.uniform(3.5, 6.0), 1) if op is Op.STOP_CONTROLLER else round(rng.uniform(0.0, 4.0), 1)
        faults.append(Step(op, Trigger(round(at, 2)), target, seconds))
        at += rng.uniform(0.5, 6.0)
    if rng.random() < 0.5:
        faults.append(
            parts.process_fault(rng, schedule, rng.choice((Op.KILL_EMACS, Op.KILL_BRIDGE, Op.STOP_API)), span)
        )
    return parts.finish(schedule, faults)


def _namespace(seed: int, rng: random.Random) -> Schedule:
    schedule = parts.base(seed, rng, Theme.NAMESPACE, count=(6, 16), span=2.0)
    # Claims would keep it: the controller that removes their finalizer does not run here.
    instances = tuple(
        replace(instance, ephemeral_queue=True, ephemeral_workspace=True, drain_seconds=1)
        for instance in schedule.instances
    )
    steps = [Step(Op.DELETE_NAMESPACE, parts.random_trigger(rng, schedule, 2.5))]
    if rng.random() < 0.5:
        steps.append(
            parts.process_fault(rng, schedule, rng.choice((Op.KILL_CONTROLLER, Op.KILL_BRIDGE, Op.KILL_EMACS)), 3.0)
        )
    return parts.finish(replace(schedule, instances=instances), steps)


# The calls of the queue's protocol: program, operation, path.
FILE_CALLS = (
    ("bridge", "*", "*/tmp/bridge_*"),
    ("bridge", "link", "*/requests/*"),
    ("bridge", "fsync", "*/requests"),
    ("bridge", "fsync", "*/responses"),
    ("bridge", "rename", "*/responses/*"),
    ("bridge", "rename", "*/archive/*"),
    ("bridge", "rename", "*/requests/*"),
    ("bridge", "*", "*/control/*"),
    ("bridge", "*", "*/totals*"),
    ("emacs", "rename", "*/requests/*"),
    ("emacs", "rename", "*/processing/*"),
    ("emacs", "write", "*/claims.log"),
    ("emacs", "fsync", "*/claims.log"),
    ("emacs", "write", "*/tmp/emacs_*"),
    ("emacs", "fsync", "*/tmp/emacs_*"),
    ("emacs", "link", "*/responses/*"),
    ("emacs", "link", "*/tmp/*"),
    ("emacs", "*", "*/.efrit/results/*"),
    ("emacs", "*", "*/results.log"),
    ("emacs", "*", "*/heartbeat*"),
    ("emacs", "*", "*"),
    ("bridge", "*", "*"),
)


FILE_EFFECTS = (FileEffect.KILL_BEFORE, FileEffect.KILL_AFTER, FileEffect.EIO, FileEffect.ENOSPC, FileEffect.SHORT)


def _file_fault(rng: random.Random, schedule: Schedule, span: float) -> Step:
    program, operation, path = rng.choice(FILE_CALLS)
    effect = rng.choice(FILE_EFFECTS)
    killing = effect in (FileEffect.KILL_BEFORE, FileEffect.KILL_AFTER)
    lasting = not killing and rng.random() < 0.4
    fault = FileFault(effect, program, operation, path, rng.choice((0, 0, 1, 2)), lasting)
    seconds = round(rng.choice((0.3, 1.0, 3.0)), 1) if lasting else 0.0
    # Armed early: it waits for a call that matches.
    trigger = Trigger(round(rng.uniform(-1.0, span), 2))
    return Step(Op.FILE, trigger, rng.choice(schedule.instances).name, seconds, file=fault)


def _files(seed: int, rng: random.Random) -> Schedule:
    span = rng.choice((1.0, 2.0, 4.0))
    schedule = parts.base(seed, rng, Theme.FILES, count=(6, 24), span=span)
    faults = [_file_fault(rng, schedule, span) for _ in range(rng.randint(2, 7))]
    if rng.random() < 0.3:
        op = rng.choice((Op.KILL_CONTROLLER, Op.KILL_BRIDGE, Op.KILL_EMACS, Op.KILL_POD))
        faults.append(parts.process_fault(rng, schedule, op, span + 1))
    return parts.finish(schedule, [*faults, *parts.instance_steps(rng, schedule, span)])


def _clocks(seed: int, rng: random.Random) -> Schedule:
    span = rng.choice((2.0, 4.0))
    schedule = parts.base(seed, rng, Theme.CLOCKS, count=(6, 20), span=span)
    # A final status dated an hour ahead is kept an hour longer.
    schedule = replace(schedule, requests=tuple(replace(request, ttl=None) for request in schedule.requests))
    targets = [instance.name for instance in schedule.instances] + ["operator-0"]
    faults = [
        Step(
            Op.SET_CLOCK,
            parts.random_trigger(rng, schedule, span),
            rng.choice(targets),
            round(rng.choice((0.5, 2.0, 5.0)), 1),
            hours=rng.choice((-1, 1)),
        )
        for _ in range(rng.randint(1, 3))
    ]
    if rng.random() < 0.4:
        op = rng.choice((Op.KILL_CONTROLLER, Op.KILL_BRIDGE, Op.KILL_EMACS, Op.DELETE_POD))
        faults.append(parts.process_fault(rng, schedule, op, span + 1))
    return parts.finish(schedule, faults)


def _frozen(seed: int, rng: random.Random) -> Schedule:
    schedule = parts.base(seed, rng, Theme.FROZEN, count=(8, 16), span=4.0)
    op = rng.choice((Op.STOP_CONTROLLER, Op.STOP_BRIDGE, Op.STOP_EMACS))
    fault = replace(parts.process_fault(rng, schedule, op, 3.0), seconds=LONG_SECONDS)
    return parts.finish(schedule, [fault])


def _away(seed: int, rng: random.Random) -> Schedule:
    schedule = parts.base(seed, rng, Theme.AWAY, count=(10, 24), span=4.0)
    fault = Step(rng.choice(parts.OUTAGES), parts.random_trigger(rng, schedule, 3.0), seconds=AWAY_SECONDS)
    return parts.finish(schedule, [fault])


GENERATORS: dict[Theme, Callable[[int, random.Random], Schedule]] = {
    Theme.PROCESSES: _processes,
    Theme.CALLS: _calls,
    Theme.LEADERS: _leaders,
    Theme.NAMESPACE: _namespace,
    Theme.FILES: _files,
    Theme.CLOCKS: _clocks,
    Theme.FROZEN: _frozen,
    Theme.AWAY: _away,
    Theme.POOLS: pools.generate,
    **administration.GENERATORS,
}
