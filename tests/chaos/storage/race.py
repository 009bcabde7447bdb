"""An instance whose bridge is about to begin a new claim journal; its processes can be stopped at single calls."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.chaos.storage.recording import WatchedInstance, counting_form
from tests.support.bridge_instance import until
from tests.support.faults.file_shim.shim import Action, FileShim
from tests.support.timeout import TIMEOUT

LONG_JOURNAL = b"!" * (1 << 20) + b"\n"
BRIDGE, EMACS = 0, 1
EARLY = "early"
SECONDS = TIMEOUT
CLIENT = """
import os, sys
name, part, body = sys.argv[1:]
with open(part, "w") as file:
    file.write(body)
    file.flush()
    os.fsync(file.fileno())
os.rename(part, name)
directory = os.open(os.path.dirname(name), os.O_RDONLY)
os.fsync(directory)
"""


class JournalRace:
    """An instance whose bridge is about to begin a new journal."""

    def __init__(self, directory: Path, lisp: Path) -> None:
        place = directory / "instance"
        self.shim = FileShim(directory / "chaos", place / "volume", place / "workspace")
        env = {**self.shim.environment, "EFRIT_ARCHIVE_SECONDS": "4"}
        self.instance = WatchedInstance(place, lisp, env)
        (self.instance.queue / "processing").mkdir(parents=True, mode=0o700)
        (self.instance.queue / "claims.log").write_bytes(LONG_JOURNAL)
        # A request that an earlier Emacs has begun; only the journal before the last one says so.
        (self.instance.queue / "claims.old").write_text(f"{EARLY} 1 0123456789abcdef\n")
        body = {"id": EARLY, "type": "eval", "content": counting_form(EARLY)}
        (self.instance.queue / f"processing/req_{EARLY}.json").write_text(json.dumps(body))

    def arm(self, slot: int, operation: str, name: str, program: str, action: Action = Action.STOP_BEFORE) -> None:
        """Have a process stop at this call."""
        self.shim.arm(action, operation, f"{self.instance.queue}/{name}", program=program, slot=slot)

    def drop(self, rid: str, form: str) -> None:
        """Write a request as another client does, in one step, by a process that is recorded as well."""
        body = json.dumps({"id": rid, "type": "eval", "content": form, "options": {"timeout": 3600}})
        name = str(self.instance.queue / f"requests/req_{rid}.json")
        part = str(self.instance.workspace / f"{rid}.part")
        environment = {**os.environ, **self.shim.environment}
        subprocess.run([sys.executable, "-c", CLIENT, name, part, body], env=environment, check=True, timeout=SECONDS)

    def stopped(self, slot: int) -> bool:
        """Return whether the process of a slot has stopped."""
        return self.shim.hits(slot) > 0

    def begun(self, rid: str) -> int:
        """Return how often a request has begun."""
        counter = self.instance.workspace / "counter"
        return counter.read_text().split().count(rid) if counter.exists() else 0

    def start_stopping_at(self, operation: str, name: str, action: Action = Action.STOP_BEFORE) -> int:
        """Start both. Return the pid of Emacs once the bridge has stopped at this call of its exchange."""
        self.arm(BRIDGE, operation, name, "python*", action)
        self.instance.spawn_bridge()
        until(lambda: self.stopped(BRIDGE), SECONDS)
        self.instance.spawn_emacs()
        until(lambda: (self.instance.queue / "heartbeat").exists(), SECONDS)
        return int(json.loads((self.instance.queue / "heartbeat").read_text())["pid"])

    def continue_bridge(self) -> None:
        """Continue the bridge."""
        assert self.instance.bridge is not None
        self.instance.bridge.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End both, stopped or not."""
        for slot in (BRIDGE, EMACS):
            self.shim.clear(slot)
        for process in (self.instance.bridge, self.instance.emacs):
            if process is not None:
                process.send_signal(signal.SIGCONT)
        self.instance.stop()
