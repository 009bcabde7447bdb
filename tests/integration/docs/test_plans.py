"""What the pages tell of plans, with a model that plays a script: the command line, its examples, the manifests."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from efrit.cli.examples import EXAMPLES
from tests.integration.docs.pages import Block, Command, played_in
from tests.integration.docs.shell import Ran, play
from tests.integration.docs.test_pages import on_path
from tests.model.running import Model
from tests.plans.script import DONE, Script
from tests.support.efrit_program import Program

INTENT = "Build a calculator"


@pytest.fixture
def team(in_a_cluster: Program, tmp_path: Path) -> dict[str, str]:
    """Return an environment in which kubectl and efrit mean the namespace of the test."""
    config = yaml.safe_load(Path(in_a_cluster.env["KUBECONFIG"]).read_text())
    config["contexts"][0]["context"]["namespace"] = in_a_cluster.where[1]
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    return {
        **on_path(in_a_cluster.env, tmp_path),
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "EFRIT_BACKEND": "cluster",
    }


def divided(model: Model, name: str) -> Script:
    """Return what the model says of a plan without tasks: it is divided into one task, which is done."""
    script = Script(model, name)
    task = {"type": "atomic", "description": "Write the calculator."}
    parts = {"operation": "insert", "parent": "root", "tasks": [task]}
    script.adapt("root", DONE, when=["Write the calculator"])
    script.adapt("root", {"verdict": "open", "reason": "It needs one task.", "operations": [parts]})
    script.act(r"[0-9.]+", {"calculator.py": "print(1 + 2)\n"})
    script.adapt(r"[0-9.]+")
    script.assess(r"[a-z0-9.]+")
    return script


def examples(commands: list[str], env: dict[str, str], scratch: Path, replace: dict[str, str]) -> list[Ran]:
    """Play the examples of these commands, as `--help` and docs/cli.md show them."""
    files = [block for block in played_in("plans") if block.file]
    lines = [Command(line) for command in commands for line in EXAMPLES[f"plan {command}"]]
    block = Block("docs/cli.md", 0, "console", "", "plans", commands=tuple(lines))
    return play([*files, block], env, scratch, scratch, replace)


def problems(done: list[Ran]) -> list[str]:
    return [result.problem for result in done if result.problem]


def test_a_plan_of_the_page_succeeds_and_the_examples_read_it(
    team: dict[str, str], model: Model, tmp_path: Path
) -> None:
    divided(model, "of-a-page")
    here = {INTENT: f"{INTENT} (scenario=of-a-page)", "-i workshop": "-i one --name calculator"}
    (run,) = play([block for block in played_in("plans") if block.commands], team, tmp_path, tmp_path, here)
    assert run.problem == ""
    assert run.printed.splitlines()[-1].startswith("Succeeded"), run.printed

    done = examples(["list", "show", "watch", "log", "report"], team, tmp_path, {})
    assert problems(done) == []
    printed = {result.command: result.printed for result in done}
    assert "calculator" in printed["efrit plan list -o name"].split()
    assert "Write the calculator." in printed["efrit plan show calculator"]
    assert len(printed["efrit plan log calculator --last 5"].splitlines()) == 5
    assert "Write the calculator." in (tmp_path / "report.html").read_text()


def test_the_examples_that_run_a_plan_do(team: dict[str, str], model: Model, tmp_path: Path) -> None:
    """One of them takes the manifest of docs/plans.md, and only begins."""
    divided(model, "of-an-example")
    here = {INTENT: f"{INTENT} (scenario=of-an-example)", "plan run": "plan run -i one"}
    done = examples(["run"], team, tmp_path, here)
    assert problems(done) == []
    assert done[0].printed.splitlines()[-1].startswith("Succeeded"), done[0].printed
    assert done[1].printed == "greeter\n"
    assert problems(examples(["cancel"], team, tmp_path, {"calculator": "greeter"})) == []


def test_the_examples_that_change_a_plan_do(team: dict[str, str], in_a_cluster: Program, tmp_path: Path) -> None:
    in_a_cluster.ok("plan", "run", "Wait.", "--name", "changed", "--pool", "nobody", "--detach")
    done = examples(["amend", "suspend", "resume", "cancel"], team, tmp_path, {"calculator": "changed"})
    assert problems(done) == []
    assert in_a_cluster.run("plan", "show", "changed", "-o", "json").json["amendments"] == ["It must divide, too."]
