"""The example from `efrit plan run` to its end, and what the command line then tells of it. On any cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.plans import example
from tests.support.efrit_program import Program

EXAMPLE = os.environ.get("EFRIT_PLAN_EXAMPLE", "")
"""The directory of the documentation, where its example is to be made anew (`make plan-example`)."""
LOG = "log --reverse --format='%h %s'"


def play(efrit: Program, name: str, instance: str, touch: Callable[[str], object]) -> str:
    """Run the plan, amend it midway, and return what `plan run` printed; `touch` makes a file in the workspace."""
    command = efrit.command("plan", "run", "-f", "-", "--name", name)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=efrit.env, stdin=pipe, stdout=pipe, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            running.stdin.write(json.dumps(example.spec(name, instance)))
            running.stdin.close()
            lines = []
            for line in running.stdout:
                lines.append(line)
                if line.startswith(f"Act {example.AMENDED_AT}:"):
                    efrit.ok("plan", "amend", name, example.AMENDMENT)
                    touch(example.may_go_on(name))
        finally:
            # It leaves the plan at work, but not itself.
            running.kill()
    assert lines[-1].startswith("Succeeded"), "".join(lines)
    return "".join(lines)


def state(efrit: Program, name: str) -> dict[str, Any]:
    """Where it stands, empty before it is there."""
    done = efrit.run("plan", "show", name, "-o", "json")
    return dict(done.json) if done.code == 0 else {}


def check(efrit: Program, name: str) -> None:
    """Assert that `plan show`, `log` and `report` tell the example as it is written."""
    stands = state(efrit, name)
    assert (stands["phase"], stands["outcome"]) == ("Succeeded", "Success"), stands
    assert {task["id"]: task["failure_threshold"] for task in stands["tree"]} == example.THRESHOLDS
    assert stands["amendments"] == [example.AMENDMENT]
    shown = efrit.ok("plan", "show", name)
    assert all(line in shown for line in ("reader", example.BY_HAND, example.WITH_REMAINDERS, "Ran 5 tests")), shown

    log = efrit.run("plan", "log", name, "-o", "json").json
    assert example.heads([commit["subject"] for commit in log]) == example.HISTORY
    assert [commit["step"] for commit in log] == list(range(len(example.HISTORY)))

    report = efrit.ok("plan", "report", name)
    assert example.AMENDMENT in report
    assert "decimals: " in report, "what the task cost that was given up is missing"
    states = re.findall("<title>([a-z]+),", efrit.ok("plan", "report", name, "--svg"))
    assert states == ["done"] * len(example.THRESHOLDS)
    assert "<h2>Costs by task</h2>" in efrit.ok("plan", "report", name, "--html")


def write_example(efrit: Program, name: str, log: str) -> None:
    """Bring the example of the documentation up to this run: page, picture, and what git says to `LOG`."""
    directory = Path(EXAMPLE)
    (directory / "plan-example.html").write_text(efrit.ok("plan", "report", name, "--html"), "utf-8")
    (directory / "plan-example.svg").write_text(efrit.ok("plan", "report", name, "--svg"), "utf-8")
    page = directory / "plan-example.md"
    before, separator, rest = page.read_text("utf-8").partition(f"git -C /workspace/plans/calculator {LOG}\n")
    after = rest.partition("\n```\n")[2]
    page.write_text(f"{before}{separator}{log.rstrip()}\n```\n{after}", "utf-8")
