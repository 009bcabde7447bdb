"""The model server's answers: the events of a stream, their order, and what they add up to."""

from __future__ import annotations

import pytest

from tests.model.conversation import INTERRUPTED
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


def test_the_input_of_a_call_comes_in_pieces_after_an_empty_one(client: Client) -> None:
    client.model.play(
        "pieces", "[[turn]]\npace = {chunk = 4}\n[[turn.reply]]\ntool = 'todo_add'\ninput.content = 'a'"
    )
    events = client.events(conversation("scenario=pieces"), tools=[TODO_ADD])
    pieces = [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"]
    assert pieces == ["", '{"co', "nten", 't": ', '"a"}']


def test_a_call_without_input_has_only_the_empty_piece(client: Client) -> None:
    client.model.play("bare", "[[turn]]\n[[turn.reply]]\ntool = 'todo_status'")
    events = client.events(conversation("scenario=bare"), tools=[tool("todo_status")])
    assert [event["delta"] for event in events if event["type"] == "content_block_delta"] == [
        {"type": "input_json_delta", "partial_json": ""}
    ]
    assert put_together(events)["content"][0]["input"] == {}


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "pause_turn", "refusal", "stop_sequence"])
def test_an_answer_may_stop_for_any_reason(client: Client, reason: str) -> None:
    client.model.play("stopped", f"[[turn]]\nstop_reason = '{reason}'\n[[turn.reply]]\ntext = 'so far'")
    assert client.message(conversation("scenario=stopped"))["stop_reason"] == reason
    assert client.events(conversation("scenario=stopped"))[-2]["delta"]["stop_reason"] == reason


def test_a_refusal_may_have_no_content(client: Client) -> None:
    events = client.events(conversation("scenario=refusal"))
    assert [event["type"] for event in events] == ["message_start", "message_delta", "message_stop"]


def test_the_turn_follows_from_what_the_model_has_said_before(client: Client) -> None:
    second = conversation("Good day scenario=chat", "Hello, it reads from a script", "What did I say?")
    assert client.message(second)["content"] == [{"type": "text", "text": "You said: What did I say?"}]
    first = conversation("Good day scenario=chat")
    assert "Hello" in client.message(first)["content"][0]["text"]


def test_a_call_answers_what_the_last_one_gave(client: Client) -> None:
    client.model.play(
        "template",
        """
        [[turn]]
        [[turn.reply]]
        tool = "eval_sexp"
        input.expr = "(list 1)"
        [[turn]]
        [[turn.reply]]
        tool = "eval_sexp"
        input.expr = "(concat {{last_result | lisp}} {{result eval_sexp =~ n=([0-9]+)}} {{turn}})"
        [[turn.reply]]
        tool = "todo_update"
        input.id = "{{last_result =~ n=([0-9]+) | number}}"
        """,
    )
    tools = [EVAL, tool("todo_update", id="integer")]
    messages = conversation("scenario=template")
    first = client.message(messages, tools=tools)
    messages += [
        {"role": "assistant", "content": first["content"]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": first["content"][0]["id"], "content": 'a "b" \\ n=17'}
            ],
        },
    ]
    second = client.message(messages, tools=tools)
    assert [block["input"] for block in second["content"]] == [
        {"expr": '(concat "a \\"b\\" \\\\ n=17" 17 2)'},
        {"id": 17},
    ]


@pytest.mark.parametrize(("repeats", "expr"), [("true", "1"), ("false", "2")])
def test_a_call_that_was_interrupted_is_made_again_where_the_scenario_says_so(
    client: Client, repeats: str, expr: str
) -> None:
    calls = "".join(f"[[turn]]\n[[turn.reply]]\ntool = 'eval_sexp'\ninput.expr = '{n}'\n" for n in (1, 2))
    client.model.play("hit", f"repeats_interrupted = {repeats}\n{calls}")
    messages = conversation("scenario=hit")
    (call,) = client.message(messages, tools=[EVAL])["content"]
    hit = {"type": "tool_result", "tool_use_id": call["id"], "content": INTERRUPTED, "is_error": True}
    messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [hit]}]
    (again,) = client.message(messages, tools=[EVAL])["content"]
    assert again["input"] == {"expr": expr}
    assert again["id"] != call["id"]


def test_an_answer_with_lisp_names_the_session_of_the_request(client: Client) -> None:
    client.model.play("lisp", "[[turn]]\n[[turn.reply]]\nelisp = '(+ 1 1)'\nstatus = 'complete'")
    message = client.message(conversation('scenario=lisp {"context":{"session":{"id":"s-17","messages":0}}}'))
    assert message["content"][0]["text"] == '{"elisp": "(+ 1 1)", "session": {"id": "s-17", "status": "complete"}}'


def test_each_answer_has_an_id_of_its_request(client: Client) -> None:
    answers = [client.post(body(conversation("Good day scenario=chat"))) for _ in range(2)]
    assert len({answer.headers["request-id"] for answer in answers}) == 2
    assert all(answer.headers["request-id"].startswith("req_") for answer in answers)


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


def test_a_connection_takes_several_calls_and_bodies_in_chunks(client: Client) -> None:
    first = client.message(conversation("Good day scenario=chat"))
    chunks = iter(
        [b'{"model":"m","max_tokens":5,', b'"messages":[{"role":"user","content":"Good day scenario=chat"}]}']
    )
    headers = {"x-api-key": "test-key", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    second = client.http.post("/v1/messages", content=chunks, headers=headers)
    assert second.json()["content"] == first["content"]


def test_a_route_leads_to_the_scenario_of_the_first_message_that_has_all_it_wants(client: Client) -> None:
    client.model.play(
        "crossing",
        """
        route = [
          {when = ["^Assess", "part a"], play = "facts-of-a"},
          {when = ["^Assess"], play = "facts"},
        ]
        [[turn]]
        [[turn.reply]]
        text = "At the crossing."
        """,
    )
    for name in ("facts", "facts-of-a"):
        client.model.play(name, f'[[turn]]\n[[turn.reply]]\ntext = "This is {name}."')
    for first, answer in (
        ("Assess part a (scenario=crossing)", "This is facts-of-a."),
        ("Assess part b (scenario=crossing)", "This is facts."),
        ("Act on part a (scenario=crossing)", "At the crossing."),
    ):
        assert client.message(conversation(first))["content"] == [{"type": "text", "text": answer}]


def test_a_route_to_nowhere_says_so(client: Client) -> None:
    client.model.play("astray", 'route = [{when = [], play = "nowhere-at-all"}]')
    answer = client.post(body(conversation("scenario=astray")))
    assert answer.status_code == 400
    assert "astray leads to nowhere-at-all" in answer.json()["error"]["message"]
