"""Programs that are forked, not started: each has its own surroundings, and what a fork cannot do is started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.paths import REPOSITORY
from tests.support import forked_programs
from tests.support.forked_programs import Piped, can_be_forked, for_all_forks, run, stand_ins
from tests.support.kube import until
from tests.support.processes import Process
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


def test_whoever_has_many_files_open_has_programs_forked_as_well(tmp_path: Path) -> None:
    code = (
        "import os, resource, sys\n"
        "from tests.support.forked_programs import run\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (2000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "many = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]\n"
        "print(run([sys.argv[1], '--version'], {}, os.curdir, stdin='', timeout=60).stdout)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, EFRIT], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.stdout.startswith("efrit "), done.stderr


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


def waits_for(fifo: Path) -> bool:
    """Whether another process has opened it and sleeps."""
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            process = descriptor.parents[1]
            if descriptor.readlink() == fifo and process.name != str(os.getpid()):
                return (process / "stat").read_text().rpartition(")")[2].split()[0] == "S"
    return False


def test_a_signal_to_what_a_shell_has_started_reaches_the_fork(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "EFRIT_CONFIG": str(tmp_path / "config.json")}
    with subprocess.Popen([stand_ins(tmp_path / "bin") / "efrit", "instances", "--backend", "local"], env=env) as one:
        # It reads its settings, in vain; what comes right before that would be noticed after it.
        writer = os.open(tmp_path / "config.json", os.O_WRONLY)
        until(lambda: waits_for(tmp_path / "config.json"), "nobody reads")
        one.terminate()
        assert one.wait(TIMEOUT) == 128 + signal.SIGTERM
        os.close(writer)


def test_a_fork_has_the_environment_it_was_given_and_no_other(tmp_path: Path) -> None:
    os.environ["EFRIT_OPERATOR_IMAGE"] = "from-the-tests"
    try:
        forked = run([OPERATOR], {"EFRIT_EMACS_IMAGE": "given"}, tmp_path, stdin="", timeout=TIMEOUT)
    finally:
        del os.environ["EFRIT_OPERATOR_IMAGE"]
    assert forked.returncode == 2
    assert "EFRIT_OPERATOR_IMAGE: it must be set" in forked.stderr
    assert "EFRIT_EMACS_IMAGE" not in forked.stderr


def test_input_and_directory_are_those_given(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "EFRIT_CONFIG": "here.json"}
    (tmp_path / "here.json").write_text("{")
    forked = run([EFRIT, "instances", "--backend", "local"], env, tmp_path, stdin="", timeout=TIMEOUT)
    assert "here.json" in forked.stderr


def test_a_killed_fork_reports_the_signal(tmp_path: Path) -> None:
    # Nobody ever writes to what it reads: it ends of the signal alone.
    os.mkfifo(tmp_path / "config.json")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "EFRIT_CONFIG": str(tmp_path / "config.json")}
    process = Process([EFRIT, "instances", "--backend", "local"], env, tmp_path / "log", tmp_path)
    assert process.status is None
    assert os.getsid(process.pid) == process.pid
    process.kill()
    assert process.status == -signal.SIGKILL


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


def test_what_a_program_prints_is_read_as_it_comes_and_to_its_end(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with Piped([EFRIT, "--help"], env, tmp_path) as program:
        assert "efrit" in next(program.stdout)
    program = Piped([EFRIT, "no-such-command"], env, tmp_path)
    out, err = program.communicate(TIMEOUT)
    assert (program.returncode, out, "no-such-command" in err) == (2, "", True), err


def test_what_a_fork_of_the_tests_has_started_ends_with_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a server of its own, which is a fork of the first."""
    # As in a fork that has not started any.
    monkeypatch.setattr(forked_programs, "_servers", {})
    os.mkfifo(tmp_path / "config.json")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "EFRIT_CONFIG": str(tmp_path / "config.json")}
    with for_all_forks():
        waiting = []
        for number in range(2):
            monkeypatch.setattr(forked_programs, "_servers", {})
            log = tmp_path / f"log{number}"
            process = Process([EFRIT, "instances", "--backend", "local"], env, log, tmp_path)
            waiting.append((forked_programs._servers[""], process))
        (ending, its), (staying, other) = waiting
        ending.close()
        until(lambda: not _runs(its.pid), "it outlives its tests")
        assert other.status is None
        other.kill()
        assert other.status == -signal.SIGKILL
        staying.close()


def _runs(pid: int) -> bool:
    """Whether a process is neither gone nor waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False
