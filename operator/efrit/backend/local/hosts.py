"""Which host serves a queue that several may share, by the heartbeat and by the clock of the file server.

A process number means something only in the PID namespace that gave it. Of an Emacs elsewhere nothing can be known
but how old its heartbeat is; the clocks of two hosts differ, so a file is touched and its time compared. The rule is
that of efrit-queue-host.el.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from efrit.protocol.process_place import ProcessPlace

Verdict = Literal["pid", "free", "taken"]


def place_of(server: Mapping[str, Any]) -> ProcessPlace:
    """Return the place that a heartbeat names."""
    texts = ((name, server.get(name)) for name in ProcessPlace.__struct_fields__)
    return ProcessPlace(**{name: text for name, text in texts if isinstance(text, str)})


class RemoteEmacs(Struct, frozen=True):
    """The Emacs of another host: seconds since its last heartbeat, and how many it may be silent."""

    host: str
    heartbeat_age: float
    takeover_after: float

    @property
    def serves(self) -> bool:
        """Whether the queue is still its own."""
        return self.heartbeat_age < self.takeover_after

    def __str__(self) -> str:
        """Return a phrase for people."""
        return f"served by {self.host}, last heard {self.heartbeat_age:.0f} s ago"


def remote_emacs(
    heartbeat: Mapping[str, Any], silence: Callable[[], float], takeover: float, *, remote: bool, place: ProcessPlace
) -> RemoteEmacs | None:
    """Return the Emacs that wrote `heartbeat` if it is not at `place` and has not ended in order, else None.

    `silence` returns the age of the heartbeat in seconds; `remote`: other hosts mount the queue's file system.
    """
    server = heartbeat.get("server")
    if not isinstance(server, dict):
        return None
    theirs = place_of(server)
    if theirs.same(place) or server.get("state") == "ended":
        return None
    # What is mounted here alone was served by an earlier start of this host.
    if not remote and None not in (theirs.boot_id, place.boot_id) and theirs.boot_id != place.boot_id:
        return None
    timeout = heartbeat.get("timeout")
    # An Emacs that evaluates writes no heartbeat until its request is over.
    busy = isinstance(heartbeat.get("current"), str) and isinstance(timeout, int | float)
    takeover_after = takeover + (float(timeout) if busy and timeout is not None else 0.0)
    return RemoteEmacs(theirs.host or "another host", silence(), takeover_after)
