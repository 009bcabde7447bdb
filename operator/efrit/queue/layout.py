"""Names in a queue directory: its areas and the files the bridge keeps in them. Pure, no I/O.

Names made of request ids come from `efrit.protocol.ids`; the protocol itself is in docs/queue.md.
"""

from enum import StrEnum

from efrit.protocol import RequestId, is_request_id


class Area(StrEnum):
    """A directory of the queue. All lie on one mount: renames and links go from one to another."""

    ROOT = "."
    TMP = "tmp"
    REQUESTS = "requests"
    PROCESSING = "processing"
    RESPONSES = "responses"
    ARCHIVE = "archive"
    CONTROL = "control"
    PROGRESS = "progress"
    SESSIONS = "sessions"


CLAIMS = "claims.log"
CLAIMS_OLD = "claims.old"
CLAIMS_NEW = "claims.new"
HEARTBEAT = "heartbeat"
CLOCK = "clock"
"""Touched to learn what the file server's clock says."""
IDENTITY = "identity"
TOTALS = "totals"

BRIDGE_PREFIX = "bridge_"
"""Temporary files of the bridge: Emacs writes its own into tmp/ at the same time, and those stay alone."""
ASIDE_PREFIX = "aside_"
"""What was in the place of a file and is none, as the bridge and Emacs rename it."""
DELETING_PREFIX = "deleting_"
"""What is being deleted of that."""
_WITHDRAWN_PREFIX = "withdrawn_"
_CANCEL_PREFIX = "cancel_"
_LINES = ".ndjson"


def withdrawn_file(rid: RequestId) -> str:
    """Return the name in tmp/ of a request withdrawn before Emacs claimed it."""
    return f"{_WITHDRAWN_PREFIX}{rid}.json"


def id_of_withdrawn_file(name: str) -> RequestId | None:
    """Return the id in `withdrawn_<id>.json`, or None."""
    if not (name.startswith(_WITHDRAWN_PREFIX) and name.endswith(".json")):
        return None
    stem = name[len(_WITHDRAWN_PREFIX) : -len(".json")]
    return RequestId(stem) if is_request_id(stem) else None


def cancel_file(rid: RequestId) -> str:
    """Return the name in control/ of the order to stop a request."""
    return f"{_CANCEL_PREFIX}{rid}"


def id_of_cancel_file(name: str) -> RequestId | None:
    """Return the id in `cancel_<id>`, or None."""
    stem = name.removeprefix(_CANCEL_PREFIX)
    return RequestId(stem) if stem != name and is_request_id(stem) else None


def progress_file(rid: RequestId) -> str:
    """Return the name in progress/ of the work log of a running chat or command."""
    return f"{rid}{_LINES}"


def id_of_progress_file(name: str) -> RequestId | None:
    """Return the id in `<id>.ndjson`, or None."""
    stem = name.removesuffix(_LINES)
    return RequestId(stem) if stem != name and is_request_id(stem) else None


def log_file(rid: RequestId) -> str:
    """Return the name in archive/ of the work log of a finished request."""
    return f"log_{rid}{_LINES}"


def id_of_log_file(name: str) -> RequestId | None:
    """Return the id in `log_<id>.ndjson`, or None."""
    stem = name[len("log_") : -len(_LINES)] if name.startswith("log_") and name.endswith(_LINES) else ""
    return RequestId(stem) if is_request_id(stem) else None


RESERVE_PREFIX = "reserve_"
"""Files in tmp/ that only take up room, to be given up when the volume is full."""
