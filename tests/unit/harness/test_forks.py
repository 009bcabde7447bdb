"""Test files side by side in forks: all of them, each once, and whatever goes wrong in a fork fails the run."""

from __future__ import annotations

import math
import os
import re
import signal
import sys
from pathlib import Path
from typing import Literal

import pytest

from tests.cluster.paths import REPOSITORY
from tests.forks import CONTEXT, RunningTest, Sender
from tests.support.forked_programs import Forked
from tests.support.kube import until

WAITS = """
import time
from pathlib import Path
def test_it(tmp_path):
    here = Path(__file__)
    here.with_suffix(".began").touch()
    while not here.with_name("{other}").exists():
        time.sleep(0.01)
def test_directory(tmp_path):
    assert tmp_path.parent.name.startswith("fork")
    print("heard", flush=True)
"""


OUTPUT = "output"

ENDLESS = "    while True: time.sleep(0.05)\n"
"""Not one long sleep: a signal that comes right before that begins would be noticed after it."""


def run(directory: Path, *words: str, **files: str) -> tuple[int, str]:
    """Return the exit code of a run of two forks over these files, and all that it says."""
    code = start(directory, *words, **files).wait()
    return code, (directory / OUTPUT).read_text()


def start(directory: Path, *words: str, **files: str) -> Forked:
    for name, text in files.items():
        (directory / f"test_{name}.py").write_text(text)
    options = ["-q", "-c", os.devnull, "-p", "tests.forks", "--forks", "2", "-p", "no:cacheprovider"]
    command = [str(Path(sys.executable).with_name("pytest")), *options, *words, str(directory)]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "1000"}
    with Path(os.devnull).open() as nothing, (directory / OUTPUT).open("w") as output:
        streams = nothing.fileno(), output.fileno(), output.fileno()
        return Forked(command, env, REPOSITORY, streams=streams, start_new_session=True)


def test_two_files_run_side_by_side_and_every_test_once(tmp_path: Path) -> None:
    files = {"a": WAITS.format(other="test_b.began"), "b": WAITS.format(other="test_a.began")}
    code, output = run(tmp_path, "-vv", "--durations=0", **files, c="def test_c(): pass\n")
    assert (code, output.count(" PASSED")) == (0, 5), output
    assert "slowest durations" in output
    assert "heard" not in output


def test_fixtures_of_the_session_are_made_once_in_a_fork_and_those_of_a_file_end_with_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\nfrom pathlib import Path\n"
        "def log(text):\n    with Path(__file__).with_name('log').open('a') as file: file.write(text + ' ')\n"
        "@pytest.fixture(scope='session')\ndef once():\n    log('s')\n    yield\n    log('S')\n"
        "@pytest.fixture(scope='module')\ndef each():\n    log('m')\n    yield\n    log('M')\n"
    )
    test = "def test_one(once, each): pass\ndef test_two(once, each): pass\n"
    code, output = run(tmp_path, "--forks", "1", a=test, b=test)
    assert code == 0, output
    assert (tmp_path / "log").read_text() == "s m M m M S "


def test_what_is_made_before_the_forks_is_there_in_each_and_closed_after_the_last(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import os\nfrom pathlib import Path\n"
        "def pytest_before_forks(session, until_end):\n"
        "    (here := Path(__file__).with_name('open')).write_text(str(os.getpid()))\n"
        "    until_end.callback(lambda: here.rename(here.with_name('closed')))\n"
    )
    test = (
        "import os\nfrom pathlib import Path\n"
        "def test_it():\n    assert Path(__file__).with_name('open').read_text() == str(os.getppid())\n"
    )
    code, output = run(tmp_path, a=test, b=test)
    assert (code, output.count("passed")) == (0, 1), output
    assert not (tmp_path / "open").exists()
    assert (tmp_path / "closed").exists()


def test_what_all_forks_need_is_made_by_the_first_of_them_and_again_after_it_failed(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\nfrom pathlib import Path\nfrom tests.forks import made_once\n"
        "def make(directory):\n"
        "    failed = Path(__file__).with_name('failed')\n    directory.mkdir()\n"
        "    if not failed.exists():\n        failed.touch()\n        raise ValueError('the first time')\n"
        "    (directory / 'it').touch()\n"
        "@pytest.fixture\ndef shared(pytestconfig):\n    return made_once(pytestconfig, 'shared', make)\n"
    )
    test = "def test_first(shared): pass\ndef test_then(shared): assert (shared / 'it').exists()\n"
    code, output = run(tmp_path, "--basetemp", str(tmp_path / "base"), a=test, b=test)
    assert code == 1
    assert "3 passed, 1 error" in output, output
    assert [path.name for path in (tmp_path / "base").rglob("it")] == ["it"]


def test_what_goes_wrong_in_one_fork_fails_the_run_and_is_reported(tmp_path: Path) -> None:
    fails = "def test_it():\n    print('heard')\n    assert 1 == 2\n"
    code, output = run(tmp_path, fails=fails, ends="import os\ndef test_it(): os._exit(3)\n")
    assert code == 1
    assert re.search(r"heard(.|\n)*test_fails.py::test_it - assert 1 == 2", output), output
    assert "test_ends.py::test_it - the process of the tests ended with 3" in output


def test_a_fixture_of_the_session_that_fails_in_the_end_fails_the_run(tmp_path: Path) -> None:
    fixture = (
        "import pytest\n@pytest.fixture(scope='session')\ndef late():\n    yield\n    raise RuntimeError('late')\n"
    )
    code, output = run(tmp_path, x=f"{fixture}def test_it(late): pass\n")
    assert code == 1
    assert "RuntimeError: late" in output
    assert "test_x.py::test_it - the process of the tests ended with 1" in output


def test_after_as_many_failures_as_are_asked_for_the_other_forks_end(tmp_path: Path) -> None:
    waits = (
        "import time\nfrom pathlib import Path\ndef test_it():\n    Path(__file__).with_suffix('.began').touch()\n"
    )
    fails = "import time\nfrom pathlib import Path\ndef test_it():\n"
    fails += "    while not Path(__file__).with_name('test_a.began').exists(): time.sleep(0.01)\n    assert False\n"
    code, output = run(tmp_path, "-x", a=waits + ENDLESS, b=fails)
    assert code == 1
    assert "1 failed" in output
    assert "KeyboardInterrupt" not in output


def test_a_warning_of_a_fork_is_in_the_summary(tmp_path: Path) -> None:
    code, output = run(tmp_path, x="import warnings\ndef test_it(): warnings.warn('old way', DeprecationWarning)\n")
    assert code == 0, output
    assert "DeprecationWarning: old way" in output
    assert "1 passed, 1 warning" in output


def test_ctrl_c_interrupts_each_fork_once(tmp_path: Path) -> None:
    counts = (
        "import os, pytest, signal, time\nfrom pathlib import Path\n"
        "def noted(text):\n    with Path(__file__).with_suffix('.log').open('a') as file: file.write(text)\n"
        "def interrupted(*_):\n    noted('i')\n    raise KeyboardInterrupt\n"
        "@pytest.fixture\ndef kept():\n    signal.signal(signal.SIGINT, interrupted)\n    yield\n"
        "    while not Path(__file__).with_name('pressed').exists(): time.sleep(0.01)\n"
        # A second signal would be here by then, as it comes at once.
        "    signal.sigtimedwait((), 1)\n    noted('t')\n"
        "def test_it(kept):\n    began = Path(__file__).with_suffix('.new')\n"
        "    began.write_text(str(os.getpid()))\n    began.rename(began.with_suffix('.began'))\n"
        f"{ENDLESS}"
    )
    running = start(tmp_path, a=counts, b=counts, c=counts)
    until(lambda: len(list(tmp_path.glob("*.began"))) == 2, "two files have not begun")
    # As a terminal does, the forks first: two signals to one that has not noticed the first are one.
    for began in tmp_path.glob("*.began"):
        os.kill(int(began.read_text()), signal.SIGINT)
    until(lambda: len(list(tmp_path.glob("*.log"))) == 2, "two forks are not interrupted")
    os.kill(running.pid, signal.SIGINT)
    (tmp_path / "pressed").touch()
    assert running.wait() == pytest.ExitCode.INTERRUPTED, (tmp_path / OUTPUT).read_text()
    assert [log.read_text() for log in tmp_path.glob("*.log")] == ["it", "it"]


def _report(outcome: Literal["passed", "failed"]) -> pytest.TestReport:
    return pytest.TestReport("test_a.py::test_it", ("test_a.py", 1, "test_it"), {}, outcome, None, "call")


def test_what_passed_is_sent_with_what_comes_next_and_a_failure_at_once(pytestconfig: pytest.Config) -> None:
    ours, theirs = CONTEXT.Pipe(duplex=False)
    with ours, theirs:
        sender = Sender(pytestconfig, theirs, RunningTest(), linger=math.inf)
        sender.pytest_runtest_logreport(_report("passed"))
        assert not ours.poll()
        sender.pytest_runtest_logreport(_report("failed"))
        assert [report["outcome"] for report in ours.recv()] == ["passed", "failed"]
        sender.flush()
        assert not ours.poll()
        sender.pytest_runtest_logreport(_report("passed"))
        sender.flush()
        assert [report["outcome"] for report in ours.recv()] == ["passed"]


def test_what_has_passed_for_long_enough_is_sent(pytestconfig: pytest.Config) -> None:
    ours, theirs = CONTEXT.Pipe(duplex=False)
    with ours, theirs:
        sender = Sender(pytestconfig, theirs, RunningTest(), linger=0)
        sender.pytest_runtest_logreport(_report("passed"))
        assert [report["outcome"] for report in ours.recv()] == ["passed"]


@pytest.mark.parametrize("name", ["test_a.py::test_it[ä]", "long" * 2000])
def test_the_name_of_the_running_test_is_known_without_a_message(name: str) -> None:
    running = RunningTest()
    assert running.get() == "nothing yet"
    process = CONTEXT.Process(target=running.set, args=(name,))
    process.start()
    process.join()
    assert running.get() == name[:4096]
