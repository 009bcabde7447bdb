"""An API server that shows the past: a lagging replica, and lists as of an earlier version.

The classic failure of controllers that are restarted onto a server behind the others: they see the world as it was
before their last deeds, and do them again, or undo them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.chaos.proxied_cluster import ASLEEP, ONE, Stage, unbegun
from tests.chaos.second_server import SecondServer, second_server
from tests.chaos.write_faults import phase_of
from tests.cluster.control_plane import ControlPlane
from tests.support.faults.api_proxy.calls import Target
from tests.support.faults.api_proxy.proxy import FOR_EVER, Fate, Fault
from tests.support.kube import Kube


@pytest.fixture(scope="module")
def replica(plane: ControlPlane, kube: Kube) -> Iterator[SecondServer]:
    del kube
    with second_server(plane) as server:
        yield server


@pytest.fixture
def lagging(stage: Stage, replica: SecondServer) -> Iterator[SecondServer]:
    """The replica, and whatever a test did to it undone."""
    yield replica
    replica.relay.freeze(False)
    stage.proxy.route = lambda _: None


def _watches_at(server: SecondServer) -> Callable[[Target], str | None]:
    return lambda what: server.url if what.verb == "watch" else None


def test_a_controller_restarted_onto_a_frozen_replica_waits_for_it(stage: Stage, lagging: SecondServer) -> None:
    """Nothing is decided from its past: lists and the lease must be current, and hang."""
    before = stage.ask("before-the-freeze")
    stage.ended(before)
    lagging.relay.freeze(True)
    stage.operator.kill()
    stage.proxy.route = lambda _: lagging.url
    waiting = stage.ask("meanwhile")
    cancelled = stage.ask("cancelled-meanwhile", ends=(unbegun("Cancelled"),))
    stage.site.cancel(cancelled.name)
    stage.revive()
    stage.until(lambda: any(each.ended is None for each in stage.proxy.calls[-5:]), "nothing hangs")
    assert stage.status(waiting) == {}
    lagging.relay.freeze(False)
    stage.ended(waiting)
    stage.ended(cancelled)
    stage.examine()


def test_watches_at_a_frozen_replica_hold_up_nothing(stage: Stage, lagging: SecondServer) -> None:
    """Lists and writes go to the server that is current, watches to the other: what they miss the sweep finds."""
    lagging.relay.freeze(True)
    stage.proxy.route = _watches_at(lagging)
    stage.operator.kill()
    stage.revive()
    stage.until_leading()
    gate = stage.ask("gate-of-the-blind", stage.gate("gate-of-the-blind"))
    stage.until_runs(gate.word)
    queued = stage.ask("cancelled-by-the-blind", ends=(unbegun("Cancelled"),))
    stage.until(lambda: stage.on_queue(queued), "it is not handed over")
    stage.site.cancel(queued.name)
    stage.ended(queued)
    stage.open_gate(gate.word)
    stage.ended(gate)
    lagging.relay.freeze(False)
    stage.examine()


def test_watches_that_move_between_two_servers_lose_nothing(stage: Stage, lagging: SecondServer) -> None:
    for number in range(6):
        stage.proxy.route = _watches_at(lagging) if number % 2 else lambda _: None
        stage.proxy.arm(Fault(Fate.STREAM_ENDED, now=True))
        stage.ask(f"wandering{number}")
    stage.examine()


def _now(stage: Stage, plural: str) -> str:
    found: str = stage.kube.call("GET", stage.kube.path(plural, stage.namespace), limit="1")["metadata"][
        "resourceVersion"
    ]
    return found


def _restart_into(stage: Stage, plural: str, version: str) -> None:
    """Kill the controller; the next one gets the past from every list of this kind until it leads."""
    stage.operator.kill()
    armed = stage.proxy.arm(Fault(Fate.STALE_LIST, "list", plural, value=version, times=FOR_EVER))
    stage.revive()
    stage.struck(armed)
    stage.until_leading()


def test_requests_that_are_final_by_now_are_not_run_again(stage: Stage) -> None:
    version = _now(stage, "efritrequests")
    done = [stage.ask(f"done{number}") for number in range(5)]
    done.append(stage.ask("done-bound", to=None, selector={"matchLabels": {"team": "a"}}))
    for each in done:
        stage.ended(each)
    _restart_into(stage, "efritrequests", version)
    stage.ended(stage.ask("after-the-past"))
    stage.proxy.heal()
    stage.examine()


def test_open_requests_of_the_past_are_seen_as_they_are(stage: Stage) -> None:
    """As of the version at which they were open: final, cancelled, deleted by now."""
    gate = stage.ask("past-gate", stage.gate("past-gate"))
    stage.until_runs(gate.word)
    cancelled = stage.ask("past-cancelled", ends=(unbegun("Cancelled"),))
    deleted = stage.ask("past-deleted", deleted=True)
    stage.until(lambda: stage.on_queue(cancelled) and stage.on_queue(deleted), "they are not on the queue")
    version = _now(stage, "efritrequests")
    stage.site.cancel(cancelled.name)
    stage.ended(cancelled)
    stage.kube.delete("efritrequests", stage.namespace, deleted.name)
    stage.open_gate(gate.word)
    stage.ended(gate)
    _restart_into(stage, "efritrequests", version)
    stage.ended(stage.ask("after-the-open-past"))
    stage.proxy.heal()
    stage.examine()


def test_an_instance_that_was_not_there_yet_costs_no_request_its_end(stage: Stage) -> None:
    """The list is from before the instance: whoever believes it ends its requests as nobody's."""
    gate = stage.ask("unborn-gate", stage.gate("unborn-gate"))
    stage.until_runs(gate.word)
    behind = stage.ask("unborn-behind")
    stage.until(lambda: stage.on_queue(behind), "it is not on the queue")
    instance = stage.kube.get("efritinstances", stage.namespace, ONE)["metadata"]["creationTimestamp"]
    assert instance
    _restart_into(stage, "efritinstances", stage.before_instances)
    stage.open_gate(gate.word)
    stage.ended(gate)
    stage.proxy.heal()
    stage.examine()


def test_an_instance_suspended_by_now_stays_so(stage: Stage) -> None:
    stage.kube.patch("efritinstances", stage.namespace, ASLEEP, {"spec": {"operatingMode": "Running"}})
    stage.until(lambda: phase_of(stage, ASLEEP) == "Ready", "it does not wake up")
    version = _now(stage, "efritinstances")
    stage.kube.patch("efritinstances", stage.namespace, ASLEEP, {"spec": {"operatingMode": "Suspended"}})
    stage.until(lambda: phase_of(stage, ASLEEP) == "Suspended", "it does not fall asleep")
    _restart_into(stage, "efritinstances", version)
    stage.proxy.heal()
    stage.until(lambda: phase_of(stage, ASLEEP) == "Suspended", "it is woken by the past")
    stage.until(lambda: stage.site.node.gone(ASLEEP), "its pod stays")
    stage.examine()


@pytest.mark.parametrize("plural", ["pods", "statefulsets", "persistentvolumeclaims"])
def test_children_of_the_past_are_seen_as_they_are(stage: Stage, plural: str) -> None:
    version = _now(stage, plural)
    pod = stage.site.node.pod(ONE)
    stage.kube.delete("pods", stage.namespace, pod.name)
    stage.until(lambda: not stage.site.node.gone(ONE) and stage.site.node.pod(ONE).uid not in ("", pod.uid), "no pod")
    _restart_into(stage, plural, version)
    stage.ended(stage.ask(f"after-past-{plural}"))
    stage.proxy.heal()
    stage.examine()
