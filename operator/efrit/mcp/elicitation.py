"""Questions of a model: passed on to the person at the client, and their answer back.

Clients up to revision 2025-11-25 are asked during the call. Later ones are asked by its result, and repeat the call
with the answer. Either way the question is an elicitation. A client that cannot or does not answer gets the request
as it ended.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult, InputResponses
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from efrit.backend.interface import Handle, RequestReason, RequestState, RequestType, Work
from efrit.mcp.progress import Report, heartbeat

Context = ServerRequestContext[Any, Any]

_FIELD = "answer"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {_FIELD: {"type": "string", "title": "Answer", "minLength": 1}},
    "required": [_FIELD],
}


class Mode(Enum):
    """How the client of a call can be asked."""

    NONE = "not at all"
    REQUEST = "by a request during the call"
    RESULT = "by the result of the call"


def mode_of(context: Context) -> Mode:
    """Return how the client of this call can be asked."""
    capabilities = context.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    # An empty declaration means forms: earlier revisions had nothing else.
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return Mode.NONE
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return Mode.RESULT
    return Mode.REQUEST if context.session.can_send_request else Mode.NONE


def question_of(state: RequestState) -> str | None:
    """Return the question a request ended with, or None if it ended otherwise."""
    if state.reason is not RequestReason.INPUT_REQUIRED or state.session is None or state.session.id is None:
        return None
    return state.session.question


async def elicit_answer(context: Context, question: str, report: Report) -> str | None:
    """Return the answer of the person at the client, or None if there is none."""
    try:
        async with heartbeat(report, "waiting for your answer"):
            result = await context.session.elicit_form(question, _SCHEMA, context.request_id)
    except MCPError:
        return None
    return answer_in(result)


def request_for(question: str) -> ElicitRequest:
    """Return the request that asks the person at the client."""
    return ElicitRequest(params=ElicitRequestFormParams(message=question, requested_schema=_SCHEMA))


def question_as_result(handle: Handle, question: str) -> InputRequiredResult:
    """Return the result that asks; its state names the request that asked."""
    return InputRequiredResult(
        input_requests={_FIELD: request_for(question)},
        request_state=json.dumps({"request": handle.id, "instance": handle.instance}),
    )


def request_that_asked(request_state: str) -> Handle:
    """Return the request named by the state of `question_as_result`, which the server has sealed."""
    request = json.loads(request_state)
    return Handle(request["request"], request["instance"])


def answer_in_responses(responses: InputResponses | None) -> str | None:
    """Return the answer in a repeated call, or None if there is none."""
    response = (responses or {}).get(_FIELD)
    return answer_in(response) if isinstance(response, ElicitResult) else None


def answer_in(result: ElicitResult) -> str | None:
    """Return the answer of the person, or None if there is none."""
    if result.action != "accept" or result.content is None:
        return None
    text = result.content.get(_FIELD)
    return text if isinstance(text, str) and text else None


def reply_to(state: RequestState, answer: str, key: str) -> Work:
    """Return the work that continues the session of a request with the answer to its question."""
    return Work(
        type=state.type or RequestType.COMMAND,
        content=answer,
        instance=state.handle.instance,
        session=state.session.id if state.session is not None else None,
        key=key,
    )
