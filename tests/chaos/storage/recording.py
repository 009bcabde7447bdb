"""A recorded instance, and a client that writes into the record what it was promised.

A bridge and an Emacs as processes, on a volume of which every change is seen. `Recording` is what a scenario left:
the tree it began with, and the operations and marks in one order.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from efrit.protocol import Response
from tests.chaos.storage.disk_model import Content, Tree
from tests.support.bridge_instance import Instance, until
from tests.support.faults.file_shim.shim import FileShim, Operation

COUNTER = "counter"
GO = "go"
WAIT = f'(while (not (file-exists-p "{GO}")) (sleep-for 0.005))'


class WatchedInstance(Instance):
    """An instance whose queue is a directory of a volume, as in a pod: what makes that directory is seen as well."""

    @property
    def queue(self) -> Path:
        return self.place / "volume" / "queue"

    @property
    def volume(self) -> Path:
        return self.place / "volume"


def counting(rid: str, then: str = "(* 6 7)") -> str:
    """A form that leaves a line for each time it is begun, then does `then`."""
    return f'(progn (write-region "{rid}\\n" nil "{COUNTER}" t (quote quiet)) {then})'


@dataclass(frozen=True)
class Recording:
    """One scenario. `place` is the instance's directory: all paths begin with it. `begun_before`: ids of requests
    that had been begun, once each, when it started."""

    name: str
    place: Path
    start: Tree
    operations: Sequence[Operation]
    begun_before: Sequence[str] = ()


class Client:
    """Talks to the bridge; each promise it gets is marked in the record before anything else happens here."""

    def __init__(self, instance: WatchedInstance, recorder: FileShim) -> None:
        self.instance = instance
        self.recorder = recorder

    def submit(self, rid: str, content: str | None = None, **fields: Any) -> None:
        body = {"id": rid, "type": "eval", "content": counting(rid) if content is None else content, **fields}
        answer = self.instance.client.put(f"/v1/requests/{rid}", json=body)
        assert answer.status_code in (200, 201), answer.text
        self.recorder.mark(f"accepted {rid} {json.dumps(body)}")

    def report(self, rid: str, seconds: float = 60) -> Response:
        response = self.instance.answer(rid, seconds)
        self.recorder.mark(f"reported {rid} {response.to_json()}")
        return response

    def acknowledge(self, rid: str) -> None:
        assert self.instance.client.delete(f"/v1/requests/{rid}").status_code == 204
        self.recorder.mark(f"acknowledged {rid}")

    def cancel(self, rid: str) -> None:
        assert self.instance.client.post(f"/v1/requests/{rid}/cancel").status_code in (200, 202)

    def whole(self, rid: str, content: str | None = None, **fields: Any) -> Response:
        """A request from beginning to end."""
        self.submit(rid, content, **fields)
        response = self.report(rid)
        self.acknowledge(rid)
        return response

    # Ends

    def kill_emacs(self) -> None:
        """With SIGKILL, between two calls; returns when its successor is up."""
        pid = self.instance.emacs_pid()
        with self.recorder.still():
            os.kill(pid, signal.SIGKILL)
        until(lambda: self.instance.stats().emacs.pid not in (None, pid), 30)

    def restart_bridge(self) -> None:
        """With SIGKILL, between two calls."""
        with self.recorder.still():
            self.instance.kill_bridge()
        self.instance.start_bridge()


def snapshot(*roots: Path) -> Tree:
    """What is below `roots`, and what lies above them."""
    nodes: dict[str, tuple[int, Content]] = {}
    for root in roots:
        for parent in list(root.parents)[:-1]:
            nodes[str(parent)] = (0, None)
        for path in [root, *root.rglob("*")]:
            if path.is_dir():
                nodes[str(path)] = (path.stat().st_ino, None)
            elif path.is_file():
                nodes[str(path)] = (path.stat().st_ino, path.read_bytes())
    return Tree(nodes)


def without_head(recording: Recording, path: Path, length: int) -> Recording:
    """The same, as if the file at `path` had begun `length` bytes later: what was there only made it long."""
    nodes = dict(recording.start.nodes)
    inode, content = nodes[str(path)]
    assert content is not None
    nodes[str(path)] = (inode, content[length:])
    operations = [
        replace(each, offset=each.offset - length) if each.kind == "write" and each.inode == inode else each
        for each in recording.operations
    ]
    return replace(recording, start=Tree(nodes), operations=operations)


def digest(content: bytes) -> str:
    """Of a large result, as answers name it."""
    return hashlib.sha256(content).hexdigest()
