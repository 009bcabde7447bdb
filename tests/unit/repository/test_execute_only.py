"""What images/operator/Dockerfile relies on: who may run a program and not read it cannot look into its process."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

AS_USER = {"user": 65532, "group": 65532} if os.geteuid() == 0 else {}
"""Root may look into everything."""


@pytest.mark.parametrize(("mode", "status"), [(0o111, 1), (0o555, 0)])
def test_a_process_whose_program_cannot_be_read_cannot_be_looked_into_by_its_own_user(mode: int, status: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        program = Path(shutil.copy("/bin/cat", directory))
        if AS_USER:
            os.chown(program, 65532, 65532)
        program.chmod(mode)
        with subprocess.Popen([program], stdin=subprocess.PIPE, **AS_USER) as process:  # type: ignore[call-overload]
            look = f"cat /proc/{process.pid}/environ && test -e /proc/{process.pid}/root/proc"
            done = subprocess.run(["/bin/sh", "-c", look], capture_output=True, **AS_USER)  # type: ignore[call-overload]
            process.communicate()
    assert done.returncode == status, done.stderr
