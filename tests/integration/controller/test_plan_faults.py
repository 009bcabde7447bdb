"""Plans while controller, bridge or Emacs is killed at every request: the same commits, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from efrit import resources
from tests.cluster.control_plane import ControlPlane
from tests.model.running import Model
from tests.plans.script import Script
from tests.support import plans
from tests.support.kube import Kube, until
from tests.support.model_access import secret, with_model
from tests.support.plans import begin, end, subjects
from tests.support.site import FINAL, Site


@pytest.fixture
def planning(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path, model: Model) -> Iterator[Site]:
    made = Site(plane, kube, audit_log, lisp)
    try:
        made.operator().start()
        secret(kube, made.namespace, "key")
        made.instance("one", model=with_model(model))
        yield made
    finally:
        made.close()


def written(model: Model, name: str, *tasks: str, gated: bool = False) -> Script:
    script = Script(model, name, gated=gated)
    for task in tasks:
        script.act(task, {f"plans/{name}/environment/{task}.txt": "Good day.\n"})
    script.done(*tasks, "root")
    return script


def kill_the_controller(site: Site) -> None:
    (operator,) = site.operators
    operator.kill()
    operator.start()


def kill_the_bridge(site: Site) -> None:
    site.node.pod("one").kill_bridge()


def kill_emacs(site: Site) -> None:
    pod = site.node.pod("one")
    pid = until(pod.emacs_pid, "no Emacs")
    pod.kill_emacs()
    until(lambda: pod.emacs_pid() not in (None, pid), "no other Emacs started")


@pytest.mark.parametrize("kill", [kill_the_controller, kill_the_bridge, kill_emacs])
def test_whatever_is_killed_at_every_request_each_step_is_done_once(
    planning: Site, model: Model, kill: Callable[[Site], None]
) -> None:
    calm, shaken = (f"{word}-{kill.__name__.rpartition('_')[2]}" for word in ("calm", "shaken"))
    begin(planning, calm, written(model, calm, "write").intent, "write")
    assert end(planning, calm)["phase"] == "Succeeded"
    script = written(model, shaken, "write", gated=True)
    begin(planning, shaken, script.intent, "write")
    names: set[str] = set()
    gates: list[str] = []

    def progressed() -> bool:
        gates[:] = model.gates()  # Before the requests: what waits at a gate is a request that has been created.
        fresh = {part["metadata"]["name"] for part in plans.parts(planning, shaken)} - names
        names.update(fresh)
        return bool(fresh or gates) or plans.status(planning, shaken).get("phase") in FINAL

    opened: list[str] = []
    while plans.status(planning, shaken).get("phase") not in FINAL:
        until(progressed, lambda: f"{shaken} makes no progress: {plans.describe_plan(planning, shaken)}")
        # No answer comes during a kill: the model would learn that its tool has failed, and this one would go on.
        kill(planning)
        opened += gates
        for gate in gates:
            model.open(gate)
    assert plans.status(planning, shaken)["phase"] == "Succeeded", plans.describe_plan(planning, shaken)
    assert sorted(opened) == sorted(script.conversations)
    assert [subject.replace(shaken, calm) for subject in subjects(planning, shaken)] == subjects(planning, calm)
    assert plans.steps(planning, shaken) == [0, 1, 2, 3]
    trees = [plans.git(planning, name, "show", "HEAD:working_plan/current.json") for name in (calm, shaken)]
    assert trees[0].replace(calm, shaken) == trees[1]


def test_a_plan_in_a_namespace_that_goes_says_why_it_stands_still_and_disturbs_nobody(
    planning: Site, model: Model
) -> None:
    begin(planning, "leaving", written(model, "leaving", "write", "polish", gated=True).intent, "write", "polish")
    plans.until_part(planning, "leaving", "act")
    planning.kube.call("DELETE", resources.NAMESPACES.path(name=planning.namespace))
    model.open("leaving-1")
    status = plans.until_plan(planning, "leaving", reason="Blocked")
    assert "being terminated" in status["conditions"][0]["message"]
    planning.kube.delete("efritplans", planning.namespace, "leaving")
    (operator,) = planning.operators
    assert operator.leads()


def test_a_final_request_that_was_deleted_does_not_stop_a_new_controller(planning: Site, model: Model) -> None:
    script = written(model, "pruned", "write", "polish", gated=True)
    begin(planning, "pruned", script.intent, "write", "polish")
    first = ("pruned-1", "pruned-3", "pruned-4")  # The act on the first task, what came of it, and what to do next.
    for conversation in first:
        model.open(conversation)
    plans.until_part(planning, "pruned", "adapt", *FINAL)
    (operator,) = planning.operators
    operator.kill()
    for part in plans.parts(planning, "pruned"):
        labels = part["metadata"]["labels"]
        if labels["efrit.dev/plan-part"] == "begin":
            planning.kube.delete("efritrequests", planning.namespace, part["metadata"]["name"])
    operator.start()
    for conversation in script.conversations:
        model.open(conversation)
    assert end(planning, "pruned")["phase"] == "Succeeded"
    assert plans.steps(planning, "pruned") == [0, 1, 2, 3, 4, 5]
