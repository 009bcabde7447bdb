"""A backend with the permissions of one caller: each operation is authorized before it is carried out.

The server's own permissions decide nothing here. The wrapped backend is opened after the first permission is granted.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from efrit import resources
from efrit.backend.claims import Claim, NewClaim
from efrit.backend.cluster.convert import name_of_key
from efrit.backend.errors import Forbidden
from efrit.backend.interface import (
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
from efrit.backend.pools import Pool, PoolRevision, Scaled, Undone
from efrit.mcp.access_review import Authorizer, Caller, Permission
from efrit.mcp.authorized_plans import AuthorizedPlans

INSTANCES = resources.INSTANCES.plural
REQUESTS = resources.REQUESTS.plural
POOLS = resources.POOLS.plural
POOL_SCALES = f"{POOLS}/scale"
CLAIMS = resources.EXCLUSIVE_CLAIMS.plural
READING = ("get", "list", "watch")

audit = logging.getLogger("efrit.mcp.audit")
"""One line, with the caller's name, for each change and each refusal."""


class AuthorizedBackend:
    """Serves one call of one caller in one namespace; within it, each permission is reviewed once."""

    kind = "cluster"

    def __init__(
        self, reviewer: Authorizer, caller: Caller, namespace: str, open_backend: Callable[[], Awaitable[Backend]]
    ) -> None:
        self._reviewer = reviewer
        self._caller = caller
        self._namespace = namespace
        self._open = open_backend
        self._allowed: set[Permission] = set()

    @property
    def place(self) -> str:
        """The namespace, as messages name it."""
        return f"namespace {self._namespace}"

    async def close(self, *, handed_over: bool = True) -> None:
        """Do nothing: the wrapped backend belongs to the server."""

    async def instances(self) -> Sequence[Instance]:
        """Return all instances. Needs `list`."""
        return await (await self._authorized(self._permission("list", INSTANCES))).instances()

    async def instance(self, name: str) -> Instance:
        """Return one instance. Needs `get`."""
        return await (await self._authorized(self._permission("get", INSTANCES, name))).instance(name)

    async def start(self, name: str, setup: Setup | None = None) -> Started:
        """Start an instance. Needs `get`, `patch` and, because a missing one is created, `create`."""
        needed = [self._permission(verb, INSTANCES, name) for verb in ("get", "patch")]
        return await (await self._authorized(*needed, self._permission("create", INSTANCES))).start(name, setup)

    async def stop(self, name: str, *, now: bool = False) -> Stopped:
        """Stop an instance. Needs `get` and `patch`; with `now`, also `list` and `patch` of requests."""
        needed = [self._permission(verb, INSTANCES, name) for verb in ("get", "patch")]
        needed += [self._permission(verb, REQUESTS) for verb in ("list", "patch")] if now else []
        return await (await self._authorized(*needed)).stop(name, now=now)

    async def remove(self, name: str, *, files: bool = False) -> Removed:
        """Delete an instance. Needs `get` and `delete`."""
        needed = [self._permission(verb, INSTANCES, name) for verb in ("get", "delete")]
        return await (await self._authorized(*needed)).remove(name, files=files)

    async def stats(self, name: str) -> InstanceStats:
        """Return the figures of a queue. Needs `get`."""
        return await (await self._authorized(self._permission("get", INSTANCES, name))).stats(name)

    def attach_command(self, name: str) -> Sequence[str]:
        """Raise `Forbidden`: a terminal is opened with the caller's own tools."""
        raise Forbidden(f"cannot attach to {name} over MCP", "Use kubectl efrit attach.")

    async def examine(self) -> Sequence[Finding]:
        """Raise `Forbidden`: the findings are about the server's own surroundings."""
        raise Forbidden("the server cannot be examined over MCP", "Use kubectl efrit doctor.")

    def planning(self) -> AuthorizedPlans:
        """Return the plans, authorized in the same way."""

        async def require(verb: str, resource: str, name: str) -> None:
            await self._require(self._permission(verb, resource, name))

        return AuthorizedPlans(require, self._open, self)

    async def pools(self) -> Sequence[Pool]:
        """Return all pools. Needs `list`."""
        return await (await self._authorized(self._permission("list", POOLS))).pools()

    async def pool(self, name: str) -> Pool:
        """Return one pool. Needs `get`."""
        return await (await self._authorized(self._permission("get", POOLS, name))).pool(name)

    async def scale_pool(self, name: str, replicas: int) -> Scaled:
        """Set how many members a pool has. Needs `patch` of its scale."""
        return await (await self._authorized(self._permission("patch", POOL_SCALES, name))).scale_pool(name, replicas)

    async def pool_history(self, name: str) -> Sequence[PoolRevision]:
        """Return the templates of a pool. Needs `get`, and `list` of what keeps them and of its members."""
        needed = [self._permission("get", POOLS, name), self._revisions(), self._permission("list", INSTANCES)]
        return await (await self._authorized(*needed)).pool_history(name)

    async def undo_pool(self, name: str, to_revision: int | None = None) -> Undone:
        """Give a pool a former template again. Needs `get` and `patch`, and `list` of what keeps the templates."""
        needed = [self._permission(verb, POOLS, name) for verb in ("get", "patch")]
        return await (await self._authorized(*needed, self._revisions())).undo_pool(name, to_revision)

    async def claims(self) -> Sequence[Claim]:
        """Return all claims. Needs `list`."""
        return await (await self._authorized(self._permission("list", CLAIMS))).claims()

    async def claim(self, name: str) -> Claim:
        """Return one claim. Needs `get`."""
        return await (await self._authorized(self._permission("get", CLAIMS, name))).claim(name)

    async def claim_member(self, new: NewClaim) -> Claim:
        """Claim a member. Needs `create`, `get`, `list` and `watch`, and to see the pool.

        Whoever could not follow the claim would leave one behind and not know it.
        """
        needed = [self._permission(verb, CLAIMS) for verb in ("create", "get", "list", "watch")]
        needed.append(self._permission("get", POOLS, new.pool))
        return await (await self._authorized(*needed)).claim_member(new)

    async def watch_claim(self, name: str) -> AsyncIterator[Claim]:
        """Yield changes of a claim. Needs `list` and `watch`."""
        backend = await self._authorized(*(self._permission(verb, CLAIMS, name) for verb in ("list", "watch")))
        async for claim in backend.watch_claim(name):
            yield claim

    async def release_claim(self, name: str) -> Claim:
        """End a claim. Needs `get` and `patch`."""
        needed = [self._permission(verb, CLAIMS, name) for verb in ("get", "patch")]
        return await (await self._authorized(*needed)).release_claim(name)

    async def submit(self, work: Work) -> Handle:
        """Submit work. Needs `create`, `get` for a key that may be taken, and to see the instances that can do it.

        For a pool also to see the pools: where there is none of its name, the others are named.
        """
        needed = [self._permission("create", REQUESTS), self._permission("get", REQUESTS)]
        if work.instance not in (None, ANY_INSTANCE):
            needed.append(self._permission("get", INSTANCES, work.instance))
        else:
            needed += [self._permission("list", INSTANCES), self._permission("list", REQUESTS)]
            if work.pool is not None:
                needed += [self._permission("get", POOLS, work.pool), self._permission("list", POOLS)]
        return await (await self._authorized(*needed)).submit(work)

    def handle_of(self, key: str, instance: str | None = None) -> Handle:
        """Return the handle of the request with a key, if there is one. Needs nothing: it is only a name."""
        return Handle(name_of_key(key), instance)

    async def get(self, handle: Handle) -> RequestState:
        """Return a request. Needs `get`."""
        return await (await self._authorized(self._permission("get", REQUESTS, handle.id))).get(handle)

    async def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        """Yield changes of a request. Needs `get` and `watch`, and with `words` to read files of pods."""
        backend = await self._authorized(*(self._permission(verb, REQUESTS, handle.id) for verb in ("get", "watch")))
        if words:
            await self._require(Permission("create", "pods/exec", self._namespace, group=""))
        async for update in backend.watch(handle, words=words):
            yield update

    async def cancel(self, handle: Handle) -> RequestState:
        """Cancel a request. Needs `get` and `patch`."""
        needed = [self._permission(verb, REQUESTS, handle.id) for verb in ("get", "patch")]
        return await (await self._authorized(*needed)).cancel(handle)

    async def result(self, handle: Handle, *, before_rest: Callable[[], Awaitable[None]] | None = None) -> str:
        """Return a whole result. Needs `get`, and for a long one to read the Secret or the pod that holds it."""

        async def permitted() -> None:
            # Asked by the read itself: a state that was read before may be another one by now.
            await self._require(Permission("get", "secrets", self._namespace, group=""))
            await self._require(Permission("create", "pods/exec", self._namespace, group=""))
            if before_rest is not None:
                await before_rest()

        backend = await self._authorized(self._permission("get", REQUESTS, handle.id))
        return await backend.result(handle, before_rest=permitted)

    async def log(self, handle: Handle, *, follow: bool = False) -> AsyncIterator[str]:
        """Yield the lines of a work log. Needs `get`, and to read files of pods."""
        backend = await self._authorized(
            self._permission("get", REQUESTS, handle.id), Permission("create", "pods/exec", self._namespace, group="")
        )
        async for line in backend.log(handle, follow=follow):
            yield line

    async def requests(
        self, instance: str | None = None, *, limit: int | None = None, brief: bool = False
    ) -> Sequence[RequestState]:
        """Return requests. Needs `list`."""
        return await (await self._authorized(self._permission("list", REQUESTS))).requests(
            instance, limit=limit, brief=brief
        )

    def _permission(self, verb: str, resource: str, name: str = "") -> Permission:
        return Permission(verb, resource, self._namespace, name)

    def _revisions(self) -> Permission:
        kind = resources.CONTROLLER_REVISIONS
        return Permission("list", kind.plural, self._namespace, group=kind.group)

    async def _authorized(self, *needed: Permission) -> Backend:
        for permission in needed:
            await self._require(permission)
        return await self._open()

    async def _require(self, permission: Permission) -> None:
        if permission in self._allowed:
            return
        allowed = await self._reviewer.is_allowed(self._caller, permission)
        if not allowed or permission.verb not in READING:
            # The API server's own audit log names only the server's account.
            audit.info("%s %s %s", self._caller.name, "may" if allowed else "may not", permission)
        if not allowed:  # gate: caller-allowed
            raise Forbidden(
                f"{self._caller.name} may not {permission}",
                "Ask an administrator of the cluster for a Role that allows it.",
            )
        self._allowed.add(permission)
