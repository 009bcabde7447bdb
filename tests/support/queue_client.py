"""A queue as our client uses it, without an Emacs of ours behind it."""

from __future__ import annotations

from efrit.backend.interface import Handle, RequestState, RequestType, Work
from efrit.backend.local.files import QueueFiles
from efrit.backend.local.request_file import id_of, request_for


def submit(files: QueueFiles, content: str, kind: RequestType = RequestType.EVAL, **fields: object) -> str:
    """Store a request as our client does; return its id."""
    work = Work(kind, content, **fields)  # type: ignore[arg-type]
    rid = id_of(work)
    files.submit(request_for(rid, work))
    return rid


def state(files: QueueFiles, rid: str) -> RequestState:
    """Return the state of a request that must be there."""
    state = files.state(Handle(rid))
    assert state is not None
    return state
