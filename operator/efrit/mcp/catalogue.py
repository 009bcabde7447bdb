"""The tools there are, in the order clients are told them, and which of them a server may offer. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from efrit.client.interface import RequestType
from efrit.mcp import shapes


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


def may_reply(access: Access, kind: RequestType | None) -> bool:
    """Whether a server with this access goes on with a session of this kind when its question is answered."""
    return access is Access.FULL or (access is Access.NOT_DESTRUCTIVE and kind is RequestType.CHAT)


def catalogue(access: Access) -> tuple[Tool, ...]:
    """The tools a server with this access offers, always in the same order."""
    execute, submit = _work(access)
    allowed = {
        Access.FULL: {Effect.READS, Effect.ADDS, Effect.DESTROYS},
        Access.NOT_DESTRUCTIVE: {Effect.READS, Effect.ADDS},
        Access.READ_ONLY: {Effect.READS},
    }[access]
    every = (execute, _LIST, _STATS, _START, _STOP, submit, _GET, _wait(access), _CANCEL)
    return tuple(tool for tool in every if tool.effect in allowed)
