"""Hypothesis: every reader of the wire and of the queue's files, fed what broken and hostile writers leave."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efrit.protocol import Request, Response
from efrit.protocol.view import Heartbeat, RequestView, Stats
from efrit.queue.totals import Totals
from tests.fuzz import documents, oracles
from tests.fuzz.oracles import ORACLES

HERE = Path(__file__).parent
KEPT = sorted(path for folder in ("corpus", "regressions") for path in (HERE / folder).glob("*/*"))

SHAPES = {
    "request": documents.REQUEST,
    "response": documents.RESPONSE,
    "heartbeat": documents.HEARTBEAT,
    "view": documents.VIEW,
    "stats": documents.STATS,
    "facts": documents.REQUEST,
}


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}/{path.name}")
def test_a_kept_input_is_read_as_its_reader_promises(path: Path) -> None:
    ORACLES[path.parent.name](path.read_bytes())


def test_every_real_file_is_understood() -> None:
    for kind in (Request, Response, Heartbeat, RequestView, Stats, Totals):
        name = "view" if kind is RequestView else kind.__name__.lower()
        for path in sorted((HERE / "corpus" / name).iterdir()):
            assert kind.parse(path.read_bytes()), path


@pytest.mark.parametrize("name", SHAPES)
def test_a_document_that_is_almost_right_is_read_or_refused(name: str) -> None:
    @given(documents.mangled(SHAPES[name]))
    @settings(max_examples=120)
    def holds(data: bytes) -> None:
        ORACLES[name](data)

    holds()


@given(st.sampled_from([documents.VIEW, documents.STATS, documents.RESET]).flatmap(documents.mangled))
def test_an_event_that_is_almost_right_is_read_or_refused(data: bytes) -> None:
    oracles.event(data)


_lines = st.tuples(
    st.sampled_from((b"id: ", b"event: ", b"data: ", b"data:", b"retry: ", b": ", b"", b"id:\xef\xbb\xbf")),
    st.sampled_from((b"reset", b"request", b"stats", b"abc-1", b"a\xc3\xa9-1", b"\0-1", b"-", b"9" * 5000))
    | st.sampled_from([documents.VIEW, documents.STATS, documents.RESET]).flatmap(documents.objects)
    | st.binary(max_size=20),
    st.sampled_from((b"\n", b"\n", b"\n\n", b"\r\n", b"\r", b"")),
).map(b"".join)


@given(st.lists(_lines, max_size=12).map(b"".join))
def test_an_event_stream_of_any_lines_ends_as_the_controller_expects(data: bytes) -> None:
    oracles.stream(data)


_words = st.sampled_from((b"a", b"a-1", b"..", b"1", b"007", b"-1", b"\xc2\xb2", b"9" * 12, b"b00t", b"", b"\xff"))


@given(st.lists(st.lists(_words, max_size=4).map(b" ".join), max_size=6).map(b"\n".join))
def test_journal_lines_are_taken_whole_or_passed_over(data: bytes) -> None:
    oracles.journal(data)


@given(st.sampled_from((b"req_", b"resp_", b"cancel_", b"withdrawn_", b"")), st.binary(max_size=300))
def test_a_name_gives_a_safe_id_or_none(prefix: bytes, rest: bytes) -> None:
    oracles.names(prefix + rest)
    oracles.names(prefix + rest + b".json")


@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(("processed", "succeeded", "interrupted", "seconds", "as_of_ns"), documents.values),
    )
)
def test_totals_of_any_figures_can_be_counted_on_or_are_none(figures: dict[str, str]) -> None:
    text = "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in figures.items()) + "}"
    oracles.totals(text.encode("utf-8", "surrogatepass"))


def _long_documents() -> dict[str, bytes]:
    ten_megabytes = 10 * 1024 * 1024
    # What makes an object of each byte or two costs a hundred times what a string does.
    one_megabyte = 1024 * 1024
    return {
        "one long string": b'{"id":"' + b"x" * ten_megabytes + b'"}',
        "escapes": b'{"id":"a","content":"' + b"\\u00e9" * (ten_megabytes // 6) + b'"}',
        "brackets": b"[" * ten_megabytes,
        "braces": b'{"a":' * (ten_megabytes // 5),
        "digits": b'{"id":' + b"9" * ten_megabytes + b"}",
        "spaces": b" " * ten_megabytes,
        "many keys": b"{" + b",".join(b'"%d":0' % number for number in range(one_megabyte // 10)) + b"}",
        "one key again": b"{" + b'"id":"a",' * (one_megabyte // 9) + b'"id":"a"}',
        "zeros": bytes(ten_megabytes),
        "lines": b"a 1 b\n" * (one_megabyte // 6),
        "no line": b"a" * ten_megabytes,
    }


LONG = _long_documents()


@pytest.mark.parametrize("name", sorted(LONG))
def test_a_long_document_is_read_or_refused_in_seconds(name: str) -> None:
    """Reading is linear: each takes well under a second, what is quadratic would take hours."""
    data = LONG[name]
    for reader in (
        oracles.request,
        oracles.response,
        oracles.view,
        oracles.facts,
        oracles.journal,
        oracles.heartbeat,
    ):
        began = time.process_time()
        reader(data)
        assert time.process_time() - began < 20, reader.__name__
