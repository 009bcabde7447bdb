"""The history of a plan: what is asked of its instance, and what each way of not getting it is called."""

from typing import Any

import pytest
from msgspec.structs import replace

from efrit.backend.errors import ClientError, NotReady, PlanNotFound, Refused
from efrit.backend.interface import Outcome, RequestReason, RequestType
from efrit.backend.plan_history import history_of
from efrit.backend.plans import Intent, PlanPhase, PlanReason, PlanState
from efrit.plan.lisp_calls import form
from tests.unit.mcp.scripted import ScriptedBackend, broken, evaluated
from tests.unit.mcp.scripted_plans import HISTORY, answer

PLAN = PlanState("calc", PlanPhase.RUNNING, PlanReason.RUNNING, Intent("t"), uid="u", instance="default", begun=True)
FORM = form("history", {"plan": "calc", "uid": "u"})


def backend(**ended: Any) -> ScriptedBackend:
    made = ScriptedBackend({FORM: ended})
    made.add("default")
    return made


@pytest.mark.parametrize("packed", [False, True])
async def test_it_is_asked_for_by_an_eval_and_unpacked(packed: bool) -> None:
    scripted = backend(**evaluated(answer(HISTORY, packed=packed)))
    assert await history_of(scripted, PLAN) == HISTORY
    (work,) = scripted.submitted
    assert (work.type, work.instance, work.retry, work.key) == (RequestType.EVAL, "default", True, None)


async def test_a_limit_is_asked_of_the_instance() -> None:
    scripted = ScriptedBackend()
    scripted.add("default")
    scripted.answers[form("history", {"plan": "calc", "uid": "u", "limit": 3})] = evaluated(answer(HISTORY))
    assert await history_of(scripted, PLAN, 3) == HISTORY


async def test_a_plan_that_has_not_begun_has_none_and_nobody_is_asked() -> None:
    scripted = backend()
    waits = replace(PLAN, phase=PlanPhase.PENDING, begun=False)
    for kind, plan, message in (
        ("cluster", waits, "calc has not begun: no instance has it yet; `efrit plan show calc` shows why"),
        ("cluster", replace(waits, instance=None), "calc has not begun: no instance has it yet; `efrit plan show"),
        ("local", waits, "calc has not begun; it begins once it is watched: efrit plan watch calc"),
        (
            "local",
            replace(waits, phase=PlanPhase.FAILED),
            "calc ended before it began; `efrit plan show calc` shows why",
        ),
    ):
        scripted.kind = kind
        with pytest.raises(NotReady) as raised:
            await history_of(scripted, plan)
        assert f"{raised.value.message}; {raised.value.advice}".startswith(message)
    assert scripted.submitted == []


@pytest.mark.parametrize(
    ("ended", "kind", "message"),
    [
        (evaluated('"{\\"missing\\":true}"'), PlanNotFound, "has nothing of the plan calc"),
        (evaluated("nil"), Refused, "cannot be read"),
        (evaluated('"{}"'), Refused, "cannot be read"),
        (evaluated('"{\\"value\\":[1]}"'), Refused, "is not a history"),
        (evaluated(answer({"commits": 5})), Refused, "is not a history"),
        (evaluated(answer({"commits": ["one"]})), Refused, "is not a history"),
        (evaluated('"{\\"packed\\":\\"AAAA\\"}"'), Refused, "cannot be read"),
        (broken("void-function", "Symbol's function definition is void"), Refused, "does not support plans"),
        (broken("efrit-plan-changed", "Somebody has committed by hand."), Refused, "committed by hand"),
        (
            {"reason": RequestReason.TIMED_OUT, "outcome": Outcome.FAILURE, "message": "Too slow."},
            NotReady,
            "Too slow",
        ),
    ],
)
async def test_what_is_no_history_is_reported_in_words(
    ended: dict[str, Any], kind: type[ClientError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        await history_of(backend(**ended), PLAN)
