"""A backend that does for a caller only what the caller may do: every step asks first.

What the server itself may do never decides anything here. The backend behind is opened after the first yes.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from efrit.client.errors import Forbidden
from efrit.client.interface import (
    ANY_INSTANCE,
    Backend,
    Finding,
    Handle,
    Instance,
    InstanceStats,
    Removed,
    RequestState,
    Setup,
    Started,
    Stopped,
    Update,
    Work,
)
from efrit.mcp.guard_plans import GuardedPlans
from efrit.mcp.review import Act, Caller, Reviewer

INSTANCES = "efritinstances"
REQUESTS = "efritrequests"
READING = ("get", "list", "watch")

audit = logging.getLogger("efrit.mcp.audit")
"""Who changed what, and who was refused: a line each, by the caller's name."""


class GuardedBackend:
    """Serves one call of one caller in one namespace; within it, a question is asked once."""

    kind = "cluster"

    def __init__(
        self, reviewer: Reviewer, caller: Caller, namespace: str, opened: Callable[[], Awaitable[Backend]]
    ) -> None:
        self._reviewer = reviewer
        self._caller = caller
        self._namespace = namespace
        self._open = opened
        self._allowed: set[Act] = set()

    @property
    def place(self) -> str:
        """The namespace."""
        return f"namespace {self._namespace}"

    async def close(self, *, handed_over: bool = True) -> None:
        """Nothing: what is behind belongs to the server."""

    async def instances(self) -> Sequence[Instance]:
        """Needs `list`."""
        return await (await self._behind(self._act("list", INSTANCES))).instances()

    async def instance(self, name: str) -> Instance:
        """Needs `get`."""
        return await (await self._behind(self._act("get", INSTANCES, name))).instance(name)

    async def start(self, name: str, setup: Setup | None = None) -> Started:
        """Needs `get` and `patch`, and `create`, since one that is not there is made."""
        needed = [self._act(verb, INSTANCES, name) for verb in ("get", "patch")]
        return await (await self._behind(*needed, self._act("create", INSTANCES))).start(name, setup)

    async def stop(self, name: str, *, now: bool = False) -> Stopped:
        """Needs `get` and `patch`; with `now`, to list and patch requests as well."""
        needed = [self._act(verb, INSTANCES, name) for verb in ("get", "patch")]
        needed += [self._act(verb, REQUESTS) for verb in ("list", "patch")] if now else []
        return await (await self._behind(*needed)).stop(name, now=now)

    async def remove(self, name: str, *, files: bool = False) -> Removed:
        """Needs `get` and `delete`."""
        needed = [self._act(verb, INSTANCES, name) for verb in ("get", "delete")]
        return await (await self._behind(*needed)).remove(name, files=files)

    async def stats(self, name: str) -> InstanceStats:
        """Needs `get`."""
        return await (await self._behind(self._act("get", INSTANCES, name))).stats(name)

    def attach_command(self, name: str) -> Sequence[str]:
        """Never: a terminal is the caller's own affair."""
        raise Forbidden(f"nobody attaches to {name} from here", "Use kubectl efrit attach.")

    async def examine(self) -> Sequence[Finding]:
        """Never: it tells of the server's own surroundings."""
        raise Forbidden("nobody examines the server from here", "Use kubectl efrit doctor.")

    def planning(self) -> GuardedPlans:
        """The plans, guarded as all else."""

        async def ask(verb: str, resource: str, name: str) -> None:
            await self._require(self._act(verb, resource, name))

        return GuardedPlans(ask, self._open, self)

    async def submit(self, work: Work) -> Handle:
        """Needs `create`, `get` for a key that may be taken, and to see who can do the work."""
        needed = [self._act("create", REQUESTS), self._act("get", REQUESTS)]
        if work.instance not in (None, ANY_INSTANCE):
            needed.append(self._act("get", INSTANCES, work.instance))
        else:
            needed += [self._act("list", INSTANCES), self._act("list", REQUESTS)]
        return await (await self._behind(*needed)).submit(work)

    async def get(self, handle: Handle) -> RequestState:
        """Needs `get`."""
        return await (await self._behind(self._act("get", REQUESTS, handle.id))).get(handle)

    async def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        """Needs `get` and `watch`, and with `words` to read files of pods."""
        behind = await self._behind(*(self._act(verb, REQUESTS, handle.id) for verb in ("get", "watch")))
        if words:
            await self._require(Act("create", "pods/exec", self._namespace, group=""))
        async for update in behind.watch(handle, words=words):
            yield update

    async def cancel(self, handle: Handle) -> RequestState:
        """Needs `get` and `patch`."""
        needed = [self._act(verb, REQUESTS, handle.id) for verb in ("get", "patch")]
        return await (await self._behind(*needed)).cancel(handle)

    async def result(self, handle: Handle) -> str:
        """Needs `get` of the request, and of a long one, to see the Secret or the file of a pod where it lies."""
        behind = await self._behind(self._act("get", REQUESTS, handle.id))
        if (await behind.get(handle)).truncated:
            await self._require(Act("get", "secrets", self._namespace, group=""))
            await self._require(Act("create", "pods/exec", self._namespace, group=""))
        return await behind.result(handle)

    async def log(self, handle: Handle, *, follow: bool = False) -> AsyncIterator[str]:
        """Needs `get`, and to read files of pods, which is how a work log is had."""
        behind = await self._behind(
            self._act("get", REQUESTS, handle.id), Act("create", "pods/exec", self._namespace, group="")
        )
        async for line in behind.log(handle, follow=follow):
            yield line

    async def requests(self, instance: str | None = None, *, limit: int | None = None) -> Sequence[RequestState]:
        """Needs `list`."""
        return await (await self._behind(self._act("list", REQUESTS))).requests(instance, limit=limit)

    def _act(self, verb: str, resource: str, name: str = "") -> Act:
        return Act(verb, resource, self._namespace, name)

    async def _behind(self, *needed: Act) -> Backend:
        for act in needed:
            await self._require(act)
        return await self._open()

    async def _require(self, act: Act) -> None:
        if act in self._allowed:
            return
        allowed = await self._reviewer.may(self._caller, act)
        if not allowed or act.verb not in READING:
            # The API server's own audit log knows only the server's account.
            audit.info("%s %s %s", self._caller.name, "may" if allowed else "may not", act)
        if not allowed:
            raise Forbidden(
                f"{self._caller.name} may not {act}", "Ask whoever keeps the cluster for a Role that allows it."
            )
        self._allowed.add(act)
