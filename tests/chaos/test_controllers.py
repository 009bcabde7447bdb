"""Two controllers at once: one asleep with its lease gone, a write on its way, or both sure that they lead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.proxied_cluster import Stage, succeeded, unbegun
from tests.chaos.write_faults import SCENES
from tests.cluster.control_plane import ControlPlane
from tests.support.faults.api_proxy.proxy import Armed, Fate, Fault, Proxy
from tests.support.faults.history import End
from tests.support.kube import Json
from tests.support.operator import Operator

SHORT_LEASE = {"EFRIT_LEASE_SECONDS": "6"}
FOR_GOOD_SECONDS = 600.0
LATE = ("bound", "queued", "running", "result", "final", "never-ran")


def _any_end(word: str) -> tuple[End, ...]:
    """Return the ends of what is cancelled at no moment in particular."""
    return succeeded(word), unbegun("Cancelled"), End("Cancelled", None, (0, 1))


@pytest.fixture
def two(empty_stage: Stage, plane: ControlPlane) -> Iterator[tuple[Stage, Operator]]:
    """A stage whose controller leads, and a standby with a proxy of its own."""
    with Proxy(plane) as proxy:
        empty_stage.open(**SHORT_LEASE)
        standby = empty_stage.site.operator("operator-1", server=proxy.url)
        standby.launch(**SHORT_LEASE)
        empty_stage.wait(lambda: not standby.ended and standby.role() == "standby", "there is no standby")
        yield empty_stage, standby
        standby.close()


@pytest.mark.parametrize("name", LATE)
def test_a_write_on_its_way_arrives_after_a_successor_has_done_the_work(
    two: tuple[Stage, Operator], name: str
) -> None:
    stage, standby = two

    def sleep(_: Armed) -> None:
        stage.operator.freeze(True)
        stage.wait(standby.leads, "nobody takes over", 60)

    stage.when_struck = sleep
    scene = SCENES[name]
    scene.play(stage, f"late-{name}", stage.proxy.arm, scene.write.fault(Fate.DELAYED, seconds=FOR_GOOD_SECONDS))
    stage.proxy.heal()
    stage.operator.freeze(False)
    _until_it_gives_up(stage)
    stage.examine()


@pytest.mark.parametrize("gate", ["opened before", "opened after"])
def test_a_leader_that_slept_through_its_lease_does_no_harm(two: tuple[Stage, Operator], gate: str) -> None:
    stage, standby = two
    stage.ask("gate", stage.gate("gate"))
    stage.until_runs("gate")
    stage.ask("behind")
    queued = stage.ask("queued", ends=_any_end("queued"))
    stage.until(lambda: stage.on_queue(queued), "it is not on the queue")
    if gate == "opened before":
        stage.open_gate("gate")
    stage.operator.freeze(True)
    stage.site.cancel("queued")
    # The sleeper's connection takes in both events before it wakes up.
    late = stage.ask("late", ends=_any_end("late"))
    stage.wait(standby.leads, "nobody takes over", 60)
    stage.site.cancel("late")
    stage.open_gate("gate")
    stage.ended(late)
    stage.operator.freeze(False)
    _until_it_gives_up(stage)
    stage.examine()


def _until_it_gives_up(stage: Stage) -> None:
    stage.wait(lambda: stage.operator.ended, "the former leader goes on")
    assert stage.operator.process.status != 0


def test_two_that_both_believe_they_lead_answer_everything_once(empty_stage: Stage, plane: ControlPlane) -> None:
    """A lease of another name, as after a mistake in an installation: everything is done by both."""
    stage = empty_stage
    stage.open()
    _allow_any_lease(stage)
    with Proxy(plane) as proxy:
        second = stage.site.operator("operator-1", server=proxy.url)
        second.launch(EFRIT_LEASE_NAME="another-lease", EFRIT_SWEEP_SECONDS="1")
        stage.wait(second.leads, "the second does not lead")
        for fate in (Fate.DELAYED, Fate.LOST_REPLY, Fate.CONFLICT_409):
            for one in (stage.proxy, proxy):
                one.arm(Fault(fate, "patch", "efritrequests", "status", seconds=0.3, times=2, skip=3))
        for number in range(10):
            stage.ask(f"plain{number}")
            stage.ask(f"bound{number}", to=None, selector={"matchLabels": {"team": "a"}})
            word = f"cancelled{number}"
            stage.ask(word, ends=_any_end(word))
            stage.site.cancel(word)
        stage.examine()
        assert second.leads()
        assert stage.operator.leads()
        assert stage.restarts == 0
        second.close()


def _allow_any_lease(stage: Stage) -> None:
    """Let the controllers' account take a lease that the chart knows nothing of."""
    (account,) = (
        each["metadata"]["name"]
        for each in stage.kube.list("serviceaccounts", stage.namespace)
        if each["metadata"].get("labels", {}).get("app.kubernetes.io/name") == "efrit-operator"
    )
    role: Json = {
        "metadata": {"name": "any-lease"},
        "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}],
    }
    stage.kube.create("roles", stage.namespace, role)
    binding = {
        "metadata": {"name": "any-lease"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": stage.namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "any-lease"},
    }
    stage.kube.create("rolebindings", stage.namespace, binding)
