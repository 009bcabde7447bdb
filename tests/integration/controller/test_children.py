"""Children that somebody deletes: remade within seconds, and nothing starts on a claim that is being deleted."""

from __future__ import annotations

import pytest

from tests.support.kube import Json, until
from tests.support.site import Site

NEVER: Json = {"EFRIT_RESYNC_SECONDS": "86400"}
"""What is remade in these tests is not remade by the resync."""
CLAIM = "efrit-one-queue"


def _uid(site: Site, plural: str, name: str) -> str | None:
    obj = site.kube.find(plural, site.namespace, name)
    return obj["metadata"]["uid"] if obj is not None else None


def _until_remade(site: Site, plural: str, name: str, before: str) -> None:
    until(
        lambda: _uid(site, plural, name) not in (None, before),
        lambda: f"the child of {plural} is not remade\n{site.logs()}",
    )


def test_a_deleted_child_is_remade_and_the_pod_left_alone(site: Site) -> None:
    site.operator().start(**NEVER, EFRIT_SECRET_CHECK_SECONDS="1")
    site.instance()
    pod = site.node.pod("one")
    children = (
        ("serviceaccounts", "efrit-one"),
        ("networkpolicies", "efrit-one"),
        ("secrets", "efrit-one-bridge"),
        ("persistentvolumeclaims", "efrit-one-workspace"),
    )
    for plural, name in children:
        before = _uid(site, plural, name)
        assert before is not None, plural
        # Nobody plays the protection of claims here: it is gone at once.
        site.kube.patch(plural, site.namespace, name, {"metadata": {"finalizers": None}})
        site.kube.delete(plural, site.namespace, name)
        _until_remade(site, plural, name, before)
    assert site.node.pod("one") is pod
    assert site.answer(site.ask("'served"))["result"] == "served"


def test_a_claim_that_is_being_deleted_is_waited_for_and_remade(site: Site) -> None:
    site.operator().start(**NEVER)
    site.instance()
    site.kube.patch("efritinstances", site.namespace, "one", {"spec": {"operatingMode": "Suspended"}})
    site.until_condition("one", "Suspended", status="True")
    until(lambda: site.node.gone("one"), "the pod is still there")
    old = site.kube.get("persistentvolumeclaims", site.namespace, CLAIM)
    site.kube.patch("persistentvolumeclaims", site.namespace, CLAIM, {"metadata": {"finalizers": ["test/kept"]}})
    site.kube.delete("persistentvolumeclaims", site.namespace, CLAIM)
    waiting = site.ask("'started")
    site.kube.patch("efritinstances", site.namespace, "one", {"spec": {"operatingMode": "Running"}})

    condition = site.until_condition("one", "Ready", reason="ClaimTerminating")
    assert CLAIM in condition["message"]
    going = site.kube.get("persistentvolumeclaims", site.namespace, CLAIM)
    assert going["metadata"]["uid"] == old["metadata"]["uid"]
    statefulset: Json = site.kube.get("statefulsets", site.namespace, "efrit-one")
    assert statefulset["spec"]["replicas"] == 0
    assert site.node.gone("one")

    site.kube.patch("persistentvolumeclaims", site.namespace, CLAIM, {"metadata": {"finalizers": None}})
    assert site.answer(waiting)["result"] == "started"
    assert _uid(site, "persistentvolumeclaims", CLAIM) != old["metadata"]["uid"]


FOREIGN: tuple[tuple[str, str, Json], ...] = (
    ("serviceaccounts", "efrit-one", {}),
    ("secrets", "efrit-one-bridge", {"type": "Opaque", "stringData": {"theirs": "kept"}}),
    ("networkpolicies", "efrit-one", {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}),
)


@pytest.mark.parametrize(("plural", "name", "rest"), FOREIGN, ids=[case[0] for case in FOREIGN])
def test_an_object_of_somebody_else_is_named_and_left_alone(site: Site, plural: str, name: str, rest: Json) -> None:
    before = site.kube.create(plural, site.namespace, {"metadata": {"name": name}, **rest})
    site.operator().start(**NEVER)
    site.instance(ready=False)

    condition = site.until_condition("one", "Ready", reason="ChildRefused")
    assert f"{before['kind']} {name} already exists and does not belong to this EfritInstance" in condition["message"]
    site.kube.delete("efritinstances", site.namespace, "one")
    assert site.kube.get(plural, site.namespace, name) == before


def test_what_a_created_child_loses_later_is_taken_out(site: Site) -> None:
    site.operator().start(**NEVER)
    site.instance(podTemplate={"nodeSelector": {"kubernetes.io/os": "linux"}})
    made = site.kube.get("statefulsets", site.namespace, "efrit-one")
    ours = [entry["operation"] for entry in made["metadata"]["managedFields"] if entry["manager"] == "efrit-operator"]
    assert ours == ["Apply"]
    site.kube.patch("efritinstances", site.namespace, "one", {"spec": {"podTemplate": {"nodeSelector": None}}})

    def selector() -> bool:
        stateful_set = site.kube.get("statefulsets", site.namespace, "efrit-one")
        return "nodeSelector" not in stateful_set["spec"]["template"]["spec"]

    until(selector, "the selector stays")
