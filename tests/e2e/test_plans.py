"""Plans on the cluster: a program is built from the command line, and again while everything it goes through dies."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

import pytest

from tests.e2e import deaths
from tests.e2e.conftest import SYSTEM, operator_pods, wait_operator
from tests.e2e.instance import VOLUMES, Instance, complete
from tests.plans import example, played, program
from tests.support.efrit_program import Program
from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl
from tests.support.model_service import ModelService

pytestmark = pytest.mark.alone

CALM = "calculator"

AMENDED = (example.HISTORY.index(f"[{example.AMENDED_AT}] ACT"), "act")
REST = ("facts", "assess", "adapt", "commit-adapt")
Moment = tuple[int, str]
"""The sight of a request of a plan: (step of the commit it leads to, part)."""


def cycle(first: int) -> list[Moment]:
    """Every moment of the cycle whose act is committed as this step: also before and after each commit."""
    return [(first, "act"), (first, "commit-act"), *((first + 1, part) for part in REST)]


class Collected(dict[str, str]):
    """Scenarios before they are sent, each once."""

    def play(self, name: str, toml: str) -> None:
        self[name] = toml


def written(model: ModelService, name: str) -> None:
    scenarios = Collected()
    example.written(scenarios, name)
    for scenario, toml in scenarios.items():
        model.play(scenario, toml)


@pytest.fixture(scope="module")
def efrit(shared_namespace: str) -> Program:
    return Program("cluster", dict(os.environ), ("--namespace", shared_namespace))


@pytest.fixture(scope="module")
def calm(kube: Kube, shared_namespace: str, shared_model: ModelService, efrit: Program) -> Instance:
    """Return the instance on which the example was played and nothing happened."""
    instance = builder(kube, shared_namespace, shared_model, "calm")
    written(shared_model, CALM)
    output = played.play(efrit, CALM, "calm", lambda file: instance.touch(f"/workspace/{file}"))
    assert output.splitlines()[-1].startswith("Succeeded")
    return instance


def builder(kube: Kube, namespace: str, model: ModelService, name: str) -> Instance:
    return Instance.create(kube, namespace, name, model=model.spec(), **VOLUMES).wait_ready()


def git(instance: Instance, plan: str, words: str) -> str:
    return instance.shell(f"git -C /workspace/plans/{plan} {words}")


def test_a_program_is_built_though_tasks_fail_are_divided_given_up_and_amended(
    calm: Instance, efrit: Program
) -> None:
    played.check(efrit, CALM)
    assert git(calm, CALM, "status --porcelain") == ""
    assert example.thresholds(git(calm, CALM, "show HEAD:working_plan/current.json")) == example.THRESHOLDS
    for command, printed in ((program.TESTS, "Ran 5 tests, 5 results as expected"), (program.RUNS, "10")):
        assert printed in calm.shell(f"cd /workspace/plans/{CALM}/environment; ({command}) 2>&1")
    if played.EXAMPLE:
        played.write_example(efrit, CALM, git(calm, CALM, played.LOG))


@pytest.fixture
def _clean_operator(kube: Kube) -> Iterator[None]:
    """Whose restarts are not the defect that other tests look for."""
    yield
    for pod in operator_pods(kube):
        kubectl("delete", "pod", pod["metadata"]["name"], "-n", SYSTEM, "--ignore-not-found")
    wait_operator(kube)


def check_course(kube: Kube, instance: Instance, uid: str, status: Json) -> None:
    """Fail at the first commit that the example does not have: what waits for a later one would do so for long."""
    for commit in sorted(status.get("commits", ()), key=lambda commit: int(commit["step"])):
        (head,), step = example.heads([commit["subject"]]), int(commit["step"])
        if example.HISTORY[step : step + 1] != (head,):
            requests = kube.list("EfritRequest", instance.namespace, labelSelector=f"efrit.dev/plan={uid}")
            ends = {
                request["metadata"]["name"]: request.get("status", {})
                for request in requests
                if step - 3 <= int(request["metadata"]["labels"]["efrit.dev/plan-step"]) <= step
            }
            raise AssertionError(
                f"step {step} is {head}, not as in the example: {json.dumps([status, ends], indent=1)}"
            )


def play_shaken(kube: Kube, instance: Instance, name: str, dies: Mapping[Moment, deaths.Death]) -> None:
    """Run the example to its end; at each of these moments something dies.

    No request is hit twice, however late a moment is seen: a third interruption would end it.
    """
    namespace = instance.namespace
    manifest = {"metadata": {"name": name}, "spec": example.spec(name, instance.name)}
    uid = kube.create("EfritPlan", namespace, manifest)["metadata"]["uid"]
    labels = f"efrit.dev/plan={uid}"

    def open_requests() -> set[str]:
        requests = kube.list("EfritRequest", namespace, labelSelector=labels)
        return {one["metadata"]["name"] for one in requests if not complete(one.get("status", {}))}

    to_come = dict(dies)
    hit: set[str] = set()
    amended = False
    while not (status := kube.get("EfritPlan", namespace, name).get("status", {})).get("completionTime"):
        check_course(kube, instance, uid, status)
        # Short watches: what ends a plan is not an event of a request.
        for event in kube.follow("EfritRequest", namespace, 5, labelSelector=labels):
            labelled = event["object"]["metadata"]["labels"]
            moment = int(labelled["efrit.dev/plan-step"]), labelled["efrit.dev/plan-part"]
            if complete(event["object"].get("status", {})):
                hit.discard(event["object"]["metadata"]["name"])
            if moment == AMENDED and not amended:
                amended = True
                kube.patch("EfritPlan", namespace, name, {"spec": {"amendments": [example.AMENDMENT]}})
                instance.touch(f"/workspace/{example.may_go_on(name)}")
            if moment in to_come:
                until(lambda: not hit or not hit & open_requests(), instance.diagnostics)  # noqa: B023 - called at once
                to_come.pop(moment)()
                hit = open_requests()
    assert (status["phase"], status["reason"]) == ("Succeeded", "Succeeded"), json.dumps(status, indent=1)
    assert not to_come, f"{name} was not at {list(to_come)}"


@pytest.mark.usefixtures("_clean_operator")
def test_whatever_dies_at_whatever_step_the_tree_is_the_same_and_no_commit_is_doubled(
    kube: Kube, shared_namespace: str, shared_model: ModelService, calm: Instance
) -> None:
    name = "shaken"
    written(shared_model, name)
    instance = builder(kube, shared_namespace, shared_model, name)
    emacs, bridge, controller = deaths.of_emacs(instance), deaths.of_bridge(instance), deaths.of_controller()
    parent, amendment = example.HISTORY.index("[reader] ADAPT"), example.HISTORY.index("[amend] 1")
    play_shaken(
        kube,
        instance,
        name,
        {
            **dict.fromkeys(cycle(1), emacs),
            **dict.fromkeys(cycle(3), bridge),
            **dict.fromkeys(cycle(5), controller),
            (parent, "commit-adapt"): emacs,
            (amendment, "amend"): emacs,
        },
    )
    assert example.heads(git(instance, name, "log --reverse --format=%s").splitlines()) == example.HISTORY
    steps = git(instance, name, "log --reverse --format='%(trailers:key=Efrit-Step,valueonly,separator=)'")
    assert list(map(int, steps.split())) == list(range(len(example.HISTORY)))
    for words in ("show HEAD:working_plan/current.json", "ls-tree -r HEAD:environment"):
        assert git(instance, name, words) == git(calm, CALM, words)
