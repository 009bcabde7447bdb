"""Outages of the API server or etcd while pods finish the requests on their queues, and the scenario around them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from tests.chaos.proxied_cluster import ONE, ProxiedCluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import Daemon
from tests.support.custom_resources import install_crds
from tests.support.fixtures import Audited, own_control_plane
from tests.support.kube import Kube, until
from tests.support.timeout import TIMEOUT

WAITING = 10

Outage = Callable[[ControlPlane], AbstractContextManager[None]]


# In the place of those of the run, in files that import them: what is not there is missed by every test.


@pytest.fixture(scope="module")
def own() -> Iterator[Audited]:
    with own_control_plane() as made:
        yield made


@pytest.fixture(scope="module")
def plane(own: Audited) -> ControlPlane:
    return own.plane


@pytest.fixture(scope="module")
def audit_log(own: Audited) -> Path:
    return own.log


@pytest.fixture(scope="module")
def kube(plane: ControlPlane) -> Iterator[Kube]:
    with closing(Kube(plane)) as client:
        install_crds(client)
        yield client


@contextmanager
def _killed(plane: ControlPlane, daemon: Daemon) -> Iterator[None]:
    """Kill the program."""
    daemon.stop()
    try:
        yield
    finally:
        plane.start()


@contextmanager
def _stopped(plane: ControlPlane, daemon: Daemon) -> Iterator[None]:
    """Stop the program by signal: connections stay, nothing is answered. The API server is ready again at the end."""
    pid = daemon.pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        plane.start()


OUTAGES: dict[str, Outage] = {
    "kube-apiserver-killed": lambda plane: _killed(plane, plane.apiserver),
    "kube-apiserver-stopped": lambda plane: _stopped(plane, plane.apiserver),
    "etcd-killed": lambda plane: _killed(plane, plane.etcd),
    "etcd-stopped": lambda plane: _stopped(plane, plane.etcd),
}


def drain_during_outage(
    cluster: ProxiedCluster, plane: ControlPlane, outage: Outage, seconds: float, *, ends: int = 0
) -> float:
    """Let requests finish during an outage; return the seconds from its end to the last final status.

    ends: it lasts at least until the controller has ended so often.
    """
    cluster.submit("gate", cluster.gated_form("gate"))
    cluster.until_running("gate")
    waiting = [cluster.submit(f"waiting{number}") for number in range(WAITING)]
    cluster.until(lambda: all(map(cluster.on_queue, waiting)), "the requests are not on the queue")
    responses = cluster.site.node.pod(ONE).queue / "responses"
    restarts = cluster.restarts + ends
    with outage(plane):
        over = time.monotonic() + seconds
        cluster.open_gate("gate")
        until(lambda: len(list(responses.iterdir())) == WAITING + 1, "the queue is not drained")

        def over_now() -> bool:
            cluster.restart_if_ended()
            return time.monotonic() > over and cluster.restarts >= restarts

        # An outage is a length of time: else there is nothing to wait for.
        until(over_now, "the controller does not end", seconds + TIMEOUT)
    back = cluster.now()
    cluster.submit("afterwards")
    cluster.check_history()
    return max(version.at for version in cluster.recorder.final.values()) - back
