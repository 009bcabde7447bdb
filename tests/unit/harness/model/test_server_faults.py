"""What the model server breaks, and that it breaks it for as many attempts as the scenario says."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.support.plain_http import NO_TLS
from tests.unit.harness.model.conftest import HEADERS, Client, body, conversation, named_events


def ask(client: Client, name: str, **more: object) -> httpx.Response:
    return client.post(body(conversation(f"scenario={name}"), **more))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_status_comes_as_the_error_of_the_api(client: Client, status: int, kind: str, stream: bool) -> None:
    client.model.play("fails", f"[[turn]]\n[[turn.reply]]\ntext = 'x'\n[[turn.fault]]\nstatus = {status}")
    first = ask(client, "fails", stream=stream)
    assert first.status_code == status
    assert first.headers["content-type"] == "application/json"
    assert first.json()["error"]["type"] == kind
    assert ask(client, "fails", stream=stream).status_code == 200


def test_a_time_to_wait_comes_in_seconds_or_as_a_date(client: Client) -> None:
    assert ask(client, "rate-limited").headers["retry-after"] == "1"
    before = time.time()
    date = ask(client, "rate-limited-until").headers["retry-after"]
    assert before <= email.utils.parsedate_to_datetime(date).timestamp() <= time.time() + 3


def test_faults_follow_each_other_and_count_by_conversation_and_turn(client: Client) -> None:
    client.model.play(
        "row",
        """
        [[turn]]
        turns = 0
        [[turn.reply]]
        text = "x"
        [[turn.fault]]
        times = 2
        status = 529
        [[turn.fault]]
        status = 500
        """,
    )
    assert [ask(client, "row").status_code for _ in range(5)] == [529, 529, 500, 200, 200]
    other = body(conversation("another one, scenario=row"))
    assert [client.post(other).status_code for _ in range(4)] == [529, 529, 500, 200]
    later = body(conversation("scenario=row", "x", "on"))
    assert client.post(later).status_code == 529
    client.model.reset()
    assert ask(client, "row").status_code == 529


def test_a_fault_may_last_for_ever(client: Client) -> None:
    assert {ask(client, "overloaded-for-good").status_code for _ in range(20)} == {529}


def test_an_answer_of_something_in_between_is_no_json(client: Client) -> None:
    answer = ask(client, "bad-gateway")
    assert (answer.status_code, answer.headers["content-type"]) == (502, "text/html")
    assert answer.text.startswith("<html>")
    assert ask(client, "garbage").status_code == 200


def test_a_dropped_connection_gives_no_answer(client: Client) -> None:
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        ask(client, "dropped")
    assert ask(client, "dropped").status_code == 200


@pytest.mark.parametrize(
    ("fault", "events"), [("cut_after_events = 4", 4), ("cut_after_bytes = 700", 4), ("cut_after_events = 0", 0)]
)
@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_stream_breaks_where_the_fault_says(client: Client, fault: str, how: str, events: int) -> None:
    toml = f"[[turn]]\npace.chunk = 1\n[[turn.reply]]\ntext = 'abcdef'\n[[turn.fault]]\n{fault}\nhow = '{how}'"
    client.model.play("breaks", toml)
    received = bytearray()

    def read() -> None:
        with streamed(client, "breaks") as answer:
            for piece in answer.iter_raw():
                received.extend(piece)

    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        read()
    assert b"message_stop" not in received
    if "bytes" in fault and how == "close":
        assert len(received) == 700
    if "events" in fault and how == "close":
        assert received.count(b"event: ") == events
    (entry,) = client.model.log("breaks")
    assert entry["ended"] == "cut"
    assert entry["fault"]["cut_after_" + ("bytes" if "bytes" in fault else "events")] >= 0
    assert ask(client, "breaks", stream=True).text.count("message_stop") == 2


def test_a_stream_may_end_well_without_its_last_event(client: Client) -> None:
    answer = ask(client, "ended-early", stream=True)
    kinds = [event["type"] for event in named_events(answer.text)]
    assert kinds == ["message_start", "content_block_start", "ping", *["content_block_delta"], *kinds[4:]]
    assert "message_stop" not in kinds
    assert "message_stop" in ask(client, "ended-early", stream=True).text


def test_an_error_may_come_in_the_middle_of_a_stream(client: Client) -> None:
    events = named_events(ask(client, "error-event", stream=True).text)
    assert [event["type"] for event in events[:4]] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
    ]
    assert events[4:] == [{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}]


def test_an_answer_that_is_not_streamed_breaks_in_its_middle(client: Client) -> None:
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        ask(client, "cut")


def test_a_call_through_a_proxy_is_distinguished_from_one_without(client: Client) -> None:
    ask(client, "overloaded")
    with httpx.Client(proxy=client.model.url, verify=NO_TLS) as http:
        content = body(conversation("scenario=overloaded, through a proxy"))
        answer = http.post("http://model.invalid/v1/messages", json=content, headers=HEADERS)
        assert answer.status_code == 529
    assert [entry["via_proxy"] for entry in client.model.log("overloaded")] == [False, True]


@contextmanager
def streamed(client: Client, name: str) -> Iterator[httpx.Response]:
    content = body(conversation(f"scenario={name}"), stream=True)
    with client.http.stream("POST", "/v1/messages", json=content, headers=HEADERS) as answer:
        yield answer
