"""The model server's answers: the events of a stream, their order, and what they add up to."""

from __future__ import annotations

import pytest

from tests.model.stream import put_together
from tests.unit.harness.model.conftest import Client, body, conversation, tool

TODO_ADD = tool("todo_add", content="string")
EVAL = tool("eval_sexp", expr="string")


def test_the_events_of_a_text_come_in_the_order_of_the_api(client: Client) -> None:
    events = client.events(conversation("Good day scenario=chat"))
    kinds = [event["type"] for event in events]
    assert kinds == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    start, end = events[0]["message"], events[-2]
    assert (start["type"], start["role"], start["content"], start["stop_reason"]) == (
        "message",
        "assistant",
        [],
        None,
    )
    assert start["model"] == "claude-test"
    assert start["id"].startswith("msg_")
    assert events[1]["content_block"] == {"type": "text", "text": ""}
    assert end["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert end["usage"]["output_tokens"] > start["usage"]["output_tokens"] == 1


def test_a_stream_adds_up_to_the_answer_that_is_not_streamed(client: Client) -> None:
    client.model.play(
        "mixed",
        """
        [[turn]]
        pace = {chunk = 2}
        [[turn.reply]]
        thinking = "Hmm."
        [[turn.reply]]
        text = "I add a todo: äöü 🦊"
        [[turn.reply]]
        tool = "todo_add"
        input = {content = 'with "quotes", a \\ and 🦊'}
        [[turn.reply]]
        tool = "todo_status"
        """,
    )
    messages = conversation("scenario=mixed")
    tools = [TODO_ADD, tool("todo_status")]
    whole = client.message(messages, tools=tools)
    events = client.events(messages, tools=tools)
    streamed = put_together(events)
    assert streamed["content"] == whole["content"]
    assert streamed["stop_reason"] == whole["stop_reason"] == "tool_use"
    assert streamed["usage"] == whole["usage"]
    calls = [block for block in whole["content"] if block["type"] == "tool_use"]
    assert [call["input"] for call in calls] == [{"content": 'with "quotes", a \\ and 🦊'}, {}]
    assert len({call["id"] for call in calls}) == 2
    started = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert [block.get("input") for block in started] == [None, None, {}, {}]
    indexes = [event["index"] for event in events if event["type"] == "content_block_stop"]
    assert indexes == [0, 1, 2, 3]


def test_what_a_turn_did_not_expect_is_refused_and_named_in_the_log(client: Client) -> None:
    answer = client.post(body(conversation("Good day scenario=chat"), tools=[EVAL]))
    assert answer.status_code == 400
    assert "no tools should be on offer; there are: eval_sexp" in answer.json()["error"]["message"]
    (entry,) = client.model.log("chat")
    assert entry["status"] == 400
    assert entry["unmet"]


@pytest.mark.parametrize(
    ("tools", "choice", "message"),
    [
        ([TODO_ADD], {"type": "auto"}, "calls eval_sexp, which is not on offer"),
        ([tool("eval_sexp", code="string")], {"type": "auto"}, "the input of eval_sexp lacks code"),
        ([tool("eval_sexp", expr="integer")], {"type": "auto"}, "eval_sexp: expr should be integer"),
        ([EVAL], {"type": "none"}, "calls eval_sexp, which is not on offer"),
    ],
)
def test_the_model_calls_no_tool_otherwise_than_it_is_offered(
    client: Client, tools: list[dict[str, object]], choice: dict[str, str], message: str
) -> None:
    client.model.play("calls", "[[turn]]\n[[turn.reply]]\ntool = 'eval_sexp'\ninput.expr = '1'")
    answer = client.post(body(conversation("scenario=calls"), tools=tools, tool_choice=choice))
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_an_unknown_scenario_and_a_turn_after_the_last_are_refused(client: Client) -> None:
    assert "no-such" in client.post(body(conversation("scenario=no-such"))).json()["error"]["message"]
    late = client.post(body(conversation("scenario=unicode 你好 🦊", "answered", "more")))
    assert "the scenario ends after 1 turns" in late.json()["error"]["message"]
