"""A pool as its user has it: applied and scaled with kubectl, and requests that name it are answered."""

from __future__ import annotations

import json

from efrit.api_group import API_VERSION
from tests.e2e.instance import send
from tests.support.cluster_kube import Json, Kube, kubectl, until

POOL = "crew"
COLUMNS = ["NAME", "WANTED", "MEMBERS", "READY", "BUSY", "PENDING", "AVAILABLE", "AGE"]
EPHEMERAL = {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}}


def _apply(namespace: str, **spec: object) -> None:
    manifest = {
        "apiVersion": API_VERSION,
        "kind": "EfritPool",
        "metadata": {"name": POOL},
        "spec": {"template": {"spec": EPHEMERAL}, **spec},
    }
    kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(manifest))


def _story(namespace: str) -> str:
    return "\n".join(
        (
            kubectl("get", "efp,efi,efr,pods", "-n", namespace, "-o", "wide", check=False),
            kubectl("get", "efp", POOL, "-n", namespace, "-o", "yaml", check=False)[-4000:],
        )
    )


def _until(kube: Kube, namespace: str, **expected: object) -> Json:
    def reached() -> Json | None:
        status: Json = kube.get("EfritPool", namespace, POOL).get("status", {})
        return status if expected.items() <= status.items() else None

    return until(reached, lambda: f"the pool is not {expected}\n{_story(namespace)}")


def _columns(namespace: str) -> dict[str, str]:
    head, line = kubectl("get", "efp", POOL, "-n", namespace).splitlines()
    assert head.split() == COLUMNS
    return dict(zip(head.split(), line.split(), strict=True))


def _ask(kube: Kube, namespace: str, content: str) -> Json:
    return send(kube, namespace, content, poolRef={"name": POOL}).wait()


def test_a_pool_is_applied_scaled_and_emptied_with_kubectl_and_answers_what_names_it(
    kube: Kube, namespace: str
) -> None:
    _apply(namespace, replicas=1)
    _until(kube, namespace, replicas=1, ready=1)
    status = _ask(kube, namespace, "(+ 40 2)")
    assert (status["phase"], status["result"]) == ("Succeeded", "42")
    assert status["instanceName"].startswith(f"{POOL}-")

    kubectl("scale", "efp", POOL, "--replicas=2", "-n", namespace)
    _until(kube, namespace, replicas=2, ready=2, idle=2, pending=0)
    shown = _columns(namespace)
    assert {name: shown[name] for name in COLUMNS[:-1]} == {
        "NAME": POOL,
        "WANTED": "2",
        "MEMBERS": "2",
        "READY": "2",
        "BUSY": "0",
        "PENDING": "0",
        "AVAILABLE": "True",
    }
    pair = [send(kube, namespace, "(sleep-for 0.5) 'both", poolRef={"name": POOL}) for _ in range(2)]
    answers = [request.wait() for request in pair]
    assert {answer["result"] for answer in answers} == {"both"}
    assert len({answer["instanceName"] for answer in answers}) == 2

    kubectl("scale", "efp", POOL, "--replicas=0", "-n", namespace)
    _until(kube, namespace, replicas=0, draining=0, ready=0)
    until(lambda: not kube.list("EfritInstance", namespace), lambda: f"members are left\n{_story(namespace)}")
    assert _columns(namespace)["AVAILABLE"] == "False"
