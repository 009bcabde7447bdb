"""The tools there are, in the order clients are told them, and which of them a server may offer. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from efrit.client.interface import RequestType
from efrit.mcp import plan_shapes, shapes


class Effect(StrEnum):
    """What a call may do to the world."""

    READS = "reads"
    ADDS = "adds"
    DESTROYS = "destroys"


class Access(StrEnum):
    """What a server allows. Without destructive calls, work is for the model alone: a chat has no tools."""

    FULL = "full"
    NOT_DESTRUCTIVE = "not-destructive"
    READ_ONLY = "read-only"


@dataclass(frozen=True)
class Tool:
    """One tool. `idempotent`: calling it again with the same arguments changes nothing more."""

    name: str
    title: str
    description: str
    takes: type[shapes.Arguments]
    returns: type[shapes.Answer]
    effect: Effect
    idempotent: bool = False
    open_world: bool = False


_RUNS = (
    "eval runs Emacs Lisp as written and returns the value of the last form, chat asks the instance's model, command "
    "lets the model work in Emacs with tools."
)
_CHATS = "This server allows chats only: the instance's model answers, without tools."

_EXECUTE = (
    "Run an eval, chat or command in an Efrit instance (a resident Emacs) and wait for its answer. {runs} It runs "
    "once: if the connection breaks meanwhile it goes on, and efrit_get_request has the answer. For work of more "
    "than a minute use efrit_submit."
)
_SUBMIT = (
    "Hand over an eval, chat or command and return at once; request_id is the durable handle for efrit_wait, "
    "efrit_get_request and efrit_cancel, in this session or any later one. {runs}"
)


def _work(access: Access) -> tuple[Tool, Tool]:
    chats = access is not Access.FULL
    effect = Effect.ADDS if chats else Effect.DESTROYS
    runs = _CHATS if chats else _RUNS
    return (
        Tool(
            "efrit_execute",
            "Run in Emacs",
            _EXECUTE.format(runs=runs),
            shapes.ChatArguments if chats else shapes.ExecuteArguments,
            shapes.ExecuteAnswer,
            effect,
            open_world=True,
        ),
        Tool(
            "efrit_submit",
            "Hand over work",
            _SUBMIT.format(runs=runs),
            shapes.SubmitChatArguments if chats else shapes.SubmitArguments,
            shapes.RequestAnswer,
            effect,
            open_world=True,
        ),
    )


_LIST = Tool(
    "efrit_list_instances",
    "List instances",
    "List the Efrit instances there are and whether they run.",
    shapes.NoArguments,
    shapes.InstancesAnswer,
    Effect.READS,
    idempotent=True,
)
_STATS = Tool(
    "efrit_get_queue_stats",
    "Queue statistics",
    "Figures of an instance's queue: how many requests it has answered and is working on, how long they take.",
    shapes.InstanceArguments,
    shapes.QueueStatsAnswer,
    Effect.READS,
    idempotent=True,
)
_START = Tool(
    "efrit_start_instance",
    "Start an instance",
    "Start an Efrit instance; one that is not there yet is made. Work sent to a stopped one starts it too.",
    shapes.StartArguments,
    shapes.StartAnswer,
    Effect.ADDS,
    idempotent=True,
)
_STOP = Tool(
    "efrit_stop_instance",
    "Stop an instance",
    "Stop a running Efrit instance once what it runs has ended. Its files and what waits in its queue stay; buffers "
    "that were not saved do not.",
    shapes.StopArguments,
    shapes.StopAnswer,
    Effect.DESTROYS,
    idempotent=True,
)
_GET = Tool(
    "efrit_get_request",
    "Look at a request",
    "A request as it is now, and its answer once it is final.",
    shapes.GetArguments,
    shapes.RequestAnswer,
    Effect.READS,
    idempotent=True,
)


def _wait(access: Access) -> Tool:
    # A question it passes on, once answered, goes on with the session: that is more than reading.
    return Tool(
        "efrit_wait",
        "Wait for a request",
        "Wait until a request is final, with progress meanwhile, and return it. It returns earlier when timeout is "
        "over: final is then false and the work goes on.",
        shapes.WaitArguments,
        shapes.RequestAnswer,
        Effect.READS if access is Access.READ_ONLY else Effect.ADDS,
        idempotent=True,
    )


_CANCEL = Tool(
    "efrit_cancel",
    "Cancel a request",
    "Ask a request to stop. What it has done stays done; one that still waits will never run.",
    shapes.CancelArguments,
    shapes.RequestAnswer,
    Effect.DESTROYS,
    idempotent=True,
)


_PLANS = (
    Tool(
        "efrit_run_plan",
        "Run a plan",
        "Begin work of many steps towards an intent: a tree of tasks on an instance's workspace, each done (act), "
        "looked at (assess) and learned from (adapt), every step a git commit. Returns at once; plan_id is the "
        "durable handle for efrit_wait_plan, efrit_get_plan and efrit_change_plan.",
        plan_shapes.RunPlanArguments,
        plan_shapes.PlanAnswer,
        Effect.DESTROYS,
        open_world=True,
    ),
    Tool(
        "efrit_list_plans",
        "List plans",
        "List the plans there are and where they stand.",
        plan_shapes.ListPlansArguments,
        plan_shapes.PlansAnswer,
        Effect.READS,
        idempotent=True,
    ),
    Tool(
        "efrit_get_plan",
        "Look at a plan",
        "A plan as it is now: its tree of tasks, what is done at the moment, what was seen last, the last commits, "
        "what it has cost.",
        plan_shapes.PlanArguments,
        plan_shapes.PlanAnswer,
        Effect.READS,
        idempotent=True,
    ),
    Tool(
        "efrit_wait_plan",
        "Wait for a plan",
        "Wait until a plan is final, with each of its steps as progress, and return it. It returns earlier when "
        "timeout is over: final is then false and the plan goes on.",
        plan_shapes.WaitPlanArguments,
        plan_shapes.PlanAnswer,
        Effect.READS,
        idempotent=True,
    ),
    Tool(
        "efrit_amend_plan",
        "Amend a plan",
        "Add to a plan what was forgotten or became clear; from the next task on it is heeded. What was said stays "
        "said: the intent and earlier amendments never change.",
        plan_shapes.AmendPlanArguments,
        plan_shapes.PlanAnswer,
        Effect.DESTROYS,
    ),
    Tool(
        "efrit_change_plan",
        "Suspend, resume or cancel a plan",
        "Suspend a plan (what runs ends, nothing more begins), let it go on, or end it for good. What was done stays "
        "done.",
        plan_shapes.ChangePlanArguments,
        plan_shapes.PlanAnswer,
        Effect.DESTROYS,
        idempotent=True,
    ),
    Tool(
        "efrit_get_plan_log",
        "Commits of a plan",
        "The commits of a plan's repository, oldest first, with what each step came to and cost. Asks the plan's "
        "instance; without the right to do so, the last commits of the status are returned.",
        plan_shapes.PlanLogArguments,
        plan_shapes.PlanLogAnswer,
        Effect.READS,
        idempotent=True,
    ),
)


def may_reply(access: Access, kind: RequestType | None) -> bool:
    """Whether a server with this access goes on with a session of this kind when its question is answered."""
    return access is Access.FULL or (access is Access.NOT_DESTRUCTIVE and kind is RequestType.CHAT)


def catalogue(access: Access, *, plans: bool = False) -> tuple[Tool, ...]:
    """The tools a server with this access offers, always in the same order; `plans`: where there are some."""
    execute, submit = _work(access)
    allowed = {
        Access.FULL: {Effect.READS, Effect.ADDS, Effect.DESTROYS},
        Access.NOT_DESTRUCTIVE: {Effect.READS, Effect.ADDS},
        Access.READ_ONLY: {Effect.READS},
    }[access]
    every = (execute, _LIST, _STATS, _START, _STOP, submit, _GET, _wait(access), _CANCEL, *(_PLANS if plans else ()))
    return tuple(tool for tool in every if tool.effect in allowed)
