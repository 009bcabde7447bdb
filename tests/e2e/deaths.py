"""Sudden deaths of the three programs a plan goes through, at its next request: on the bare node by a signal from the
host, the moment a watch tells of the request; elsewhere by kubectl, a moment later.

Whoever dies twice in a row is started again with a delay that grows, by the kubelet. So those that it starts die in
turns: the process, then its whole pod, which begins anew.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable

from tests.cluster import cli
from tests.e2e.conftest import RELEASE, SYSTEM
from tests.e2e.instance import Instance
from tests.support.faults.node.host import Host, HostPod, Role
from tests.support.kube import until
from tests.support.kubectl import kubectl, worked

Death = Callable[[], None]
"""Lets it die once more."""


def of_emacs(instance: Instance) -> Death:
    """Emacs is killed; its shell starts another."""

    def die() -> None:
        if _host() is None:
            until(lambda: worked(instance.kill_emacs), instance.diagnostics)
        else:
            _kill(instance.namespace, instance.pod_name, Role.EMACS)

    return die


def of_bridge(instance: Instance) -> Death:
    """Kill the bridge, and the next time delete the pod, Emacs and all.

    Not by force: a pod that is forgotten lives on for a while, beside the one that takes its place.
    """
    times = itertools.count()

    def die() -> None:
        if next(times) % 2:
            delete = ("delete", "pod", instance.pod_name, "-n", instance.namespace, "--wait=false")
            until(lambda: worked(lambda: kubectl(*delete)), instance.diagnostics)
        elif _host() is None:
            until(lambda: worked(instance.kill_bridge), instance.diagnostics)
        else:
            _kill(instance.namespace, instance.pod_name, Role.BRIDGE)

    return die


def of_controller() -> Death:
    """Kill the controller, where the node is within reach, and the next time delete its pod by force."""
    times = itertools.count()

    def die() -> None:
        if next(times) % 2 == 0 and _host() is not None:
            _kill(SYSTEM, RELEASE, Role.OPERATOR)
        else:
            every = ("-l", f"app.kubernetes.io/instance={RELEASE}")
            kubectl("delete", "pod", "-n", SYSTEM, *every, "--grace-period=0", "--force", "--wait=false")

    return die


def _host() -> Host | None:
    return Host() if cli.choose().kind == "bare" else None


def _kill(namespace: str, pod: str, role: Role) -> None:
    host = Host()

    def killed() -> bool:
        """Whoever is on its way up yet is waited for: it is its death that is asked for, not its absence."""
        return any(pod.send(role, signal.SIGKILL) for pod in _named(host, namespace, pod))

    until(killed, lambda: f"there is no {role.value} in {namespace}/{pod}")


def _named(host: Host, namespace: str, pod: str) -> list[HostPod]:
    return [candidate for candidate in host.pods(namespace) if candidate.name.startswith(pod)]
