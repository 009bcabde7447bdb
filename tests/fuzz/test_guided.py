"""A bounded run of the coverage-guided fuzzer: the same number of inputs from the same seed every time."""

import subprocess
import sys

import pytest

BOUNDS = ("--runs", "1500", "--seed", "1")


@pytest.mark.skipif(sys.platform != "linux", reason="atheris has wheels for Linux only")
def test_no_reader_breaks_within_a_few_seconds_of_guided_fuzzing() -> None:
    """What it prints (the seed, the inputs tried) is shown with -rP; a broken input lies in regressions/."""
    command = [sys.executable, "-m", "tests.fuzz.guided", *BOUNDS]
    # A number of inputs, and no time: pytest's own limit ends what hangs.
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
