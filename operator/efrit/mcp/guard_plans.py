"""Plans for a caller who may do only what the caller may do: each step asks first, as in `guard`.

A history is an eval on the plan's instance, so it takes the caller's rights on requests; `backend` asks for those.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from efrit.client.interface import ANY_INSTANCE, Backend
from efrit.client.plan_history import history_of
from efrit.client.plans import Change, NewPlan, Plans, PlanState

PLANS = "efritplans"
INSTANCES = "efritinstances"

Ask = Callable[[str, str, str], Awaitable[None]]
"""Raises `Forbidden` unless the caller may do this: a verb, a resource, a name or nothing."""


class GuardedPlans:
    """`efrit.client.plans.Plans` of one caller; `backend` is guarded, what `opened` gives is not."""

    def __init__(self, ask: Ask, opened: Callable[[], Awaitable[Backend]], backend: Backend) -> None:
        self._ask = ask
        self._open = opened
        self._backend = backend

    async def create_plan(self, new: NewPlan) -> PlanState:
        """Needs `create`, `get` for a name that may be taken, and to see who can take the plan."""
        await self._ask("create", PLANS, "")
        await self._ask("get", PLANS, new.name or "")
        if new.instance not in (None, ANY_INSTANCE):
            await self._ask("get", INSTANCES, new.instance)
        else:
            await self._ask("list", INSTANCES, "")
        return await (await self._open()).planning().create_plan(new)

    async def plans(self) -> Sequence[PlanState]:
        """Needs `list`."""
        return await (await self._behind(("list", ""))).plans()

    async def plan(self, name: str) -> PlanState:
        """Needs `get`."""
        return await (await self._behind(("get", name))).plan(name)

    async def watch_plan(self, name: str) -> AsyncIterator[PlanState]:
        """Needs `get` and `watch`."""
        async for state in (await self._behind(("get", name), ("watch", name))).watch_plan(name):
            yield state

    async def amend_plan(self, name: str, text: str) -> PlanState:
        """Needs `get` and `patch`."""
        return await (await self._behind(("get", name), ("patch", name))).amend_plan(name, text)

    async def change_plan(self, name: str, change: Change) -> PlanState:
        """Needs `get` and `patch`."""
        return await (await self._behind(("get", name), ("patch", name))).change_plan(name, change)

    async def plan_history(self, name: str, limit: int | None = None) -> dict[str, Any]:
        """Needs `get`, and of requests `create`, `get` and `watch`; of a long one to see where it lies."""
        return await history_of(self._backend, await self.plan(name), limit)

    async def _behind(self, *needed: tuple[str, str]) -> Plans:
        for verb, name in needed:
            await self._ask(verb, PLANS, name)
        return (await self._open()).planning()
