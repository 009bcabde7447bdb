"""Requests: parsing, writing, the digest."""

import contextlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.errors import InvalidRequest
from efrit.protocol import Budget, Request, RequestOptions, RequestType, RetryPolicy, SessionOption, request_id

LEAST = {"id": "a", "type": "eval", "content": "(+ 1 1)"}


def texts(longest: int) -> st.SearchStrategy[str]:
    """Any text that every Emacs reads: no NUL."""
    return st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=longest)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | texts(20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(8), inner, max_size=4),
    max_leaves=20,
)
requests = st.builds(
    Request,
    id=st.just(request_id("a")),
    type=st.sampled_from(RequestType),
    content=texts(200),
    options=st.builds(
        RequestOptions,
        timeout=st.none() | st.floats(min_value=0.001, max_value=604_800),
        return_context=st.booleans(),
        priority=st.integers(-100, 100),
        retry=st.sampled_from(RetryPolicy),
        max_attempts=st.integers(1, 100),
    ),
    timestamp=st.none() | st.datetimes(min_value=datetime(1971, 1, 1), timezones=st.just(UTC)),
    instance_id=st.none() | texts(20),
)


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_a_request_or_an_invalid_request(data: bytes) -> None:
    try:
        parsed = Request.parse(data)
    except InvalidRequest:
        return
    assert Request.parse(parsed.to_json()) == parsed


@given(json_values)
def test_arbitrary_json_is_a_request_or_an_invalid_request(value: object) -> None:
    with pytest.raises(InvalidRequest):
        Request.parse(json.dumps(value))


@given(st.dictionaries(st.sampled_from(["id", "type", "content", "options", "timestamp", "x"]), json_values))
def test_arbitrary_fields_never_raise_anything_else(fields: dict[str, object]) -> None:
    with contextlib.suppress(InvalidRequest):
        assert Request.parse(json.dumps({**LEAST, **fields})).digest()


@given(requests)
def test_writing_and_reading_keeps_the_digest(request: Request) -> None:
    assert Request.parse(request.to_json()).digest() == request.digest()


@given(requests, requests)
def test_different_work_has_different_digests(one: Request, other: Request) -> None:
    def work(request: Request) -> object:
        return request.type, request.content, request.options, request.instance_id

    assert (work(one) == work(other)) == (one.digest() == other.digest())


def test_the_digest_ignores_what_is_not_executed() -> None:
    plain = Request.parse(json.dumps(LEAST))
    dressed = Request.parse(
        json.dumps({**LEAST, "id": "b", "timestamp": "2026-01-01T00:00:00Z", "metadata": {"k": 1}, "via": "x"})
    )
    assert plain.digest() == dressed.digest()


def test_the_digest_does_not_depend_on_defaults_being_spelled_out() -> None:
    spelled = {"return_context": False, "priority": 0, "retry": "never", "max_attempts": 1}
    assert (
        Request.parse(json.dumps({**LEAST, "options": spelled})).digest() == Request.parse(json.dumps(LEAST)).digest()
    )


def test_whole_seconds_are_the_same_number_in_every_language() -> None:
    digests = {
        Request.parse(f'{{"id":"a","type":"eval","content":"","options":{{"timeout":{text}}}}}').digest()
        for text in ("30", "30.0", "3e1")
    }
    assert len(digests) == 1


def test_the_digest_is_this_one_for_ever() -> None:
    """Stored requests are compared with resubmitted ones across versions: it must never change."""
    request = Request.parse(json.dumps({**LEAST, "options": {"timeout": 30}, "instance_id": "team/one"}))
    assert request.digest() == "aafd18250fd835ba08b60f71be70871ae6be5c07afc294d3fa8b5865b4d9623d"


def test_unknown_keys_are_carried_along() -> None:
    text = json.dumps({**LEAST, "new": {"deep": [1]}, "options": {"later": True}})
    written = json.loads(Request.parse(text).to_json())
    assert written["new"] == {"deep": [1]}
    assert written["options"]["later"] is True


def test_options_not_given_stay_out_of_the_file() -> None:
    options = json.loads(Request.parse(json.dumps(LEAST)).to_json())["options"]
    assert "timeout" not in options
    assert "max_result_bytes" not in options
    assert not {"budget", "session"} & set(options)


def test_a_command_names_its_budget_and_its_session() -> None:
    options = {"budget": {"max_tokens": 9, "later": 1}, "session": {"id": "s-1"}}
    request = Request.parse(json.dumps({**LEAST, "type": "command", "options": options}))
    assert request.options.budget == Budget(max_tokens=9, extra={"later": 1})
    assert request.options.session == SessionOption(id="s-1")
    written = json.loads(request.to_json())["options"]
    assert {key: written[key] for key in options} == options


def test_another_budget_or_session_is_other_work() -> None:
    def digest(**options: object) -> str:
        return Request.parse(json.dumps({**LEAST, "options": options})).digest()

    plain = digest()
    assert digest(budget={"max_tokens": 9}) != digest(budget={"max_tokens": 8}) != plain
    assert digest(session={"id": "s"}) != digest(session={"id": "t"}) != plain
    assert digest(budget={"iteration_timeout": 30}) == digest(budget={"iteration_timeout": 30.0})


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"id": "../x"}, "id"),
        ({"type": "evil"}, "type"),
        ({"content": 5}, "content"),
        ({"version": "2.0.0"}, "version"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"options": {"timeout": 0}}, "options.timeout"),
        ({"options": {"timeout": "NaN"}}, "options.timeout"),
        ({"options": {"max_attempts": 0}}, "options.max_attempts"),
        ({"options": {"retry": "always"}}, "options.retry"),
        ({"options": {"budget": {"max_tool_calls": 0}}}, "options.budget.max_tool_calls"),
        ({"options": {"budget": {"later": 2**63}}}, "64 bits"),
        ({"options": {"session": {"id": "a/b"}}}, "options.session.id"),
        ({"options": {"session": {"id": "s", "later": "\0"}}}, "NUL"),
        ({"metadata": []}, "metadata"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, object], word: str) -> None:
    with pytest.raises(InvalidRequest, match=word):
        Request.parse(json.dumps({**LEAST, **change}))


def test_requests_cannot_be_changed() -> None:
    request = Request.parse(json.dumps(LEAST))
    with pytest.raises(AttributeError, match="immutable"):
        request.content = "x"  # type: ignore[misc]


def test_timestamps_are_written_in_utc_to_the_millisecond() -> None:
    request = Request.parse(json.dumps({**LEAST, "timestamp": "2026-01-03T18:30:00.123456+02:00"}))
    assert json.loads(request.to_json())["timestamp"] == "2026-01-03T16:30:00.123Z"


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "a\0b"},
        {"instance_id": "\0"},
        {"metadata": {"a": ["\0"]}},
        {"metadata": {"\0": 1}},
        {"options": {"x": {"y": 2**63}}},
        {"x": -(2**63) - 1},
    ],
)
def test_what_an_older_emacs_cannot_read_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest, match="not read by every Emacs"):
        Request.parse(json.dumps(LEAST | fields))


@pytest.mark.parametrize("directory", ["relative", "~/home", "", "/a\0b", "/" + "x" * 4096])
def test_a_directory_to_begin_in_is_an_absolute_path(directory: str) -> None:
    data = {"id": "a", "type": "eval", "content": "1", "options": {"directory": directory}}
    with pytest.raises(InvalidRequest):
        Request.parse(json.dumps(data).encode())


def test_the_directory_is_a_part_of_what_would_be_executed() -> None:
    def digest(**options: str) -> str:
        data = {"id": "a", "type": "eval", "content": "1", "options": options}
        return Request.parse(json.dumps(data).encode()).digest()

    assert len({digest(), digest(directory="/a"), digest(directory="/b")}) == 3
