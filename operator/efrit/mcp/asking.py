"""Passing a model's question on to the person at the client, and their answer back.

Clients up to 2025-11-25 are asked in the middle of the call, later ones by its result: they repeat the call with the
answer. Either way the question is an elicitation, and whoever cannot or will not answer gets the request as it ended.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult, InputResponses
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from efrit.client.interface import Handle
from efrit.mcp.waiting import Report, kept_alive

Context = ServerRequestContext[Any, Any]

_FIELD = "answer"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {_FIELD: {"type": "string", "title": "Answer", "minLength": 1}},
    "required": [_FIELD],
}


class Manner(Enum):
    """How the client of a call can be asked."""

    NOT_AT_ALL = "not at all"
    AT_ONCE = "at once"
    BY_THE_RESULT = "by the result"


def manner_of(ctx: Context) -> Manner:
    """How this call's client can be asked."""
    declared = ctx.session.client_capabilities
    elicitation = declared.elicitation if declared is not None else None
    # An empty declaration means forms: there was nothing else once.
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return Manner.NOT_AT_ALL
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return Manner.BY_THE_RESULT
    return Manner.AT_ONCE if ctx.session.can_send_request else Manner.NOT_AT_ALL


async def ask(ctx: Context, question: str, report: Report) -> str | None:
    """The answer; None where there is none."""
    try:
        async with kept_alive(report, "waiting for your answer"):
            result = await ctx.session.elicit_form(question, _SCHEMA, ctx.request_id)
    except MCPError:
        return None
    return _answer_in(result)


def question_as_result(handle: Handle, question: str) -> InputRequiredResult:
    """The result that asks; its state says which request asked."""
    return InputRequiredResult(
        input_requests={
            _FIELD: ElicitRequest(params=ElicitRequestFormParams(message=question, requested_schema=_SCHEMA))
        },
        request_state=json.dumps({"request": handle.id, "instance": handle.instance}),
    )


def asked_before(state: str) -> Handle:
    """The request that asked, from the state of `question_as_result`, which nobody can have changed."""
    kept = json.loads(state)
    return Handle(kept["request"], kept["instance"])


def answer_among(responses: InputResponses | None) -> str | None:
    """The answer in a repeated call; None where there is none."""
    response = (responses or {}).get(_FIELD)
    return _answer_in(response) if isinstance(response, ElicitResult) else None


def _answer_in(result: ElicitResult) -> str | None:
    if result.action != "accept" or result.content is None:
        return None
    text = result.content.get(_FIELD)
    return text if isinstance(text, str) and text else None
