"""A volume that is really full: what finds no space is refused, nothing is lost, and work goes on once there is
space.

The queue lies on a small tmpfs of its own, which takes root to mount.
"""

import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.protocol import RequestReason
from efrit.protocol.view import DiskProblem
from efrit.queue.reserve import FILES
from tests.chaos.storage.phases import Harness
from tests.chaos.storage.recording import GO, WAIT, WatchedInstance, counting_form
from tests.chaos.storage.replay import leftovers
from tests.support.bridge_instance import until
from tests.support.faults.file_shim.shim import FileShim
from tests.support.timeout import TIMEOUT

SECONDS = TIMEOUT

pytestmark = pytest.mark.slow


@pytest.fixture(params=["size=1m", "size=8m,nr_inodes=300"], ids=["bytes", "inodes"])
def volume(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = tmp_path / "instance/volume"
    path.mkdir(parents=True)
    options = f"{request.param},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "efrit-test", path], check=True, timeout=TIMEOUT)
    yield path
    # What was killed at the end may still be in it.
    subprocess.run(["umount", "--lazy", path], check=True, timeout=TIMEOUT)


@pytest.fixture
def harness(tmp_path: Path, lisp: Path, volume: Path) -> Iterator[Harness]:
    shim = FileShim(tmp_path / "chaos", volume)
    instance = WatchedInstance(tmp_path / "instance", lisp)
    try:
        instance.start_bridge()
        instance.start_emacs()
        until(lambda: len(list(instance.queue.glob("tmp/reserve_*"))) == FILES, SECONDS)
        yield Harness(instance, shim)
    finally:
        instance.stop()


def fill(volume: Path) -> None:
    """Write until not one more byte, and not one more file, has space."""
    with contextlib.suppress(OSError), (volume / "filling").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    numbers = itertools.count()
    with contextlib.suppress(OSError):
        while True:
            (volume / f"filling-{next(numbers)}").write_bytes(b"x")


def free(volume: Path) -> None:
    for path in volume.glob("filling*"):
        path.unlink()


def judge(harness: Harness, *rids: str) -> None:
    for rid in rids:
        response = harness.answer(rid)
        assert (response.reason, harness.begun(rid)) == (RequestReason.SUCCEEDED, 1)
        harness.acknowledge(rid)
    until(lambda: not leftovers(harness.instance.queue), SECONDS)


def test_what_has_no_room_is_refused_and_what_runs_is_answered_once_there_is(harness: Harness, volume: Path) -> None:
    one = harness.instance
    one.put("runs", counting_form("runs", WAIT), options={"timeout": 3600})
    one.put("waits", counting_form("waits"))
    until(lambda: harness.begun("runs"), SECONDS)
    fill(volume)
    refused = one.put("refused", counting_form("refused"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (507, "NoSpace")
    until(lambda: full(harness), SECONDS)
    (one.workspace / GO).touch()
    # The reserve has room for answers that are as small as this one.
    assert harness.answer("runs").reason is RequestReason.SUCCEEDED
    assert one.client.get("/healthz").status_code == 200
    free(volume)
    until(lambda: not full(harness), SECONDS)
    harness.put("refused", counting_form("refused"))
    judge(harness, "runs", "waits", "refused")


def full(harness: Harness) -> bool:
    """Return whether the bridge reports a full disk."""
    disk = harness.instance.stats().disk
    return disk is not None and disk.problem is DiskProblem.FULL


def test_an_answer_that_has_no_room_is_kept_and_stored_once_there_is(harness: Harness, volume: Path) -> None:
    one = harness.instance
    one.put("runs", counting_form("runs", f"(progn {WAIT} (make-string 700000 ?x))"), options={"timeout": 3600})
    until(lambda: harness.begun("runs"), SECONDS)
    fill(volume)
    (one.workspace / GO).touch()
    until(lambda: "degraded" in (one.queue / "heartbeat").read_text(), SECONDS)
    assert one.view("runs").response is None
    until(lambda: full(harness), SECONDS)
    free(volume)
    judge(harness, "runs")


def test_cancels_and_time_outs_work_while_there_is_no_room(harness: Harness, volume: Path) -> None:
    one = harness.instance
    # None of these could be written to the full volume: they outnumber the reserve.
    waiting = [f"waits-{number}" for number in range(FILES + 8)]
    one.put("runs", counting_form("runs", "(while t (sleep-for 0.01))"), options={"timeout": 3600})
    for rid in waiting:
        one.put(rid, counting_form(rid))
    until(lambda: harness.begun("runs"), SECONDS)
    fill(volume)
    for rid in waiting:
        assert one.client.post(f"/v1/requests/{rid}/cancel?only=waiting").status_code == 202
    assert one.client.post("/v1/requests/runs/cancel").status_code == 202
    for rid in (*waiting, "runs"):
        assert harness.answer(rid).reason is RequestReason.CANCELLED
        harness.acknowledge(rid)
    assert [harness.begun(rid) for rid in waiting] == [0] * len(waiting)
    until(lambda: not leftovers(one.queue), SECONDS)


def test_a_run_that_overruns_its_time_ends_while_there_is_no_room(harness: Harness, volume: Path) -> None:
    one = harness.instance
    one.put("runs", counting_form("runs", "(while t (sleep-for 0.01))"), options={"timeout": 3})
    until(lambda: harness.begun("runs"), SECONDS)
    fill(volume)
    assert harness.answer("runs").reason is RequestReason.TIMED_OUT


@pytest.mark.parametrize("volume", ["size=8m"], indirect=True, ids=["workspace"])
def test_a_large_result_is_cut_and_says_why_where_the_workspace_is_full(harness: Harness) -> None:
    one = harness.instance
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "efrit-test", str(one.workspace)]
    subprocess.run(mount, check=True, timeout=TIMEOUT)
    try:
        one.put("runs", counting_form("runs", f"(progn {WAIT} (make-string 900000 ?x))"), options={"timeout": 3600})
        until(lambda: harness.begun("runs"), SECONDS)
        fill(one.workspace)
        (one.workspace / GO).touch()
        response = harness.answer("runs")
        assert (response.reason, response.truncated, response.result_path) == (RequestReason.SUCCEEDED, True, None)
        assert "No space left on device" in response.messages.splitlines()[0]
        assert not list(one.workspace.glob(".efrit/results/*"))
        harness.acknowledge("runs")
    finally:
        # Emacs may still be in it.
        subprocess.run(["umount", "--lazy", str(one.workspace)], check=True, timeout=TIMEOUT)


def test_both_may_be_started_again_while_there_is_no_room(harness: Harness, volume: Path) -> None:
    one = harness.instance
    one.put(
        "runs", counting_form("runs", WAIT), options={"timeout": 3600, "retry": "if-interrupted", "max_attempts": 2}
    )
    one.put("waits", counting_form("waits"))
    until(lambda: harness.begun("runs"), SECONDS)
    pid = one.emacs_pid()
    fill(volume)
    os.kill(pid, signal.SIGKILL)
    one.kill_bridge()
    one.spawn_bridge()
    until(one.alive, SECONDS)
    until(lambda: one.emacs_pid() != pid, SECONDS)
    free(volume)
    (one.workspace / GO).touch()
    assert (harness.answer("runs").reason, harness.begun("runs")) == (RequestReason.SUCCEEDED, 2)
    harness.acknowledge("runs")
    judge(harness, "waits")
