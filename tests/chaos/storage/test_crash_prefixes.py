"""Whatever a power cut leaves on the disk, at any moment of any step: both halves recover, and no promise is broken.

SIGKILL cannot show a missing fsync, for the kernel keeps what a dead process wrote. So what bridge and Emacs do to
the volume is recorded, and the states a crash may leave are built from it. EFRIT_CRASH_SHARE=1 looks at all of them.
"""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from tests.chaos.storage.crash_states import crash_states
from tests.chaos.storage.disk_model import Volume
from tests.chaos.storage.promises import promises_at, violations
from tests.chaos.storage.recording import Recording
from tests.chaos.storage.replay import Emacs, recover, write_tree
from tests.chaos.storage.scenarios import NAMES

SHARE = float(os.environ.get("EFRIT_CRASH_SHARE", "0.03"))
SEED = int(os.environ.get("EFRIT_CRASH_SEED", "1"))
SHOWN = 5
BOTH_ORDERS_UP_TO = 80


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_no_state_a_crash_can_leave_breaks_a_promise(
    recordings: dict[str, Recording], scratch: Path, lisp: Path, name: str
) -> None:
    recording = recordings[name]
    states = crash_states(Volume(recording.start, recording.operations), seed=SEED, share=SHARE)
    problems: list[str] = []
    both_orders = len(states) <= BOTH_ORDERS_UP_TO
    with Emacs(lisp) as emacs, asyncio.Runner() as runner:
        for number, state in enumerate(states):
            before = promises_at(recording.operations, state.crash, recording.begun_before)
            for emacs_first in (False, True) if both_orders else (number % 2 == 1,):
                place = scratch / f"{name}-{number}"
                write_tree(state.tree, recording.place, place)
                after = runner.run(recover(place, emacs, before, emacs_first=emacs_first))
                shutil.rmtree(place)
                if breaches := violations(before, after):
                    problems.append(f"after {state.crash} operations, {state.why}: " + "; ".join(breaches))
            if len(problems) >= SHOWN:
                break
    assert not problems, "\n".join([f"{len(states)} states of {name}:", *problems])
