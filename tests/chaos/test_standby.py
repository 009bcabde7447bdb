"""A standby whose watches show nothing of its leader's last deeds takes over: each is done once, and none is undone.

What it keeps while it stands by is then older than what the API server has. The lease is long: none runs out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from efrit.controller.model.names import INSTANCE_LABEL
from efrit.controller.standby import KINDS
from efrit.resources import INSTANCES
from tests.chaos.proxied_cluster import EPHEMERAL, ONE, ProxiedCluster, never_ran
from tests.chaos.test_pools import Crew
from tests.chaos.write_faults import CHILDREN
from tests.cluster.control_plane import ControlPlane
from tests.support.faults.api_proxy.proxy import ArmedFault, Effect, Fault, Proxy
from tests.support.faults.api_proxy.rules import final_status
from tests.support.kube import Json
from tests.support.operator import Operator

LONG_LEASE = {"EFRIT_LEASE_SECONDS": "1200"}
FOR_GOOD_SECONDS = 600.0
EXTRA = "extra"
WARM = tuple(resource.plural for resource in KINDS)


def _is_kept(obj: Json) -> bool:
    """Whether it is an instance or a child of one: not the pod of a controller, whose end is to be seen."""
    meta = obj["metadata"]
    return obj["kind"] == INSTANCES.kind or INSTANCE_LABEL in meta.get("labels", {})


@dataclass
class Pair:
    """A leader and a warm standby, each behind a proxy of its own."""

    cluster: ProxiedCluster
    standby: Operator
    proxy: Proxy
    held: dict[str, ArmedFault]

    def hold(self) -> None:
        """Have the standby see nothing more of what its watches report."""
        for plural in WARM:
            fault = Fault(Effect.EVENT_DELAYED, resource=plural, when=_is_kept, seconds=FOR_GOOD_SECONDS)
            self.held[plural] = self.proxy.arm(fault)

    def until_held(self, plural: str) -> None:
        """Wait until something that the leader did, or saw, is kept from the standby."""
        self.cluster.until(self.held[plural].injected.is_set, f"nothing of {plural} is held")

    def succeed(self) -> None:
        """Kill the leader and have the standby follow it, with its watches still held."""
        assert [call.target for call in self.proxy.calls if call.target.writes] == []
        self.cluster.operator.kill()
        self.cluster.operator.report_end()
        self.cluster.wait(self.standby.leads, "nobody takes over")

    def reads(self, plural: str) -> tuple[int, int]:
        """Return how many objects the successor had as they were, and how many it read."""
        found: list[tuple[str, str]] = []

        def listed() -> bool:
            text = self.standby.process.log.read_text()
            found[:] = re.findall(rf"{plural}: (\d+) as they were seen while standing by, (\d+) to read", text)
            return bool(found)

        self.cluster.wait(listed, "it lists nothing")
        kept, read = found[0]
        return int(kept), int(read)


@pytest.fixture
def pair(new_cluster: ProxiedCluster, plane: ControlPlane) -> Iterator[Pair]:
    """Return a cluster whose controller leads, and a standby that has seen all that there is."""
    with Proxy(plane) as proxy:
        new_cluster.open(**LONG_LEASE)
        new_cluster.site.node.collects = True
        new_cluster.site.instance(EXTRA, ready=False, operatingMode="Suspended")
        standby = new_cluster.site.operator("operator-1", server=proxy.url)
        standby.launch(EFRIT_SWEEP_SECONDS="1", **LONG_LEASE)
        new_cluster.until(lambda: all(map(proxy.watching, WARM)), "the standby does not watch")
        new_cluster.wait(lambda: "standing by with" in standby.process.log.read_text(), "it is not warm")
        yield Pair(new_cluster, standby, proxy, {})
        standby.close()


def _replace_pod(cluster: ProxiedCluster) -> None:
    before = cluster.site.node.pod(ONE).uid
    cluster.kube.delete("pods", cluster.namespace, f"efrit-{ONE}-0", gracePeriodSeconds=0)

    def replaced() -> bool:
        pod = cluster.site.node.find(ONE)
        return pod is not None and pod.uid != before and cluster.site.condition(ONE, "Ready").get("status") == "True"

    cluster.until(replaced, "the pod is not replaced")


def _replace_instance(cluster: ProxiedCluster) -> None:
    before = cluster.kube.get("efritinstances", cluster.namespace, EPHEMERAL)["metadata"]["uid"]
    cluster.kube.delete("efritinstances", cluster.namespace, EPHEMERAL)
    cluster.until(lambda: cluster.site.node.gone(EPHEMERAL) or None, "its pod stays")
    for plural, name in CHILDREN.items():
        # Nobody collects here what is neither a StatefulSet nor a pod.
        if cluster.kube.find(plural, cluster.namespace, name.format(EPHEMERAL)) is not None:
            cluster.kube.delete(plural, cluster.namespace, name.format(EPHEMERAL))
    spec: Json = {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}}
    cluster.site.instance(EPHEMERAL, **spec)
    assert cluster.kube.get("efritinstances", cluster.namespace, EPHEMERAL)["metadata"]["uid"] != before


def _delete_instance(cluster: ProxiedCluster) -> None:
    cluster.kube.delete("efritinstances", cluster.namespace, EXTRA)
    cluster.until(
        lambda: cluster.kube.find("efritinstances", cluster.namespace, EXTRA) is None or None, "it is not deleted"
    )


def _start_instance(cluster: ProxiedCluster) -> None:
    cluster.kube.patch("efritinstances", cluster.namespace, EXTRA, {"spec": {"operatingMode": "Running"}})
    cluster.site.until_condition(EXTRA, "Ready", status="True")


CHANGES: dict[str, tuple[str, Callable[[ProxiedCluster], None]]] = {
    "pod-replaced": ("pods", _replace_pod),
    "instance-replaced": ("efritinstances", _replace_instance),
    "instance-deleted": ("efritinstances", _delete_instance),
    "instance-started": ("statefulsets", _start_instance),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_successor_that_has_seen_nothing_of_a_change_decides_by_what_it_has_become(pair: Pair, change: str) -> None:
    cluster = pair.cluster
    plural, make = CHANGES[change]
    pair.hold()
    make(cluster)
    pair.until_held(plural)
    running = cluster.submit("running", cluster.gated_form("running"))
    cluster.until_running("running")
    queued = cluster.submit("queued")
    cluster.until(lambda: cluster.on_queue(queued), "it is not on the queue")
    answered = cluster.submit("answered", to=EPHEMERAL)
    cluster.wait_final(answered)

    pair.succeed()
    ends = (never_ran("InstanceNotFound"),) if change == "instance-deleted" else ()
    if change in ("instance-deleted", "instance-started"):
        # By hand: what this instance has run is in no history of the cluster.
        request = cluster.site.ask(cluster.site.count("extra"), to=EXTRA)
        assert cluster.site.answer(request)["phase"] == ("Failed" if ends else "Succeeded")
    later = [cluster.submit(f"later-{name}", to=name) for name in (ONE, EPHEMERAL)]
    cluster.open_gate("running")
    for each in (running, queued, *later):
        cluster.wait_final(each)

    kept, read = pair.reads(plural)
    assert (kept > 0, read > 0) == (True, change != "instance-deleted" or read > 0)
    pair.proxy.heal()
    cluster.check_history()


@pytest.mark.parametrize("write", ["bound", "final"])
@pytest.mark.parametrize("effect", [Effect.KILL_BEFORE_SEND, Effect.KILL_AFTER_COMMIT])
def test_a_successor_that_has_seen_nothing_of_the_last_write_answers_each_request_once(
    pair: Pair, write: str, effect: Effect
) -> None:
    cluster = pair.cluster
    pair.hold()
    when = final_status if write == "final" else None
    killed = cluster.proxy.arm(Fault(effect, "patch", "efritrequests", "status", when=when))
    selected: Json = {"matchLabels": {"team": "a"}}
    requests = [
        cluster.submit("plain"),
        cluster.submit("ephemeral", to=EPHEMERAL),
        cluster.submit("selected", to=None, selector=selected),
        cluster.submit("last"),
    ]
    cluster.wait(killed.injected.is_set, "it is not killed")
    cluster.wait(lambda: cluster.operator.ended, "it goes on")

    pair.succeed()
    for request in requests:
        cluster.wait_final(request)
    pair.proxy.heal()
    cluster.check_history()


def test_a_successor_that_has_seen_no_claim_of_a_member_gives_it_to_nobody_else(pair: Pair) -> None:
    cluster, namespace = pair.cluster, pair.cluster.namespace
    crew = Crew(cluster, 2)
    crew.until(ready=2)
    cluster.until(lambda: pair.standby.role() == "standby" or None, "it does not stand by")
    before = pair.proxy
    pair.hold()

    def claim(name: str) -> None:
        manifest = {"metadata": {"name": name}, "spec": {"poolRef": {"name": crew.name}}}
        cluster.kube.create("efritclaims", namespace, manifest, fieldValidation="Strict")

    def member(name: str) -> str:
        def bound() -> str | None:
            status = cluster.kube.get("efritclaims", namespace, name).get("status", {})
            return status.get("instanceName") if status.get("phase") == "Bound" else None

        return str(cluster.wait(bound, f"{name} is not bound"))

    claim("first")
    taken = member("first")
    pair.until_held("efritinstances")

    pair.succeed()
    claim("second")
    crew.ask(1)

    assert member("second") != taken
    assert member("first") == taken
    owners = cluster.kube.get("efritinstances", namespace, taken)["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["first"]
    cluster.wait(lambda: crew.phases()["Succeeded"] == 1 or None, lambda: f"{crew.phases()}")
    assert crew.ran() == ["1"]
    before.heal()
