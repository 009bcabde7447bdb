"""Plans from beginning to end: a real controller, bridge, Emacs and git, and a model that plays a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.model.running import Model
from tests.plans.script import DONE, FACT, Script
from tests.support import plans
from tests.support.kube import Json, Kube, until
from tests.support.model_access import secret, with_model
from tests.support.plans import begin, change, end, subjects, until_part, until_plan
from tests.support.site import FINAL, Site


@pytest.fixture(scope="module")
def planning(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path, model: Model) -> Iterator[Site]:
    """Yield a namespace with a controller and an instance that has a model."""
    made = Site(plane, kube, audit_log, lisp)
    try:
        made.operator().start()
        secret(kube, made.namespace, "key")
        made.instance("one", labels={"efrit.dev/pool": "many"}, model=with_model(model))
        yield made
    finally:
        made.close()


def greeting(plan: str) -> dict[str, str]:
    return {f"plans/{plan}/environment/greeting.txt": "Good day.\n"}


def test_a_plan_goes_from_its_intent_to_its_end_a_commit_a_step(planning: Site, model: Model) -> None:
    script = Script(model, "happy")
    script.act("write", greeting("happy"))
    script.act("polish", {"plans/happy/environment/signature.txt": "Yours\n"})
    script.done("write", "polish", "root")
    begin(planning, "happy", script.intent, "write", "polish", assess={"build": ["cat greeting.txt"]})
    status = end(planning, "happy")
    assert (status["phase"], status["reason"], status["outcome"]) == ("Succeeded", "Succeeded", "Success")
    assert [subject.split(":")[0] for subject in subjects(planning, "happy")] == [
        "[begin] PLAN",
        "[write] ACT",
        "[write] ADAPT",
        "[polish] ACT",
        "[polish] ADAPT",
        "[root] ADAPT",
    ]
    assert plans.steps(planning, "happy") == [0, 1, 2, 3, 4, 5]
    assert plans.git(planning, "happy", "show", "HEAD:environment/greeting.txt") == "Good day.\n"
    assert plans.git(planning, "happy", "status", "--porcelain") == ""
    assert {task["id"]: task["state"] for task in status["tree"]} == dict.fromkeys(
        ("root", "write", "polish"), "done"
    )
    assert (status["counts"]["tasks"], status["counts"]["done"], status["counts"]["acts"]) == (3, 3, 2)
    assert status["commitCount"] == 6
    assert sorted(commit["step"] for commit in status["commits"]) == [0, 1, 2, 3, 4, 5]
    assert status["cost"]["inputTokens"] > 0
    observation = {"perspective": "build", "statement": "`cat greeting.txt`: exit code 0", "evidence": "Good day."}
    assert status["observations"] == [observation, FACT]
    assert status["instanceName"] == "one"


def test_every_request_is_the_plans_own_and_a_cycle_costs_few_writes(planning: Site, model: Model) -> None:
    script = Script(model, "owned")
    script.act("write", greeting("owned"))
    script.done("write", "root")
    begin(planning, "owned", script.intent, "write")
    end(planning, "owned")
    uid = planning.kube.get("efritplans", planning.namespace, "owned")["metadata"]["uid"]
    made = plans.parts(planning, "owned")
    for request in made:
        (owner,) = request["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("EfritPlan", uid, True)
        assert request["spec"]["retryPolicy"] == "IfInterrupted"
        assert request["spec"]["instanceRef"] == {"name": "one"}
    writes = [write for write in planning.writes("owned") if write == ("patch", "efritplans/status")]
    # Taken up, begun; act, assess, adapt of the task; assess, adapt of the root; the end.
    assert len(writes) <= 9 < len(made) + 1


def test_a_plan_without_tasks_is_divided_by_its_navigator(planning: Site, model: Model) -> None:
    script = Script(model, "divided")
    task = {"type": "atomic", "description": "Write the greeting."}
    open_root = {"verdict": "open", "reason": "It needs parts.", "operations": [{**INSERT, "tasks": [task]}]}
    script.assess("root", when=["Write the greeting"])
    script.adapt("root", when=["Write the greeting"])
    script.assess("root", {"observations": []})
    script.adapt("root", open_root)
    script.act(r"\d+\.1", greeting("divided"))
    script.done(r"\d+\.1")
    begin(planning, "divided", script.intent)
    assert end(planning, "divided")["phase"] == "Succeeded"
    assert [subject.rpartition("]")[2].split(":")[0] for subject in subjects(planning, "divided")] == [
        " PLAN",
        " ADAPT",
        " ACT",
        " ADAPT",
        " ADAPT",
    ]


INSERT: Json = {"operation": "insert", "parent": "root"}


def test_a_task_that_failed_is_tried_again_with_what_was_learned(planning: Site, model: Model) -> None:
    script = Script(model, "again")
    retry = {"operation": "retry", "task": "write", "lessons": ["Say it kindly."]}
    script.act("write", {"plans/again/environment/greeting.txt": "What?\n"})
    script.adapt("write", {"verdict": "failed", "reason": "It is rude.", "operations": [retry]})
    script.assess("write")
    script.act(r"\d+\.1", greeting("again"), when=["Say it kindly"])
    script.done(r"\d+\.1", "root")
    begin(planning, "again", script.intent, "write")
    status = end(planning, "again")
    assert status["phase"] == "Succeeded"
    tried = next(task for task in status["tree"] if task["id"] != "root")
    assert (tried["state"], tried["failureThreshold"]) == ("done", 0.2)
    tree = json.loads(plans.git(planning, "again", "show", "HEAD:working_plan/current.json"))
    assert tree["children"][0]["lessons"] == ["Say it kindly."]
    assert subjects(planning, "again")[2].startswith("[write] ADAPT: It is rude.")


def test_an_answer_that_is_malformed_or_refused_is_asked_for_once_more_in_its_session(
    planning: Site, model: Model
) -> None:
    script = Script(model, "mended")
    script.act("write", greeting("mended"))
    script.assess("write", "It looks good to me.", {"observations": [FACT]})
    refused = {"verdict": "done", "reason": "x", "operations": [{"operation": "remove", "task": "nothing-here"}]}
    script.adapt("write", refused, DONE)
    script.done("root")
    begin(planning, "mended", script.intent, "write")
    assert end(planning, "mended")["phase"] == "Succeeded"
    assert plans.steps(planning, "mended") == [0, 1, 2, 3]
    log = json.dumps([entry["body"] for entry in model.log()])
    assert "nothing-here" in log
    assert "Your answer was refused, and nothing of it was carried out" in log


def test_what_commands_print_is_a_fact_however_long_it_is(planning: Site, model: Model) -> None:
    script = Script(model, "long")
    script.act("write", greeting("long"))
    script.done("write", "root")
    commands = [f"seq {number}00000 {number}03000" for number in range(1, 8)] + ["echo the end of it; exit 3"]
    planning.kube.patch(
        "efritinstances", planning.namespace, "one", {"spec": {"limits": {"maxRequestBytes": 1_000_000}}}
    )
    begin(planning, "long", script.intent, "write", assess={"build": commands})
    assert end(planning, "long")["phase"] == "Succeeded"
    facts = plans.part(planning, "long", "facts")
    assert facts is not None
    assert facts["status"]["truncated"]
    bodies = [json.dumps(entry["body"]) for entry in model.log() if "scenario=long" in json.dumps(entry["body"])]
    assert any("the end of it" in body and "exit code 3" in body for body in bodies)


def test_an_amendment_is_committed_and_seen_from_the_next_cycle_on(planning: Site, model: Model) -> None:
    script = Script(model, "amended")
    script.act("write", greeting("amended"), gated=True)
    script.act("polish", {}, when=["Greet the cat, too"])
    script.done("write", "polish", "root")
    begin(planning, "amended", script.intent, "write", "polish")
    until_part(planning, "amended", "act")
    change(planning, "amended", amendments=["Greet the cat, too."])
    model.open("amended-1")
    status = end(planning, "amended")
    assert (status["phase"], status["counts"]["amendments"]) == ("Succeeded", 1)
    assert [subject.split("]")[0] for subject in subjects(planning, "amended")] == [
        "[begin",
        "[write",
        "[write",
        "[amend",
        "[polish",
        "[polish",
        "[root",
    ]
    amendment = plans.git(planning, "amended", "show", "HEAD:user_intent/amendments/0001.json")
    assert "Greet the cat, too." in amendment


def test_a_budget_of_steps_that_ends_keeps_what_was_reached(planning: Site, model: Model) -> None:
    script = Script(model, "bounded")
    script.act("write", greeting("bounded"))
    script.done("write")
    begin(planning, "bounded", script.intent, "write", "polish", limits={"maxSteps": 1})
    status = end(planning, "bounded")
    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", "BudgetExhausted", "Partial")
    assert plans.steps(planning, "bounded") == [0, 1, 2]
    states = {task["id"]: task["state"] for task in status["tree"]}
    assert states == {"root": "pending", "write": "done", "polish": "pending"}


def test_the_time_of_a_plan_stops_what_runs(planning: Site, model: Model) -> None:
    script = Script(model, "timed")
    script.act("write", greeting("timed"), first_ms=120_000)
    begin(planning, "timed", script.intent, "write")
    until_part(planning, "timed", "act", "Running")
    # However long it took to begin, its time ends while that runs.
    began = datetime.fromisoformat(plans.status(planning, "timed")["startTime"])
    spent = (datetime.now(UTC) - began).total_seconds()
    change(planning, "timed", limits={"timeoutSeconds": int(spent) + 3})
    status = end(planning, "timed")
    assert (status["reason"], status["outcome"]) == ("BudgetExhausted", "Partial")
    act = plans.part(planning, "timed", "act")
    assert act is not None
    assert act["status"]["reason"] == "Cancelled"


def test_a_suspended_plan_begins_nothing_more_until_it_is_resumed(planning: Site, model: Model) -> None:
    script = Script(model, "held")
    script.act("write", greeting("held"), gated=True)
    script.done("write", "root")
    begin(planning, "held", script.intent, "write")
    until_part(planning, "held", "act")
    change(planning, "held", suspend=True)
    model.open("held-1")
    until_plan(planning, "held", phase="Suspended")
    until_part(planning, "held", "act", *FINAL)
    before = [part["metadata"]["name"] for part in plans.parts(planning, "held")]
    # Whatever else this controller does goes through the same queue: the plan had its chance.
    planning.answer(planning.ask("'meanwhile"))
    assert [part["metadata"]["name"] for part in plans.parts(planning, "held")] == before
    change(planning, "held", suspend=False)
    assert end(planning, "held")["phase"] == "Succeeded"
    assert plans.steps(planning, "held") == [0, 1, 2, 3]


def test_a_cancelled_plan_stops_what_runs_and_ends(planning: Site, model: Model) -> None:
    script = Script(model, "stopped")
    script.act("write", greeting("stopped"), first_ms=120_000)
    begin(planning, "stopped", script.intent, "write")
    until_part(planning, "stopped", "act", "Running")
    change(planning, "stopped", cancel=True)
    status = end(planning, "stopped")
    assert (status["phase"], status["reason"]) == ("Failed", "Cancelled")
    act = plans.part(planning, "stopped", "act")
    assert act is not None
    assert act["status"]["reason"] == "Cancelled"


def test_a_plan_for_a_pool_stays_with_the_member_that_took_it(planning: Site, model: Model) -> None:
    script = Script(model, "pooled")
    script.act("write", greeting("pooled"))
    script.done("write", "root")
    begin(planning, "pooled", script.intent, "write", instanceRef=None, poolRef={"name": "many"})
    status = end(planning, "pooled")
    assert (status["phase"], status["instanceName"]) == ("Succeeded", "one")
    first, *rest = plans.parts(planning, "pooled")
    assert first["spec"]["poolRef"] == {"name": "many"}
    assert {request["spec"]["instanceRef"]["name"] for request in rest} == {"one"}


def test_a_plan_whose_secret_is_not_mounted_says_what_to_add(planning: Site, model: Model) -> None:
    git = {"url": "https://git.example.org/a", "secretRef": {"name": "git-key"}}
    begin(planning, "locked", Script(model, "locked").intent, environment={"git": git})
    status = until_plan(planning, "locked", reason="Blocked")
    assert "does not mount Secret git-key" in status["conditions"][0]["message"]
    assert plans.parts(planning, "locked") == []
    planning.kube.delete("efritplans", planning.namespace, "locked")


def test_a_plan_that_is_deleted_makes_no_more_requests(planning: Site, model: Model) -> None:
    script = Script(model, "gone")
    script.act("write", greeting("gone"), first_ms=120_000)
    begin(planning, "gone", script.intent, "write")
    act = until_part(planning, "gone", "act", "Running")["metadata"]["name"]
    uid = planning.kube.get("efritplans", planning.namespace, "gone")["metadata"]["uid"]
    planning.kube.delete("efritplans", planning.namespace, "gone")
    # What the garbage collector does.
    planning.kube.delete("efritrequests", planning.namespace, act)
    planning.answer(planning.ask("'meanwhile"))
    requests = planning.kube.list("efritrequests", planning.namespace, labelSelector=f"efrit.dev/plan={uid}")
    assert {request["metadata"]["labels"]["efrit.dev/plan-part"] for request in requests} == {"begin"}


def test_requests_of_steps_long_past_are_deleted(planning: Site, model: Model) -> None:
    script = Script(model, "many")
    script.act(r"t\d+", greeting("many"))
    script.done(r"t\d+", "root")
    tasks = [f"t{number}" for number in range(17)]
    begin(planning, "many", script.intent, *tasks)
    status = end(planning, "many")
    assert status["phase"] == "Succeeded"
    assert plans.steps(planning, "many") == list(range(2 * len(tasks) + 2))
    steps = {int(part["metadata"]["labels"]["efrit.dev/plan-step"]) for part in plans.parts(planning, "many")}
    assert 0 not in steps
    assert steps >= set(range(21, 2 * len(tasks) + 2))
    (operator,) = planning.operators
    # Each is deleted once, and no more is thought of it.
    assert operator.metric('efrit_reconcile_failures_total{kind="EfritPlan"}') == 0


def test_a_final_plan_with_a_time_to_live_goes(planning: Site, model: Model) -> None:
    script = Script(model, "brief")
    script.act("write", greeting("brief"))
    script.done("write", "root")
    begin(planning, "brief", script.intent, "write", ttlSecondsAfterFinished=0)
    until(lambda: planning.kube.find("efritplans", planning.namespace, "brief") is None, "brief stays")
    assert plans.steps(planning, "brief") == [0, 1, 2, 3]
