"""Plans in a cluster: custom resources that are created, read and changed, and a repository that an instance reads.

What a user may not do, the API server refuses.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

from efrit.backend.cluster.api import Api, Json
from efrit.backend.cluster.pools import check_pool
from efrit.backend.cluster.watch_object import states_of
from efrit.backend.errors import Conflict, NotFound, NotReady, PlanNotFound, Refused
from efrit.backend.interface import ANY_INSTANCE, Backend
from efrit.backend.placement import default_instance, least_loaded
from efrit.backend.plan_history import history_of
from efrit.backend.plan_states import named_target, plan_digest, plan_name, plan_of, plan_spec, without_texts
from efrit.backend.plans import Change, NewPlan, PlanState
from efrit.backend.resource_fields import DIGEST
from efrit.resources import PLANS

_AMEND_TRIES = 30
_CHANGES: dict[Change, Json] = {
    Change.SUSPEND: {"suspend": True},
    Change.RESUME: {"suspend": False},
    Change.CANCEL: {"cancel": True},
}


class ClusterPlans:
    """`efrit.backend.plans.Plans` in one namespace; `backend` is the same namespace's."""

    def __init__(self, api: Api, namespace: str, backend: Backend) -> None:
        self._api = api
        self._namespace = namespace
        self._backend = backend

    async def create_plan(self, new: NewPlan) -> PlanState:
        """Create an EfritPlan; one with the same name or key is the same plan."""
        if new.directory is not None:
            raise Refused("only an instance on this machine has the directories of this machine", "leave it out")
        spec = plan_spec(new)
        named = named_target(new, spec)
        name = plan_name(new, spec["intent"]["description"], secrets.token_hex(3)[:5])
        fixed = new.name is not None or new.key is not None
        if fixed and (obj := await self._find(name)) is not None:
            return _check_same(obj, plan_digest(spec, named))
        body = plan_manifest(name, spec, named, await self._target(named))
        try:
            return plan_of(await self._api.create(body, self._namespace))
        except Conflict:
            obj = await self._find(name)
            if obj is None or not fixed:
                raise
            return _check_same(obj, plan_digest(spec, named))

    async def _target(self, named: Json | None) -> Json:
        if named is None:
            return {
                "instanceRef": {"name": default_instance(instance.id for instance in await self._backend.instances())}
            }
        if (instance := (named.get("instanceRef") or {}).get("name")) == ANY_INSTANCE:
            return {"instanceRef": {"name": least_loaded(await self._backend.instances()).id}}
        if instance:
            # One that is not there would leave the plan waiting for it.
            await self._backend.instance(instance)
        if pool := (named.get("poolRef") or {}).get("name"):
            await check_pool(self._api, self._namespace, pool)
        return named

    async def plans(self, *, brief: bool = False) -> Sequence[PlanState]:
        """Return the plans of the namespace, oldest first."""
        epoch = datetime.fromtimestamp(0, UTC)
        states: list[PlanState] = []
        # One object at a time: thousands of large ones may be there.
        async for obj in self._api.pages(PLANS, self._namespace):
            state = plan_of(obj)
            states.append(without_texts(state) if brief else state)  # gate: brief-plans
        return sorted(states, key=lambda state: (state.created or epoch, state.name))

    async def plan(self, name: str) -> PlanState:
        """Return the present state. Raises `PlanNotFound`."""
        return plan_of(await self._plan(name))

    async def _plan(self, name: str) -> Json:
        obj = await self._find(name)
        if obj is None:
            raise self._gone(name)
        return obj

    async def _find(self, name: str) -> Json | None:
        try:
            return await self._api.get(PLANS, self._namespace, name)
        except NotFound:
            return None

    def watch_plan(self, name: str) -> AsyncIterator[PlanState]:
        """Yield the plan's states as they change."""
        return states_of(self._api, PLANS, self._namespace, name, plan_of, lambda: self._gone(name))

    async def amend_plan(self, name: str, text: str) -> PlanState:
        """Append the text in one step of the API server, so that concurrent amendments are all kept."""
        if not text.strip():
            raise Refused("there is nothing to add: the amendment is empty", "say what was forgotten")
        for _ in range(_AMEND_TRIES):
            obj = await self._plan(name)
            _require_open(obj, "an amendment would have no effect")
            version = obj["metadata"]["resourceVersion"]
            if obj["spec"].get("amendments") is not None:
                patch: list[Json] = [{"op": "add", "path": "/spec/amendments/-", "value": text}]
            else:
                # The list itself is made only where nobody else has made it meanwhile.
                patch = [
                    {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                    {"op": "add", "path": "/spec/amendments", "value": [text]},
                ]
            try:
                return plan_of(await self._patch(name, patch))
            except Conflict:
                pass
            except Refused:
                if (await self._plan(name))["metadata"]["resourceVersion"] == version or len(patch) == 1:
                    raise
            await asyncio.sleep(random.uniform(0.01, 0.1))  # noqa: S311 - so that two do not meet again
        raise NotReady(f"{name} changes all the time: the amendment was not added", "try again")

    async def _patch(self, name: str, patch: Sequence[Json]) -> Json:
        return await self._api.json_patch(PLANS, self._namespace, name, patch)

    async def change_plan(self, name: str, change: Change) -> PlanState:
        """Set spec.suspend or spec.cancel; the operator does the rest."""
        obj = await self._plan(name)
        if change is Change.CANCEL and plan_of(obj).final:
            return plan_of(obj)
        _require_open(obj, f"there is nothing to {change}")
        try:
            return plan_of(await self._api.patch(PLANS, self._namespace, name, {"spec": _CHANGES[change]}))
        except NotFound as error:
            raise self._gone(name) from error

    async def plan_history(self, name: str, limit: int | None = None) -> dict[str, Any]:
        """Return the history in the plan's repository.

        It is read by an eval on the plan's instance, and needs the permissions of any eval there.
        """
        return await history_of(self._backend, await self.plan(name), limit)

    def _gone(self, name: str) -> PlanNotFound:
        return PlanNotFound(f"there is no plan {name} in the namespace {self._namespace}", "see `efrit plan list`")


def plan_manifest(name: str, spec: Json, named: Json | None, chosen: Json) -> dict[str, Any]:
    """Return the EfritPlan; `named` is the target named by the caller, `chosen` the one that executes it."""
    annotations = {DIGEST: plan_digest(spec, named)}
    return PLANS.manifest({"name": name, "annotations": annotations}, spec={**spec, **chosen})


def _check_same(obj: Json, digest: str) -> PlanState:
    name = obj["metadata"]["name"]
    if (obj["metadata"].get("annotations") or {}).get(DIGEST) != digest:
        raise Conflict(f"there is a plan {name} already, with something else in it", "choose another name or key")
    return plan_of(obj)


def _require_open(obj: Json, refusal: str) -> None:
    state = plan_of(obj)
    if state.final:
        raise Refused(f"{state.name} is over ({state.reason}): {refusal}", "create a new plan")
