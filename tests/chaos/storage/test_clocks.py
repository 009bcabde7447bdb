"""The wall clock jumps by an hour, or a process stands still: what waits and what runs is answered in its time."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.protocol import Reason
from tests.chaos.storage.phases import Bench
from tests.chaos.storage.recording import GO, WatchedInstance, counting
from tests.support.bridge_instance import until
from tests.support.faults.file_shim.shim import FileShim

HOUR = 3600
SECONDS = 60
# What sleeps in Emacs sleeps by the wall clock: set back, it sleeps that much longer.
AWAKE = f'(while (not (file-exists-p "{GO}")))'
JUMPS = pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forward", "back"])

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def bench(tmp_path: Path, lisp: Path) -> Iterator[Bench]:
    place = tmp_path / "instance"
    recorder = FileShim(tmp_path / "chaos", place / "volume", place / "workspace")
    instance = WatchedInstance(place, lisp, {**recorder.environment, "EFRIT_ARCHIVE_SECONDS": str(24 * HOUR)})
    instance.volume.mkdir()
    try:
        instance.start_bridge()
        instance.start_emacs()
        yield Bench(instance, recorder)
    finally:
        instance.stop()


@JUMPS
def test_what_waits_and_what_runs_when_the_clock_jumps_is_answered_once(bench: Bench, jump: int) -> None:
    one = bench.instance
    bench.put("runs", counting("runs", AWAKE), options={"timeout": 120})
    bench.put("waits", counting("waits"))
    until(lambda: bench.begun("runs"), SECONDS)
    bench.recorder.set_clock(jump)
    bench.put("later", counting("later"))
    (one.workspace / GO).touch()
    for rid in ("runs", "waits", "later"):
        response = bench.answer(rid)
        assert (response.reason, bench.begun(rid)) == (Reason.SUCCEEDED, 1)
        assert response.execution_time >= 0
        bench.acknowledge(rid)
        assert one.view(rid).response is not None
    until(one.ready, SECONDS)


@JUMPS
def test_a_jump_of_the_clock_ends_no_request_early_and_keeps_none_alive(bench: Bench, jump: int) -> None:
    bench.put("patient", counting("patient", AWAKE), options={"timeout": 120})
    until(lambda: bench.begun("patient"), SECONDS)
    bench.recorder.set_clock(jump)
    (bench.instance.workspace / GO).touch()
    assert bench.answer("patient").reason is Reason.SUCCEEDED
    bench.put("endless", counting("endless", "(while t)"), options={"timeout": 1})
    until(lambda: bench.begun("endless"), SECONDS)
    begun = time.monotonic()
    bench.recorder.set_clock(0)
    assert bench.answer("endless").reason is Reason.TIMED_OUT
    assert time.monotonic() - begun < SECONDS


@JUMPS
def test_a_crash_after_the_clock_jumped_is_recovered_as_ever(bench: Bench, jump: int) -> None:
    one = bench.instance
    bench.runs("once")
    bench.put("again", bench.waiting("again"), options={"timeout": 120, "retry": "if-interrupted", "max_attempts": 2})
    bench.recorder.set_clock(jump)
    os.kill(one.emacs_pid(), signal.SIGKILL)
    assert (bench.answer("once").reason, bench.begun("once")) == (Reason.INTERRUPTED, 1)
    until(lambda: bench.begun("again"), SECONDS)
    pid = one.emacs_pid()
    one.kill_bridge()
    one.start_bridge()
    os.kill(pid, signal.SIGKILL)
    until(lambda: bench.begun("again") == 2, SECONDS)
    bench.go("again")
    assert (bench.answer("again").reason, bench.begun("again")) == (Reason.SUCCEEDED, 2)


def test_an_emacs_that_stands_still_past_its_time_is_ended_and_the_rest_is_answered(bench: Bench) -> None:
    one = bench.instance
    bench.put("frozen", bench.waiting("frozen"), options={"timeout": 2})
    bench.put("waits", counting("waits"))
    until(lambda: bench.begun("frozen"), SECONDS)
    os.kill(one.emacs_pid(), signal.SIGSTOP)
    assert (bench.answer("frozen").reason, bench.begun("frozen")) == (Reason.TIMED_OUT, 1)
    assert (bench.answer("waits").reason, bench.begun("waits")) == (Reason.SUCCEEDED, 1)


def test_a_bridge_that_stood_still_tells_what_was_answered_meanwhile(bench: Bench) -> None:
    one = bench.instance
    bench.runs("runs")
    bench.put("waits", counting("waits"))
    pid = one.emacs_pid()
    assert one.bridge is not None
    one.bridge.send_signal(signal.SIGSTOP)
    bench.go("runs")
    until((one.queue / "responses/resp_waits.json").exists, SECONDS)
    one.bridge.send_signal(signal.SIGCONT)
    for rid in ("runs", "waits"):
        assert (bench.answer(rid).reason, bench.begun(rid)) == (Reason.SUCCEEDED, 1)
    assert one.emacs_pid() == pid
