"""Two controllers at once: one stopped while its lease ran out, a write on its way, or both sure that they lead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.proxied_cluster import ProxiedCluster, never_ran, succeeded
from tests.chaos.write_faults import SCENARIOS
from tests.cluster.control_plane import ControlPlane
from tests.support.faults.api_proxy.proxy import ArmedFault, Effect, Fault, Proxy
from tests.support.faults.history import ExpectedEnd
from tests.support.kube import Json
from tests.support.operator import Operator

SHORT_LEASE = {"EFRIT_LEASE_SECONDS": "30"}
"""Shorter, and a busy machine keeps a leader that is awake from renewing it."""
LONG_LEASE = {"EFRIT_LEASE_SECONDS": "1200"}
"""Nobody loses it, however busy the machine."""
FOR_GOOD_SECONDS = 600.0
LATE = ("bound", "queued", "running", "result", "final", "never-ran")


def _any_end(name: str) -> tuple[ExpectedEnd, ...]:
    """Return the ends of what is cancelled at no moment in particular."""
    return succeeded(name), never_ran("Cancelled"), ExpectedEnd("Cancelled", None, (0, 1))


@pytest.fixture
def two(new_cluster: ProxiedCluster, plane: ControlPlane) -> Iterator[tuple[ProxiedCluster, Operator]]:
    """Return a cluster whose controller leads, and a standby with a proxy of its own."""
    with Proxy(plane) as proxy:
        new_cluster.open(**SHORT_LEASE)
        standby = new_cluster.site.operator("operator-1", server=proxy.url)
        standby.launch(**SHORT_LEASE)
        new_cluster.wait(lambda: not standby.ended and standby.role() == "standby", "there is no standby")
        yield new_cluster, standby
        standby.close()


@pytest.mark.parametrize("name", LATE)
def test_a_write_on_its_way_arrives_after_a_successor_has_done_the_work(
    two: tuple[ProxiedCluster, Operator], name: str
) -> None:
    cluster, standby = two

    def sleep(_: ArmedFault) -> None:
        cluster.operator.freeze(True)
        cluster.wait(standby.leads, "nobody takes over")

    cluster.on_injected = sleep
    scenario = SCENARIOS[name]
    scenario.run(
        cluster, f"late-{name}", cluster.proxy.arm, scenario.write.fault(Effect.DELAYED, seconds=FOR_GOOD_SECONDS)
    )
    cluster.proxy.heal()
    cluster.operator.freeze(False)
    _until_it_gives_up(cluster)
    cluster.check_history()


@pytest.mark.parametrize("gate", ["opened before", "opened after"])
def test_a_leader_that_slept_through_its_lease_does_no_harm(two: tuple[ProxiedCluster, Operator], gate: str) -> None:
    cluster, standby = two
    cluster.submit("gate", cluster.gated_form("gate"))
    cluster.until_running("gate")
    cluster.submit("behind")
    queued = cluster.submit("queued", ends=_any_end("queued"))
    cluster.until(lambda: cluster.on_queue(queued), "it is not on the queue")
    if gate == "opened before":
        cluster.open_gate("gate")
    cluster.operator.freeze(True)
    cluster.site.cancel("queued")
    # The sleeper's connection takes in both events before it wakes up.
    late = cluster.submit("late", ends=_any_end("late"))
    cluster.wait(standby.leads, "nobody takes over")
    cluster.site.cancel("late")
    cluster.open_gate("gate")
    cluster.wait_final(late)
    cluster.operator.freeze(False)
    _until_it_gives_up(cluster)
    cluster.check_history()


def _until_it_gives_up(cluster: ProxiedCluster) -> None:
    cluster.wait(lambda: cluster.operator.ended, "the former leader goes on")
    assert cluster.operator.process.status != 0


def test_two_that_both_believe_they_lead_answer_everything_once(
    new_cluster: ProxiedCluster, plane: ControlPlane
) -> None:
    """A lease of another name, as after a mistake in an installation: everything is done by both.

    The second has no stream from a bridge at first. What is created then, the other may have handed over.
    """
    cluster = new_cluster
    cluster.open(**LONG_LEASE)
    _allow_any_lease(cluster)
    with Proxy(plane) as proxy:
        second = cluster.site.operator("operator-1", server=proxy.url)
        second.launch(EFRIT_LEASE_NAME="another-lease", EFRIT_SWEEP_SECONDS="1", **LONG_LEASE)
        cluster.wait(second.leads, "the second does not lead")
        for effect in (Effect.DELAYED, Effect.LOST_REPLY, Effect.CONFLICT_409):
            for one in (cluster.proxy, proxy):
                one.arm(Fault(effect, "patch", "efritrequests", "status", seconds=0.3, times=2, skip=3))
        for number in range(10):
            cluster.submit(f"plain{number}")
            cluster.submit(f"bound{number}", to=None, selector={"matchLabels": {"team": "a"}})
            name = f"cancelled{number}"
            cluster.submit(name, ends=_any_end(name))
            cluster.site.cancel(name)
        cluster.check_history()
        cluster.wait(second.leads, "the second does not lead any more")
        cluster.wait(cluster.operator.leads, "the first does not lead any more")
        assert cluster.restarts == 0
        second.close()


def _allow_any_lease(cluster: ProxiedCluster) -> None:
    """Let the controllers' account take a lease that the chart knows nothing of."""
    (account,) = (
        account["metadata"]["name"]
        for account in cluster.kube.list("serviceaccounts", cluster.namespace)
        if account["metadata"].get("labels", {}).get("app.kubernetes.io/name") == "efrit-operator"
    )
    role: Json = {
        "metadata": {"name": "any-lease"},
        "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}],
    }
    cluster.kube.create("roles", cluster.namespace, role)
    binding = {
        "metadata": {"name": "any-lease"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": cluster.namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "any-lease"},
    }
    cluster.kube.create("rolebindings", cluster.namespace, binding)
