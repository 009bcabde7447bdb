"""Waiting for a plan while telling each of its steps. Leaving the wait never touches the plan."""

from __future__ import annotations

from contextlib import AsyncExitStack

from efrit.client.plans import Plans, PlanState
from efrit.mcp.waiting import LONGEST, Report, Teller, within


async def follow_plan(plans: Plans, name: str, seconds: float, report: Report) -> PlanState:
    """The plan once it is final, or as it is after `seconds`. Raises what `watch_plan` and `plan` raise."""

    async def until_final(teller: Teller) -> PlanState | None:
        last: PlanState | None = None
        states = plans.watch_plan(name)
        async with AsyncExitStack() as stack:
            if (close := getattr(states, "aclose", None)) is not None:
                stack.push_async_callback(close)
            async for state in states:
                for sentence in sentences(last, state):
                    await teller.say(sentence)
                if state.final:
                    return state
                last = state
        return None

    found = await within(seconds, until_final, report)
    return found if found is not None else await plans.plan(name)


def sentences(before: PlanState | None, after: PlanState) -> list[str]:
    """What is new between two looks: the commits, then what is done now."""
    told = []
    if before is not None:
        known = {each.hash for each in before.commits}
        told += [each.subject for each in reversed(after.commits) if each.hash not in known]
    here = where(after)
    if before is None or here != where(before):
        told.append(here)
    return [each[:LONGEST] for each in told]


def where(state: PlanState) -> str:
    """Where a plan stands, for people."""
    done = f" ({state.counts.done} of {state.counts.tasks} tasks done)" if state.counts.tasks else ""
    if state.final or state.reason != "Running" or not state.step:
        return f"{state.reason}: {state.message}{done}" if state.message else f"{state.reason}{done}"
    task = next((each for each in state.tree if each.id == state.current_task), None)
    about = f": {task.description}" if task is not None else ""
    return f"{state.step} {state.current_task or ''}".strip() + about + done
