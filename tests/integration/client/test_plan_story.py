"""The story of a plan that builds a program, from the command line; what it builds is built and tested for real."""

from __future__ import annotations

import subprocess

import pytest

from tests.integration.client.program import Program
from tests.model.running import Model
from tests.plans import played, program, story

pytestmark = pytest.mark.timeout(600)

NAME = "calculator"


def test_a_program_is_built_though_tasks_fail_are_divided_given_up_and_amended(
    in_a_cluster: Program, model: Model
) -> None:
    workspace = in_a_cluster.workspace("one")
    story.written(model, NAME)
    said = played.play(in_a_cluster, NAME, "one", lambda file: (workspace / file).touch())
    assert said.splitlines()[-1].startswith("Succeeded")
    played.check(in_a_cluster, NAME)
    plan = workspace / "plans" / NAME
    assert story.thresholds((plan / "working_plan/current.json").read_text()) == story.THRESHOLDS
    for command, printed in ((program.TESTS, "Ran 5 tests, 5 results as expected"), (program.RUNS, "10\n")):
        done = subprocess.run(["sh", "-c", command], cwd=plan / "environment", capture_output=True, text=True)
        assert done.returncode == 0, done
        assert printed in done.stdout + done.stderr
    if played.EXAMPLE:
        log = subprocess.run(["sh", "-c", f"git {played.LOG}"], cwd=plan, capture_output=True, text=True, check=True)
        played.write_example(in_a_cluster, NAME, log.stdout)
