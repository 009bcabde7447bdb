"""What a caller needs for each step with a plan: no more than kubectl would ask, and not a verb less."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from efrit.backend.errors import Forbidden
from efrit.backend.plans import Change, Intent, NewPlan
from efrit.mcp.access_review import Caller, Permission
from efrit.mcp.authorized_backend import AuthorizedBackend
from efrit.mcp.authorized_plans import AuthorizedPlans
from tests.unit.mcp.scripted import ScriptedBackend
from tests.unit.mcp.scripted_plans import HISTORY, ScriptedPlans

Step = Callable[[AuthorizedPlans], Coroutine[Any, Any, object]]


async def create(plans: AuthorizedPlans) -> object:
    return await plans.create_plan(NewPlan(Intent("t"), name="new", instance="default"))


async def create_anywhere(plans: AuthorizedPlans) -> object:
    return await plans.create_plan(NewPlan(Intent("t")))


async def watch(plans: AuthorizedPlans) -> object:
    return await anext(plans.watch_plan("calc"))


STEPS: dict[str, tuple[Step, set[str]]] = {
    "create": (create, {"create efritplans", "get efritplans new", "get efritinstances default"}),
    "create anywhere": (create_anywhere, {"create efritplans", "get efritplans", "list efritinstances"}),
    "list": (lambda plans: plans.plans(), {"list efritplans"}),
    "get": (lambda plans: plans.plan("calc"), {"get efritplans calc"}),
    "watch": (watch, {"get efritplans calc", "watch efritplans calc"}),
    "amend": (lambda plans: plans.amend_plan("calc", "t"), {"get efritplans calc", "patch efritplans calc"}),
    "change": (
        lambda plans: plans.change_plan("calc", Change.SUSPEND),
        {"get efritplans calc", "patch efritplans calc"},
    ),
    "history": (
        lambda plans: plans.plan_history("calc"),
        {
            "get efritplans calc",
            "create efritrequests",
            "get efritrequests",
            "get efritinstances default",
            "get efritrequests REQUEST",
        },
    ),
}


class Rights:
    """Everything is allowed but one permission, and what was asked is kept."""

    def __init__(self, refused: str | None = None) -> None:
        self.refused = refused
        self.reviews: list[str] = []

    async def authenticate(self, token: str) -> Caller | None:
        return Caller(token)

    async def is_allowed(self, caller: Caller, permission: Permission) -> bool:
        name = "REQUEST" if permission.resource == "efritrequests" and permission.name else permission.name
        self.reviews.append(f"{permission.verb} {permission.resource} {name}".strip())
        return self.reviews[-1] != self.refused


async def guarded(rights: Rights) -> tuple[AuthorizedPlans, ScriptedBackend, ScriptedPlans]:
    behind = ScriptedBackend()
    behind.add("default")
    plans = ScriptedPlans(behind)
    behind.plans_of = plans
    await plans.create_plan(NewPlan(Intent("t"), name="calc"))
    plans.created.clear()
    plans.replies("calc", HISTORY)

    async def opened() -> ScriptedBackend:
        return behind

    return AuthorizedBackend(rights, Caller("ann"), "team", opened).planning(), behind, plans


@pytest.mark.parametrize("name", STEPS)
async def test_a_step_asks_for_exactly_these_rights(name: str) -> None:
    step, needed = STEPS[name]
    rights = Rights()
    await step((await guarded(rights))[0])
    assert set(rights.reviews) == needed


@pytest.mark.parametrize(("name", "right"), [(name, right) for name in STEPS for right in sorted(STEPS[name][1])])
async def test_without_one_of_them_nothing_is_done(name: str, right: str) -> None:
    plans, behind, scripted = await guarded(Rights(right))
    before = dict(scripted.states)
    with pytest.raises(Forbidden, match="ann may not"):
        await STEPS[name][0](plans)
    assert (scripted.states, scripted.created) == (before, [])
    # Reading the answer is the last step of a history; only then has it been asked.
    assert (behind.submitted == []) is (right != "get efritrequests REQUEST")
