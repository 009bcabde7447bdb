"""The wall clock jumps by an hour, or a process stands still: what waits and what runs is answered in its time."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.protocol import RequestReason
from tests.chaos.storage.phases import Harness
from tests.chaos.storage.recording import GO, WatchedInstance, counting_form
from tests.support.bridge_instance import until
from tests.support.faults.file_shim.shim import FileShim
from tests.support.timeout import TIMEOUT

HOUR = 3600
SECONDS = TIMEOUT
# What sleeps in Emacs sleeps by the wall clock: set back, it sleeps that much longer.
AWAKE = f'(while (not (file-exists-p "{GO}")))'
STAND_STILL = "(signal-process (emacs-pid) 'SIGSTOP)"
JUMPS = pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forward", "back"])

pytestmark = pytest.mark.slow


@pytest.fixture
def harness(tmp_path: Path, lisp: Path) -> Iterator[Harness]:
    place = tmp_path / "instance"
    shim = FileShim(tmp_path / "chaos", place / "volume", place / "workspace")
    instance = WatchedInstance(place, lisp, {**shim.environment, "EFRIT_ARCHIVE_SECONDS": str(24 * HOUR)})
    instance.volume.mkdir()
    try:
        instance.start_bridge()
        instance.start_emacs()
        yield Harness(instance, shim)
    finally:
        instance.stop()


@JUMPS
def test_what_waits_and_what_runs_when_the_clock_jumps_is_answered_once(harness: Harness, jump: int) -> None:
    one = harness.instance
    harness.put("runs", counting_form("runs", AWAKE), options={"timeout": 3600})
    harness.put("waits", counting_form("waits"))
    until(lambda: harness.begun("runs"), SECONDS)
    harness.shim.set_clock(jump)
    harness.put("later", counting_form("later"))
    (one.workspace / GO).touch()
    for rid in ("runs", "waits", "later"):
        response = harness.answer(rid)
        assert (response.reason, harness.begun(rid)) == (RequestReason.SUCCEEDED, 1)
        assert response.execution_time >= 0
        harness.acknowledge(rid)
        assert one.view(rid).response is not None
    until(one.ready, SECONDS)


@JUMPS
def test_a_jump_of_the_clock_ends_no_request_early_and_keeps_none_alive(harness: Harness, jump: int) -> None:
    harness.put("patient", counting_form("patient", AWAKE), options={"timeout": 3600})
    until(lambda: harness.begun("patient"), SECONDS)
    harness.shim.set_clock(jump)
    (harness.instance.workspace / GO).touch()
    assert harness.answer("patient").reason is RequestReason.SUCCEEDED
    harness.put("endless", counting_form("endless", "(while t)"), options={"timeout": 1})
    until(lambda: harness.begun("endless"), SECONDS)
    harness.shim.set_clock(0)
    assert harness.answer("endless").reason is RequestReason.TIMED_OUT


@JUMPS
def test_a_crash_after_the_clock_jumped_is_recovered_as_ever(harness: Harness, jump: int) -> None:
    one = harness.instance
    harness.runs("once")
    harness.put(
        "again", harness.gated_form("again"), options={"timeout": 3600, "retry": "if-interrupted", "max_attempts": 2}
    )
    harness.shim.set_clock(jump)
    os.kill(one.emacs_pid(), signal.SIGKILL)
    assert (harness.answer("once").reason, harness.begun("once")) == (RequestReason.INTERRUPTED, 1)
    until(lambda: harness.begun("again"), SECONDS)
    pid = one.emacs_pid()
    one.kill_bridge()
    one.start_bridge()
    os.kill(pid, signal.SIGKILL)
    until(lambda: harness.begun("again") == 2, SECONDS)
    harness.go("again")
    assert (harness.answer("again").reason, harness.begun("again")) == (RequestReason.SUCCEEDED, 2)


def test_an_emacs_that_stands_still_past_its_time_is_ended_and_the_rest_is_answered(harness: Harness) -> None:
    # It stops itself: a signal from outside may come after its time is over.
    harness.put("frozen", counting_form("frozen", STAND_STILL), options={"timeout": 2})
    harness.put("waits", counting_form("waits"))
    assert (harness.answer("frozen").reason, harness.begun("frozen")) == (RequestReason.TIMED_OUT, 1)
    assert (harness.answer("waits").reason, harness.begun("waits")) == (RequestReason.SUCCEEDED, 1)


def test_a_bridge_that_stood_still_reports_what_was_answered_meanwhile(harness: Harness) -> None:
    one = harness.instance
    harness.runs("runs")
    harness.put("waits", counting_form("waits"))
    pid = one.emacs_pid()
    assert one.bridge is not None
    one.bridge.send_signal(signal.SIGSTOP)
    harness.go("runs")
    until((one.queue / "responses/resp_waits.json").exists, SECONDS)
    one.bridge.send_signal(signal.SIGCONT)
    for rid in ("runs", "waits"):
        assert (harness.answer(rid).reason, harness.begun(rid)) == (RequestReason.SUCCEEDED, 1)
    assert one.emacs_pid() == pid
