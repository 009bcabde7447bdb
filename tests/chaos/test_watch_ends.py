"""A watch that ends for good ends the controller: with a status that says so, at once, whatever hangs meanwhile.

Those of requests and children are the controller's own, and list again.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.proxied_cluster import ONE, ProxiedCluster
from tests.support.faults.api_proxy.proxy import FOR_EVER, Effect, Fault
from tests.support.timeout import TIMEOUT

OF_KOPF = ("efritinstances",)

HANGS_SECONDS = 10 * TIMEOUT
"""Longer than any wait here: who waited for what hangs would not be there in time."""


def _nothing(cluster: ProxiedCluster) -> None:
    pass


def _bridge_dies(cluster: ProxiedCluster) -> None:
    cluster.site.node.pod(ONE).kill_bridge()


def _bridge_hangs(cluster: ProxiedCluster) -> None:
    cluster.site.node.pod(ONE).freeze_bridge(True)


def _status_hangs(cluster: ProxiedCluster) -> None:
    cluster.proxy.arm(Fault(Effect.DELAYED, "patch", "efritrequests", times=3, seconds=HANGS_SECONDS))


MEANWHILE = {
    "quiet": _nothing,
    "bridge-dies": _bridge_dies,
    "bridge-hangs": _bridge_hangs,
    "api-hangs": _status_hangs,
}


@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE)
def test_the_controller_ends_and_says_that_it_failed(
    cluster: ProxiedCluster, meanwhile: Callable[[ProxiedCluster], None], request: pytest.FixtureRequest
) -> None:
    name = f"ends-{request.node.callspec.id}"
    running = cluster.submit(f"{name}-running", cluster.gated_form(f"{name}-running"))
    cluster.until_running(running.name)
    process = cluster.operator.process
    log_start = len(process.log.read_text())
    # kopf lists again when its stream has expired, and gives up when the list is refused with 410.
    # Sweeps list as well, so every list is refused until then.
    cluster.proxy.arm(Fault(Effect.GONE_410, "list", "efritinstances", times=FOR_EVER))
    cluster.proxy.arm(Fault(Effect.STREAM_EXPIRED, resource="efritinstances", name=ONE))
    meanwhile(cluster)
    submitted = cluster.submit(name)
    cluster.site.kube.patch("efritinstances", cluster.namespace, ONE, {"metadata": {"labels": {"changed": name}}})
    try:
        cluster.wait(lambda: process.status is not None, "the controller goes on")
    finally:
        cluster.site.node.pod(ONE).freeze_bridge(False)
    assert process.status == 1, process.tail()
    log = process.log.read_text()[log_start:]
    assert "the controller stops: WatchEnded(" in log
    assert "too old resource version" in log, "the cause is not in the log"
    cluster.proxy.heal()
    cluster.open_gate(running.name)
    assert cluster.wait_final(submitted)["result"] == f'"{name}"'
    cluster.check_history()


def test_an_expired_watch_of_requests_is_begun_anew_though_its_list_expires_too(cluster: ProxiedCluster) -> None:
    process = cluster.operator.process
    listed = cluster.proxy.arm(Fault(Effect.GONE_410, "list", "efritrequests", times=2))
    cluster.proxy.arm(Fault(Effect.STREAM_EXPIRED, resource="efritrequests", name="anew"))
    submitted = cluster.submit("anew")
    assert cluster.wait_final(submitted)["result"] == '"anew"'
    cluster.wait(lambda: listed.hits == 2, "it does not list again")
    assert cluster.wait_final(cluster.submit("later"))["result"] == '"later"'
    assert process.status is None
    cluster.check_history()


@pytest.mark.parametrize("resource", OF_KOPF)
def test_it_ends_while_its_watches_begin(new_cluster: ProxiedCluster, resource: str) -> None:
    # The resync lists every kind once before the watches begin, and again where they begin late.
    new_cluster.proxy.arm(Fault(Effect.GONE_410, "list", resource, skip=1, times=FOR_EVER))
    new_cluster.launch()
    process = new_cluster.operator.process
    new_cluster.wait(lambda: process.status is not None, "the controller goes on")
    assert process.status == 1, process.tail()
    assert "the controller stops: WatchEnded(" in process.log.read_text()
    new_cluster.proxy.heal()
    new_cluster.until_leading()
    new_cluster.until_watching()
