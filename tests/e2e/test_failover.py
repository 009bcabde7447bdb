"""A leader that is killed on its node: its kubelet says so, and the one that stands by is at work at once.

The lease lasts ten minutes here: longer than any test waits, so that nobody can have waited for its end.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from efrit.controller.process_end import pod_of
from tests.cluster import cli
from tests.e2e.conftest import RELEASE, SYSTEM, operator_pods, wait_operator
from tests.e2e.instance import Instance
from tests.support.faults.node.host import Host, Role
from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl
from tests.support.timeout import TIMEOUT

pytestmark = pytest.mark.alone

DEPLOYMENT = f"deployment/{RELEASE}"


@pytest.fixture
def two_operators(kube: Kube) -> Iterator[None]:
    """Have two controllers with a long lease; afterwards one as before, of which none has ever ended."""

    def set_up(replicas: int, lease: Json) -> None:
        # In one step, which makes no pod that the next would replace.
        variable = {"name": "EFRIT_LEASE_SECONDS", **lease}
        containers = [{"name": "controller", "env": [variable]}]
        body = {"spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}}}
        kubectl("patch", DEPLOYMENT, "-n", SYSTEM, "--patch", json.dumps(body))
        kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, f"--timeout={TIMEOUT:.0f}s")

    set_up(2, {"value": "600"})
    try:
        until(lambda: len(operator_pods(kube)) == 2, "former controllers stay")
        yield
    finally:
        set_up(1, {"$patch": "delete"})
        wait_operator(kube)


def _holder(kube: Kube) -> str | None:
    """Return the process that holds the lease, of the pods that there are now."""
    lease = json.loads(kubectl("get", "lease", RELEASE, "-n", SYSTEM, "-o", "json"))
    holder: str = lease["spec"].get("holderIdentity") or ""
    return holder if pod_of(holder) in {pod["metadata"]["name"] for pod in operator_pods(kube)} else None


@pytest.mark.skipif(cli.choose().kind != "bare", reason="the node is out of reach")
@pytest.mark.usefixtures("two_operators")
def test_a_leader_killed_on_its_node_is_followed_long_before_its_lease_runs_out(kube: Kube, namespace: str) -> None:
    instance = Instance.create(kube, namespace, "served").wait_ready()
    before = until(lambda: _holder(kube), "none of them leads")
    (leader,) = [pod for pod in Host().running(SYSTEM) if pod.name == pod_of(before)]

    assert leader.send(Role.OPERATOR, signal.SIGKILL) is not None

    assert instance.value("(+ 40 2)") == "42"
    until(lambda: _holder(kube) not in (None, before), "nobody else leads")
