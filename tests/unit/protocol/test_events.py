"""Event ids and payloads."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.errors import InvalidEvent, ProtocolError
from efrit.protocol import RequestState, request_id
from efrit.protocol.events import EventId, Reset, parse_event
from efrit.protocol.view import Heartbeat, RequestView, Stats


@given(st.from_regex(r"[0-9a-f]{1,20}", fullmatch=True), st.integers(0, 10**17))
def test_event_ids_survive_their_text(epoch: str, seq: int) -> None:
    assert EventId.parse(str(EventId(epoch, seq))) == EventId(epoch, seq)


@given(st.text(max_size=40))
def test_other_text_is_an_invalid_event_id(text: str) -> None:
    try:
        parsed = EventId.parse(text)
    except InvalidEvent:
        return
    assert parsed.epoch
    assert parsed.seq >= 0


def test_each_name_carries_its_model() -> None:
    reset = Reset(queue_id="q", epoch="e")
    view = RequestView(id=request_id("a"), state=RequestState.QUEUED)
    stats = Stats(queue_id="q")
    assert parse_event("reset", reset.to_json()) == reset
    assert parse_event("request", view.to_json()) == view
    assert parse_event("stats", stats.to_json()) == stats


def test_events_of_later_versions_are_passed_over() -> None:
    assert parse_event("weather", "{}") is None


def test_a_broken_payload_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        parse_event("reset", "{}")


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_heartbeat_or_a_protocol_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert Heartbeat.parse(data).pid > 1


def test_a_heartbeat_may_not_name_pid_one_or_a_process_group() -> None:
    for pid in (1, 0, -1):
        with pytest.raises(ProtocolError):
            Heartbeat.parse(f'{{"boot":"b","pid":{pid},"time":"2026-01-01T00:00:00Z"}}')
