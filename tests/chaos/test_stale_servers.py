"""An API server that shows the past: a lagging replica, and lists as of an earlier version.

The classic failure of controllers that are restarted onto a server behind the others: they see the world as it was
before their last deeds, and do them again, or undo them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.chaos.proxied_cluster import ONE, SUSPENDED, WATCHED, ProxiedCluster, never_ran
from tests.chaos.second_server import SecondServer, second_server
from tests.chaos.write_faults import phase_of
from tests.cluster.control_plane import ControlPlane
from tests.support.faults.api_proxy.calls import Target
from tests.support.faults.api_proxy.proxy import FOR_EVER, Effect, Fault
from tests.support.kube import Kube

SWEEPS = 3
"""Of so many lists the second at least belongs to a sweep that began with what the watch has shown."""


@pytest.fixture(scope="module")
def replica(plane: ControlPlane, kube: Kube) -> Iterator[SecondServer]:
    del kube
    with second_server(plane) as server:
        yield server


@pytest.fixture
def lagging(cluster: ProxiedCluster, replica: SecondServer) -> Iterator[SecondServer]:
    """Return the replica, and undo afterwards what a test did to it."""
    yield replica
    replica.relay.freeze(False)
    cluster.proxy.route = lambda _: None


def _watches_at(server: SecondServer) -> Callable[[Target], str | None]:
    return lambda what: server.url if what.verb == "watch" else None


def test_a_controller_restarted_onto_a_frozen_replica_waits_for_it(
    cluster: ProxiedCluster, lagging: SecondServer
) -> None:
    """Nothing is decided from its past: lists and the lease must be current, and hang."""
    before = cluster.submit("before-the-freeze")
    cluster.wait_final(before)
    lagging.relay.freeze(True)
    cluster.operator.kill()
    cluster.proxy.route = lambda _: lagging.url
    waiting = cluster.submit("meanwhile")
    cancelled = cluster.submit("cancelled-meanwhile", ends=(never_ran("Cancelled"),))
    cluster.site.cancel(cancelled.name)
    cluster.restart_if_ended()
    cluster.until(lambda: any(call.ended is None for call in cluster.proxy.calls[-5:]), "nothing hangs")
    assert cluster.status(waiting) == {}
    lagging.relay.freeze(False)
    cluster.wait_final(waiting)
    cluster.wait_final(cancelled)
    cluster.check_history()


def test_watches_at_a_frozen_replica_hold_up_nothing(cluster: ProxiedCluster, lagging: SecondServer) -> None:
    """Lists and writes go to the server that is current, watches to the other: what they miss the sweep finds."""
    lagging.relay.freeze(True)
    cluster.proxy.route = _watches_at(lagging)
    cluster.operator.kill()
    cluster.restart_if_ended()
    cluster.until_leading()
    gate = cluster.submit("gate-of-the-blind", cluster.gated_form("gate-of-the-blind"))
    cluster.until_running(gate.marker)
    queued = cluster.submit("cancelled-by-the-blind", ends=(never_ran("Cancelled"),))
    cluster.until(lambda: cluster.on_queue(queued), "it is not handed over")
    cluster.site.cancel(queued.name)
    cluster.wait_final(queued)
    cluster.open_gate(gate.marker)
    cluster.wait_final(gate)
    lagging.relay.freeze(False)
    cluster.check_history()


def test_watches_that_move_between_two_servers_lose_nothing(cluster: ProxiedCluster, lagging: SecondServer) -> None:
    for number in range(6):
        cluster.proxy.route = _watches_at(lagging) if number % 2 else lambda _: None
        cluster.proxy.arm(Fault(Effect.STREAM_ENDED, now=True))
        cluster.submit(f"wandering{number}")
    cluster.check_history()


def _now(cluster: ProxiedCluster, plural: str) -> str:
    resource_version: str = cluster.kube.call("GET", cluster.kube.path(plural, cluster.namespace), limit="1")[
        "metadata"
    ]["resourceVersion"]
    return resource_version


def _restart_into(cluster: ProxiedCluster, plural: str, version: str) -> None:
    """Kill the controller; the next one gets the past from every list of this kind until it leads."""
    cluster.operator.kill()
    armed = cluster.proxy.arm(Fault(Effect.STALE_LIST, "list", plural, value=version, times=FOR_EVER))
    cluster.restart_if_ended()
    cluster.wait_injected(armed)
    cluster.until_leading()


def _sweep_past(cluster: ProxiedCluster, plural: str) -> None:
    """Have sweeps list a kind as it was before there was any of it."""
    armed = cluster.proxy.arm(
        Fault(Effect.STALE_LIST, "list", plural, value=cluster.before_instances, times=FOR_EVER)
    )
    cluster.until(lambda: armed.hits >= SWEEPS, f"{plural} are not swept")
    cluster.proxy.heal()


def test_requests_that_are_final_by_now_are_not_run_again(cluster: ProxiedCluster) -> None:
    version = _now(cluster, "efritrequests")
    done = [cluster.submit(f"done{number}") for number in range(5)]
    done.append(cluster.submit("done-bound", to=None, selector={"matchLabels": {"team": "a"}}))
    for name in done:
        cluster.wait_final(name)
    _restart_into(cluster, "efritrequests", version)
    cluster.wait_final(cluster.submit("after-the-past"))
    cluster.proxy.heal()
    cluster.check_history()


def test_open_requests_of_the_past_are_seen_as_they_are(cluster: ProxiedCluster) -> None:
    """As of the version at which they were open: final, cancelled, deleted by now."""
    gate = cluster.submit("past-gate", cluster.gated_form("past-gate"))
    cluster.until_running(gate.marker)
    cancelled = cluster.submit("past-cancelled", ends=(never_ran("Cancelled"),))
    deleted = cluster.submit("past-deleted", deleted=True)
    cluster.until(lambda: cluster.on_queue(cancelled) and cluster.on_queue(deleted), "they are not on the queue")
    version = _now(cluster, "efritrequests")
    cluster.site.cancel(cancelled.name)
    cluster.wait_final(cancelled)
    cluster.kube.delete("efritrequests", cluster.namespace, deleted.name)
    cluster.open_gate(gate.marker)
    cluster.wait_final(gate)
    _restart_into(cluster, "efritrequests", version)
    cluster.wait_final(cluster.submit("after-the-open-past"))
    cluster.proxy.heal()
    cluster.check_history()


def test_an_instance_that_was_not_there_yet_costs_no_request_its_end(cluster: ProxiedCluster) -> None:
    """The list is from before the instance: a controller that trusts it rejects the requests of the instance."""
    gate = cluster.submit("unborn-gate", cluster.gated_form("unborn-gate"))
    cluster.until_running(gate.marker)
    behind = cluster.submit("unborn-behind")
    cluster.until(lambda: cluster.on_queue(behind), "it is not on the queue")
    instance = cluster.kube.get("efritinstances", cluster.namespace, ONE)["metadata"]["creationTimestamp"]
    assert instance
    _restart_into(cluster, "efritinstances", cluster.before_instances)
    cluster.open_gate(gate.marker)
    cluster.wait_final(gate)
    cluster.proxy.heal()
    cluster.check_history()


def test_an_instance_suspended_by_now_stays_so(cluster: ProxiedCluster) -> None:
    cluster.kube.patch("efritinstances", cluster.namespace, SUSPENDED, {"spec": {"operatingMode": "Running"}})
    cluster.until(lambda: phase_of(cluster, SUSPENDED) == "Ready", "it does not wake up")
    version = _now(cluster, "efritinstances")
    cluster.kube.patch("efritinstances", cluster.namespace, SUSPENDED, {"spec": {"operatingMode": "Suspended"}})
    cluster.until(lambda: phase_of(cluster, SUSPENDED) == "Suspended", "it does not fall asleep")
    _restart_into(cluster, "efritinstances", version)
    cluster.proxy.heal()
    cluster.until(lambda: phase_of(cluster, SUSPENDED) == "Suspended", "it is woken by the past")
    cluster.until(lambda: cluster.site.node.gone(SUSPENDED), "its pod stays")
    cluster.check_history()


def test_what_sweeps_of_the_past_leave_out_is_there_all_the_same(cluster: ProxiedCluster) -> None:
    """One kind after the other is listed as it was before there was any of it, while its watch shows it as it is."""
    gate = cluster.submit("swept-gate", cluster.gated_form("swept-gate"))
    cluster.until_running(gate.marker)
    pod = cluster.site.node.pod(ONE)
    for plural in WATCHED:
        _sweep_past(cluster, plural)
    cluster.open_gate(gate.marker)
    cluster.wait_final(gate)
    assert cluster.site.node.pod(ONE).uid == pod.uid
    cluster.kube.patch("efritinstances", cluster.namespace, SUSPENDED, {"spec": {"operatingMode": "Running"}})
    cluster.until(lambda: phase_of(cluster, SUSPENDED) == "Ready", "it does not wake up")
    cluster.kube.patch("efritinstances", cluster.namespace, SUSPENDED, {"spec": {"operatingMode": "Suspended"}})
    cluster.until(lambda: phase_of(cluster, SUSPENDED) == "Suspended", "it does not fall asleep")
    cluster.check_history()


@pytest.mark.parametrize("plural", ["pods", "statefulsets", "persistentvolumeclaims"])
def test_children_of_the_past_are_seen_as_they_are(cluster: ProxiedCluster, plural: str) -> None:
    version = _now(cluster, plural)
    pod = cluster.site.node.pod(ONE)
    cluster.kube.delete("pods", cluster.namespace, pod.name)
    cluster.until(
        lambda: not cluster.site.node.gone(ONE) and cluster.site.node.pod(ONE).uid not in ("", pod.uid), "no pod"
    )
    _restart_into(cluster, plural, version)
    cluster.wait_final(cluster.submit(f"after-past-{plural}"))
    cluster.proxy.heal()
    cluster.check_history()
