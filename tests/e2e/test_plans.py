"""Plans on the cluster: a program is built from the command line, and again while everything it goes through dies."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e import deaths
from tests.e2e.conftest import SYSTEM, operator_pods, wait_operator
from tests.e2e.instance import Instance
from tests.e2e.kube import Json, Kube, kubectl, until
from tests.e2e.model import ModelService
from tests.integration.client.program import Program
from tests.plans import played, program, story

pytestmark = pytest.mark.timeout(600)

CALM = "calculator"

ACT = ("act", "commit-act")
REST = ("facts", "assess", "adapt", "commit-adapt")
AMENDED = (story.HISTORY.index(f"[{story.AMENDED_AT}] ACT"), "act")
MOMENTS = [
    # Two visits, so that each moment has each kind of death; the second one fails.
    *((step, part) for first in (1, 3) for step, parts in ((first, ACT), (first + 1, REST)) for part in parts),
    # A parent, with operations on the tree.
    (story.HISTORY.index("[reader] ADAPT"), "commit-adapt"),
    (story.HISTORY.index("[amend] 1"), "amend"),
]
"""The requests at whose sight something dies: (step of their commit, part)."""


class Collected(dict[str, str]):
    """Scenarios before they are sent, each once."""

    def play(self, name: str, toml: str) -> None:
        self[name] = toml


def written(model: ModelService, name: str) -> None:
    scenarios = Collected()
    story.written(scenarios, name)
    for each, toml in scenarios.items():
        model.play(each, toml)


@pytest.fixture(scope="module")
def efrit(shared_namespace: str) -> Program:
    return Program("cluster", dict(os.environ), ("--namespace", shared_namespace))


@pytest.fixture(scope="module")
def calm(kube: Kube, shared_namespace: str, shared_model: ModelService, efrit: Program) -> Instance:
    """The instance on which the story was played and nothing happened."""
    instance = builder(kube, shared_namespace, shared_model, "calm")
    written(shared_model, CALM)
    played.play(efrit, CALM, "calm", lambda file: instance.shell(f"touch /workspace/{file}"))
    return instance


def builder(kube: Kube, namespace: str, model: ModelService, name: str) -> Instance:
    return Instance.create(kube, namespace, name, model=model.spec()).wait_ready()


def git(instance: Instance, plan: str, words: str) -> str:
    return instance.shell(f"git -C /workspace/plans/{plan} {words}")


def test_a_program_is_built_though_tasks_fail_are_divided_given_up_and_amended(
    calm: Instance, efrit: Program
) -> None:
    played.check(efrit, CALM)
    assert git(calm, CALM, "status --porcelain") == ""
    for command, printed in ((program.TESTS, "Ran 5 tests, 5 results as expected"), (program.RUNS, "10")):
        assert printed in calm.shell(f"cd /workspace/plans/{CALM}/environment; ({command}) 2>&1")
    if played.EXAMPLE:
        played.write_example(efrit, CALM, git(calm, CALM, played.LOG))


@pytest.fixture
def _clean_operator(kube: Kube) -> Iterator[None]:
    """Whose restarts are not the defect that other tests look for."""
    yield
    for pod in operator_pods(kube):
        kubectl("delete", "pod", pod["metadata"]["name"], "-n", SYSTEM)
    wait_operator(kube)


class Shaken:
    """The story once more, with a death at each of `MOMENTS`."""

    def __init__(self, kube: Kube, namespace: str, model: ModelService, who: str) -> None:
        self.kube = kube
        self.name = f"{who}-dies"
        written(model, self.name)
        self.instance = builder(kube, namespace, model, who)
        self.deaths = 0

    def play(self, death: deaths.Death) -> None:
        """Run the plan to its end."""
        namespace = self.instance.namespace
        manifest = {"metadata": {"name": self.name}, "spec": story.spec(self.name, self.instance.name)}
        uid = self.kube.create("EfritPlan", namespace, manifest)["metadata"]["uid"]
        to_come = set(MOMENTS)
        selected = f"efrit.dev/plan={uid}"
        while not self.status().get("completionTime"):
            # Short ones: what ends a plan is no event of a request.
            for event in self.kube.follow("EfritRequest", namespace, labelSelector=selected, timeoutSeconds="5"):
                labels = event["object"]["metadata"]["labels"]
                moment = int(labels["efrit.dev/plan-step"]), labels["efrit.dev/plan-part"]
                if moment == AMENDED and not self.spec().get("amendments"):
                    self.amend()
                if moment in to_come:
                    to_come.remove(moment)
                    death(self.deaths + self.deaths // len(ACT + REST))
                    self.deaths += 1
        assert not to_come, f"{self.name} was not at {to_come}"

    def amend(self) -> None:
        body = {"spec": {"amendments": [story.AMENDMENT]}}
        self.kube.patch("EfritPlan", self.instance.namespace, self.name, body)
        self.instance.shell(f"touch /workspace/{story.may_go_on(self.name)}")

    def spec(self) -> Json:
        found: Json = self.kube.get("EfritPlan", self.instance.namespace, self.name)["spec"]
        return found

    def status(self) -> Json:
        found: Json = self.kube.get("EfritPlan", self.instance.namespace, self.name).get("status", {})
        return found


@pytest.mark.usefixtures("_clean_operator")
def test_whatever_dies_at_whatever_step_the_tree_is_the_same_and_no_commit_is_doubled(
    kube: Kube, shared_namespace: str, shared_model: ModelService, calm: Instance
) -> None:
    plans = {
        shaken: death
        for who, of in (("emacs", deaths.of_emacs), ("bridge", deaths.of_bridge), ("controller", None))
        for shaken in [Shaken(kube, shared_namespace, shared_model, who)]
        for death in [of(shaken.instance) if of else deaths.of_controller()]
    }
    with ThreadPoolExecutor(len(plans)) as pool:
        for played_on in [pool.submit(shaken.play, death) for shaken, death in plans.items()]:
            played_on.result()
    for shaken in plans:
        status = shaken.status()
        assert (status["phase"], status["reason"]) == ("Succeeded", "Succeeded"), f"{shaken.name}: {status}"
        until(lambda instance=shaken.instance: instance.condition()["reason"] == "Ready", shaken.instance.story)
        assert shaken.deaths == len(MOMENTS)
        name, instance = shaken.name, shaken.instance
        assert story.heads(git(instance, name, "log --reverse --format=%s").splitlines()) == story.HISTORY
        steps = git(instance, name, "log --reverse --format='%(trailers:key=Efrit-Step,valueonly,separator=)'")
        assert list(map(int, steps.split())) == list(range(len(story.HISTORY)))
        tree = "show HEAD:working_plan/current.json"
        assert json.loads(git(instance, name, tree)) == json.loads(git(calm, CALM, tree))
        work = "ls-tree -r HEAD:environment"
        assert git(instance, name, work) == git(calm, CALM, work)
