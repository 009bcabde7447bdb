"""store/from_kubernetes.py: what is read of pods, StatefulSets and claims, however little they say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from efrit.controller.store.from_kubernetes import MAX_SECRET_MOUNTS, claim_view, pod_view, statefulset_view
from tests.unit.controller.manifests.test_statefulset import statefulset

META: dict[str, Any] = {"name": "x", "namespace": "team", "uid": "u"}
TIME = "2026-03-01T12:00:00Z"


def test_a_bare_pod_is_pending_without_an_address() -> None:
    view = pod_view({"metadata": META})

    assert (view.phase, view.ip, view.deleting, view.bridge_port) == ("Pending", None, False, 8443)


def test_a_running_pod_is_read_whole() -> None:
    view = pod_view(
        {
            "metadata": {**META, "creationTimestamp": TIME, "deletionTimestamp": TIME, "resourceVersion": "7"},
            "spec": statefulset()["spec"]["template"]["spec"],
            "status": {"phase": "Running", "podIP": "10.0.0.1", "startTime": TIME},
        }
    )

    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert (view.phase, view.ip, view.deleting, view.created, view.started) == ("Running", "10.0.0.1", True, at, at)
    assert (view.image, view.bridge_port) == ("example.org/efrit-emacs:30", 8443)


@pytest.mark.parametrize("time", ["0000-01-01T00:00:00Z", "-001-12-31T10:00:00Z", "10000-01-01T00:00:00Z"])
def test_a_pod_whose_status_says_a_time_that_is_none_of_ours_is_read(time: str) -> None:
    """The API server takes them; the watch of all pods would end."""
    view = pod_view({"metadata": META, "status": {"phase": "Running", "startTime": time}})

    assert (view.phase, view.started) == ("Running", None)


def test_the_port_of_the_bridge_is_the_one_the_pod_names() -> None:
    spec = {"initContainers": [{"name": "bridge", "ports": [{"name": "bridge", "containerPort": 9000}]}]}

    assert pod_view({"metadata": META, "spec": spec}).bridge_port == 9000


@pytest.mark.parametrize("count", [0, 2, MAX_SECRET_MOUNTS, MAX_SECRET_MOUNTS + 1])
def test_the_secrets_that_emacs_mounts_are_remembered_unless_there_are_very_many(count: int) -> None:
    names = [f"s{number}" for number in range(count)]
    volumes = [{"name": "tmp", "emptyDir": {}}, *({"name": name, "secret": {"secretName": name}} for name in names)]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("tmp", *names)]
    containers = [
        {"name": "other", "image": "", "volumeMounts": mounts[-1:]},
        {"name": "emacs", "image": "", "volumeMounts": mounts},
    ]

    view = pod_view({"metadata": META, "spec": {"volumes": volumes, "containers": containers}})

    expected = tuple((name, f"/{name}") for name in names)
    assert view.secret_mounts == (expected if count <= MAX_SECRET_MOUNTS else None)


def test_the_scheduler_speaks_only_when_it_found_no_node() -> None:
    def scheduled(**condition: str) -> str | None:
        conditions = [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", **condition}]
        return pod_view({"metadata": META, "status": {"conditions": conditions}}).unschedulable

    assert scheduled(status="True", message="fine") is None
    assert scheduled(status="False", message="no nodes", reason="Unschedulable") == "no nodes"
    assert scheduled(status="False", reason="SchedulingGated") == "SchedulingGated"


def test_containers_are_read_with_what_they_wait_for_and_how_they_ended() -> None:
    statuses = {
        "initContainerStatuses": [{"name": "bridge", "ready": True, "state": {"running": {}}}],
        "containerStatuses": [
            {
                "name": "emacs",
                "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            }
        ],
    }

    bridge, emacs = pod_view({"metadata": META, "status": statuses}).containers

    assert (bridge.name, bridge.ready, bridge.running, bridge.waiting_reason) == ("bridge", True, True, None)
    assert (emacs.restarts, emacs.waiting_reason, emacs.waiting_message) == (3, "CrashLoopBackOff", "back-off")
    assert (emacs.last_exit_code, emacs.last_exit_reason) == (137, "OOMKilled")


def test_a_statefulset_is_read_with_its_hashes() -> None:
    annotations = {"efrit.dev/children-hash": "c", "efrit.dev/template-hash": "t"}

    view = statefulset_view({"metadata": {**META, "annotations": annotations}, "spec": {"replicas": 0}})

    assert (view.replicas, view.children_hash, view.template_hash, view.deleting) == (0, "c", "t", False)


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00", "yesterday", ""])
def test_a_time_of_an_update_that_utc_does_not_have_counts_as_none(
    time: str,
) -> None:
    annotations = {"efrit.dev/update-started": time}
    assert statefulset_view({"metadata": {**META, "annotations": annotations}}).update_started is None


def test_a_statefulset_that_names_no_replicas_has_one() -> None:
    view = statefulset_view({"metadata": META})

    assert (view.replicas, view.children_hash) == (1, None)


@pytest.mark.parametrize(
    ("observed", "taken_up"), [({}, False), ({"observedGeneration": 1}, False), ({"observedGeneration": 2}, True)]
)
def test_a_statefulset_is_taken_up_once_kubernetes_has_processed_its_present_spec(
    observed: dict[str, int], taken_up: bool
) -> None:
    assert statefulset_view({"metadata": {**META, "generation": 2}, "status": observed}).taken_up is taken_up


def test_a_claim_is_pending_until_it_says_otherwise() -> None:
    assert claim_view({"metadata": META}).phase == "Pending"
    assert claim_view({"metadata": META, "status": {"phase": "Bound"}}).phase == "Bound"
