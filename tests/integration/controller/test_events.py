"""Events on a real API server, with the rights of the chart: counted when repeated, found by their objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration

from efrit.controller.act.event_recorder import EventRecorder
from efrit.controller.act.kube import Kube
from efrit.controller.act.warning_events import explain
from efrit.controller.model.actions import ReadWarningEvents, Record
from tests.support.kube import Json
from tests.support.site import Site

UID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
async def controllers(site: Site) -> AsyncIterator[Kube]:
    """Yield a connection with the rights of the controller."""
    configuration = Configuration()
    path = str(site.operator().kubeconfig)
    await kube_config.load_kube_config(config_file=path, client_configuration=configuration)
    kube = Kube(configuration)
    yield kube
    await kube.close()


async def test_a_repeated_event_raises_the_count_of_the_first(site: Site, controllers: Kube) -> None:
    recorder = EventRecorder(controllers, lambda: datetime.now(UTC), "pod-1")
    event = Record("EfritInstance", (site.namespace, "one"), UID, "Warning", "CrashLooping", "Emacs exits.")

    for _ in range(3):
        await recorder.record(event)

    events = site.kube.list("events", site.namespace, fieldSelector="involvedObject.name=one")
    assert [(event["reason"], event["count"]) for event in events] == [("CrashLooping", 3)]


async def test_only_warnings_about_the_objects_of_an_instance_explain_it(site: Site, controllers: Kube) -> None:
    for kind, name, message in (
        ("Pod", "efrit-one-0", "its image is not there"),
        ("Pod", "efrit-two-0", "somebody else's"),
        ("PersistentVolumeClaim", "efrit-one-0", "another kind"),
    ):
        site.kube.create("events", site.namespace, _warning(site.namespace, kind, name, message))

    question = ReadWarningEvents((site.namespace, "one"), pod_uid=UID)
    assert await explain(controllers, question) == "its image is not there"


def _warning(namespace: str, kind: str, name: str, message: str) -> Json:
    return {
        "metadata": {"generateName": "e-"},
        "involvedObject": {"kind": kind, "name": name, "namespace": namespace},
        "type": "Warning",
        "reason": "Failed",
        "message": message,
    }
