"""Plans from the command line: a real controller, Emacs and git behind it, a model that plays a script."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from efrit.backend.open import open_backend
from efrit.backend.place import Place
from efrit.backend.plans import Change, Intent, NewPlan
from efrit.resources import PLANS
from tests.model.running import Model
from tests.plans.script import Script
from tests.support.efrit_program import Program, Terminal
from tests.support.kube import Json, Kube, until
from tests.support.timeout import TIMEOUT


@pytest.fixture
def team(in_a_cluster: Program) -> str:
    return in_a_cluster.where[1]


def manifest(name: str, intent: Json, *tasks: str, **spec: object) -> str:
    entries = [{"name": task, "description": f"Do {task}."} for task in tasks]
    whole = {"intent": intent, "instanceRef": {"name": "one"}, "tasks": entries, **spec}
    return yaml.safe_dump(PLANS.manifest({"name": name}, spec=whole))


def written(model: Model, name: str) -> Script:
    script = Script(model, name)
    script.act("write", {f"plans/{name}/environment/greeting.txt": "Good day.\n"})
    script.done("write", "root")
    return script


def test_a_plan_is_run_watched_shown_logged_and_reported(in_a_cluster: Program, model: Model) -> None:
    script = written(model, "letter")
    done = in_a_cluster.run("plan", "run", "-f", "-", stdin=manifest("letter", script.intent, "write"))
    assert done.code == 0, done
    lines = done.out.splitlines()
    assert lines[-1].startswith("Succeeded")
    commits = [line.split(" ", 2)[2] for line in lines if line.startswith("commit ")]
    assert [commit.split(":")[0] for commit in commits if "begin" not in commit] == [
        "[write] ACT",
        "[write] ADAPT",
        "[root] ADAPT",
    ]
    assert any(line.startswith("Act write: Do write.") for line in lines)

    shown = in_a_cluster.ok("plan", "show", "letter")
    assert shown.startswith("letter: Succeeded")
    assert "write  Do write." in shown
    plan = in_a_cluster.run("plan", "show", "letter", "-o", "json").json
    assert (plan["name"], plan["outcome"], plan["counts"]["done"]) == ("letter", "Success", 2)
    assert {task["id"]: task["state"] for task in plan["tree"]} == {"root": "done", "write": "done"}

    log = in_a_cluster.run("plan", "log", "letter", "-o", "json").json
    assert [commit["step"] for commit in log] == [0, 1, 2, 3]
    assert [commit["subject"].split(":")[0] for commit in log] == [
        "[begin] PLAN",
        "[write] ACT",
        "[write] ADAPT",
        "[root] ADAPT",
    ]
    assert in_a_cluster.ok("plan", "log", "letter", "--last", "1").split()[-1] != ""
    assert len(in_a_cluster.ok("plan", "log", "letter", "--last", "1").splitlines()) == 1
    assert in_a_cluster.ok("plan", "log", "letter", "-o", "name").split() == [commit["hash"] for commit in log]

    page = in_a_cluster.ok("plan", "report", "letter", "--html")
    assert page.startswith("<!doctype html>")
    assert "[write] ACT" in page
    assert ElementTree.fromstring(in_a_cluster.ok("plan", "report", "letter", "--svg")).tag.endswith("svg")  # noqa: S314
    assert "[root] ADAPT" in in_a_cluster.ok("plan", "report", "letter")
    # Asking changes nothing.
    assert in_a_cluster.run("plan", "log", "letter", "-o", "json").json == log
    assert "letter" in in_a_cluster.ok("plan", "list", "-o", "name").split()


def test_a_tree_of_the_original_design_is_handed_in_with_its_thresholds(in_a_cluster: Program, model: Model) -> None:
    script = Script(model, "tree")
    script.act("model", {"plans/users/environment/user.py": "class User: ...\n"})
    script.act("create", {"plans/users/environment/create.py": "def create(): ...\n"})
    script.done("model", "create", "crud", "root")
    tree = {
        "id": "5b1e4c58",
        "type": "parent",
        "description": script.intent["description"],
        "failure_threshold": 0.0,
        "children": [
            {"id": "model", "type": "atomic", "description": "Create user model", "failure_threshold": 0.4},
            {
                "id": "crud",
                "type": "parent",
                "description": "Implement CRUD endpoints",
                "failure_threshold": 0.0,
                "children": [
                    {"id": "create", "type": "atomic", "description": "Create users", "failure_threshold": 0.8}
                ],
            },
        ],
    }
    path = Path(in_a_cluster.env["HOME"]) / "tree.json"
    path.write_text(json.dumps(tree))
    done = in_a_cluster.run("plan", "run", "-f", str(path), "--name", "users", "-i", "one")
    assert (done.code, done.out.splitlines()[-1].split()[0]) == (0, "Succeeded:"), done
    plan = in_a_cluster.run("plan", "show", "users", "-o", "json").json
    assert {task["id"]: (task["state"], task["failure_threshold"]) for task in plan["tree"]} == {
        "root": ("done", 0.0),
        "model": ("done", 0.4),
        "crud": ("done", 0.0),
        "create": ("done", 0.8),
    }


def test_a_terminal_has_the_tree_drawn_in_place_and_ctrl_c_leaves_it(in_a_cluster: Program, model: Model) -> None:
    script = Script(model, "slow")
    script.act("write", {"plans/slow/environment/greeting.txt": "Good day.\n"}, gated=True)
    script.done("write", "root")
    text = manifest("slow", script.intent, "write")
    path = Path(in_a_cluster.env["HOME"]) / "slow.yaml"
    path.write_text(text)
    utf8 = Program("cluster", {**in_a_cluster.env, "LC_ALL": "C.UTF-8"}, in_a_cluster.where)
    with Terminal(utf8, "plan", "run", "-f", str(path)) as terminal:
        terminal.expect("\x1b[?1049h")
        terminal.expect("└─ ▶ write  Do write.  (Act)")
        terminal.type("\x03")
        terminal.expect("slow goes on; come back with `efrit --namespace ")
        assert terminal.end() == 130
    with Terminal(utf8, "plan", "watch", "slow") as terminal:
        terminal.expect("\x1b[?1049h")
        model.open("slow-1")
        terminal.expect("\x1b[?1049l")
        terminal.expect("slow: Succeeded")
        terminal.expect("└─ ✓ write  Do write.")
        assert terminal.end() == 0


def test_ctrl_c_in_a_pipe_leaves_it_and_says_how_to_come_back(in_a_cluster: Program) -> None:
    in_a_cluster.ok("plan", "run", "Wait.", "--name", "left", "--pool", "nobody", "--detach")
    process = in_a_cluster.begin("plan", "watch", "left")
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert "plan watch left`" in err
    in_a_cluster.ok("plan", "cancel", "left")
    assert in_a_cluster.run("plan", "watch", "left").code == 6


def test_a_name_and_a_key_are_one_plan_however_often_it_is_run(in_a_cluster: Program, kube: Kube, team: str) -> None:
    def run(*words: str) -> str:
        return in_a_cluster.ok("plan", "run", *words, "--pool", "nobody", "--detach").strip()

    assert run("Greet.", "--name", "once") == run("Greet.", "--name", "once") == "once"
    names = {run("Greet.", "--key", "nightly") for _ in range(3)}
    assert len(names) == 1
    other = in_a_cluster.run("plan", "run", "Shout.", "--name", "once", "--pool", "nobody", "--detach")
    assert (other.code, other.out) == (2, "")
    assert "choose another name or key" in other.err
    assert run("Greet everybody, kindly!").startswith("greet-everybody-kindly-")
    plan = kube.get("efritplans", team, "once")
    assert plan["spec"]["intent"] == {"description": "Greet."}
    in_a_cluster.ok("plan", "cancel", "once", *names)


def test_what_the_api_refuses_is_reported_in_its_words(in_a_cluster: Program) -> None:
    for words, message in (
        (("t", "--git", "ext::sh -c x"), "spec.environment.git.url"),
        (("t", "--git", "https://a:b@example.org/x"), "put it into a Secret"),
        (("t", "--name", "Not-A-Name"), "cannot be the name of a plan"),
        (("t", "-i", "nobody"), "there is no instance 'nobody'"),
        (("t", "-i", "one", "--pool", "many"), "leave one of them out"),
        (("t", "-C", "."), "only an instance on this machine has the directories of this machine"),
    ):
        done = in_a_cluster.run("plan", "run", *words, "--detach")
        assert done.code in (2, 8), (words, done)
        assert message in done.err, (words, done.err)


def test_a_plan_is_suspended_resumed_amended_and_cancelled(in_a_cluster: Program, kube: Kube, team: str) -> None:
    in_a_cluster.ok("plan", "run", "Wait.", "--name", "steered", "--pool", "nobody", "--detach")
    in_a_cluster.ok("plan", "suspend", "steered")
    assert kube.get("efritplans", team, "steered")["spec"]["suspend"] is True
    in_a_cluster.ok("plan", "resume", "steered")
    assert kube.get("efritplans", team, "steered")["spec"]["suspend"] is False
    in_a_cluster.ok("plan", "amend", "steered", "And", "first.")
    in_a_cluster.ok("plan", "amend", "steered", "-", stdin="And second.\n")
    assert kube.get("efritplans", team, "steered")["spec"]["amendments"] == ["And first.", "And second."]
    assert in_a_cluster.run("plan", "amend", "steered", " ").code == 2
    done = in_a_cluster.run("plan", "log", "steered")
    assert (done.code, "has not begun" in done.err) == (9, True)
    in_a_cluster.ok("plan", "cancel", "steered")
    assert in_a_cluster.run("plan", "watch", "steered").code == 6
    assert in_a_cluster.ok("plan", "cancel", "steered") == "steered: Cancelled\n"
    for words in (("amend", "steered", "Late."), ("suspend", "steered")):
        done = in_a_cluster.run("plan", *words)
        assert (done.code, "is over (Cancelled)" in done.err) == (2, True)


def test_what_is_not_there_is_reported_with_exit_code_8(in_a_cluster: Program) -> None:
    for words in (
        ("show", "nobody"),
        ("watch", "nobody"),
        ("log", "nobody"),
        ("amend", "nobody", "x"),
        ("cancel", "nobody"),
    ):
        done = in_a_cluster.run("plan", *words)
        assert (done.code, done.out) == (8, ""), words
        assert "there is no plan nobody" in done.err


def test_whoever_amends_at_the_same_time_is_heard(
    in_a_cluster: Program, kube: Kube, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve at once, on a plan nobody has amended and whose status changes all the while."""
    amendments = [f"Amendment {number}." for number in range(12)]

    async def amend() -> None:
        backend = await open_backend(Place(kubeconfig=Path(in_a_cluster.env["KUBECONFIG"]), namespace=team))
        try:
            plans = backend.planning()
            await plans.create_plan(NewPlan(Intent("Wait."), name="busy", pool="nobody"))
            disturbed = asyncio.create_task(asyncio.to_thread(disturb))
            await asyncio.gather(*(plans.amend_plan("busy", text) for text in amendments))
            await disturbed
            await plans.change_plan("busy", Change.CANCEL)
        finally:
            await backend.close()

    def disturb() -> None:
        for number in range(30):
            kube.patch("efritplans", team, "busy", {"metadata": {"annotations": {"test": str(number)}}})

    asyncio.run(amend())
    assert sorted(kube.get("efritplans", team, "busy")["spec"]["amendments"]) == sorted(amendments)


def test_an_amendment_beyond_the_last_place_is_refused_and_not_tried_for_ever(
    in_a_cluster: Program, kube: Kube, team: str
) -> None:
    in_a_cluster.ok("plan", "run", "Wait.", "--name", "full", "--pool", "nobody", "--detach")
    kube.patch("efritplans", team, "full", {"spec": {"amendments": ["x"] * 64}})
    done = in_a_cluster.run("plan", "amend", "full", "One more.")
    assert done.code == 2
    assert "spec.amendments" in done.err
    assert kube.get("efritplans", team, "full")["spec"]["amendments"] == ["x"] * 64
    in_a_cluster.ok("plan", "cancel", "full")


LONG = """
(efrit-plan-begin
 (json-serialize
  `((plan . "long") (uid . "%s") (intent . ((description . "Wait.")))
    (tree . ((id . "root") (type . "parent") (description . "Wait.") (failure_threshold . 0.0) (state . "pending")
             (children . ,(vconcat (mapcar (lambda (number)
                                             `((id . ,(format "t%%d" number)) (type . "atomic")
                                               (description . ,(secure-hash 'sha512 (format "%%d" number)))
                                               (failure_threshold . 0.0) (state . "pending")))
                                           (number-sequence 0 399)))))))))
"""


def test_a_history_too_long_for_a_status_comes_whole(in_a_cluster: Program, kube: Kube, team: str) -> None:
    """Packed, and from the Secret with the whole result; its plan is suspended all the while."""
    in_a_cluster.ok("plan", "run", "Wait.", "--name", "long", "--pool", "nobody", "--detach")
    in_a_cluster.ok("plan", "suspend", "long")
    plan = until(lambda: suspended(kube, team, "long"), "it is not suspended")
    in_a_cluster.ok("eval", "-i", "one", "-", stdin=LONG % plan["metadata"]["uid"])
    kube.patch("efritplans", team, "long", {"status": {"instanceName": "one"}}, sub="status")
    text = in_a_cluster.ok("plan", "report", "long")
    missing = [number for number in range(400) if hashlib.sha512(str(number).encode()).hexdigest()[:40] not in text]
    assert missing == []
    form = '(efrit-plan-history "{\\"plan\\":\\"long\\"'
    requests = [
        request for request in kube.list("efritrequests", team) if request["spec"]["content"].startswith(form)
    ]
    assert [request["status"]["resultRef"]["bytes"] > 32_768 for request in requests] == [True]
    assert [request["spec"]["ttlSecondsAfterFinished"] for request in requests] == [600]
    in_a_cluster.ok("plan", "cancel", "long")


def suspended(kube: Kube, team: str, name: str) -> Json | None:
    plan = kube.get("efritplans", team, name)
    return plan if plan.get("status", {}).get("phase") == "Suspended" else None
