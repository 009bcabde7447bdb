"""A claim made in the very instant in which the bridge begins a new journal: it counts, whoever dies then.

A bridge takes no request while it exchanges the journals, so this one is dropped in by another client. Both processes
are stopped and continued at single calls, so that each order of their steps is tried.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.protocol import Reason
from tests.chaos.storage.recording import WatchedInstance, counting
from tests.chaos.storage.scenarios import LONG_JOURNAL
from tests.chaos.storage.shim import Action, Recorder
from tests.integration.bridge.rig import until

BRIDGE, EMACS = 0, 1
SECONDS = 60
# The calls of an exchange, as (operation, name in the queue), in their order.
EXCHANGE = (
    ("fsync", "responses"),
    ("link", "claims.new"),
    ("link", "claims.old"),
    ("rename", "claims.log"),
)


class Race:
    """An instance whose bridge is about to begin a new journal."""

    def __init__(self, directory: Path, lisp: Path) -> None:
        place = directory / "instance"
        self.recorder = Recorder(directory / "chaos", place / "volume", place / "workspace")
        env = {**self.recorder.environment, "EFRIT_ARCHIVE_SECONDS": "4"}
        self.instance = WatchedInstance(place, lisp, env)
        self.instance.queue.mkdir(parents=True, mode=0o700)
        (self.instance.queue / "claims.log").write_bytes(LONG_JOURNAL)

    def arm(self, slot: int, operation: str, name: str, program: str) -> None:
        self.recorder.arm(Action.STOP_BEFORE, operation, f"{self.instance.queue}/{name}", program=program, slot=slot)

    def drop(self, rid: str, form: str) -> None:
        """A request of another client, in one step."""
        part = self.instance.place / f"{rid}.part"
        part.write_text(json.dumps({"id": rid, "type": "eval", "content": form, "options": {"timeout": 120}}))
        part.rename(self.instance.queue / f"requests/req_{rid}.json")

    def stopped(self, slot: int) -> bool:
        return self.recorder.struck(slot) > 0

    def begun(self, rid: str) -> int:
        counter = self.instance.workspace / "counter"
        return counter.read_text().split().count(rid) if counter.exists() else 0


@pytest.fixture
def race(tmp_path: Path, lisp: Path) -> Iterator[Race]:
    made = Race(tmp_path, lisp)
    yield made
    for slot in (BRIDGE, EMACS):
        made.recorder.clear(slot)
    for process in (made.instance.bridge, made.instance.emacs):
        if process is not None:
            process.send_signal(signal.SIGCONT)
    made.instance.stop()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("operation", "name"), EXCHANGE, ids=lambda each: str(each))
@pytest.mark.parametrize("late", ["open", "write", "fsync"])
def test_a_claim_made_while_journals_are_exchanged_is_known_when_emacs_dies(
    race: Race, operation: str, name: str, late: str
) -> None:
    one = race.instance
    race.arm(BRIDGE, operation, name, "python*")
    one.spawn_bridge()
    until(lambda: race.stopped(BRIDGE), SECONDS)
    assert one.bridge is not None
    one.spawn_emacs()
    until(lambda: (one.queue / "heartbeat").exists(), SECONDS)
    pid = int(json.loads((one.queue / "heartbeat").read_text())["pid"])
    race.arm(EMACS, late, "claims.log", "emacs")
    race.drop("late", counting("late", "(while t (sleep-for 0.01))"))
    until(lambda: race.stopped(EMACS), SECONDS)
    one.bridge.send_signal(signal.SIGCONT)
    until(lambda: (one.queue / "claims.log").stat().st_size < len(LONG_JOURNAL), SECONDS)
    until(one.alive, SECONDS)
    os.kill(pid, signal.SIGCONT)
    until(lambda: race.begun("late"), SECONDS)
    os.kill(pid, signal.SIGKILL)
    assert one.answer("late", SECONDS).reason is Reason.INTERRUPTED
    assert race.begun("late") == 1
