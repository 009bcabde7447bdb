"""The history of a plan, asked of the instance that has it: an ordinary eval of `efrit-plan-history`, read whole.

Takes the rights, the queue and the budgets of any eval there; the plan itself does not notice.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from efrit.backend.errors import ClientError, NotReady, PlanNotFound, Refused
from efrit.backend.interface import Backend, Outcome, RequestReason, RequestState, RequestType, Work
from efrit.backend.plans import PlanState
from efrit.errors import EfritError
from efrit.plan.lisp_calls import form, unpacked, value_of

HISTORY_SECONDS = 120.0
"""How long an instance may gather it."""

QUEUE_SECONDS = 600.0
KEPT_SECONDS = 600.0
PRIORITY = 100


async def history_of(
    backend: Backend, plan: PlanState, limit: int | None = None, directory: str | None = None
) -> dict[str, Any]:
    """Return the unpacked history; `directory` has the plan's repository where the instance's workspace has it not.

    Raises `PlanNotFound`, `NotReady`, `Refused`, and what `backend` raises."""
    if not plan.begun or plan.instance is None:
        raise _not_begun(plan, local=backend.kind == "local")
    handle = await backend.submit(_work(plan, plan.instance, limit, directory, local=backend.kind == "local"))
    state = await backend.get(handle)
    if not state.final:
        async for update in backend.watch(handle):
            state = update.state or state
    if state.outcome is not Outcome.SUCCESS:
        raise _no_history(plan, state)
    return _parse_history(plan, await backend.result(handle))


def _not_begun(plan: PlanState, *, local: bool) -> NotReady:
    if plan.final:
        problem, advice = "ended before it began", f"`efrit plan show {plan.name}` shows why"
    elif local:
        problem, advice = "has not begun", f"it begins once it is watched: efrit plan watch {plan.name}"
    else:
        problem, advice = "has not begun: no instance has it yet", f"`efrit plan show {plan.name}` shows why"
    return NotReady(f"{plan.name} {problem}", advice)


def _work(plan: PlanState, instance: str, limit: int | None, directory: str | None, *, local: bool) -> Work:
    arguments = {"plan": plan.name, "uid": plan.uid} | ({} if limit is None else {"limit": limit})
    return Work(
        RequestType.EVAL,
        form("history", arguments),
        instance=instance,
        timeout=HISTORY_SECONDS,
        # How long work waits is bounded in a cluster alone.
        queue_timeout=None if local else QUEUE_SECONDS,
        priority=PRIORITY,
        retry=True,
        keep=KEPT_SECONDS,
        directory=directory,
    )


def _parse_history(plan: PlanState, result: str) -> dict[str, Any]:
    try:
        answer = value_of(result)
        history = None if answer.get("missing") else unpacked(answer)
    except EfritError as error:
        raise Refused(f"the history of {plan.name} cannot be read: {error.message}") from error
    if history is None:
        raise PlanNotFound(f"the workspace of {plan.instance} has nothing of the plan {plan.name}")
    if not _is_history(history):
        raise Refused(f"what {plan.instance} returned for {plan.name} is not a history")
    return history


def _is_history(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether its commits are objects: code in the instance may have made it."""
    commits = value.get("commits") or [] if isinstance(value, dict) else None
    return isinstance(commits, list) and all(isinstance(commit, dict) for commit in commits)


def _no_history(plan: PlanState, state: RequestState) -> ClientError:
    message = state.error.message if state.error is not None else state.message
    if state.error is not None and state.error.code == "void-function":
        return Refused(f"the Emacs of {plan.instance} does not support plans", "give the instance a newer image")
    if state.reason in (RequestReason.TIMED_OUT, RequestReason.CANCELLED, RequestReason.INTERRUPTED):
        return NotReady(f"{plan.instance} has not returned the history of {plan.name}: {message}", "try again")
    return Refused(f"the history of {plan.name} cannot be read: {message}")
