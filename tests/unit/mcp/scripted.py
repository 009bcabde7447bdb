"""A backend that does what a test tells it: requests end when the test ends them."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio
from msgspec.structs import replace

from efrit.backend.claims import Claim, NewClaim
from efrit.backend.errors import (
    ClaimNotFound,
    InstanceNotFound,
    NoInstance,
    NotFinished,
    NotFound,
    PoolNotFound,
    Refused,
    RequestNotFound,
    ResultTruncated,
)
from efrit.backend.interface import (
    ANY_INSTANCE,
    Error,
    Finding,
    Handle,
    Instance,
    InstanceStats,
    InstanceStatus,
    Outcome,
    Phase,
    Progress,
    Removed,
    RequestReason,
    RequestState,
    Session,
    SessionStatus,
    Setup,
    Started,
    StartStatus,
    Stopped,
    StopStatus,
    Update,
    Work,
)
from efrit.backend.plans import Plans
from efrit.backend.pools import Pool, PoolRevision, Scaled, Undone
from efrit.protocol.enums import ClaimPhase
from tests.support.timeout import TIMEOUT

BEGAN = datetime(2025, 1, 3, 18, 30, tzinfo=UTC)


@dataclass
class ScriptedBackend:
    """`answers` end requests as they come: by content, how. Without one a request stays open."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    states: dict[str, RequestState] = field(default_factory=dict)
    lists_are_brief: list[bool] = field(default_factory=list)
    submitted: list[Work] = field(default_factory=list)
    running: dict[str, Instance] = field(default_factory=dict)
    changed: anyio.Condition = field(default_factory=anyio.Condition)
    texts: dict[str, list[str]] = field(default_factory=dict)
    whole: dict[str, str] = field(default_factory=dict)
    logs: dict[str, list[str]] = field(default_factory=dict)
    setups: list[Setup | None] = field(default_factory=list)
    plans_of: Plans | None = None
    crews: dict[str, Pool] = field(default_factory=dict)
    #: The templates that each pool has and had.
    templates: list[PoolRevision] = field(default_factory=list)
    held: dict[str, Claim] = field(default_factory=dict)
    #: Members that are free to be claimed.
    free: list[str] = field(default_factory=list)
    #: What Emacs kept of every result, where it kept only the beginning.
    result_beginning: str | None = None

    kind = "local"
    place = "a test"

    async def close(self, *, handed_over: bool = True) -> None:
        pass

    def add(self, name: str, **fields: Any) -> None:
        self.running[name] = Instance(name, InstanceStatus.ACTIVE, "Ready", **fields)

    async def instances(self) -> Sequence[Instance]:
        return [self.running[name] for name in sorted(self.running)]

    async def instance(self, name: str) -> Instance:
        if name not in self.running:
            raise InstanceNotFound(f"there is no instance {name}")
        return self.running[name]

    async def start(self, name: str, setup: Setup | None = None) -> Started:
        self.setups.append(setup)
        status = StartStatus.ALREADY_RUNNING if name in self.running else StartStatus.STARTED
        self.add(name)
        daemon = (setup.daemon_name if setup else None) or f"efrit-{name}"
        return Started(status, f"{name} runs", f"/queues/{name}", daemon)

    async def stop(self, name: str, *, now: bool = False) -> Stopped:
        await self.instance(name)
        del self.running[name]
        return Stopped(StopStatus.STOPPED, f"{name} stopped")

    async def remove(self, name: str, *, files: bool = False) -> Removed:
        await self.instance(name)
        del self.running[name]
        return Removed(f"{name} is removed")

    async def stats(self, name: str) -> InstanceStats:
        await self.instance(name)
        return InstanceStats(name, 1, 2, 42, 38, 4, 0, 1.8, 0.5, 7200.0)

    def attach_command(self, name: str) -> Sequence[str]:
        return ["emacsclient", "-s", name]

    async def examine(self) -> Sequence[Finding]:
        return []

    def planning(self) -> Plans:
        if self.plans_of is None:
            raise Refused("plans need a cluster")
        return self.plans_of

    async def pools(self) -> Sequence[Pool]:
        return [self.crews[name] for name in sorted(self.crews)]

    async def pool(self, name: str) -> Pool:
        if name not in self.crews:
            raise PoolNotFound(f"there is no pool {name}")
        return self.crews[name]

    async def scale_pool(self, name: str, replicas: int) -> Scaled:
        pool = await self.pool(name)
        if pool.autoscaled:
            raise Refused("say how many members there are to be: either spec.replicas or spec.autoscaling")
        self.crews[name] = replace(pool, desired=replicas)
        return Scaled(f"{name} is to have {replicas} members; it has {pool.members}", name, replicas, pool.members)

    async def pool_history(self, name: str) -> Sequence[PoolRevision]:
        await self.pool(name)
        return self.templates

    async def undo_pool(self, name: str, to_revision: int | None = None) -> Undone:
        pool = await self.pool(name)
        former = next((each for each in self.templates if each.number == to_revision), None)
        if former is None:
            raise NotFound(f"{name} has no revision {to_revision}")
        if former.current:
            return Undone(f"{name} has the template of revision {to_revision} already", name, former.number)
        self.crews[name] = replace(pool, revision=former.digest)
        message = f"{name} has the template of revision {to_revision} again"
        return Undone(message, name, former.number, changed=True, fields=("spec.image",))

    async def claims(self) -> Sequence[Claim]:
        return [self.held[name] for name in sorted(self.held)]

    async def claim(self, name: str) -> Claim:
        if name not in self.held:
            raise ClaimNotFound(f"there is no claim {name}")
        return self.held[name]

    async def claim_member(self, new: NewClaim) -> Claim:
        await self.pool(new.pool)
        name = new.name or f"{new.pool}-{len(self.held)}"
        claim = Claim(
            name, new.pool, holder=new.holder, recycle=new.recycle, reason="Waiting", message="None is free."
        )
        return self.held.setdefault(name, claim)

    async def watch_claim(self, name: str) -> AsyncIterator[Claim]:
        yield await self.claim(name)
        if self.free:
            self.held[name] = replace(
                self.held[name],
                phase=ClaimPhase.BOUND,
                instance=self.free.pop(),
                ready=True,
                reason="Bound",
                message="",
            )
            yield self.held[name]
        await anyio.sleep_forever()

    async def release_claim(self, name: str) -> Claim:
        self.held[name] = replace(await self.claim(name), phase=ClaimPhase.RELEASED)
        return self.held[name]

    async def submit(self, work: Work) -> Handle:
        instance = (work.instance if work.instance != ANY_INSTANCE else None) or next(
            iter(sorted(self.running)), None
        )
        if instance is None:
            raise NoInstance("no instance is ready")
        await self.instance(instance)
        self.submitted.append(work)
        key = work.key or f"{len(self.submitted)}"
        handle = self.handle_of(key, instance)
        if handle.id not in self.states:
            session = Session(work.session) if work.session else None
            state = RequestState(
                handle,
                Phase.RUNNING,
                RequestReason.RUNNING,
                type=work.type,
                content=work.content,
                session=session,
                created=BEGAN,
            )
            async with self.changed:
                self.states[handle.id] = state
                self.changed.notify_all()
            if (answer := self.answers.get(work.content)) is not None:
                await self.end(handle.id, **answer)
        return handle

    def handle_of(self, key: str, instance: str | None = None) -> Handle:
        return Handle("req-" + hashlib.sha256(key.encode()).hexdigest()[:12], instance)

    async def get(self, handle: Handle) -> RequestState:
        if handle.id not in self.states:
            raise RequestNotFound(f"there is no request {handle.id}")
        return self.states[handle.id]

    async def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        for text in self.texts.get(handle.id, ()):
            yield Update(text=text)
        last_state: RequestState | None = None
        while True:
            state = await self.get(handle)
            if state != last_state:
                last_state = state
                yield Update(state)
                if state.final:
                    return
                continue
            async with self.changed:
                if self.states[handle.id] == last_state:
                    await self.changed.wait()

    async def cancel(self, handle: Handle) -> RequestState:
        await self.get(handle)
        return await self.end(handle.id, reason=RequestReason.CANCELLED, outcome=Outcome.FAILURE)

    async def result(self, handle: Handle, *, before_rest: Callable[[], Awaitable[None]] | None = None) -> str:
        state = await self.get(handle)
        if not state.final:
            raise NotFinished(f"{handle.id} runs")
        if self.result_beginning is not None:
            raise ResultTruncated(
                "the result is truncated: its Secret was refused", "allow it", self.result_beginning
            )
        if handle.id in self.whole and before_rest is not None:
            await before_rest()
        return self.whole.get(handle.id) or state.result or ""

    async def log(self, handle: Handle, *, follow: bool = False) -> AsyncIterator[str]:
        await self.get(handle)
        for line in self.logs.get(handle.id, ()):
            yield line

    async def requests(
        self, instance: str | None = None, *, limit: int | None = None, brief: bool = False
    ) -> Sequence[RequestState]:
        states = [state for state in self.states.values() if instance in (None, state.handle.instance)]
        self.lists_are_brief.append(brief)
        return states if limit is None else states[-limit:]

    # What a test does to them

    async def first(self) -> str:
        """Return the id of the first request, once it is there."""
        with anyio.fail_after(TIMEOUT):
            async with self.changed:
                while not self.states:
                    await self.changed.wait()
        return next(iter(self.states))

    async def end(self, name: str, *, reason: RequestReason = RequestReason.SUCCEEDED, **fields: Any) -> RequestState:
        outcome = fields.pop("outcome", Outcome.SUCCESS if reason is RequestReason.SUCCEEDED else Outcome.FAILURE)
        phase = Phase.SUCCEEDED if outcome is Outcome.SUCCESS else Phase.FAILED
        return await self.put(name, phase=phase, reason=reason, outcome=outcome, **fields)

    async def put(self, name: str, **fields: Any) -> RequestState:
        async with self.changed:
            self.states[name] = replace(self.states[name], **fields)
            self.changed.notify_all()
        return self.states[name]


def evaluated(result: str, seconds: float = 0.25) -> dict[str, Any]:
    """Return an eval that ended well."""
    return {"result": result, "execution_seconds": seconds}


def broken(code: str, message: str) -> dict[str, Any]:
    """Return an eval that signalled."""
    return {"reason": RequestReason.EVAL_ERROR, "error": Error(code, message)}


def needs_input(question: str, session: str = "session-1") -> dict[str, Any]:
    """Return a command that needs to know something."""
    return {
        "reason": RequestReason.INPUT_REQUIRED,
        "outcome": Outcome.PARTIAL,
        "session": Session(session, SessionStatus.NEED_INPUT, question),
    }


def at(step: int, message: str) -> Progress:
    """How far a command is."""
    return Progress(step, message)
