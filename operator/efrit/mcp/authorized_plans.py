"""Plans with the permissions of one caller: each operation is authorized first, as in `authorized_backend`.

A history is an eval on the plan's instance, so it takes permissions on requests too; `backend` requires those.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from efrit import resources
from efrit.backend.interface import ANY_INSTANCE, Backend
from efrit.backend.plan_history import history_of
from efrit.backend.plans import Change, NewPlan, Plans, PlanState

PLANS = resources.PLANS.plural
INSTANCES = resources.INSTANCES.plural
POOLS = resources.POOLS.plural

Require = Callable[[str, str, str], Awaitable[None]]
"""Raises `Forbidden` unless the caller has a permission: a verb, a resource, a name or the empty string."""


class AuthorizedPlans:
    """`efrit.backend.plans.Plans` of one caller; `backend` is authorized, what `open_backend` returns is not."""

    def __init__(self, require: Require, open_backend: Callable[[], Awaitable[Backend]], backend: Backend) -> None:
        self._require = require
        self._open = open_backend
        self._backend = backend

    async def create_plan(self, new: NewPlan) -> PlanState:
        """Create a plan. Needs `create`, `get` for a name that may be taken, and to see the possible instances.

        For a pool also to see the pools.
        """
        await self._require("create", PLANS, "")
        await self._require("get", PLANS, new.name or "")
        if new.instance not in (None, ANY_INSTANCE):
            await self._require("get", INSTANCES, new.instance)
        else:
            await self._require("list", INSTANCES, "")
            if new.pool is not None:
                await self._require("get", POOLS, new.pool)
                await self._require("list", POOLS, "")
        return await (await self._open()).planning().create_plan(new)

    async def plans(self, *, brief: bool = False) -> Sequence[PlanState]:
        """Return all plans. Needs `list`."""
        return await (await self._authorized(("list", ""))).plans(brief=brief)

    async def plan(self, name: str) -> PlanState:
        """Return one plan. Needs `get`."""
        return await (await self._authorized(("get", name))).plan(name)

    async def watch_plan(self, name: str) -> AsyncIterator[PlanState]:
        """Yield the states of a plan. Needs `get` and `watch`."""
        async for state in (await self._authorized(("get", name), ("watch", name))).watch_plan(name):
            yield state

    async def amend_plan(self, name: str, text: str) -> PlanState:
        """Amend a plan. Needs `get` and `patch`."""
        return await (await self._authorized(("get", name), ("patch", name))).amend_plan(name, text)

    async def change_plan(self, name: str, change: Change) -> PlanState:
        """Suspend, resume or cancel a plan. Needs `get` and `patch`."""
        return await (await self._authorized(("get", name), ("patch", name))).change_plan(name, change)

    async def plan_history(self, name: str, limit: int | None = None) -> dict[str, Any]:
        """Return the history. Needs `get`, and of requests `create`, `get` and `watch`."""
        return await history_of(self._backend, await self.plan(name), limit)

    async def _authorized(self, *needed: tuple[str, str]) -> Plans:
        for verb, name in needed:
            await self._require(verb, PLANS, name)
        return (await self._open()).planning()
