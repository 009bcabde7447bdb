"""samples/shared-cluster and the policy for tenants, on a real API server: what a team can and cannot do there."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from efrit import resources
from efrit.api import EfritInstance
from efrit.api.pool import MAX_MEMBERS
from efrit.controller.manifests.statefulset import build_statefulset
from efrit.controller.model.config import ControllerConfig
from efrit.errors import ApiError
from efrit.kube.media_types import MERGE_PATCH
from efrit.resources import resource_named, resource_of
from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane
from tests.cluster.paths import REPOSITORY
from tests.cluster.progress import run
from tests.support import yaml_documents
from tests.support.custom_resources import install_crds
from tests.support.kube import Json, Kube, until

SAMPLES = REPOSITORY / "samples" / "shared-cluster"
TEAM = "team-a"
POLICY = "templates/admission-policy-tenants.yaml"
TENANTS = {
    "enabled": True,
    "namespaceSelector": {"matchLabels": {"example.org/tenant": "true"}},
    "allowedAnnotations": ["example.org/"],
}
VALUES = {"admissionPolicy": {"tenants": TENANTS}, "image": {"repository": "i"}, "emacsImage": {"repository": "i"}}
MODEL = {"name": "m", "apiKeySecretRef": {"name": "anthropic", "key": "key"}}
OTHERS_KEY = {"name": "m", "apiKeySecretRef": {"name": "theirs", "key": "key"}}


class Member(Kube):
    """Somebody of the team."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane, [("Impersonate-User", "kim"), ("Impersonate-Group", TEAM)])

    def refusal(self, method: str, path: str, body: Json, **options: str) -> str:
        """Return why a write was refused; nothing where it was accepted."""
        try:
            self.call(method, path, body, **options)
        except ApiError as refusal:
            return refusal.sentence
        return ""


def path(plural: str, namespace: str = TEAM, name: str = "") -> str:
    return resource_named(plural).path(namespace, name)


def instance(spec: Json, name: str = "one") -> Json:
    return resources.INSTANCES.manifest({"name": name}, spec=spec)


def pool(spec: Json, name: str = "crew") -> Json:
    """Return a pool whose members have this spec."""
    whole = {"replicas": 1, "template": {"spec": spec}}
    return resources.POOLS.manifest({"name": name}, spec=whole)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Yield an API server of its own: the policy is for the whole cluster."""
    programs.ensure_go_programs(["helm"])
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Iterator[Kube]:
    command = [str(programs.program("helm")), "template", "efrit-operator", "charts/efrit-operator"]
    command += ["--namespace", "efrit-system", "--values", "-", "--show-only", POLICY]
    text = run(command, cwd=REPOSITORY, text=json.dumps(VALUES))
    names = yaml_documents.load((SAMPLES / "kustomization.yaml").read_text())["resources"]
    documents = [manifest for name in names for manifest in yaml_documents.load_all((SAMPLES / name).read_text())]
    with closing(Kube(plane)) as kube:
        install_crds(kube)
        for manifest in [
            *documents,
            *(manifest for manifest in yaml_documents.load_all(text) if manifest is not None),
        ]:
            where = resource_of(manifest).path(manifest["metadata"].get("namespace"))
            kube.call("POST", where, manifest, fieldValidation="Strict")
        yield kube


@pytest.fixture(scope="module")
def member(plane: ControlPlane, admin: Kube) -> Iterator[Member]:
    with closing(Member(plane)) as made:

        def refused() -> bool:
            refusal = made.refusal("POST", path("efritinstances"), instance({"model": OTHERS_KEY}), dryRun="All")
            return "needs the verb use" in refusal

        until(refused, "the policy takes no hold")
        yield made


def template(**fields: Any) -> Json:
    return {"podTemplate": fields}


def volume(**source: Any) -> Json:
    return template(volumes=[{"name": "more", **source}])


CASES: list[tuple[Json, str]] = [
    ({}, ""),
    ({"model": MODEL}, ""),
    (volume(secret={"secretName": "anthropic"}), ""),
    (template(annotations={"example.org/team": "a"}), ""),
    ({"model": OTHERS_KEY}, "Secret theirs: kim needs the verb use on it"),
    (volume(secret={"secretName": "theirs"}), "Secret theirs: kim needs"),
    (volume(projected={"sources": [{"secret": {"name": "theirs"}}]}), "Secret theirs: kim needs"),
    (volume(csi={"driver": "d", "nodePublishSecretRef": {"name": "theirs"}}), "Secret theirs: kim needs"),
    (
        template(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "theirs", "key": "a"}}}]),
        "Secret theirs",
    ),
    (template(envFrom=[{"secretRef": {"name": "theirs"}}]), "Secret theirs: kim needs"),
    (template(imagePullSecrets=[{"name": "theirs"}]), "Secret theirs: kim needs"),
    (template(envFrom=[{"secretRef": {"name": "anthropic"}}] * 17), "At most 16 references to Secrets"),
    (template(serviceAccountName="deployer"), "ServiceAccount deployer: kim needs the verb use"),
    (template(priorityClassName="urgent"), "PriorityClass urgent: kim needs the verb use"),
    (template(annotations={"prometheus.io/scrape": "x"}), "only keys that begin with example.org/ are accepted"),
    ({"network": {"egress": [{"to": [{"podSelector": {}}]}]}}, "users do not open the network"),
    ({"network": {"allowIngressFrom": [{"podSelector": {}}]}}, "users do not open the network"),
]
"""What a spec names, and the refusal; nothing where the team may use it."""


@pytest.mark.parametrize(("spec", "message"), CASES)
def test_a_team_names_in_an_instance_only_what_it_may_use(member: Member, spec: Json, message: str) -> None:
    refusal = member.refusal("POST", path("efritinstances"), instance(spec), dryRun="All")
    assert bool(refusal) == bool(message), refusal
    assert message in refusal


@pytest.mark.parametrize(("spec", "message"), CASES)
def test_a_team_names_in_the_template_of_a_pool_only_what_it_may_use(
    member: Member, admin: Kube, spec: Json, message: str
) -> None:
    refusal = member.refusal("POST", path("efritpools"), pool(spec), dryRun="All")
    assert bool(refusal) == bool(message), refusal
    assert message in refusal

    # The same by a change of a pool that named nothing.
    with contextlib.suppress(ApiError):
        admin.call("POST", path("efritpools"), pool({}, "plain"))
    # Without a spec nothing changes.
    change = {"spec": {"template": {"spec": spec or {"limits": {"maxToolCalls": 9}}}}}
    where = path("efritpools", name="plain")
    refusal = member.refusal("PATCH", where, change, content_type=MERGE_PATCH, dryRun="All")
    assert bool(refusal) == bool(message), refusal
    assert message in refusal


def test_a_pool_without_a_template_is_accepted(member: Member) -> None:
    body = {**pool({}, "bare"), "spec": {"replicas": 0}}
    assert member.refusal("POST", path("efritpools"), body, dryRun="All") == ""


def test_who_scales_or_labels_a_pool_need_not_have_the_rights_of_its_author(member: Member, admin: Kube) -> None:
    admin.call("POST", path("efritpools"), pool({"model": OTHERS_KEY}, "admins"))
    where = path("efritpools", name="admins")
    for change in (
        {"metadata": {"labels": {"a": "b"}}},
        {"spec": {"replicas": 2}},
        {"spec": {"placement": {"maxLoadPerInstance": 5}}},
    ):
        assert member.refusal("PATCH", where, change, content_type=MERGE_PATCH) == ""
    scale = member.call("GET", where + "/scale", None)
    assert scale["spec"]["replicas"] == 2
    assert member.refusal("PUT", where + "/scale", {**scale, "spec": {"replicas": 3}}) == ""
    assert admin.call("GET", where)["spec"]["replicas"] == 3
    limit = {"spec": {"template": {"spec": {"limits": {"maxToolCalls": 9}}}}}
    assert "needs the verb use" in member.refusal("PATCH", where, limit, content_type=MERGE_PATCH)


def test_no_more_members_are_accepted_than_a_pool_may_have(member: Member, admin: Kube) -> None:
    admin.call("POST", path("efritpools"), pool({}, "wide"))
    where = path("efritpools", name="wide") + "/scale"
    scale = member.call("GET", where, None)
    refusal = member.refusal("PUT", where, {**scale, "spec": {"replicas": MAX_MEMBERS + 1}})
    assert "should be less than or equal to 1000" in refusal


def test_who_changes_no_spec_need_not_have_the_rights_of_its_author(member: Member, admin: Kube) -> None:
    admin.call("POST", path("efritinstances"), instance({"model": OTHERS_KEY}, "admins"))
    where = path("efritinstances", name="admins")
    label, limit = {"metadata": {"labels": {"a": "b"}}}, {"spec": {"limits": {"maxToolCalls": 9}}}
    assert member.refusal("PATCH", where, label, content_type=MERGE_PATCH) == ""
    assert "needs the verb use" in member.refusal("PATCH", where, limit, content_type=MERGE_PATCH)


def test_a_team_reads_no_secrets_and_makes_nothing_but_ours(member: Member) -> None:
    for method, where in (
        ("GET", path("secrets", name="anthropic")),
        ("POST", path("pods")),
        ("POST", path("pods", name="efrit-one-0") + "/exec"),
        ("POST", path("networkpolicies")),
        ("POST", path("efritrequests", "default")),
        ("PATCH", path("efritinstances", name="one") + "/status"),
    ):
        options = {"content_type": MERGE_PATCH} if method == "PATCH" else {}
        assert "cannot" in member.refusal(method, where, {}, **options), where


def test_the_quota_bounds_open_requests(member: Member, admin: Kube) -> None:
    # Its status is what counts, which a controller writes that does not run here.
    where = resources.QUOTAS.path(TEAM, "efrit")
    quota = admin.call("GET", where)["spec"]["hard"]
    assert {
        f"count/efrit{kind}.efrit.dev" for kind in ("requests", "instances", "plans", "pools", "claims")
    } <= quota.keys()
    assert "count/controllerrevisions.apps" in quota

    def allow(count: int) -> None:
        hard = {"count/efritrequests.efrit.dev": str(count)}
        admin.call("PATCH", where, {"spec": {"hard": hard}}, content_type=MERGE_PATCH)
        status = {"status": {"hard": hard, "used": {"count/efritrequests.efrit.dev": "0"}}}
        admin.call("PATCH", where + "/status", status, content_type=MERGE_PATCH)

    def ask(**options: str) -> str:
        spec = {"instanceRef": {"name": "one"}, "type": "eval", "content": "1"}
        body = resources.REQUESTS.manifest({"name": f"r-{secrets.token_hex(3)}"}, spec=spec)
        return member.refusal("POST", path("efritrequests"), body, **options)

    # The API server looks at a copy of the quota, which may be of a moment before.
    allow(0)
    until(lambda: "exceeded quota: efrit" in ask(dryRun="All"), "the quota takes no hold")
    allow(1)
    until(lambda: not ask(), "none is allowed")
    assert "exceeded quota: efrit" in ask()
    assert len(admin.list("efritrequests", TEAM)) == 1


def test_the_pod_of_an_instance_fits_the_namespace_and_has_limits(admin: Kube) -> None:
    metadata = {"name": "one", "namespace": TEAM, "uid": "u"}
    made = EfritInstance.model_validate({"metadata": metadata, "spec": {"model": MODEL}})
    pod = build_statefulset(made, ControllerConfig("bridge:1", "emacs:1"), 1)["spec"]["template"]
    body = resources.PODS.manifest({**pod["metadata"], "name": "one"}, spec=pod["spec"])
    spec = admin.call("POST", path("pods"), body, dryRun="All")["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys(), container
