"""A recorded instance, and a client that marks in the record what it was promised.

A bridge and an Emacs as processes, on a volume of which every change is recorded. `Recording` is what a scenario
left: the tree it began with, and the operations and marks in one order.
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
from tests.support.timeout import TIMEOUT

COUNTER = "counter"
GO = "go"
WAIT = f'(while (not (file-exists-p "{GO}")) (sleep-for 0.005))'


class WatchedInstance(Instance):
    """An instance whose queue is a directory of a volume, as in a pod: the creation of the queue is recorded too."""

    @property
    def queue(self) -> Path:
        """Directory of the queue."""
        return self.place / "volume" / "queue"

    @property
    def volume(self) -> Path:
        """Directory of the volume."""
        return self.place / "volume"


def counting_form(rid: str, then: str = "(* 6 7)") -> str:
    """Return a form that leaves a line for each time it is begun, then does `then`."""
    return f'(progn (write-region "{rid}\\n" nil "{COUNTER}" t (quote quiet)) {then})'


@dataclass(frozen=True)
class Recording:
    """The record of one scenario.

    place: the instance's directory; all paths begin with it. begun_before: ids of requests that had been begun, once
    each, when the scenario started.
    """

    name: str
    place: Path
    start: Tree
    operations: Sequence[Operation]
    begun_before: Sequence[str] = ()


class Client:
    """Talks to the bridge; marks each promise it gets in the record before it does anything else."""

    def __init__(self, instance: WatchedInstance, shim: FileShim) -> None:
        self.instance = instance
        self.shim = shim

    def submit(self, rid: str, content: str | None = None, **fields: Any) -> None:
        """Submit a request, and mark that it was accepted."""
        body = {"id": rid, "type": "eval", "content": counting_form(rid) if content is None else content, **fields}
        answer = self.instance.client.put(f"/v1/requests/{rid}", json=body)
        assert answer.status_code in (200, 201), answer.text
        self.shim.mark(f"accepted {rid} {json.dumps(body)}")

    def report(self, rid: str, seconds: float = TIMEOUT) -> Response:
        """Wait for a response, and mark it."""
        response = self.instance.answer(rid, seconds)
        self.shim.mark(f"reported {rid} {response.to_json()}")
        return response

    def acknowledge(self, rid: str) -> None:
        """Acknowledge a response, and mark it."""
        assert self.instance.client.delete(f"/v1/requests/{rid}").status_code == 204
        self.shim.mark(f"acknowledged {rid}")

    def cancel(self, rid: str) -> None:
        """Cancel a request."""
        assert self.instance.client.post(f"/v1/requests/{rid}/cancel").status_code in (200, 202)

    def whole(self, rid: str, content: str | None = None, **fields: Any) -> Response:
        """Submit a request, wait for its response and acknowledge it."""
        self.submit(rid, content, **fields)
        response = self.report(rid)
        self.acknowledge(rid)
        return response

    # Ends

    def kill_emacs(self) -> None:
        """Kill Emacs between two calls. Return when its successor runs."""
        pid = self.instance.emacs_pid()
        with self.shim.still():
            os.kill(pid, signal.SIGKILL)
        until(lambda: self.instance.stats().emacs.pid not in (None, pid))

    def restart_bridge(self) -> None:
        """Kill the bridge between two calls, and start it again."""
        with self.shim.still():
            self.instance.kill_bridge()
        self.instance.start_bridge()


def snapshot(*roots: Path) -> Tree:
    """Return what is below `roots`, and the directories above them."""
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
    """Return the recording as if the file at `path` had begun `length` bytes later: the padding only made it long."""
    nodes = dict(recording.start.nodes)
    inode, content = nodes[str(path)]
    assert content is not None
    nodes[str(path)] = (inode, content[length:])
    operations = [
        replace(operation, offset=operation.offset - length)
        if operation.kind == "write" and operation.inode == inode
        else operation
        for operation in recording.operations
    ]
    return replace(recording, start=Tree(nodes), operations=operations)


def digest(content: bytes) -> str:
    """Return the digest of a large result, as answers name it."""
    return hashlib.sha256(content).hexdigest()
