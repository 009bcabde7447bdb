"""A claim made in the very instant in which the bridge begins a new journal: it counts, whoever dies then.

A bridge takes no request while it exchanges the journals, so this one is dropped in by another client. Both processes
are stopped and continued at single calls, so that each order of their steps is tried. A request that was begun before
the journal became this long keeps its claim all the while.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.protocol import RequestReason
from tests.chaos.storage.race import EARLY, EMACS, LONG_JOURNAL, SECONDS, JournalRace
from tests.chaos.storage.recording import counting_form
from tests.support.bridge_instance import until

# The calls of an exchange, as (operation, name in the queue), in their order.
EXCHANGE = (
    ("fsync", "responses"),
    ("link", "claims.new"),
    ("link", "claims.old"),
    ("rename", "claims.log"),
)


@pytest.fixture
def race(tmp_path: Path, lisp: Path) -> Iterator[JournalRace]:
    made = JournalRace(tmp_path, lisp)
    yield made
    made.end()


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "name"), EXCHANGE, ids=str)
@pytest.mark.parametrize("late", ["open", "write", "fsync"])
def test_a_claim_made_while_journals_are_exchanged_is_known_when_emacs_dies(
    race: JournalRace, operation: str, name: str, late: str
) -> None:
    one = race.instance
    pid = race.start_stopping_at(operation, name)
    race.arm(EMACS, late, "claims.log", "emacs")
    race.drop("late", counting_form("late", "(while t (sleep-for 0.01))"))
    until(lambda: race.stopped(EMACS), SECONDS)
    race.continue_bridge()
    until(lambda: (one.queue / "claims.log").stat().st_size < len(LONG_JOURNAL), SECONDS)
    until(one.alive, SECONDS)
    os.kill(pid, signal.SIGCONT)
    until(lambda: race.begun("late"), SECONDS)
    os.kill(pid, signal.SIGKILL)
    assert one.answer("late", SECONDS).reason is RequestReason.INTERRUPTED
    assert race.begun("late") == 1
    assert one.answer(EARLY, SECONDS).reason is RequestReason.INTERRUPTED
    assert race.begun(EARLY) == 0
