"""What can go wrong with a watch, and at which moments of an object's life it matters: the cases of test_watches.py.

A mode says what goes wrong when an event is due; a phase causes that event, and checks that the controller reaches
the state to which the event would have led it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tests.chaos.proxied_cluster import CLAIMLESS, ONE, ProxiedCluster, never_ran
from tests.chaos.write_faults import phase_of, remove
from tests.support.faults.api_proxy.calls import Json
from tests.support.faults.api_proxy.proxy import ArmedFault, Effect, Fault
from tests.support.faults.api_proxy.rules import final_status
from tests.support.faults.history import ExpectedEnd

HELD_SECONDS = 1.0
FOR_GOOD_SECONDS = 600.0
"""Longer than any test: what is held so long is released only when the proxy is healed."""


@dataclass(frozen=True)
class Mode:
    """What goes wrong: with the event itself, and with the controller's next calls."""

    event: Effect
    seconds: float = HELD_SECONDS
    then: tuple[tuple[Effect, str, int], ...] = ()
    """Further faults of calls on the same resource: effect, verb, how often."""

    def fault(self, event: Fault) -> Fault:
        """Return the fault of a case; `event` says which event is hit."""
        then = (Fault(effect, verb, event.resource, times=times, seconds=1) for effect, verb, times in self.then)
        return replace(event, effect=self.event, seconds=self.seconds, then=tuple(then))


MODES: Mapping[str, Mode] = {
    "delayed": Mode(Effect.EVENT_DELAYED),
    "dropped": Mode(Effect.EVENT_DROPPED),
    "duplicated": Mode(Effect.EVENT_DUPLICATED),
    "reordered": Mode(Effect.EVENT_REORDERED),
    "expired": Mode(Effect.STREAM_EXPIRED),
    "expired-and-list-500": Mode(Effect.STREAM_EXPIRED, then=((Effect.ERROR_500, "list", 2),)),
    "expired-and-list-429": Mode(Effect.STREAM_EXPIRED, then=((Effect.TOO_MANY_429, "list", 1),)),
    "ended-and-410": Mode(Effect.STREAM_ENDED, then=((Effect.GONE_410, "watch", 1),)),
    "cut-amid-a-line": Mode(Effect.STREAM_CUT),
    "silent-for-good": Mode(Effect.STREAM_SILENT, FOR_GOOD_SECONDS),
}


@dataclass(frozen=True)
class Phase:
    """A moment: which event is hit, and the scenario around it. `run` gets a name and what arms the fault."""

    resource: str
    run: Callable[[ProxiedCluster, str, Callable[..., ArmedFault]], None]


Arm = Callable[..., ArmedFault]
"""Arms the fault for the event of the object of this name, of this type, with this predicate."""


def _cancelled(obj: Json) -> bool:
    return bool(obj["spec"].get("cancel"))


def _created(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
    armed = arm(name, "ADDED")
    request = cluster.submit(name)
    cluster.wait_injected(armed)
    cluster.wait_final(request)


def _queued(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
    gate = cluster.submit(f"{name}-gate", cluster.gated_form(f"{name}-gate"))
    cluster.until_running(gate.marker)
    request = cluster.submit(name, ends=(never_ran("Cancelled"),))
    cluster.until(lambda: cluster.on_queue(request), f"{name} is not on the queue")
    armed = arm(name, "MODIFIED", _cancelled)
    cluster.site.cancel(name)
    cluster.wait_injected(armed)
    cluster.wait_final(request)
    cluster.open_gate(gate.marker)
    cluster.wait_final(gate)


def _running(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
    request = cluster.submit(name, cluster.gated_form(name), ends=(ExpectedEnd("Cancelled"),))
    cluster.until_running(name)
    armed = arm(name, "MODIFIED", _cancelled)
    cluster.site.cancel(name)
    cluster.wait_injected(armed)
    cluster.wait_final(request)


def _own_write(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
    armed = arm(name, "MODIFIED", lambda obj: obj.get("status", {}).get("phase") == "Running")
    request = cluster.submit(name, cluster.gated_form(name))
    cluster.wait_injected(armed)
    cluster.open_gate(name)
    cluster.wait_final(request)


def _between_answer_and_status(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
    """Cancel while the final status is on its way: it is too late, and the answer stands."""
    writing = cluster.proxy.arm(
        Fault(Effect.DELAYED, "patch", "efritrequests", "status", name, seconds=FOR_GOOD_SECONDS, when=final_status)
    )
    armed = arm(name, "MODIFIED", _cancelled)
    request = cluster.submit(name)
    cluster.wait_injected(writing)
    cluster.site.cancel(name)
    cluster.wait_injected(armed)
    # Before, it was final by then, and out of what is watched.
    cluster.proxy.release_calls()
    assert cluster.wait_final(request)["result"] == f'"{name}"'


def _final(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
    armed = arm(name, "DELETED")
    request = cluster.submit(name)
    cluster.wait_final(request)
    cluster.wait_injected(armed)


def _deleted(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
    request = cluster.submit(name, cluster.gated_form(name), deleted=True)
    cluster.until_running(name)
    armed = arm(name, "DELETED")
    cluster.kube.delete("efritrequests", cluster.namespace, name)
    cluster.wait_injected(armed)
    cluster.until(lambda: not cluster.on_queue(request), f"{name} is not stopped")


def _instance_created(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
    armed = arm(name, "ADDED")
    cluster.site.instance(name, ready=False, operatingMode="Suspended", **CLAIMLESS)
    cluster.wait_injected(armed)
    cluster.until(lambda: phase_of(cluster, name) == "Suspended", f"{name} is not suspended")
    remove(cluster, name)


def _instance_resumed(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
    cluster.site.instance(name, ready=False, operatingMode="Suspended", **CLAIMLESS)
    cluster.until(lambda: phase_of(cluster, name) == "Suspended", f"{name} is not suspended")
    armed = arm(name, "MODIFIED", lambda obj: obj["spec"].get("operatingMode") == "Running")
    cluster.kube.patch("efritinstances", cluster.namespace, name, {"spec": {"operatingMode": "Running"}})
    cluster.wait_injected(armed)
    cluster.until(lambda: phase_of(cluster, name) == "Ready", f"{name} is not ready")
    remove(cluster, name)


def _instance_deleted(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
    """Delete an instance: a request that was bound to it, and never ran, is rejected."""
    cluster.site.instance(name, ready=False, operatingMode="Suspended", **CLAIMLESS)
    cluster.until(lambda: phase_of(cluster, name) == "Suspended", f"{name} is not suspended")
    request = cluster.submit(f"{name}-work", to=name, ends=(never_ran("Rejected"), never_ran("Interrupted")))
    armed = arm(name, "DELETED")
    remove(cluster, name)
    cluster.wait_injected(armed)
    assert "no EfritInstance" in cluster.wait_final(request)["error"]["message"]


def _of_pod(type_: str, when: Callable[[Json], bool] | None = None) -> Callable[[ProxiedCluster, str, Arm], None]:
    def run(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
        armed = arm(f"efrit-{name}-0", type_, when)
        cluster.site.instance(name, ready=False, **CLAIMLESS)
        cluster.wait_injected(armed)
        cluster.until(lambda: phase_of(cluster, name) == "Ready", f"{name} is not ready")
        remove(cluster, name)

    return run


def _pod_replaced(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
    """Delete the pod of ONE: what waits on its queue runs in the next one."""
    old = cluster.site.node.pod(ONE)
    armed = arm(old.name, "DELETED")
    cluster.kube.delete("pods", cluster.namespace, old.name)
    cluster.wait_injected(armed)
    request = cluster.submit(name)
    cluster.wait_final(request)
    assert cluster.site.node.pod(ONE).uid != old.uid


def _statefulset_deleted(cluster: ProxiedCluster, name: str, arm: Arm) -> None:
    """Delete the StatefulSet: it is created anew."""
    cluster.site.instance(name, ready=False, operatingMode="Suspended", **CLAIMLESS)
    cluster.until(lambda: phase_of(cluster, name) == "Suspended", f"{name} is not suspended")
    uid = cluster.kube.get("statefulsets", cluster.namespace, f"efrit-{name}")["metadata"]["uid"]
    armed = arm(f"efrit-{name}", "DELETED")
    cluster.kube.delete("statefulsets", cluster.namespace, f"efrit-{name}")
    cluster.wait_injected(armed)

    def made_anew() -> bool:
        stateful_set = cluster.kube.find("statefulsets", cluster.namespace, f"efrit-{name}")
        return stateful_set is not None and stateful_set["metadata"]["uid"] != uid

    cluster.until(made_anew, f"the StatefulSet of {name} is not made anew")
    remove(cluster, name)


PHASES: Mapping[str, Phase] = {
    "request-created": Phase("efritrequests", _created),
    "request-cancelled-while-queued": Phase("efritrequests", _queued),
    "request-cancelled-while-running": Phase("efritrequests", _running),
    "request-reported-running": Phase("efritrequests", _own_write),
    "request-cancelled-after-its-answer": Phase("efritrequests", _between_answer_and_status),
    "request-final": Phase("efritrequests", _final),
    "request-deleted-while-running": Phase("efritrequests", _deleted),
    "instance-created": Phase("efritinstances", _instance_created),
    "instance-resumed": Phase("efritinstances", _instance_resumed),
    "instance-deleted": Phase("efritinstances", _instance_deleted),
    "pod-created": Phase("pods", _of_pod("ADDED")),
    "pod-has-an-address": Phase("pods", _of_pod("MODIFIED", lambda obj: "podIP" in obj.get("status", {}))),
    "pod-replaced": Phase("pods", _pod_replaced),
    "statefulset-deleted": Phase("statefulsets", _statefulset_deleted),
}

FOR_OTHERS = ("dropped", "reordered", "expired", "ended-and-410", "silent-for-good")
"""The modes for objects that are not requests, unless all combinations are tested."""


def chosen(everything: bool) -> list[tuple[str, str]]:
    """Return which phase is tested in which mode."""
    return [
        (name, mode)
        for name, phase in PHASES.items()
        for mode in (MODES if everything or phase.resource == "efritrequests" else FOR_OTHERS)
    ]
