"""What the directories say about requests: the truth behind the index.

Blocking functions for the disk thread; they change nothing. A request is looked for in the order in which
it moves (requests/, processing/, responses/), so that one moving while we look is seen at least once.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import structs

from efrit.protocol import (
    RequestId,
    RequestState,
    RequestType,
    canonical_json,
    id_of_request_file,
    id_of_response_file,
    is_request_id,
    request_file,
    response_file,
)
from efrit.protocol.json_limits import exceeds_part_limit
from efrit.protocol.model import check_round_trip
from efrit.queue.answers import Answer, read_answer
from efrit.queue.archive import MAX_REQUEST_FILE
from efrit.queue.durable import Disk
from efrit.queue.layout import Area

LONG_ANSWER_BYTES = 64 * 1024
"""Size of the JSON above which an answer is not carried around in memory, but read when it is asked for."""

MAX_METADATA_BYTES = 4096
"""Of a request's own metadata: it is kept in memory and reported with every change of the request."""
# No set: what a file of somebody else's has for its type may not be hashable.
_SESSIONS = tuple(kind.value for kind in RequestType if kind.is_session)


@dataclass(frozen=True, slots=True)
class IndexedRequest:
    """What the index holds of a request: enough not to read its files again."""

    state: RequestState
    request_name: str


@dataclass(frozen=True)
class RequestFacts:
    """What a request file says. `timeout` in seconds; None where the file does not say or is unreadable.

    `is_session`: a chat or command; `continues` is the session it goes on with.
    """

    id: RequestId | None = None
    timeout: float | None = None
    is_session: bool = False
    continues: str | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True)
class Sighting:
    """Where a request was found. `state` None: nowhere. `queued_at` in epoch seconds.

    `facts` is there for requests the index did not know, `answer` when the answer is new to it; one
    longer than `LONG_ANSWER_BYTES` comes without result, context, output and messages.
    """

    id: RequestId
    state: RequestState | None
    request_name: str
    queued_at: float | None = None
    facts: RequestFacts | None = None
    answer: Answer | None = None


def facts_of(data: bytes | None) -> RequestFacts:
    """Read a request file leniently: Emacs decides whether the request is valid, and answers it."""
    if exceeds_part_limit(data or b""):
        return RequestFacts()
    try:
        # Strictly UTF-8, as Emacs reads it: the two must not see different ids in one file.
        loaded = json.loads((data or b"").decode())
    except (ValueError, RecursionError):
        return RequestFacts()
    if not isinstance(loaded, dict):
        return RequestFacts()
    rid, options = loaded.get("id"), loaded.get("options")
    timeout = options.get("timeout") if isinstance(options, dict) else None
    usable = isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout < 1e9
    return RequestFacts(
        id=RequestId(rid) if isinstance(rid, str) and is_request_id(rid) else None,
        timeout=float(timeout) if usable and timeout is not None else None,
        is_session=loaded.get("type") in _SESSIONS,
        continues=_session_of(options),
        metadata=_usable_metadata(loaded.get("metadata")),
    )


def _session_of(options: Any) -> str | None:
    session = options.get("session") if isinstance(options, dict) else None
    session_id = session.get("id") if isinstance(session, dict) else None
    return session_id if isinstance(session_id, str) and is_request_id(session_id) else None


def _usable_metadata(value: Any) -> dict[str, Any] | None:
    """Return `value` if it can be passed to a client: a file written by somebody else may hold any."""
    try:
        text = canonical_json(value)
        if not isinstance(value, dict) or len(text) > MAX_METADATA_BYTES:
            return None
        metadata: dict[str, Any] = msgspec.json.decode(text)
        check_round_trip(metadata.values())
        return metadata
    except (ValueError, RecursionError):
        return None


def locate_requests(
    disk: Disk, indexed: Mapping[RequestId, IndexedRequest], ids: Iterable[RequestId], names: Iterable[str] = ()
) -> list[Sighting]:
    """Return where `ids`, and the requests in the files `names` of requests/, are now.

    Responses that are new to the index are on the disk, names and all, when this returns.
    """
    names_by_id: dict[RequestId, str] = {
        rid: indexed[rid].request_name if rid in indexed else request_file(rid) for rid in ids
    }
    for name in names:
        rid = identify(disk, name)
        if rid is not None:
            names_by_id[rid] = name
    sightings = [_locate_request(disk, rid, name, indexed.get(rid)) for rid, name in names_by_id.items()]
    if any(sighting.answer for sighting in sightings):
        # Emacs cannot sync a directory: the answer counts as given once we have.
        disk.sync_dir(Area.RESPONSES)  # gate: fsync-responses
    return sightings


@dataclass(frozen=True)
class Differences:
    """What a scan found to differ from the index: ids, and files in requests/ it does not know."""

    ids: tuple[RequestId, ...]
    names: tuple[str, ...]


def scan(disk: Disk, indexed: Mapping[RequestId, IndexedRequest]) -> Differences:
    """Compare every name in the directories with `indexed`; return what differs or is missing, to be looked at."""
    present: dict[RequestId, RequestState] = {}
    foreign: list[str] = []
    by_name = {item.request_name: rid for rid, item in indexed.items()}
    for name in disk.names(Area.REQUESTS):
        if name in by_name:
            present[by_name[name]] = RequestState.QUEUED
        elif name.endswith(".json"):
            foreign.append(name)
    for name in disk.names(Area.PROCESSING):
        rid = id_of_request_file(name)
        if rid is not None:
            present[rid] = RequestState.RUNNING
    for name in disk.names(Area.RESPONSES):
        rid = id_of_response_file(name)
        if rid is not None:
            present[rid] = RequestState.ANSWERED
    changed = {rid for rid, state in present.items() if rid not in indexed or indexed[rid].state is not state}
    changed.update(rid for rid in indexed if rid not in present)
    return Differences(tuple(changed), tuple(foreign))


def _bounded(answer: Answer) -> Answer:
    """Return a long response without its long parts: after a restart a thousand responses are read at once."""
    if answer.size <= LONG_ANSWER_BYTES:
        return answer
    short = structs.replace(answer.response, result=None, context=None, output="", messages="")
    return structs.replace(answer, response=short)


def identify(disk: Disk, name: str) -> RequestId | None:
    """Return the id of the request in requests/`name`: the one in its JSON, else the one in its name."""
    data = disk.read(Area.REQUESTS, name, limit=MAX_REQUEST_FILE)
    return None if data is None else facts_of(data).id or id_of_request_file(name)


def archived_facts(disk: Disk, rid: RequestId) -> RequestFacts:
    """Return the facts in the archived request file; empty ones if there is none."""
    return facts_of(disk.read(Area.ARCHIVE, request_file(rid), limit=MAX_REQUEST_FILE))


def _locate_request(disk: Disk, rid: RequestId, name: str, indexed: IndexedRequest | None) -> Sighting:
    state: RequestState | None = None
    queued_at: float | None = None
    facts: RequestFacts | None = None
    for area, file, found_state in (
        (Area.REQUESTS, name, RequestState.QUEUED),
        (Area.PROCESSING, request_file(rid), RequestState.RUNNING),
    ):
        stat = disk.stat(area, file)
        if stat is not None:
            state, queued_at = found_state, stat.st_mtime
            if indexed is None:
                facts = facts_of(disk.read(area, file, limit=MAX_REQUEST_FILE))
    if indexed is not None and indexed.state is RequestState.ANSWERED:
        answered = disk.stat_any(Area.RESPONSES, response_file(rid)) is not None
        return Sighting(rid, RequestState.ANSWERED if answered else state, name, queued_at)
    answer = read_answer(disk, Area.RESPONSES, rid)
    if answer is not None:
        answer = _bounded(answer)
        if indexed is None and facts is None:
            facts = archived_facts(disk, rid)
        state = RequestState.ANSWERED
    return Sighting(rid, state, name, queued_at, facts, answer)
