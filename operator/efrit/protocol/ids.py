"""Request ids and the file names made of them. Pure; the only place that knows either rule."""

import re
from typing import NewType

from efrit.errors import InvalidId

RequestId = NewType("RequestId", str)
"""`[A-Za-z0-9._-]{1,128}`, never `.` or `..`; safe as part of a file name. Made by `request_id` only."""

MAX_ID_LENGTH = 128
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


def is_request_id(text: str) -> bool:
    """Return whether `text` may be used as a request id."""
    return _ID.fullmatch(text) is not None and text not in {".", ".."}


def request_id(text: str) -> RequestId:
    """Return `text` as an id. Raises `InvalidId`."""
    if not is_request_id(text):
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise InvalidId(f"{shown!r} is not a request id: use 1 to {MAX_ID_LENGTH} of A-Z a-z 0-9 . _ - (not . or ..)")
    return RequestId(text)


def run_id(uid: str, preemptions: int) -> str:
    """Return the id on the queue of the request with this UID, once it was preempted so many times."""
    return f"{uid}.{preemptions}" if preemptions else uid  # gate: run-id


def request_file(rid: RequestId) -> str:
    """Return the name of the request's file in requests/, processing/ and archive/."""
    return f"req_{rid}.json"


def response_file(rid: RequestId) -> str:
    """Return the name of the response's file in responses/ and archive/."""
    return f"resp_{rid}.json"


def id_of_request_file(name: str) -> RequestId | None:
    """Return the id in the name of a request file: `req_<id>.json`, or `<id>.json` as other clients write it."""
    if not name.endswith(".json"):
        return None
    stem = name.removesuffix(".json").removeprefix("req_")
    return RequestId(stem) if is_request_id(stem) else None


def id_of_session_file(name: str) -> str | None:
    """Return the id of the session whose history is in sessions/`name`, or None."""
    stem = name.removesuffix(".ndjson")
    return stem if stem != name and _ID.fullmatch(stem) else None


def id_of_response_file(name: str) -> RequestId | None:
    """Return the id in `resp_<id>.json`, or None."""
    if not (name.startswith("resp_") and name.endswith(".json")):
        return None
    stem = name[len("resp_") : -len(".json")]
    return RequestId(stem) if is_request_id(stem) else None
