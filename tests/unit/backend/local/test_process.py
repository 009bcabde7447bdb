"""Whether the process of a heartbeat is the Emacs that wrote it, whatever becomes of the clock meanwhile."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from efrit.backend.local import process
from efrit.backend.local.process import emacs_of
from tests.support.descriptors import no_descriptors

HOUR = 3600.0


@pytest.fixture
def pid() -> Iterator[int]:
    """Yield the number of a process that is called emacs."""
    pipe, command = subprocess.PIPE, ["emacs", "-u"]
    with subprocess.Popen(command, executable="/bin/cat", bufsize=0, stdin=pipe, stdout=pipe) as emacs:
        assert emacs.stdin is not None
        assert emacs.stdout is not None
        # Once it answers it has its name.
        emacs.stdin.write(b".")
        assert emacs.stdout.read(1) == b"."
        yield emacs.pid


@pytest.fixture
def proc(tmp_path: Path, pid: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return what this machine says of that process and of its boot, which a test may change."""
    (tmp_path / str(pid)).symlink_to(f"/proc/{pid}")
    (tmp_path / "stat").write_text(Path("/proc/stat").read_text())
    monkeypatch.setattr(process, "_PROC", tmp_path)
    monkeypatch.setattr(process, "_boot_times", [])
    return tmp_path


def heartbeat(pid: int, at: float) -> dict[str, Any]:
    return {"pid": pid, "boot": "b", "time": datetime.fromtimestamp(at, UTC).isoformat()}


def set_clock(proc: Path, seconds: float) -> None:
    """Have the clock set by so many seconds, which moves the time of the boot."""
    (proc / "stat").write_text(f"btime {int(btime()) + int(seconds)}\n")


def btime() -> str:
    return next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime ")).split()[1]


@pytest.mark.parametrize(
    ("set_by", "written_after"),
    [(-HOUR, True), (-HOUR, False), (HOUR, True), (HOUR, False)],
    ids=["set back", "set back, no heartbeat since", "set forward", "set forward, no heartbeat since"],
)
def test_an_emacs_is_the_one_of_its_heartbeat_though_the_clock_is_set(
    proc: Path, pid: int, set_by: float, written_after: bool
) -> None:
    now = time.time()
    emacs = emacs_of(heartbeat(pid, now))
    assert emacs is not None

    set_clock(proc, set_by)

    assert emacs.alive
    assert emacs_of(heartbeat(pid, now + set_by if written_after else now)) is not None


def test_a_process_that_began_after_the_heartbeat_is_another_one(proc: Path, pid: int) -> None:
    assert emacs_of(heartbeat(pid, time.time() - 60)) is None


def test_what_could_not_be_read_once_is_read_again(proc: Path, pid: int) -> None:
    with no_descriptors():
        assert process._epoch_seconds(1) is None
    assert process._epoch_seconds(1) is not None
