"""Ids and file names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.errors import InvalidId
from efrit.protocol import (
    id_of_request_file,
    id_of_response_file,
    is_request_id,
    request_file,
    request_id,
    response_file,
)

ids = st.from_regex(r"[A-Za-z0-9._-]{1,128}", fullmatch=True).filter(lambda text: text not in {".", ".."})


@given(ids)
def test_every_id_survives_the_way_through_its_file_names(text: str) -> None:
    rid = request_id(text)
    assert id_of_request_file(request_file(rid)) == rid
    assert id_of_response_file(response_file(rid)) == rid


@given(st.text(max_size=200))
def test_an_accepted_id_is_harmless_as_a_file_name(text: str) -> None:
    if is_request_id(text):
        assert "/" not in text
        assert "\0" not in text
        assert text not in {".", ".."}
        assert len(request_file(request_id(text)).encode()) < 255


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "a\n", "a b", "ä", "x" * 129, "a\0", "٣"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidId):
        request_id(text)


def test_a_long_wrong_id_is_not_repeated_in_full() -> None:
    with pytest.raises(InvalidId) as caught:
        request_id("x" * 10_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("req_a.json", "a"),
        ("a.json", "a"),
        ("req_.json", None),
        ("req_a.json.tmp", None),
        ("..json", None),
        (".json", None),
        ("req_a b.json", None),
    ],
)
def test_other_clients_file_names_say_their_ids_too(name: str, expected: str | None) -> None:
    assert id_of_request_file(name) == expected


@pytest.mark.parametrize("name", ["a.json", "req_a.json", "resp_.json", "resp_..json.x", "resp_a"])
def test_only_resp_files_are_answers(name: str) -> None:
    assert id_of_response_file(name) is None
