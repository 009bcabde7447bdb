"""Plans from seeds: `make(seed)` gives the same plan on every machine, and nothing but the seed decides.

What a plan can say is plan.py's and workload.py's; how it is played is run.py's.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.support.faults.api_proxy.rules import Fate
from tests.support.faults.generators import administration as operations
from tests.support.faults.generators import parts
from tests.support.faults.schedule import CallFault, Do, FileFate, FileFault, Plan, Step, Theme, When

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
    Theme.CALLS,
    Theme.TENANTS,
    Theme.LEADERS,
    Theme.TERMINATING,
    Theme.ROLLOUT,
    Theme.PROCESSES,
    Theme.CLOCKS,
    Theme.IDLE,
    Theme.FILES,
    Theme.PROCESSES,
    Theme.CALLS,
    Theme.TENANTS,
    Theme.VOLUMES,
    Theme.REFUSALS,
    Theme.ROLLOUT,
    Theme.TERMINATING,
    Theme.FILES,
    Theme.PROCESSES,
    Theme.IDLE,
)
"""Themes of the seeds, in turn; each tenth is about processes, as the plans of the real cluster begin with those."""

RARE = {98: Theme.FROZEN, 99: Theme.AWAY}
"""Themes that take minutes, by the last two digits of a seed."""


FIXED = (*range(len(CYCLE)), 3127, 4043)
"""The seeds of every test run: a list, not a time, so that two runs of one commit play the same.

Those behind the first round broke a promise once."""


def theme_of(seed: int) -> Theme:
    return RARE.get(seed % 100, CYCLE[seed % len(CYCLE)])


def make(seed: int) -> Plan:
    """Return the plan of a seed."""
    theme = theme_of(seed)
    # Another run must be able to have the same numbers: nothing here is a secret.
    rng = random.Random(f"efrit-{seed}")  # noqa: S311
    return MAKERS[theme](seed, rng)


def _processes(seed: int, rng: random.Random) -> Plan:
    span = rng.choice((1.0, 2.0, 4.0))
    plan = parts.base(seed, rng, Theme.PROCESSES, count=(6, 24), span=span)
    chosen = rng.choices(
        [do for do, _ in parts.PROCESS_FAULTS], [weight for _, weight in parts.PROCESS_FAULTS], k=rng.randint(1, 4)
    )
    faults = [parts.process_fault(rng, plan, do, span + 1) for do in chosen]
    if rng.random() < 0.25:
        # The same again, right on the recovery from the first.
        first = faults[0]
        faults.append(replace(first, when=When(round(min(first.when.at, span) + rng.uniform(0.2, 1.5), 2))))
    return parts.finish(plan, [*faults, *parts.instance_steps(rng, plan, span)])


STATUS_WRITES = (
    Fate.KILL_BEFORE_SEND,
    Fate.KILL_AFTER_COMMIT,
    Fate.KILL_AFTER_REPLY,
    Fate.LOST_REPLY,
    Fate.RESET,
    Fate.CONFLICT_409,
    Fate.TOO_MANY_429,
    Fate.ERROR_500,
    Fate.DELAYED,
    Fate.STALE_AFTER_COMMIT,
)
EVENTS = (
    Fate.EVENT_DELAYED,
    Fate.EVENT_DROPPED,
    Fate.EVENT_DUPLICATED,
    Fate.EVENT_REORDERED,
    Fate.STREAM_EXPIRED,
    Fate.STREAM_ENDED,
    Fate.STREAM_CUT,
    Fate.STREAM_SILENT,
)
READS = (Fate.ERROR_500, Fate.TOO_MANY_429, Fate.GONE_410, Fate.DELAYED, Fate.RESET)
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
        fate = rng.choice(STATUS_WRITES)
        if not verb:
            # Reads of these come by, too: only writes commit anything.
            verb = {"secrets": "create", "statefulsets": "apply", "leases": "patch"}[resource]
        return CallFault(fate, verb, resource, sub, final, skip, rng.choice((1, 1, 2, 3)), seconds)
    if roll < 0.85:
        return CallFault(rng.choice(EVENTS), "", rng.choice(WATCHED), "", False, skip, rng.choice((1, 1, 2)), seconds)
    return CallFault(
        rng.choice(READS), rng.choice(("list", "watch", "get")), rng.choice(WATCHED), "", False, 0, 1, seconds
    )


def _calls(seed: int, rng: random.Random) -> Plan:
    span = rng.choice((1.0, 2.0, 4.0))
    plan = parts.base(seed, rng, Theme.CALLS, count=(6, 24), span=span)
    faults = [
        Step(Do.CALL, When(round(rng.uniform(-1.0, span), 2)), call=_call_fault(rng))
        for _ in range(rng.randint(2, 7))
    ]
    if rng.random() < 0.4:
        do = rng.choice((Do.KILL_CONTROLLER, Do.KILL_BRIDGE, Do.KILL_EMACS, Do.DELETE_POD))
        faults.append(parts.process_fault(rng, plan, do, span + 1))
    return parts.finish(plan, [*faults, *parts.instance_steps(rng, plan, span)])


def _leaders(seed: int, rng: random.Random) -> Plan:
    span = rng.choice((3.0, 6.0))
    plan = replace(parts.base(seed, rng, Theme.LEADERS, count=(8, 24), span=span, cancelled=0.4), controllers=2)
    faults = []
    at = rng.uniform(0.0, 2.0)
    for _ in range(rng.randint(1, 2)):
        do = rng.choice(parts.CONTROLLERS)
        target = rng.choice(("leader", "leader", "leader", "standby"))
        seconds = round(rng.uniform(3.5, 6.0), 1) if do is Do.STOP_CONTROLLER else round(rng.uniform(0.0, 4.0), 1)
        faults.append(Step(do, When(round(at, 2)), target, seconds))
        at += rng.uniform(0.5, 6.0)
    if rng.random() < 0.5:
        faults.append(parts.process_fault(rng, plan, rng.choice((Do.KILL_EMACS, Do.KILL_BRIDGE, Do.STOP_API)), span))
    return parts.finish(plan, faults)


def _namespace(seed: int, rng: random.Random) -> Plan:
    plan = parts.base(seed, rng, Theme.NAMESPACE, count=(6, 16), span=2.0)
    # Claims would keep it: who lifts their protection does not run here.
    made = tuple(
        replace(each, ephemeral_queue=True, ephemeral_workspace=True, drain_seconds=1) for each in plan.instances
    )
    steps = [Step(Do.DELETE_NAMESPACE, parts.moment(rng, plan, 2.5))]
    if rng.random() < 0.5:
        steps.append(
            parts.process_fault(rng, plan, rng.choice((Do.KILL_CONTROLLER, Do.KILL_BRIDGE, Do.KILL_EMACS)), 3.0)
        )
    return parts.finish(replace(plan, instances=made), steps)


# What a step of the protocol calls: program, operation, path.
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


FILE_FATES = (FileFate.KILL_BEFORE, FileFate.KILL_AFTER, FileFate.EIO, FileFate.ENOSPC, FileFate.SHORT)


def _file_fault(rng: random.Random, plan: Plan, span: float) -> Step:
    program, operation, path = rng.choice(FILE_CALLS)
    fate = rng.choice(FILE_FATES)
    killing = fate in (FileFate.KILL_BEFORE, FileFate.KILL_AFTER)
    lasting = not killing and rng.random() < 0.4
    fault = FileFault(fate, program, operation, path, rng.choice((0, 0, 1, 2)), lasting)
    seconds = round(rng.choice((0.3, 1.0, 3.0)), 1) if lasting else 0.0
    # Armed early: it waits for a call that fits.
    when = When(round(rng.uniform(-1.0, span), 2))
    return Step(Do.FILE, when, rng.choice(plan.instances).name, seconds, file=fault)


def _files(seed: int, rng: random.Random) -> Plan:
    span = rng.choice((1.0, 2.0, 4.0))
    plan = parts.base(seed, rng, Theme.FILES, count=(6, 24), span=span)
    faults = [_file_fault(rng, plan, span) for _ in range(rng.randint(2, 7))]
    if rng.random() < 0.3:
        do = rng.choice((Do.KILL_CONTROLLER, Do.KILL_BRIDGE, Do.KILL_EMACS, Do.KILL_POD))
        faults.append(parts.process_fault(rng, plan, do, span + 1))
    return parts.finish(plan, [*faults, *parts.instance_steps(rng, plan, span)])


def _clocks(seed: int, rng: random.Random) -> Plan:
    span = rng.choice((2.0, 4.0))
    plan = parts.base(seed, rng, Theme.CLOCKS, count=(6, 20), span=span)
    # An end that is dated an hour ahead is kept an hour longer.
    plan = replace(plan, work=tuple(replace(each, ttl=None) for each in plan.work))
    targets = [each.name for each in plan.instances] + ["operator-0"]
    faults = [
        Step(
            Do.SET_CLOCK,
            parts.moment(rng, plan, span),
            rng.choice(targets),
            round(rng.choice((0.5, 2.0, 5.0)), 1),
            hours=rng.choice((-1, 1)),
        )
        for _ in range(rng.randint(1, 3))
    ]
    if rng.random() < 0.4:
        do = rng.choice((Do.KILL_CONTROLLER, Do.KILL_BRIDGE, Do.KILL_EMACS, Do.DELETE_POD))
        faults.append(parts.process_fault(rng, plan, do, span + 1))
    return parts.finish(plan, faults)


def _frozen(seed: int, rng: random.Random) -> Plan:
    plan = parts.base(seed, rng, Theme.FROZEN, count=(8, 16), span=4.0)
    do = rng.choice((Do.STOP_CONTROLLER, Do.STOP_BRIDGE, Do.STOP_EMACS))
    fault = replace(parts.process_fault(rng, plan, do, 3.0), seconds=LONG_SECONDS)
    return parts.finish(plan, [fault])


def _away(seed: int, rng: random.Random) -> Plan:
    plan = parts.base(seed, rng, Theme.AWAY, count=(10, 24), span=4.0)
    fault = Step(rng.choice(parts.OUTAGES), parts.moment(rng, plan, 3.0), seconds=AWAY_SECONDS)
    return parts.finish(replace(plan, patience=90.0), [fault])


MAKERS: dict[Theme, Callable[[int, random.Random], Plan]] = {
    Theme.PROCESSES: _processes,
    Theme.CALLS: _calls,
    Theme.LEADERS: _leaders,
    Theme.NAMESPACE: _namespace,
    Theme.FILES: _files,
    Theme.CLOCKS: _clocks,
    Theme.FROZEN: _frozen,
    Theme.AWAY: _away,
    **operations.MAKERS,
}
