"""Work as the request file of a queue. Pure, but for the id, the time, and a check that its directory exists."""

from __future__ import annotations

import hashlib
import os
import time
from datetime import UTC, datetime

from efrit.backend.errors import Refused, check_encoding, content_too_long
from efrit.backend.interface import Work
from efrit.protocol.enums import RetryPolicy
from efrit.protocol.ids import RequestId
from efrit.protocol.request import Request, RequestOptions, SessionOption

MAX_REQUEST_FILE_BYTES = 8 << 20
"""Emacs rejects a larger file without reading it."""


def id_of(work: Work) -> str:
    """Return the id for a new request: derived from the key, so that it is the same each time, or random."""
    if work.key is None:
        return f"efrit_{int(time.time())}_{os.urandom(4).hex()}"
    return id_of_key(work.key)


def id_of_key(key: str) -> str:
    """Return the id of a request with this key."""
    return f"key_{hashlib.sha256(key.encode()).hexdigest()[:40]}"


def check(work: Work) -> None:
    """Raise `Refused` for work that Emacs would reject."""
    work.require_content()
    if (size := _content_bytes(work)) > MAX_REQUEST_FILE_BYTES:
        # Refused before an Emacs is started for it.
        raise content_too_long(f"{size} bytes", "on this machine", MAX_REQUEST_FILE_BYTES)
    if "\0" in work.content:
        raise Refused(
            "the content holds a NUL character, which not every Emacs reads", "write it as \\0 in a Lisp string"
        )
    if work.directory is not None:
        check_encoding(work.directory)
        if not os.path.isdir(work.directory):  # noqa: PTH112 - pathlib is slow to import
            raise Refused(f"there is no directory {work.directory}", "name one that exists with --dir")
    if work.queue_timeout is not None:
        raise Refused("how long work waits is not bounded on this machine", "leave the queue timeout out")
    if work.budget is not None and work.type != "command":
        raise Refused("a budget bounds a command", "leave it out of an eval or a chat")
    if work.session is not None and work.type == "eval":
        raise Refused("an eval has no session", "leave it out, or send a chat or a command")


def check_file_size(request: Request, file_bytes: int) -> None:
    """Raise `Refused` for a request whose file is larger than Emacs reads; a quote takes two bytes in it."""
    if file_bytes > MAX_REQUEST_FILE_BYTES:
        size = f"{_content_bytes(request)} bytes, with the rest of the request {file_bytes} as JSON"
        raise content_too_long(size, "on this machine", MAX_REQUEST_FILE_BYTES)


def _content_bytes(work: Work | Request) -> int:
    return len(work.content.encode(errors="surrogatepass"))


def request_for(rid: str, work: Work) -> Request:
    """Return the request that lies in requests/."""
    return Request(
        id=RequestId(rid),
        type=work.type,
        content=work.content,
        options=RequestOptions(
            timeout=work.timeout,
            return_context=work.return_context,
            priority=work.priority,
            retry=RetryPolicy.IF_INTERRUPTED if work.retry else RetryPolicy.NEVER,
            max_attempts=(work.max_attempts or 3) if work.retry else 1,
            budget=work.budget,
            session=SessionOption(id=work.session) if work.session is not None else None,
            directory=work.directory,
        ),
        timestamp=datetime.now(UTC),
    )
