"""Waiting for a plan, with a line of progress for each of its steps. Leaving the wait never touches the plan."""

from __future__ import annotations

from contextlib import AsyncExitStack

from efrit.backend.plans import Plans, PlanState
from efrit.mcp.progress import MAX_CHARACTERS, ProgressReporter, Report, wait_at_most


async def follow_plan(plans: Plans, name: str, seconds: float, report: Report) -> PlanState:
    """Return the plan once it is final, or as it is after `seconds`. Raises what `watch_plan` and `plan` raise."""

    async def until_final(reporter: ProgressReporter) -> PlanState | None:
        previous: PlanState | None = None
        states = plans.watch_plan(name)
        async with AsyncExitStack() as stack:
            if (close := getattr(states, "aclose", None)) is not None:
                stack.push_async_callback(close)
            async for state in states:
                for line in plan_changes(previous, state):
                    await reporter.report_line(line)
                if state.final:
                    return state
                previous = state
        return None

    state = await wait_at_most(seconds, until_final, report)
    return state if state is not None else await plans.plan(name)


def plan_changes(before: PlanState | None, after: PlanState) -> list[str]:
    """Return what is new between two states, one line each: the commits, then what is done now."""
    lines = []
    if before is not None:
        hashes = {commit.hash for commit in before.commits}
        lines += [commit.subject for commit in reversed(after.commits) if commit.hash not in hashes]
    position = plan_position(after)
    if before is None or position != plan_position(before):
        lines.append(position)
    return [line[:MAX_CHARACTERS] for line in lines]


def plan_position(state: PlanState) -> str:
    """Return where a plan stands, for people."""
    done = f" ({state.counts.done} of {state.counts.tasks} tasks done)" if state.counts.tasks else ""
    if state.final or state.reason != "Running" or not state.step:
        return f"{state.reason}: {state.message}{done}" if state.message else f"{state.reason}{done}"
    current = next((task for task in state.tree if task.id == state.current_task), None)
    description = f": {current.description}" if current is not None else ""
    return f"{state.step} {state.current_task or ''}".strip() + description + done
