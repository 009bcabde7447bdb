"""Tools of the suite that ask by their result, and what they ask: a call is repeated until it has every answer."""

from __future__ import annotations

from mcp import types

_TEXT = {"type": "string"}


def _asked(message: str, name: str, kind: str = "string") -> types.ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def _sampled(text: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


NAME = _asked("What is your name?", "name")
CONFIRM = _asked("Please confirm", "ok", "boolean")
GREETING = _sampled("Generate a greeting")
ROOTS = types.ListRootsRequest()
PROMPT: types.InputRequests = {"user_context": _asked("What context should the prompt use?", "context")}

_PREFIX = "test_input_required_result_"
ROUNDS: dict[str, list[types.InputRequests]] = {
    f"{_PREFIX}elicitation": [{"user_name": NAME}],
    f"{_PREFIX}sampling": [{"capital_question": _sampled("What is the capital of France?")}],
    f"{_PREFIX}list_roots": [{"client_roots": ROOTS}],
    f"{_PREFIX}request_state": [{"confirm": CONFIRM}],
    f"{_PREFIX}tampered_state": [{"confirm": CONFIRM}],
    f"{_PREFIX}capabilities": [{"user_name": NAME, "greeting": GREETING}],
    f"{_PREFIX}multiple_inputs": [{"user_name": NAME, "greeting": GREETING, "client_roots": ROOTS}],
    f"{_PREFIX}multi_round": [
        {"step1": _asked("Step 1: What is your name?", "name")},
        {"step2": _asked("Step 2: What is your favorite color?", "color")},
    ],
    "test_streaming_elicitation": [{"user_name": NAME}],
    "test_tool_with_task": [{"user_name": NAME}],
}
"""What each tool asks, in one round or several."""


def question(
    rounds: list[types.InputRequests],
    state: str | None,
    responses: types.InputResponses | None,
    capabilities: types.ClientCapabilities | None,
) -> types.InputRequiredResult | None:
    """Return what is to be asked now, of what the client can be asked; None once all is answered."""
    number = int(state) if state is not None else 0
    if number < len(rounds) and set(_askable(rounds[number], capabilities)) <= set(responses or {}):
        number += 1
        responses = None
    if number == len(rounds):
        return None
    return types.InputRequiredResult(input_requests=_askable(rounds[number], capabilities), request_state=str(number))


def _askable(requests: types.InputRequests, capabilities: types.ClientCapabilities | None) -> types.InputRequests:
    has = capabilities or types.ClientCapabilities()
    able = {"elicitation/create": has.elicitation, "sampling/createMessage": has.sampling, "roots/list": has.roots}
    return {key: request for key, request in requests.items() if able[request.method] is not None}
