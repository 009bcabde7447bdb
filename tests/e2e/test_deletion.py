"""Deleting a namespace never waits for the operator: nothing of ours has a finalizer."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import NewNamespace, stopped_operator
from tests.e2e.instance import QUEUE_VOLUME, VOLUMES, Instance
from tests.support.kube import Kube, until
from tests.support.kubectl import kubectl


@pytest.mark.alone
def test_namespaces_go_while_the_operator_is_stopped_even_while_work_runs(
    kube: Kube, new_namespace: NewNamespace
) -> None:
    """What takes time is the pod's own grace for running work: 10 s more than limits.requestTimeoutSeconds."""
    idle = Instance.create(kube, new_namespace(), "idle", **VOLUMES)
    busy = Instance.create(kube, new_namespace(), "busy", limits={"requestTimeoutSeconds": 10}, **QUEUE_VOLUME)
    idle.wait_ready()
    busy.wait_ready()
    assert idle.value("'done") == "done"
    running = busy.send("(while t (sleep-for 60))", timeoutSeconds=3600)
    busy.send("'never")
    running.wait_reason("Running")
    with stopped_operator(kube):
        for instance in (idle, busy):
            kube.discard("Namespace", None, instance.namespace)
        for instance in (idle, busy):
            _until_gone(kube, instance)


def _until_gone(kube: Kube, instance: Instance) -> None:
    namespace = instance.namespace
    until(
        lambda: kube.find("Namespace", None, namespace) is None,
        lambda: (
            f"namespace of {instance.name} is still there\n"
            + kubectl("get", "ns", namespace, "-o", "yaml", check=False)
            + kubectl("get", "all,pvc,efi,efr", "-n", namespace, check=False)
        ),
    )


def test_a_deleted_instance_takes_its_children_with_it(kube: Kube, namespace: str) -> None:
    instance = Instance.create(kube, namespace, "short", **VOLUMES).wait_ready()
    kube.discard("EfritInstance", namespace, "short")
    kinds = ("StatefulSet", "Pod", "PersistentVolumeClaim", "NetworkPolicy")

    def remaining_objects() -> list[str]:
        names = [f"{kind}/{item['metadata']['name']}" for kind in kinds for item in kube.list(kind, namespace)]
        bridge = kube.find("Secret", namespace, f"efrit-{instance.name}-bridge")
        return [*names, "Secret"] if bridge else names

    until(lambda: not remaining_objects(), lambda: f"left behind: {remaining_objects()}")
