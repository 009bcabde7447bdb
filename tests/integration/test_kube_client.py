"""The product's client on a real API server, judged without it: kubectl makes what it reads, and reads what it wrote.

The tests' own client (tests/support/kube.py) is the product's as well, so it has no part in this.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from efrit.errors import ApiError, ApiExists, ApiNotFound, ApiRefused
from efrit.kube.client import KubeClient
from efrit.kube.connection import load_connection
from efrit.kube.watch import follow_events
from efrit.resources import CONFIG_MAPS
from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane
from tests.support.timeout import TIMEOUT

NAMESPACE = "default"
ODD = {"text": 'größer <&> "quoted" back\\slash', "empty": "", "lines": "a\nb"}
Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane) -> Kubectl:
    """Run kubectl and return what it printed, a refusal included."""
    programs.ensure_go_programs(["kubectl"])

    def run(*words: str, stdin: object = None) -> str:
        command = [str(programs.program("kubectl")), f"--kubeconfig={plane.kubeconfig}", "-n", NAMESPACE, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT, input=json.dumps(stdin)
        )
        return done.stdout + done.stderr

    return run


@pytest.fixture
def names(kubectl: Kubectl) -> Iterator[tuple[str, str]]:
    """Yield two names for ConfigMaps, which are deleted at the end."""
    made = f"seen-{secrets.token_hex(4)}", f"other-{secrets.token_hex(4)}"
    yield made
    kubectl("delete", "configmap", "--ignore-not-found", *made)


@pytest.fixture(params=["certificate", "token"])
async def client(plane: ControlPlane, request: pytest.FixtureRequest) -> AsyncIterator[KubeClient]:
    """Yield a client, which logs in by either."""
    context = plane.context if request.param == "token" else None
    made = KubeClient((await load_connection(plane.kubeconfig, context)).configuration, field_manager="test")
    yield made
    await made.close()


def config_map(name: str, **more: Any) -> dict[str, Any]:
    return CONFIG_MAPS.manifest({"name": name, "labels": {"a": "b"}}, **more)


async def test_it_reads_what_kubectl_made_and_kubectl_reads_what_it_wrote(
    client: KubeClient, kubectl: Kubectl, names: tuple[str, str]
) -> None:
    theirs, ours = names
    kubectl("create", "-f", "-", stdin=config_map(theirs, data=ODD))
    plain = json.loads(kubectl("get", "configmap", theirs, "-o", "json", "--show-managed-fields"))
    assert plain["data"] == ODD
    assert await client.get(CONFIG_MAPS, NAMESPACE, theirs) == plain

    await client.create(config_map(ours, data=ODD), NAMESPACE)
    await client.patch(CONFIG_MAPS, NAMESPACE, ours, {"data": {"more": "=&?"}, "metadata": {"labels": {"a": None}}})
    written = json.loads(kubectl("get", "configmap", ours, "-o", "json"))
    assert (written["data"], written["metadata"].get("labels")) == ({**ODD, "more": "=&?"}, None)

    await client.delete(CONFIG_MAPS, NAMESPACE, ours, uid=written["metadata"]["uid"])
    assert "NotFound" in kubectl("get", "configmap", ours)


async def test_a_selector_and_a_watch_tell_what_kubectl_does(
    client: KubeClient, kubectl: Kubectl, names: tuple[str, str]
) -> None:
    theirs, other = names
    for name in names:
        kubectl("create", "-f", "-", stdin=config_map(name))
    kubectl("label", "configmap", other, "a-")
    selectors = {"labelSelector": "a=b", "fieldSelector": f"metadata.name!={other}"}
    listed, version = await client.list(CONFIG_MAPS, NAMESPACE, **selectors)
    assert [item["metadata"]["name"] for item in listed] == [theirs]

    response = await client.open_watch(CONFIG_MAPS.path(NAMESPACE), version, selectors)
    kubectl("annotate", "configmap", theirs, "note=größer")
    kubectl("delete", "configmap", theirs)
    seen = []
    async with aclosing(follow_events(response)) as events:
        async for kind, item in events:
            seen.append((kind, item["metadata"]["name"], item["metadata"].get("annotations")))
            if kind == "DELETED":
                break
    note = {"note": "größer"}
    assert seen == [("MODIFIED", theirs, note), ("DELETED", theirs, note)]


async def test_a_refusal_is_the_error_and_the_sentence_that_kubectl_prints(
    client: KubeClient, kubectl: Kubectl, names: tuple[str, str]
) -> None:
    taken, _ = names
    kubectl("create", "-f", "-", stdin=config_map(taken))
    bad = config_map("No_Name")
    cases: list[tuple[type[ApiError], int, Any, str]] = [
        (ApiNotFound, 404, client.get(CONFIG_MAPS, NAMESPACE, "none"), kubectl("get", "configmap", "none")),
        (
            ApiExists,
            409,
            client.create(config_map(taken), NAMESPACE),
            kubectl("create", "-f", "-", stdin=config_map(taken)),
        ),
        (ApiRefused, 422, client.create(bad, NAMESPACE), kubectl("create", "-f", "-", stdin=bad)),
    ]
    for error, status, call, printed in cases:
        with pytest.raises(ApiError) as caught:
            await call
        assert (type(caught.value), caught.value.status) == (error, status)
        assert caught.value.sentence in printed
