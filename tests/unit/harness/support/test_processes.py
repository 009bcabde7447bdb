"""What the pods of the tests leave behind when a test run is killed: nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support.bridge_instance import until
from tests.support.pod import EMACS_PROGRAM
from tests.support.processes import Process, is_running


def test_an_emacs_ends_with_run_emacs_even_if_that_is_killed(tmp_path: Path) -> None:
    emacs = tmp_path / "bin/emacs"
    emacs.parent.mkdir()
    emacs.write_text(f'#!/bin/sh\necho "$PATH" > {tmp_path}/path\necho $$ > {tmp_path}/pid\nexec sleep 600\n')
    emacs.chmod(0o755)
    path = f"{emacs.parent}:{os.environ['PATH']}"
    run_emacs = Process(
        ["sh", "-c", "emacs & wait"], {"PATH": f"{EMACS_PROGRAM}:{path}"}, tmp_path / "log", cwd=tmp_path
    )
    try:
        pid = int(until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
        assert (tmp_path / "path").read_text().strip() == path
        # As the kernel does when the process that runs the tests is gone.
        run_emacs.send(signal.SIGKILL)
        until(lambda: not is_running(pid))
    finally:
        run_emacs.kill()
