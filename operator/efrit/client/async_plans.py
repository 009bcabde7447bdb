"""Plans, for a program that uses asyncio: `client.plans` of `efrit.client.async_client`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from efrit.backend.errors import WaitTimeout, check_name, check_options
from efrit.backend.outcomes import raise_for_plan
from efrit.backend.plans import Change, Intent, NewPlan, Plans, PlanState

if TYPE_CHECKING:
    from efrit.client.async_client import AsyncClient


class PlanOptions(TypedDict, total=False):
    """How a plan is made, as in `NewPlan`; times in seconds. One command or several for the assessments."""

    acceptance_criteria: str | Sequence[str]
    constraints: str | Sequence[str]
    name: str | None
    key: str | None
    instance: str | None
    pool: str | None
    directory: str | None
    git_url: str | None
    git_branch: str | None
    git_revision: str | None
    git_secret: str | None
    build: str | Sequence[str]
    integration: str | Sequence[str]
    quality: str | Sequence[str]
    assess_timeout: float | None
    act_timeout: float | None
    max_steps: int | None
    max_tokens: int | None
    timeout: float | None
    spec: Mapping[str, Any]


_NAMES = ("name", "key", "instance", "pool", "git_url", "git_branch", "git_revision", "git_secret")
_LISTS = ("build", "integration", "quality")


def new_plan(intent: str | Intent | None, options: Mapping[str, Any]) -> NewPlan:
    """Return the plan that an intent and `PlanOptions` describe."""
    arguments: dict[str, Any] = dict(options)
    check_options(**{name: arguments.get(name) for name in _NAMES})
    criteria, constraints = (_several(arguments.pop(name, ())) for name in ("acceptance_criteria", "constraints"))
    if isinstance(intent, str):
        intent = Intent(intent, criteria, constraints)
    arguments |= {name: _several(arguments[name]) for name in _LISTS if name in arguments}
    return NewPlan(intent, **arguments)


def _several(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


class AsyncPlans:
    """What can be done with plans. On this machine a plan goes on while it is watched or waited for."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def _plans(self, name: str | None = None) -> Plans:
        """Return the backend's plans, for a call about the plan `name`. Raises `WrongSettings` for an empty one."""
        if name is not None:
            check_name(name, "plan")
        return (await self._client.backend()).planning()

    async def create(self, intent: str | Intent | None = None, **options: Unpack[PlanOptions]) -> PlanState:
        """Hand a plan over; the operator carries it out, on this machine whoever watches it or waits for it.

        Raises `NoInstance`, `InstanceNotFound`, `Refused`, `Conflict`.
        """
        return await (await self._plans()).create_plan(new_plan(intent, options))

    async def run(self, intent: str | Intent | None = None, **options: Unpack[PlanOptions]) -> PlanState:
        """Hand a plan over, wait until it is over, and return how it ended. Raises as `create` and `wait`."""
        return await self.wait((await self.create(intent, **options)).name)

    async def wait(self, name: str, *, timeout: float | None = None, check: bool = True) -> PlanState:  # noqa: ASYNC109
        """Wait until a plan is over, and return how it ended.

        `timeout`, in seconds, bounds the waiting, not the plan: raises `WaitTimeout`. Raises `PlanNotFound`, and
        `PlanFailed` unless it succeeded; with `check=False` the state says so.
        """
        last: list[PlanState] = []
        try:
            async with asyncio.timeout(timeout), aclosing(self.watch(name)) as states:  # type: ignore[type-var]
                async for state in states:
                    last[:] = [state]
        except TimeoutError:
            if timeout is None:
                raise
            suffix = f": it is {last[0].reason}" if last else ""
            raise WaitTimeout(
                f"the plan {name} has not finished after {timeout:g} s{suffix}",
                "it goes on: wait again, or cancel it",
            ) from None
        if check:
            raise_for_plan(last[0])
        return last[0]

    async def watch(self, name: str) -> AsyncIterator[PlanState]:
        """Yield its state, then each change; ends once it is final. Raises `PlanNotFound`."""
        async with aclosing((await self._plans(name)).watch_plan(name)) as states:  # type: ignore[type-var]
            async for state in states:
                yield state

    async def get(self, name: str) -> PlanState:
        """Return a plan as it is now. Raises `PlanNotFound`."""
        return await (await self._plans(name)).plan(name)

    async def list(self) -> Sequence[PlanState]:
        """Return all plans, oldest first."""
        return await (await self._plans()).plans()

    async def amend(self, name: str, text: str) -> PlanState:
        """Add to what was said. Raises `PlanNotFound`, `Refused`."""
        return await (await self._plans(name)).amend_plan(name, text)

    async def suspend(self, name: str) -> PlanState:
        """Have it begin nothing more until it is resumed. Raises `PlanNotFound`, `Refused`."""
        return await (await self._plans(name)).change_plan(name, Change.SUSPEND)

    async def resume(self, name: str) -> PlanState:
        """Let it go on. Raises `PlanNotFound`, `Refused`."""
        return await (await self._plans(name)).change_plan(name, Change.RESUME)

    async def cancel(self, name: str) -> PlanState:
        """End it. Raises `PlanNotFound`, `Refused`."""
        return await (await self._plans(name)).change_plan(name, Change.CANCEL)

    async def history(self, name: str, limit: int | None = None) -> dict[str, Any]:
        """Return what its repository holds: intent, amendments, the last `limit` commits or all, the tree.

        Raises `PlanNotFound`, `NotReady`, `Refused`.
        """
        return await (await self._plans(name)).plan_history(name, limit)
