"""A cancel at every point of a request's life: it ends once, and what ended before it ran did not run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.proxied_cluster import EPHEMERAL, ONE, ProxiedCluster, never_ran, succeeded
from tests.support.faults.api_proxy.proxy import Effect, Fault
from tests.support.faults.api_proxy.rules import final_status
from tests.support.faults.history import ExpectedEnd, SubmittedRequest

HELD_SECONDS = 0.5

Moment = Callable[[ProxiedCluster, SubmittedRequest, str], None]
"""Waits for the moment at which the cancel comes; gets the instance."""


def _at_once(cluster: ProxiedCluster, request: SubmittedRequest, to: str) -> None:
    del cluster, request, to


def _on_the_queue(cluster: ProxiedCluster, request: SubmittedRequest, to: str) -> None:
    cluster.until(lambda: cluster.on_queue(request, to), f"{request.name} is not on the queue")


def _in_processing(cluster: ProxiedCluster, request: SubmittedRequest, to: str) -> None:
    path = cluster.site.node.pod(to).queue / "processing" / f"req_{request.uid}.json"
    cluster.until(path.exists, f"{request.name} is not claimed")


def _running(cluster: ProxiedCluster, request: SubmittedRequest, to: str) -> None:
    cluster.until_running(request.marker, to)


def _reported_running(cluster: ProxiedCluster, request: SubmittedRequest, to: str) -> None:
    del to
    cluster.until(lambda: cluster.status(request).get("phase") == "Running", f"{request.name} is not Running")


def _as_it_ends(cluster: ProxiedCluster, request: SubmittedRequest, to: str) -> None:
    cluster.until_running(request.marker, to)
    cluster.open_gate(request.marker, to)


MOMENTS: dict[str, Moment] = {
    "at-once": _at_once,
    "on-the-queue": _on_the_queue,
    "as-it-is-claimed": _in_processing,
    "running": _running,
    "reported-running": _reported_running,
    "as-it-ends": _as_it_ends,
}

EITHER = (ExpectedEnd("Cancelled", None, (0, 1)), never_ran("Cancelled"))


@pytest.mark.parametrize("to", [ONE, EPHEMERAL])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_cancel_ends_a_request_once_whenever_it_comes(cluster: ProxiedCluster, moment: str, to: str) -> None:
    name = f"{moment}-{to}"
    request = cluster.submit(name, cluster.gated_form(name), to=to, ends=(*EITHER, succeeded(name)))
    MOMENTS[moment](cluster, request, to)
    cluster.site.cancel(request.name)
    final = cluster.wait_final(request)
    if moment != "as-it-ends":
        assert final["reason"] == "Cancelled"
    cluster.check_history()


@pytest.mark.parametrize("to", [ONE, EPHEMERAL])
@pytest.mark.parametrize("moment", ["at-once", "on-the-queue"])
def test_what_is_cancelled_behind_other_work_never_runs(cluster: ProxiedCluster, moment: str, to: str) -> None:
    name = f"behind-{moment}-{to}"
    ahead = cluster.submit(f"{name}-ahead", cluster.gated_form(f"{name}-ahead"), to=to)
    cluster.until_running(ahead.marker, to)
    request = cluster.submit(name, to=to, ends=(never_ran("Cancelled"),))
    MOMENTS[moment](cluster, request, to)
    cluster.site.cancel(request.name)
    assert cluster.wait_final(request)["reason"] == "Cancelled"
    cluster.open_gate(ahead.marker, to)
    cluster.check_history()


@pytest.mark.parametrize("to", [ONE, EPHEMERAL])
def test_an_answer_on_its_way_stands_against_a_cancel(cluster: ProxiedCluster, to: str) -> None:
    name = f"on-its-way-{to}"
    writing = cluster.proxy.arm(
        Fault(Effect.DELAYED, "patch", "efritrequests", "status", name, when=final_status, seconds=HELD_SECONDS)
    )
    request = cluster.submit(name, to=to)
    cluster.wait_injected(writing)
    cluster.site.cancel(name)
    assert cluster.wait_final(request)["result"] == f'"{name}"'
    cluster.check_history()


@pytest.mark.parametrize("to", [ONE, EPHEMERAL])
def test_a_cancel_after_the_end_changes_nothing(cluster: ProxiedCluster, to: str) -> None:
    request = cluster.submit(f"too-late-{to}", to=to)
    final = cluster.wait_final(request)
    cluster.site.cancel(request.name)
    cluster.wait_final(cluster.submit(f"after-too-late-{to}", to=to))
    assert cluster.kube.get("efritrequests", cluster.namespace, request.name)["status"] == final
    cluster.check_history()


@pytest.mark.parametrize("moment", ["at-once", "on-the-queue", "running"])
def test_a_cancel_the_controller_dies_on_is_carried_out_by_the_next(cluster: ProxiedCluster, moment: str) -> None:
    name = f"dies-{moment}"
    request = cluster.submit(name, cluster.gated_form(name), ends=EITHER)
    MOMENTS[moment](cluster, request, ONE)
    cluster.operator.kill()
    cluster.site.cancel(request.name)
    assert cluster.wait_final(request)["reason"] == "Cancelled"
    cluster.check_history()
