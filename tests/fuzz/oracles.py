"""What must hold of every reader for any bytes at all: one function a reader, bytes in, `AssertionError` out.

Shared by the hypothesis tests, the coverage-guided targets and the replay of old crashes. A reader may raise the
exceptions of `efrit.errors` and no other; a function here lets every other one through.
"""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import PurePosixPath

from efrit.controller.act.bridge_transport import read_events
from efrit.controller.act.http_calls import Connection, TransportError
from efrit.errors import InvalidEvent, ProtocolError
from efrit.protocol import (
    Request,
    Response,
    from_epoch,
    id_of_request_file,
    id_of_response_file,
    is_request_id,
    request_file,
    request_id,
    response_file,
    rfc3339,
)
from efrit.protocol.events import EventId, Reset, parse_event
from efrit.protocol.model import WireModel
from efrit.protocol.view import Heartbeat, RequestView, Stats
from efrit.queue.journal import parse_claims
from efrit.queue.layout import cancel_file, id_of_cancel_file, id_of_withdrawn_file, withdrawn_file
from efrit.queue.observe import facts_of
from efrit.queue.submit import submission
from efrit.queue.totals import Totals

Oracle = Callable[[bytes], None]

LONGEST_MESSAGE = 2_000
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def _parsed(kind: type[WireModel], data: bytes) -> WireModel | None:
    try:
        return kind.parse(data)
    except ProtocolError as error:
        _can_be_reported(error)
        return None


def _can_be_reported(error: ProtocolError) -> None:
    """In an answer and in a log line."""
    assert 0 < len(error.message) <= LONGEST_MESSAGE
    error.message.encode()


def _survives(model: WireModel) -> None:
    """Written and read again it is the same, and so is what is written then."""
    text = model.to_json()
    again = type(model).parse(text.encode())
    assert again == model, (again, model)
    assert again.to_json() == text
    # Any strict reader of JSON takes it: no NaN, no Infinity, no half a surrogate pair.
    json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def _safe_name(name: str) -> None:
    assert PurePosixPath(name).name == name
    assert len(os.fsencode(name)) <= 255
    assert "\0" not in name


def _has_time(moment: datetime | None) -> None:
    if moment is not None:
        assert moment.utcoffset() is not None
        assert _RFC3339.fullmatch(rfc3339(moment))
        from_epoch(moment.timestamp())


def request(data: bytes) -> None:
    """`Request.parse`: also what is stored of it is found to be the same request."""
    parsed = _parsed(Request, data)
    if parsed is None:
        return
    assert isinstance(parsed, Request)
    _safe_name(request_file(parsed.id))
    _has_time(parsed.timestamp)
    _survives(parsed)
    stored = Request.parse(submission(parsed).data)
    assert stored.digest() == parsed.digest()
    assert facts_of(submission(parsed).data).id == parsed.id


def response(data: bytes) -> None:
    """`Response.parse`: success, where it is said, is said in every place."""
    parsed = _parsed(Response, data)
    if parsed is None:
        return
    assert isinstance(parsed, Response)
    _safe_name(response_file(parsed.id))
    _has_time(parsed.timestamp)
    _has_time(parsed.started)
    _survives(parsed)
    words = {parsed.status == "success", parsed.reason == "Succeeded", parsed.outcome != "Failure"}
    assert len(words) == 1 or parsed.outcome == "Partial"


def heartbeat(data: bytes) -> None:
    """`Heartbeat.parse`: its process id may be handed to the kernel."""
    parsed = _parsed(Heartbeat, data)
    if parsed is None:
        return
    assert isinstance(parsed, Heartbeat)
    _survives(parsed)
    try:
        os.close(os.pidfd_open(parsed.pid))
    except OSError:
        return


def view(data: bytes) -> None:
    """`RequestView.parse`: an answer belongs to its request."""
    parsed = _parsed(RequestView, data)
    if parsed is not None:
        assert isinstance(parsed, RequestView)
        assert parsed.response is None or parsed.response.id == parsed.id
        _has_time(parsed.queued_time)
        _survives(parsed)


def stats(data: bytes) -> None:
    """`Stats.parse`."""
    parsed = _parsed(Stats, data)
    if parsed is not None:
        _survives(parsed)


def totals(data: bytes) -> None:
    """`Totals.parse`: whatever is counted on top of it, it can be stored and reported."""
    parsed = _parsed(Totals, data)
    if parsed is None:
        return
    assert isinstance(parsed, Totals)
    _survives(parsed)
    answer = Response.parse('{"id":"a","status":"error","execution_time":1e9}')
    counted = parsed.with_response(answer, 2**63)
    _survives(counted)
    _survives(
        Stats(
            queue_id="q",
            processed=counted.processed,
            succeeded=counted.succeeded,
            failed=counted.failed,
            interrupted=counted.interrupted,
            average_processing_seconds=counted.average_seconds,
        )
    )


def event(data: bytes) -> None:
    """`parse_event` for every name, and `EventId.parse`."""
    text = data.decode("utf-8", "replace")
    for name in ("reset", "request", "stats", "later"):
        try:
            parsed = parse_event(name, text)
        except ProtocolError as error:
            _can_be_reported(error)
        else:
            assert (parsed is None) is (name == "later")
            if isinstance(parsed, Reset):
                EventId.parse(f"{parsed.epoch}-1")
    try:
        event_id = EventId.parse(text)
    except InvalidEvent as error:
        _can_be_reported(error)
    else:
        assert str(event_id).encode("ascii").isalnum() or "-" in str(event_id)
        assert EventId.parse(str(event_id)) == event_id


def stream(data: bytes) -> None:
    """Feed the controller's reader of an event stream in pieces: it ends, or fails as ours or the stream's."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 7):
            yield data[start : start + 7]

    async def read() -> None:
        async for _, event_id in read_events(pieces()):
            event_id.encode("ascii")

    try:
        asyncio.run(read())
    except ProtocolError as error:
        _can_be_reported(error)


def answer(data: bytes) -> None:
    """Feed a connection to a bridge in pieces: it ends, or fails as the transport's, and keeps within its limits."""

    async def read() -> None:
        connection = Connection()
        transport = SilentTransport()
        connection.connection_made(transport)
        await connection.send(b"", 1)
        for start in range(0, len(data), 7):
            connection.data_received(data[start : start + 7])
        connection.eof_received()
        connection.connection_lost(None)
        assert 200 <= (await connection.head(1)).status < 1000
        size = 0
        while part := await connection.read(1):
            size += len(part)
        assert size <= len(data)

    try:
        asyncio.run(read())
    except TransportError as error:
        str(error).encode()


class SilentTransport(asyncio.Transport):
    """Takes everything and sends nothing."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def facts(data: bytes) -> None:
    """`facts_of`, lenient by design: it never raises, and what it gives can be put into a view."""
    facts = facts_of(data)
    assert facts.id is None or is_request_id(facts.id)
    assert facts.timeout is None or 0 < facts.timeout < 1e9
    view = RequestView.from_dict({"id": facts.id or "a", "state": "queued", "metadata": facts.metadata})
    _survives(view)
    assert len(view.to_json()) < 64 * 1024


def journal(data: bytes) -> None:
    """`parse_claims`: each claim is one whole line, and written again it reads the same."""
    claims = list(parse_claims(data))
    assert len(claims) <= data.count(b"\n")
    lines = "".join(f"{claim.id} {claim.attempt} {claim.boot}\n" for claim in claims).encode()
    assert list(parse_claims(lines)) == claims
    for claim in claims:
        assert is_request_id(claim.id)
        RequestView.from_dict({"id": claim.id, "state": "running", "attempt": claim.attempt})


def names(data: bytes) -> None:
    """File names to ids and back, for names as the kernel hands them out."""
    name = os.fsdecode(data)
    for read, write in (
        (id_of_request_file, request_file),
        (id_of_response_file, response_file),
        (id_of_cancel_file, cancel_file),
        (id_of_withdrawn_file, withdrawn_file),
    ):
        rid = read(name)
        if rid is not None:
            _safe_name(write(rid))
            assert read(write(rid)) == rid
    try:
        rid = request_id(name)
    except ProtocolError as error:
        _can_be_reported(error)
    else:
        assert rid not in {".", ".."}
        for write in (request_file, response_file, cancel_file, withdrawn_file):
            _safe_name(write(rid))


ORACLES: dict[str, Oracle] = {
    oracle.__name__: oracle
    for oracle in (request, response, heartbeat, view, stats, totals, event, stream, answer, facts, journal, names)
}
"""By name: the name is the target's, its corpus folder's and its regressions' too."""
