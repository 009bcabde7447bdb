"""A changed pod template: an idle instance is replaced at once, a busy one when its work has ended."""

from __future__ import annotations

import pytest

from tests.e2e.instance import QUEUE_VOLUME, Instance, held
from tests.support.kube import Kube, until


@pytest.fixture(scope="module")
def instance(kube: Kube, shared_namespace: str) -> Instance:
    return Instance.create(kube, shared_namespace, "changing", **QUEUE_VOLUME).wait_ready()


def label(instance: Instance) -> str | None:
    pod = instance.pod()
    return pod["metadata"]["labels"].get("stage") if pod else None


def test_an_idle_instance_is_replaced_at_once(instance: Instance) -> None:
    old = instance.pod_uid()
    instance.patch(podTemplate={"labels": {"stage": "one"}})
    instance.wait_new_pod(old)
    assert label(instance) == "one"
    assert instance.value("'again") == "again"


def test_a_busy_instance_is_replaced_when_its_work_has_ended(instance: Instance) -> None:
    old = instance.pod_uid()
    request = instance.send(held("/workspace/go", "'finished"), timeoutSeconds=600)
    request.wait_reason("Running")
    instance.patch(podTemplate={"labels": {"stage": "two"}})
    until(lambda: instance.condition("Updated")["reason"] == "UpdateHeld", instance.diagnostics)
    assert instance.pod_uid() == old
    instance.touch("/workspace/go")
    status = request.wait()
    assert (status["phase"], status["result"], status["podUID"]) == ("Succeeded", "finished", old)
    instance.wait_new_pod(old)
    assert label(instance) == "two"
