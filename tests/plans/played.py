"""The story from `efrit plan run` to its end, and what the command line then tells of it. On any cluster."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.integration.client.program import Program
from tests.plans import story

SECONDS = 480.0


def play(efrit: Program, name: str, instance: str, touch: Callable[[str], object]) -> str:
    """Run the plan, amend it midway, and return what `plan run` printed; `touch` makes a file in the workspace."""
    with begun(efrit, name, story.spec(name, instance)) as running:
        amend(efrit, name, touch, running)
        out, err = running.communicate(timeout=SECONDS)
    assert running.returncode == 0, f"{out}\n{err}"
    return out


@contextlib.contextmanager
def begun(efrit: Program, name: str, spec: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """`plan run` with this spec, beside the test. It does not outlive the block."""
    command = efrit.command("plan", "run", "-f", "-", "--name", name)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=efrit.env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:
        try:
            assert running.stdin is not None
            running.stdin.write(json.dumps(spec))
            running.stdin.close()
            running.stdin = None
            yield running
        finally:
            with contextlib.suppress(ProcessLookupError):
                running.send_signal(signal.SIGKILL)


def amend(efrit: Program, name: str, touch: Callable[[str], object], running: subprocess.Popen[str]) -> None:
    """Add the amendment once the act that waits for it has begun."""
    deadline = time.monotonic() + SECONDS
    while (stands := state(efrit, name)).get("current_task") != story.AMENDED_AT or stands.get("step") != "Act":
        assert running.poll() is None, f"it ended before: {running.communicate()}, {stands}"
        assert time.monotonic() < deadline, f"{story.AMENDED_AT} does not begin: {stands}"
        time.sleep(0.2)
    efrit.ok("plan", "amend", name, story.AMENDMENT)
    touch(story.may_go_on(name))


def state(efrit: Program, name: str) -> dict[str, Any]:
    """Where it stands, empty before it is there."""
    done = efrit.run("plan", "show", name, "-o", "json")
    return dict(done.json) if done.code == 0 else {}


def check(efrit: Program, name: str) -> None:
    """Assert that `plan show`, `log` and `report` tell the story as it is written."""
    stands = state(efrit, name)
    assert (stands["phase"], stands["outcome"]) == ("Succeeded", "Success"), stands
    assert {each["id"]: each["failure_threshold"] for each in stands["tree"]} == story.THRESHOLDS
    assert stands["amendments"] == [story.AMENDMENT]
    shown = efrit.ok("plan", "show", name)
    assert all(line in shown for line in ("reader", story.BY_HAND, story.WITH_REMAINDERS, "Ran 5 tests")), shown

    log = efrit.run("plan", "log", name, "-o", "json").json
    assert story.heads([each["subject"] for each in log]) == story.HISTORY
    assert [each["step"] for each in log] == list(range(len(story.HISTORY)))

    told = efrit.ok("plan", "report", name)
    assert story.AMENDMENT in told
    assert "decimals: " in told, "what the task cost that was given up is missing"
    states = re.findall("<title>([a-z]+),", efrit.ok("plan", "report", name, "--svg"))
    assert states == ["done"] * len(story.THRESHOLDS)
    assert "<h2>Costs by task</h2>" in efrit.ok("plan", "report", name, "--html")


def write_pages(efrit: Program, name: str, log: str, directory: Path) -> None:
    """Write the example of the documentation: the report as a page and a picture, and `git log` as text."""
    (directory / "plan-example.html").write_text(efrit.ok("plan", "report", name, "--html"))
    (directory / "plan-example.svg").write_text(efrit.ok("plan", "report", name, "--svg"))
    (directory / "plan-example.log").write_text(log)
