"""The life of the operator's release: what it does and does not do to the instances it serves."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import RELEASE, SYSTEM, operator_pods, wait_operator
from tests.e2e.instance import QUEUE_VOLUME, Batch, Instance
from tests.support.kube import Kube, until
from tests.support.kubectl import kubectl, run

pytestmark = pytest.mark.alone

CHART = str(Path(__file__).resolve().parents[2] / "charts" / "efrit-operator")


@pytest.fixture(scope="module")
def instance(kube: Kube, shared_namespace: str) -> Instance:
    return Instance.create(kube, shared_namespace, "served", **QUEUE_VOLUME).wait_ready()


@pytest.fixture(scope="module")
def installed(kube: Kube) -> Iterator[str]:
    """Yield the values of the release; it is installed with them again afterwards, whatever became of it."""
    values = run("helm", "get", "values", RELEASE, "-n", SYSTEM, "-o", "json")
    try:
        yield values
    finally:
        release = ("helm", "upgrade", "--install", RELEASE, CHART, "-n", SYSTEM)
        run(*release, "--values", "-", "--wait", "--timeout", "3m", stdin=values)
        wait_operator(kube)


def test_an_upgrade_keeps_instances_running_and_answers_what_is_in_flight(
    kube: Kube, instance: Instance, installed: str
) -> None:
    pod, old = instance.pod_uid(), {pod["metadata"]["name"] for pod in operator_pods(kube)}
    started = instance.value("(emacs-pid)")
    # One of them runs from before the upgrade to after it, however long that takes.
    batch = Batch(instance, "upgrade", 0.01, held_after=Batch.SIZE // 2)
    batch.wait_answered(1)
    run(
        *("helm", "upgrade", RELEASE, CHART, "-n", SYSTEM, "--reuse-values", "--wait", "--timeout", "3m"),
        *("--set-string", f"podAnnotations.e2e={secrets.token_hex(4)}"),
    )
    assert old.isdisjoint({wait_operator(kube)["metadata"]["name"]}), "the upgrade replaced no operator"
    batch.go_on()
    assert batch.check() == {"Succeeded": Batch.SIZE}
    assert instance.wait_ready().pod_uid() == pod
    assert instance.value("(emacs-pid)") == started


def test_uninstalling_keeps_instances_and_definitions_and_reinstalling_goes_on_with_them(
    kube: Kube, instance: Instance, installed: str
) -> None:
    pod = instance.wait_ready().pod_uid()
    run("helm", "uninstall", RELEASE, "-n", SYSTEM, "--wait", "--timeout", "3m")
    until(lambda: not operator_pods(kube), "the operator's pod stays after the uninstallation")
    definitions = kubectl("get", "crd", "-o", "name")
    assert "efritinstances.efrit.dev" in definitions
    assert "efritrequests.efrit.dev" in definitions
    assert "efritplans.efrit.dev" in definitions
    assert instance.get()["metadata"].get("deletionTimestamp") is None
    waiting = instance.send("'waited")
    assert instance.pod_uid() == pod
    run(
        "helm", "install", RELEASE, CHART, "-n", SYSTEM, "--values", "-", "--wait", "--timeout", "3m", stdin=installed
    )
    assert waiting.wait()["result"] == "waited"
    assert instance.wait_ready().pod_uid() == pod
