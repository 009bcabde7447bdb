"""Programs that are forked, not started: each has its own surroundings, and what a fork cannot do is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forked_programs import can_be_forked, run, stand_ins
from tests.support.timeout import TIMEOUT

EFRIT = str(Path(sys.executable).with_name("efrit"))
OPERATOR = str(Path(sys.executable).with_name("efrit-operator"))


def test_a_fork_ends_and_prints_as_the_program_does(tmp_path: Path) -> None:
    for words in (["--version"], ["no-such-command"], ["requests", "--backend", "local", "x"]):
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        forked = run([EFRIT, *words], env, tmp_path, stdin="", timeout=TIMEOUT)
        started = subprocess.run([EFRIT, *words], env=env, cwd=tmp_path, capture_output=True, text=True, input="")
        for field in ("returncode", "stdout", "stderr"):
            assert getattr(forked, field) == getattr(started, field)


@pytest.mark.parametrize("more", [{}, {"LC_ALL": "C"}], ids=["forked", "started"])
def test_what_a_shell_starts_by_its_name_ends_and_prints_as_the_program_does(
    tmp_path: Path, more: dict[str, str]
) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "EFRIT_CONFIG": "no.json", **more}
    script = (
        "efrit --version; echo '{' > here.json; EFRIT_CONFIG=here.json efrit instances; echo $?; efrit no-command"
    )
    ran = []
    for directory in (stand_ins(tmp_path / "bin"), EFRIT.rpartition("/")[0]):
        command = ["bash", "-c", f"PATH={directory}:$PATH; {script}"]
        ran.append(subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT))
    forked, started = ran
    assert "here.json" in started.stderr
    for field in ("returncode", "stdout", "stderr"):
        assert getattr(forked, field) == getattr(started, field)


def test_a_fork_has_the_environment_it_was_given_and_no_other(tmp_path: Path) -> None:
    os.environ["EFRIT_OPERATOR_IMAGE"] = "from-the-tests"
    try:
        forked = run([OPERATOR], {"EFRIT_EMACS_IMAGE": "given"}, tmp_path, stdin="", timeout=TIMEOUT)
    finally:
        del os.environ["EFRIT_OPERATOR_IMAGE"]
    assert forked.returncode == 2
    assert "EFRIT_OPERATOR_IMAGE: it must be set" in forked.stderr
    assert "EFRIT_EMACS_IMAGE" not in forked.stderr


@pytest.mark.parametrize(
    ("command", "env", "forked"),
    [
        ([EFRIT, "--version"], {}, True),
        ([EFRIT, "--version"], {"EFRIT_DEBUG": "1"}, True),
        ([EFRIT, "--version"], {"LD_PRELOAD": "shim.so"}, False),
        ([EFRIT, "--version"], {"PYTHONIOENCODING": "ascii"}, False),
        ([EFRIT, "--version"], {"LC_ALL": "C"}, False),
        ([EFRIT, "eval", "1" * 200_000], {}, False),
        (["/somewhere/else/efrit", "--version"], {}, False),
        (["strace", EFRIT], {}, False),
        (["efrit-bridge"], {"PATH": str(Path(EFRIT).parent)}, True),
        (["efrit-bridge"], {"PATH": "/somewhere/else"}, False),
    ],
)
def test_what_only_a_new_interpreter_can_do_is_left_to_one(
    command: list[str], env: dict[str, str], forked: bool
) -> None:
    assert can_be_forked(command, env) is forked
