"""What users do in a run, as a pure function of a random source: instances, requests, and how each may end.

The eval of a request first appends its marker to the counter file of the workspace: that is how often it really ran.
Nothing in here knows of faults or asks a cluster.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.support.faults.history import Digest, ExpectedEnd
from tests.support.faults.pool_workload import FLOW_LABEL

COUNTER = "counter"
NOWHERE = "nowhere"
"""An instance that does not exist."""

LARGE_BYTES = (40_000, 400_000)
"""Larger than a status holds, small enough for a Secret."""
HUGE_BYTES = (800_000, 1_000_000)
"""Larger than a Secret holds: stays on the workspace volume."""
TOO_LONG_BYTES = 70_000
"""Longer than an instance accepts by default (65536)."""


HOSTILE_FORMS = (
    "(mapc (lambda (b) (with-current-buffer b (setq buffer-read-only t))) (buffer-list))",
    "(let (kill-buffer-query-functions kill-buffer-hook) (mapc (function kill-buffer) (buffer-list)))",
    "(prefer-coding-system (quote utf-16))",
    '(mapatoms (lambda (s) (if (string-prefix-p "efrit-" (symbol-name s)) (fset s (function ignore)))))',
    # Without a compiler, which would take seconds of the request's time.
    "(let ((comp-enable-subr-trampolines nil) (native-comp-enable-subr-trampolines nil))"
    " (mapc (lambda (s) (fset s (function ignore))) (quote (write-region rename-file json-serialize float-time))))",
    "(setq debugger (quote debug) inhibit-quit t print-length 1 print-level 1 print-escape-newlines t)",
    "(catch (quote x) (mapc (function cancel-timer) timer-list) (setq timer-list nil) (throw (quote x) 1))",
)
"""What an eval does to the Emacs that later requests use."""

TALK = "talk"
END_OF_FORM = ";; that is all"
TALK_SCENARIO = f"""
description = "Each command of a session has Emacs evaluate the form in it"
[[turn]]
turns = 0
[[turn.reply]]
tool = "todo_add"
input = {{content = "Count"}}
[[turn.reply]]
tool = "eval_sexp"
loose = true
input = {{expr = '{{{{user =~ (\\(let .*\\)) {END_OF_FORM}}}}}'}}
[[turn.reply]]
tool = "session_complete"
input = {{message = '{{{{user =~ (s\\d+t\\d+)}}}}'}}
"""
"""What the model of a pool's members plays. One turn: it does not depend on where an earlier command was cut off."""

HOSTILE_SHARE = 0.12
"""Of the evals that only count."""


class Kind(StrEnum):
    """What an eval does after it has counted."""

    COUNT = "count"
    SLEEP = "sleep"
    ERROR = "error"
    LARGE = "large"
    HUGE = "huge"
    OUTPUT = "output"
    LOOP = "loop"
    """Never ends by itself: it times out or is cancelled."""
    HOSTILE = "hostile"
    """Leaves its Emacs in a state that must change no answer, its own included."""
    DIE = "die"
    """Ends its own Emacs."""
    TOO_LONG = "too-long"
    """Larger than the instance accepts: refused."""
    CHAT = "chat"
    """Needs a model, which the instance has not: refused."""
    LOST = "lost"
    """For an instance that does not exist: refused."""
    IMPATIENT = "impatient"
    """Waits for its start no longer than `queueTimeoutSeconds`."""
    TALK = "talk"
    """A command in a session, whose model has Emacs count."""
    STILLBORN = "stillborn"
    """Created with spec.cancel: never runs."""


@dataclass(frozen=True)
class InstanceSpec:
    """One EfritInstance. `at`: when it is created, in seconds."""

    name: str
    at: float = 0.0
    ephemeral_queue: bool = False
    ephemeral_workspace: bool = False
    max_pending: int = 1000
    team: str = ""
    drain_seconds: int = 30
    """Its requestTimeoutSeconds, which bounds how long its pod may take to end."""
    suspend_after: int = 0
    delete_after: int = 0
    """Its spec.idle, in seconds; 0: none."""

    def manifest(self) -> dict[str, Any]:
        """Return the EfritInstance."""
        spec: dict[str, Any] = {
            "queue": {"ephemeral": True} if self.ephemeral_queue else {"storage": {}},
            "limits": {"requestTimeoutSeconds": self.drain_seconds},
        }
        spec["queue"]["maxPending"] = self.max_pending
        if self.ephemeral_workspace:
            spec["workspace"] = {"ephemeral": True}
        idle = {"suspendAfterSeconds": self.suspend_after, "deleteAfterSeconds": self.delete_after}
        if any(idle.values()):
            spec["idle"] = {name: seconds for name, seconds in idle.items() if seconds}
        return {"metadata": {"name": self.name, "labels": {"team": self.team} if self.team else {}}, "spec": spec}


@dataclass(frozen=True)
class SuspendedPlanSpec:
    """An EfritPlan, suspended from the start: open work that needs the volumes of its instance."""

    name: str
    instance: str
    at: float = 0.0

    def manifest(self) -> dict[str, Any]:
        """Return the EfritPlan."""
        intent = {"description": "Write a greeting."}
        return {
            "metadata": {"name": self.name},
            "spec": {"intent": intent, "instanceRef": {"name": self.instance}, "suspend": True},
        }


@dataclass(frozen=True)
class RequestSpec:
    """One EfritRequest. `team` selects by label instead of `instance`; `size` is of the result, in bytes."""

    name: str
    marker: str
    kind: Kind
    at: float
    instance: str = ""
    team: str = ""
    seconds: float = 0.0
    size: int = 0
    attempts: int = 1
    timeout: int = 0
    queue_timeout: int = 0
    priority: int = 0
    cancelled: bool = False
    deleted: bool = False
    ttl: int | None = None
    counter: str = COUNTER
    pool: str = ""
    """An EfritPool instead of an instance."""
    flow: str = ""
    continues: str = ""
    """Name of the request whose session it goes on with."""
    session: str = ""
    """Id of that session, once it is known."""
    after: str = ""
    """Value of the operation of a step from which `at` counts; empty: from the beginning of the run."""

    def content(self) -> str:
        """Return the Lisp, or the text of a chat."""
        if self.kind is Kind.CHAT:
            return f"what is {self.marker}?"
        # The pid distinguishes two runs in one Emacs from runs in two.
        note = f'(format "{self.marker} %d %.3f\\n" (emacs-pid) (float-time))'
        # An earlier request of the same Emacs may have preferred another coding for the files of later ones.
        count = f'(let ((coding-system-for-write (quote utf-8-unix))) (write-region {note} nil "{self.counter}" t 0))'
        if self.kind is Kind.TALK:
            return f"{self.marker} (scenario={TALK}) {count} {END_OF_FORM}"
        return f"(progn {count} {self._rest()})"

    def _rest(self) -> str:
        match self.kind:
            case Kind.SLEEP:
                return f'(sleep-for {self.seconds:.2f}) "{self.marker}"'
            case Kind.ERROR:
                return f'(error "{self.marker}")'
            case Kind.LARGE | Kind.HUGE:
                return f'(concat "{self.marker}" (make-string {self.size} ?x))'
            case Kind.OUTPUT:
                body = f'(princ "{self.marker} ") (message "{self.marker} %d" n)'
                return f'(dotimes (n {self.size}) {body}) "{self.marker}"'
            case Kind.LOOP:
                return "(while t)"
            case Kind.HOSTILE:
                return f'{HOSTILE_FORMS[zlib.crc32(self.marker.encode()) % len(HOSTILE_FORMS)]} "{self.marker}"'
            case Kind.DIE:
                return "(kill-emacs)"
            case Kind.TOO_LONG:
                return f'"{"x" * TOO_LONG_BYTES}"'
            case _:
                return f'"{self.marker}"'

    def manifest(self) -> dict[str, Any]:
        """Return the EfritRequest."""
        spec: dict[str, Any] = {
            "type": {Kind.CHAT: "chat", Kind.TALK: "command"}.get(self.kind, "eval"),
            "content": self.content(),
            "priority": self.priority,
        }
        if self.pool:
            spec["poolRef"] = {"name": self.pool}
        elif self.team:
            spec["selector"] = {"matchLabels": {"team": self.team}}
        else:
            spec["instanceRef"] = {"name": self.instance}
        if self.attempts > 1:
            spec |= {"retryPolicy": "IfInterrupted", "maxAttempts": self.attempts}
        if self.timeout:
            spec["timeoutSeconds"] = self.timeout
        if self.queue_timeout:
            spec["queueTimeoutSeconds"] = self.queue_timeout
        if self.kind is Kind.STILLBORN:
            spec["cancel"] = True
        if self.session:
            spec["session"] = {"id": self.session}
        if self.ttl is not None:
            spec["ttlSecondsAfterFinished"] = self.ttl
        labels = {FLOW_LABEL: self.flow} if self.flow else {}
        return {"metadata": {"name": self.name, "labels": labels}, "spec": spec}

    def ends(self) -> tuple[ExpectedEnd, ...]:
        """Return how it may end without faults."""
        ends = [self._end()]
        if self.queue_timeout:
            ends.append(ExpectedEnd("TimedOut", runs=(0,)))
        if self.cancelled:
            # What ends Emacs runs again without a fault, and each of its attempts may be the one that is cancelled.
            most = self.attempts if self.kind is Kind.DIE else 1
            ends.append(ExpectedEnd("Cancelled", runs=tuple(range(most + 1))))
        return tuple(ends)

    def _end(self) -> ExpectedEnd:
        match self.kind:
            case Kind.ERROR:
                return ExpectedEnd("EvalError")
            case Kind.LOOP:
                return ExpectedEnd("TimedOut")
            case Kind.DIE:
                # With an ephemeral queue one attempt may go with the queue.
                return ExpectedEnd("Interrupted", runs=(self.attempts, max(1, self.attempts - 1)))
            case Kind.TOO_LONG | Kind.LOST:
                return ExpectedEnd("Rejected", runs=(0,))
            case Kind.CHAT:
                return ExpectedEnd("ModelNotConfigured", runs=(0,))
            case Kind.STILLBORN:
                return ExpectedEnd("Cancelled", runs=(0,))
            case Kind.LARGE | Kind.HUGE:
                return ExpectedEnd("Succeeded", Digest.of(f'"{self.marker}{"x" * self.size}"'))
            case Kind.TALK:
                return ExpectedEnd("Succeeded", Digest.of(self.marker))
            case _:
                return ExpectedEnd("Succeeded", Digest.of(f'"{self.marker}"'))

    def target_instances(self, instances: tuple[InstanceSpec, ...]) -> tuple[str, ...]:
        """Return the names of the instances it may run on; of a pool's members the history tells."""
        if self.pool:
            return ()
        if self.team:
            return tuple(instance.name for instance in instances if instance.team == self.team)
        return (self.instance,)


KIND_WEIGHTS = (
    (Kind.COUNT, 34),
    (Kind.SLEEP, 22),
    (Kind.ERROR, 8),
    (Kind.LARGE, 5),
    (Kind.HUGE, 2),
    (Kind.OUTPUT, 4),
    (Kind.LOOP, 6),
    (Kind.DIE, 2),
    (Kind.TOO_LONG, 2),
    (Kind.CHAT, 2),
    (Kind.LOST, 2),
    (Kind.IMPATIENT, 7),
    (Kind.STILLBORN, 2),
)
"""The weights of the kinds."""


def instances(rng: random.Random) -> tuple[InstanceSpec, ...]:
    """Return one to three instances; the first exists when the run begins."""
    count = rng.choices((1, 2, 3), (55, 35, 10))[0]
    instances = []
    for number in range(count):
        late = number > 0 and rng.random() < 0.5
        instances.append(
            InstanceSpec(
                f"i{number + 1}",
                at=round(rng.uniform(0.0, 2.0), 2) if late else 0.0,
                ephemeral_queue=rng.random() < 0.25,
                max_pending=rng.choice((2, 3, 1000, 1000)),
                team="a" if count > 1 else "",
            )
        )
    return tuple(instances)


def requests(
    rng: random.Random, seed: int, instances: tuple[InstanceSpec, ...], *, count: tuple[int, int], span: float
) -> tuple[RequestSpec, ...]:
    """Return between `count` requests within `span` seconds, in order of their moments."""
    moments = sorted(round(rng.uniform(0.0, span), 2) for _ in range(rng.randint(*count)))
    return tuple(_one(rng, seed, number, at, instances) for number, at in enumerate(moments, 1))


def _one(rng: random.Random, seed: int, number: int, at: float, instances: tuple[InstanceSpec, ...]) -> RequestSpec:
    kind = rng.choices([kind for kind, _ in KIND_WEIGHTS], [weight for _, weight in KIND_WEIGHTS])[0]
    # A random source of its own, so that the rest of a seed's schedule does not depend on it.
    other = random.Random(f"hostile {seed} {number}")  # noqa: S311
    if kind is Kind.COUNT and other.random() < HOSTILE_SHARE:
        kind = Kind.HOSTILE
    by_team = instances[0].team and rng.random() < 0.25 and kind is not Kind.LOST
    size = {Kind.LARGE: rng.randint(*LARGE_BYTES), Kind.HUGE: rng.randint(*HUGE_BYTES)}
    retried = rng.random() < 0.3 and kind is not Kind.CHAT
    return RequestSpec(
        name=f"r{number}",
        marker=f"s{seed}w{number}",
        kind=kind,
        at=at,
        instance="" if by_team else NOWHERE if kind is Kind.LOST else rng.choice(instances).name,
        team=instances[0].team if by_team else "",
        seconds=round(rng.choice((0.05, 0.2, 0.5, 1.5)), 2) if kind is Kind.SLEEP else 0.0,
        size=size.get(kind, 900 if kind is Kind.OUTPUT else 0),
        attempts=rng.choice((2, 2, 3)) if retried else 1,
        timeout=rng.choice((1, 2)) if kind is Kind.LOOP else 0,
        queue_timeout=rng.choice((1, 2, 4)) if kind is Kind.IMPATIENT else 0,
        priority=rng.choice((0, 0, 0, -1, 1, 5)),
        ttl=rng.choice((0, 1, 3)) if rng.random() < 0.08 else None,
    )
