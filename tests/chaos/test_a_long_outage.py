"""Two minutes without an API server: the lease runs out, the process ends, the next one starts without an API server.

In a file of its own, first by its name, so that it runs beside the others.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.chaos.outage import OUTAGES, audit_log, drain_during_outage, kube, own, plane
from tests.chaos.proxied_cluster import ProxiedCluster
from tests.cluster.control_plane import ControlPlane

__all__ = ["audit_log", "kube", "own", "plane"]

TWO_MINUTES = 120.0


def test_answers_wait_two_minutes_for_the_api_server(
    new_cluster: ProxiedCluster, plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    new_cluster.open(EFRIT_LEASE_SECONDS="15")
    seconds = drain_during_outage(new_cluster, plane, OUTAGES["kube-apiserver-killed"], TWO_MINUTES, ends=1)
    record_property("seconds from the return to the last end", round(seconds, 2))
