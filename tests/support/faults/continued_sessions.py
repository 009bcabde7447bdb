"""Requests that go on with a session: each is created once the one before it has ended and reported its session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.support.faults.base_run import FaultRun
from tests.support.faults.workload import RequestSpec


class ContinuedSessions:
    """Those of one run."""

    def __init__(self, run: FaultRun) -> None:
        self._run = run
        self._waiting = [request for request in run.schedule.requests if request.continues]
        self._dropped: set[str] = set()

    @property
    def open(self) -> bool:
        """Return whether some are still to be created."""
        return bool(self._waiting)

    def due(self, now: float) -> Iterator[RequestSpec]:
        """Yield the requests that can be created now, with the ids of their sessions."""
        ended = {version.name: version for version in self._run.final.values()}
        for request in [request for request in self._waiting if request.at <= now]:
            before = ended.get(request.continues)
            if before is None and request.continues not in self._dropped:
                continue
            self._waiting.remove(request)
            session = str((before.status.get("session") or {}).get("id", "")) if before is not None else ""
            if session:
                yield replace(request, session=session)
            else:
                self.drop(request)

    def drop(self, request: RequestSpec) -> None:
        """Leave a request out: there is no session for it."""
        self._dropped.add(request.name)
        self._run.note("user", "does not go on: the request before it has no session", request=request.name)

    def drop_all(self) -> None:
        """Leave out what is still to be created."""
        while self._waiting:
            self.drop(self._waiting.pop())
