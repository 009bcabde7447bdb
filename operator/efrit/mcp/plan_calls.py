"""What each tool for plans does with a backend, as `calls` has it for instances and requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from efrit.client.errors import Forbidden
from efrit.client.interface import ANY_INSTANCE, Backend
from efrit.client.plans import Change, Intent, NewPlan, PlanState
from efrit.mcp import plan_shapes as shapes
from efrit.mcp.failures import in_words


class PlanCalls:
    """The tools for plans over one backend."""

    def __init__(self, backend: Backend) -> None:
        self._plans = backend.planning()

    async def run(self, asked: shapes.RunPlanArguments, key: str | None) -> PlanState:
        """Hands it over."""
        git = asked.git
        return await self._plans.create_plan(
            NewPlan(
                intent=Intent(asked.intent, tuple(asked.acceptance_criteria), tuple(asked.constraints)),
                name=asked.plan_id,
                key=asked.idempotency_key or key,
                instance=None if asked.pool and asked.instance_id == ANY_INSTANCE else asked.instance_id,
                pool=asked.pool,
                git_url=git.url if git else None,
                git_branch=git.branch if git else None,
                git_revision=git.revision if git else None,
                git_secret=git.secret if git else None,
                build=tuple(asked.build),
                integration=tuple(asked.integration),
                quality=tuple(asked.quality),
                act_timeout=asked.act_timeout,
                max_steps=asked.max_steps,
                max_tokens=asked.max_tokens,
                timeout=asked.timeout,
                spec={"tasks": [each.model_dump(exclude_none=True) for each in asked.tasks]} if asked.tasks else {},
            )
        )

    async def list_plans(self) -> shapes.PlansAnswer:
        """All of them, oldest first."""
        return shapes.PlansAnswer(plans=[_summary(each) for each in await self._plans.plans()])

    async def get(self, plan_id: str) -> PlanState:
        """As it is now."""
        return await self._plans.plan(plan_id)

    async def amend(self, asked: shapes.AmendPlanArguments) -> PlanState:
        """With what was added."""
        return await self._plans.amend_plan(asked.plan_id, asked.text)

    async def change(self, asked: shapes.ChangePlanArguments) -> PlanState:
        """As it is after it was told."""
        return await self._plans.change_plan(asked.plan_id, Change(asked.change))

    async def log(self, asked: shapes.PlanLogArguments) -> shapes.PlanLogAnswer:
        """From the repository; for who may not ask for it, what the status has."""
        try:
            history = await self._plans.plan_history(asked.plan_id, asked.limit)
        except Forbidden as error:
            state = await self._plans.plan(asked.plan_id)
            known = [asdict(each) for each in reversed(state.commits[: asked.limit])]
            return _log(asked.plan_id, known, in_words(error))
        return _log(asked.plan_id, [_logged(each) for each in history.get("commits") or []])

    async def report(self, plan_id: str) -> str:
        """A page of its own with all of it."""
        from efrit.plan import report

        return report.html(await self._plans.plan_history(plan_id))


def described(state: PlanState) -> shapes.PlanAnswer:
    """All that is known of it."""
    known = asdict(state) | {"plan_id": state.name, "instance_id": state.instance, "final": state.final}
    return shapes.PlanAnswer.model_validate(known)


def _summary(state: PlanState) -> shapes.PlanSummary:
    return shapes.PlanSummary(
        plan_id=state.name,
        instance_id=state.instance,
        phase=state.phase,
        reason=state.reason,
        final=state.final,
        outcome=state.outcome,
        intent=state.intent.description[:200],
        current_task=state.current_task,
        step=state.step,
        tasks=state.counts.tasks,
        done=state.counts.done,
        created=state.created,
    )


def _log(plan_id: str, commits: list[dict[str, Any]], note: str = "") -> shapes.PlanLogAnswer:
    found = [shapes.LoggedCommitAnswer.model_validate(each) for each in commits]
    return shapes.PlanLogAnswer(plan_id=plan_id, complete=not note, note=note, commits=found)


def _logged(commit: Mapping[str, Any]) -> dict[str, Any]:
    names = {"inputTokens": "input_tokens", "outputTokens": "output_tokens"}
    return {names.get(key, key): value for key, value in commit.items()}
