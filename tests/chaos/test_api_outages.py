"""The API server is away for a few seconds while pods finish requests: answers wait, and are stored afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.outage import OUTAGES, audit_log, drain_during_outage, kube, own, plane
from tests.chaos.proxied_cluster import ProxiedCluster
from tests.cluster.control_plane import ControlPlane

__all__ = ["audit_log", "kube", "own", "plane"]

SECONDS = {"short": 4.0, "longer than the lease": 20.0}
LEASE = {"EFRIT_LEASE_SECONDS": "15"}


@pytest.mark.parametrize("outage", OUTAGES)
def test_answers_wait_for_an_api_server_that_is_away(
    new_cluster: ProxiedCluster, plane: ControlPlane, outage: str, record_property: Callable[[str, object], None]
) -> None:
    new_cluster.open(**LEASE)
    seconds = drain_during_outage(new_cluster, plane, OUTAGES[outage], SECONDS["short"])
    record_property("seconds from the return to the last end", round(seconds, 2))


def test_answers_wait_for_an_api_server_that_hangs_longer_than_the_lease(
    new_cluster: ProxiedCluster, plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    new_cluster.open(**LEASE)
    seconds = drain_during_outage(
        new_cluster, plane, OUTAGES["kube-apiserver-stopped"], SECONDS["longer than the lease"]
    )
    record_property("seconds from the return to the last end", round(seconds, 2))
