"""Plans on this machine: no cluster, a real Emacs and git, a model that plays a script."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.client.conftest import laptop, model_environment
from tests.model.running import Model
from tests.plans.script import Script
from tests.support.efrit_program import Program, Terminal
from tests.support.kube import until
from tests.support.timeout import TIMEOUT


@pytest.fixture(scope="module")
def machine(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    # A plan begins with a request that may take longer, as it may have to clone.
    bound = {"EFRIT_MAX_TIMEOUT": "600"}
    with laptop({"default": {}}, **bound, **model_environment(model, tmp_path_factory.mktemp("model"))) as made:
        yield made


def subjects(directory: Path) -> list[str]:
    """First lines of all commits of the repository, up to the colon, oldest first."""
    words = ["git", "-C", str(directory), "log", "--reverse", "--format=%s"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return [line.split(":")[0] for line in done.stdout.splitlines()]


def tree(name: str, *tasks: str) -> str:
    children = [{"id": task, "type": "atomic", "description": f"Do {task}."} for task in tasks]
    children[0]["failure_threshold"] = 0.4  # type: ignore[assignment]
    root = {"type": "parent", "description": f"A friendly greeting. (scenario={name})", "children": children}
    return json.dumps(root)


def test_a_tree_is_run_to_its_end_in_a_directory_and_reported(machine: Program, model: Model, tmp_path: Path) -> None:
    script = Script(model, "letter")
    script.act("write", {"plans/letter/environment/greeting.txt": "Good day.\n"})
    script.act("sign", {"plans/letter/environment/signature.txt": "Yours.\n"})
    script.done("write", "sign", "root")
    path = tmp_path / "tree.json"
    path.write_text(tree("letter", "write", "sign"))
    words = ("plan", "run", "-f", str(path), "--name", "letter", "-C", str(tmp_path), "--build", "cat *.txt")
    done = machine.run(*words)
    assert done.code == 0, done
    assert done.out.splitlines()[-1].startswith("Succeeded")
    expected = ["[begin] PLAN", "[write] ACT", "[write] ADAPT", "[sign] ACT", "[sign] ADAPT", "[root] ADAPT"]
    assert subjects(tmp_path / "plans/letter") == expected
    assert (tmp_path / "plans/letter/environment/signature.txt").read_text() == "Yours.\n"

    shown = machine.run("plan", "show", "letter", "-o", "json").json
    assert (shown["phase"], shown["outcome"], shown["counts"]["done"]) == ("Succeeded", "Success", 3)
    assert {task["id"]: task["failure_threshold"] for task in shown["tree"]}["write"] == 0.4
    assert machine.ok("plan", "list", "-o", "name").split() == ["letter"]
    assert [commit["step"] for commit in machine.run("plan", "log", "letter", "-o", "json").json] == list(range(6))
    assert "[root] ADAPT" in machine.ok("plan", "report", "letter")
    assert machine.ok("plan", "report", "letter", "--html").startswith("<!doctype html>")
    # Run again it is the same plan, which is over; another one of the name is refused.
    assert machine.run(*words).code == 0
    assert subjects(tmp_path / "plans/letter") == expected
    other = machine.run("plan", "run", "Shout.", "--name", "letter")
    assert (other.code, other.out) == (2, "")
    assert "choose another name or key" in other.err


def test_on_a_clone_of_a_directory_its_work_is_fetched_from_there(
    machine: Program, model: Model, tmp_path: Path
) -> None:
    def git(*words: str) -> str:
        named = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", *named, *words], cwd=tmp_path / "src", check=True, capture_output=True, text=True
        )
        return done.stdout

    (tmp_path / "src").mkdir()
    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "Begun.")
    script = Script(model, "clone")
    script.act("write", {"plans/clone/environment/greeting.txt": "Good day.\n"})
    script.done("write", "root")
    words = ("plan", "run", "-f", "-", "--name", "clone", "--git", str(tmp_path / "src"), "-C", str(tmp_path))
    done = machine.run(*words, stdin=tree("clone", "write"))
    assert done.code == 0, done
    git("fetch", "-q", str(tmp_path / "plans/clone/environment"), "efrit/clone")
    assert git("show", "FETCH_HEAD:greeting.txt") == "Good day.\n"
    assert git("log", "--format=%s", "main") == "Begun.\n"


def gated(task: str) -> str:
    """Return a shell command that ends once the file TASK-may-go is there, and leaves a trace of each run."""
    return f"echo {task} >> ran.txt; until [ -e {task}-may-go ]; do sleep 0.1; done"


def test_killed_at_several_points_it_goes_on_where_it_was(machine: Program, model: Model, tmp_path: Path) -> None:
    script = Script(model, "killed")
    for task in ("one", "two"):
        script.act(task, {f"plans/killed/environment/{task}.txt": "Good day.\n"}, shell=gated(task))
    script.done("one", "two", "root")
    words = ("plan", "run", "-f", "-", "--name", "killed", "-C", str(tmp_path), "-d")
    machine.ok(*words, stdin=tree("killed", "one", "two"))
    # Past the second act it cannot go before the last kill.
    for line in ("Act one:", "Assess one:", "Adapt one:", "Act two:"):
        with machine.begin("plan", "watch", "killed") as watching:
            assert watching.stdout is not None
            assert any(printed.startswith((line, "Act two:")) for printed in watching.stdout), line
            os.kill(watching.pid, signal.SIGKILL)
        (tmp_path / "one-may-go").touch()
    (tmp_path / "two-may-go").touch()
    assert machine.run("plan", "watch", "killed").code == 0
    assert subjects(tmp_path / "plans/killed") == [
        "[begin] PLAN",
        *("[one] ACT", "[one] ADAPT", "[two] ACT", "[two] ADAPT", "[root] ADAPT"),
    ]
    assert (tmp_path / "ran.txt").read_text() == "one\ntwo\n"


def test_a_goal_is_divided_and_who_looks_on_takes_over_from_one_that_dies(
    machine: Program, model: Model, tmp_path: Path
) -> None:
    script = Script(model, "goal")
    task = {"type": "atomic", "description": "Write the greeting."}
    parts = {"operation": "insert", "parent": "root", "tasks": [task]}
    script.assess("root")
    script.adapt("root", when=["Write the greeting"])
    script.adapt("root", {"verdict": "open", "reason": "It needs parts.", "operations": [parts]})
    script.act(r"\d+\.1", {"plans/goal/environment/greeting.txt": "Good day.\n"}, shell=gated("goal"))
    script.done(r"\d+\.1")
    words = ("plan", "run", script.intent["description"], "--name", "goal", "-C", str(tmp_path))
    with machine.begin(*words) as first:
        assert first.stdout is not None
        assert any(line.startswith("Act ") for line in first.stdout)
        with machine.begin("plan", "watch", "goal") as second:
            assert second.stdout is not None
            assert next(second.stdout)
            os.kill(first.pid, signal.SIGKILL)
            first.wait()
            # Who looks on writes of it, and so has taken over.
            machine.ok("plan", "suspend", "goal")
            (tmp_path / "goal-may-go").touch()
            until(lambda: machine.run("plan", "show", "goal", "-o", "json").json["reason"] == "Suspended", "it acts")
            # No hint to watch what is watched.
            assert machine.run("plan", "resume", "goal").err == ""
            assert second.wait(TIMEOUT) == 0
    assert (tmp_path / "ran.txt").read_text() == "goal\n"
    kinds = [subject.split()[-1] for subject in subjects(tmp_path / "plans/goal")]
    assert kinds == ["PLAN", "ADAPT", "ACT", "ADAPT", "ADAPT"]


def test_ctrl_c_leaves_it_to_be_gone_on_with_and_says_how(machine: Program, model: Model, tmp_path: Path) -> None:
    script = Script(model, "slow")
    script.act("write", {"plans/slow/environment/greeting.txt": "Good day.\n"}, shell=gated("write"))
    script.done("write", "root")
    words = ("plan", "run", "-f", "-", "--name", "slow", "-C", str(tmp_path), "-d")
    done = machine.run(*words, stdin=tree("slow", "write"))
    assert done.err == "efrit: slow goes on while it is watched: `efrit plan watch slow`\n"
    with Terminal(machine, "plan", "watch", "slow") as terminal:
        terminal.expect("write  Do write.  (Act")
        terminal.type("\x03")
        terminal.expect("slow stops here; go on with `efrit plan watch slow`")
        assert terminal.end() == 130
    (tmp_path / "write-may-go").touch()
    assert machine.run("plan", "watch", "slow").code == 0
    assert (tmp_path / "ran.txt").read_text() == "write\n"


def test_it_is_suspended_amended_and_cancelled_while_another_process_watches(machine: Program) -> None:
    machine.ok("plan", "run", "Wait.", "--name", "steered", "-d")
    machine.ok("plan", "suspend", "steered")
    with machine.begin("plan", "watch", "steered") as watching:
        until(lambda: machine.run("plan", "show", "steered", "-o", "json").json["reason"] == "Suspended", "it runs")
        machine.ok("plan", "amend", "steered", "Kindly.")
        machine.ok("plan", "cancel", "steered")
        assert watching.wait(TIMEOUT) == 6
    shown = machine.run("plan", "show", "steered", "-o", "json").json
    assert (shown["reason"], shown["amendments"]) == ("Cancelled", ["Kindly."])
    # Nobody watches this one: the cancel is carried out by the command itself.
    machine.ok("plan", "run", "Wait.", "--name", "dropped", "-d")
    assert machine.ok("plan", "cancel", "dropped") == "dropped: Cancelled\n"
    done = machine.run("plan", "resume", "dropped")
    assert (done.code, "is over (Cancelled)" in done.err) == (2, True)


def test_without_a_model_nothing_is_begun_and_the_remedy_is_reported(model: Model, tmp_path: Path) -> None:
    with laptop({"default": {}}) as machine:
        done = machine.run("plan", "run", "Greet.", "--name", "greet")
        assert (done.code, done.out) == (9, "")
        assert "default has no model, and a plan needs one\n       set EFRIT_MODEL_NAME" in done.err
        assert machine.ok("plan", "list", "-o", "name") == ""
        machine.ok("eval", "1")
        assert machine.run("plan", "run", "Greet.", "-d").code == 9
        # Who names one gets the hint that the daemon lacks it; the plan is begun, and waits for the restart.
        machine.env |= model_environment(model, tmp_path)
        done = machine.run("plan", "run", "Greet.", "--name", "greet")
        assert (done.code, "restart it: efrit restart default" in done.err) == (9, True), done
        assert machine.run("plan", "show", "greet", "-o", "json").json["phase"] != "Failed"


def test_what_only_a_cluster_has_is_refused(machine: Program) -> None:
    for words, message in (
        (("t", "--pool", "many"), "only a cluster has pools"),
        (("t", "--git", "https://example.org/x", "--git-secret", "s"), "only a cluster has Secrets"),
        (("t", "-i", "nobody"), "there is no instance 'nobody'"),
        (("t", "-C", "/nowhere"), "there is no directory /nowhere"),
        (("t", "--name", "Not-A-Name"), "cannot be the name of a plan"),
    ):
        done = machine.run("plan", "run", *words, "-d")
        assert done.code in (2, 8), (words, done)
        assert message in done.err, (words, done.err)
    for word in ("show", "watch", "log", "cancel"):
        done = machine.run("plan", word, "nobody")
        assert (done.code, done.out) == (8, ""), word
        assert "there is no plan nobody" in done.err
