"""Test files side by side in forks: all of them, each once, and whatever goes wrong in a fork fails the run."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tests.cluster.paths import REPOSITORY
from tests.support.forked_programs import Forked

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


def test_a_warning_of_a_fork_is_in_the_summary(tmp_path: Path) -> None:
    code, output = run(tmp_path, x="import warnings\ndef test_it(): warnings.warn('old way', DeprecationWarning)\n")
    assert code == 0, output
    assert "DeprecationWarning: old way" in output
    assert "1 passed, 1 warning" in output
