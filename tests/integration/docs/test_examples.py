"""The examples of `efrit COMMAND --help`, which docs/cli.md shows, too: each does what it is an example of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.cli.examples import EXAMPLES
from tests.integration.client.conftest import laptop, model_environment
from tests.integration.docs.pages import Block, Command
from tests.integration.docs.shell import Ran, play
from tests.integration.docs.test_pages import on_path
from tests.model.running import Model
from tests.support.efrit_program import Program
from tests.support.kube import Kube, until

REQUEST = "efrit_1795337179_5aa49131"
IN_A_CLUSTER = {command: [line for line in lines if " -n team " in f"{line} "] for command, lines in EXAMPLES.items()}
HERE = {
    command: [line for line in lines if line not in (*IN_A_CLUSTER[command], "efrit chat")]
    for command, lines in EXAMPLES.items()
    # Plans: test_plans.py; `attach` and a `chat` without words need a terminal: test_laptop.py, test_commands.py.
    if command.split()[0] not in ("plan", "attach")
}

ANSWER = """\
[[turn]]
[[turn.reply]]
tool = "session_complete"
input = {message = "It is done."}
"""

PREPARED = """\
mkdir -p ~/.zfunc ~/.config/fish/completions ~/project; echo '# A project' > ~/project/README.md
echo '(+ 40 2)' > check.el; echo 'Do it. (scenario=example)' > task.txt
efrit eval '(defun long-work () (sleep-for 0.1) (quote worked))'
finished=$(efrit submit '(princ "done")'); efrit wait "$finished"
first=$(efrit submit 1); second=$(efrit submit 2); running=$(efrit submit --timeout 10m '(sleep-for 600)')
"""


@pytest.fixture
def machine(model: Model, tmp_path: Path) -> Iterator[Program]:
    """Yield a machine on which nothing was started yet, with a model."""
    with laptop({}, **model_environment(model, tmp_path)) as made:
        Path(made.env["EFRIT_CONFIG"]).unlink()
        yield made


def played(
    lines: list[str], env: dict[str, str], work: Path, scratch: Path, replace: dict[str, str]
) -> dict[str, Ran]:
    """Play these lines one after the other; by their text."""
    block = Block("docs/cli.md", 0, "console", "", "", commands=tuple(Command(line) for line in lines))
    return {result.command: result for result in play([block], env, work, scratch, replace)}


def problems(done: dict[str, Ran]) -> list[str]:
    return [result.problem for result in done.values() if result.problem]


def test_the_examples_for_this_machine_do_what_they_say(machine: Program, model: Model, tmp_path: Path) -> None:
    model.play("example", ANSWER)
    work = Path(machine.env["HOME"]) / "work"
    work.mkdir()
    # What is stopped or removed comes after all others.
    last = ("stop", "restart", "rm")
    lines = [line for command in HERE if command not in (*last, "cancel", "start") for line in HERE[command]]
    lines = [*PREPARED.splitlines(), *HERE["cancel"], *lines, *HERE["start"], *HERE["restart"], *HERE["stop"]]
    lines += ["efrit stop mine", HERE["rm"][0], "efrit start mine; efrit stop mine", HERE["rm"][1]]
    names = {
        f"cancel {REQUEST}": 'cancel "$running"',
        REQUEST: '"$finished"',
        "first second": '"$first" "$second"',
        "Fix the warnings of lisp/init.el": "Do it. (scenario=example)",
        "What does this project do?": "Good day, who are you?",
        "efrit command -s 6f1c2a 'Blue.'": (
            "efrit command 'Write my favourite colour. (scenario=question)' -o json > asked || "
            'session=$(python3 -c \'import json; print(json.load(open("asked"))["session"]["id"])\') && '
            "efrit command -s $session 'Blue.'"
        ),
    }
    done = played(lines, on_path(machine.env, tmp_path), work, tmp_path, names)
    assert problems(done) == [], "\n\n".join(problems(done))
    printed = {line: result.printed for line, result in done.items()}
    assert printed["efrit eval --raw --timeout 5m - < check.el"] == "42\n"
    assert (work / "result.txt").read_text() == "done\n"
    assert "Wrote Blue." in printed["efrit command -s 6f1c2a 'Blue.'"]
    assert [path.name for path in Path(machine.env["HOME"]).rglob("_efrit")] == ["_efrit"]


def test_the_examples_for_a_cluster_do_what_they_say(in_a_cluster: Program, kube: Kube, tmp_path: Path) -> None:
    team = in_a_cluster.where[1]
    kube.patch("efritinstances", team, "one", {"metadata": {"labels": {"tier": "quick"}}})
    ephemeral = {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}}
    spec = {"replicas": 1, "template": {"spec": ephemeral}}
    kube.create("efritpools", team, {"metadata": {"name": "crew"}, "spec": spec})

    def kept() -> int:
        names = [each["metadata"]["name"] for each in kube.list("controllerrevisions", team)]
        return sum(name.startswith("crew-") for name in names)

    until(lambda: kept() == 1, "the first template of the pool is not kept")
    kube.patch("efritpools", team, "crew", {"spec": {"template": {"metadata": {"labels": {"tier": "two"}}}}})
    until(lambda: kept() == 2, "the second template of the pool is not kept")
    lines = [line for command in IN_A_CLUSTER for line in IN_A_CLUSTER[command]]
    # Five members would only take time to start; two are claimed.
    names = {"-n team": f"-n {team}", "crew 5": "crew 2"}
    done = played(lines, on_path(in_a_cluster.env, tmp_path), tmp_path, tmp_path, names)
    assert problems(done) == [], "\n\n".join(problems(done))
