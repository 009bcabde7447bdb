"""decide/children: all child objects together; the hashes that tell whether anything differs."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from efrit import resources
from efrit.api import EfritInstance
from efrit.controller import manifests
from efrit.controller.manifests import Children, Identity, build
from efrit.controller.model.credentials import EPOCH, PERIOD, TOKEN_PERIOD
from tests.cluster.paths import REPOSITORY
from tests.support import yaml_documents
from tests.support.factory import CONFIG, NOW, Json, instance

SAMPLES = REPOSITORY / "samples"


@pytest.fixture
def children(identity: Identity) -> Any:
    def built(
        spec: Json | None = None, *, replicas: int = 1, now: Any = NOW, config: Any = CONFIG, **meta: Any
    ) -> Any:
        return build(instance(spec=spec, **meta), config, identity, replicas, now)

    return built


def of(children: Children, kind: str) -> list[Any]:
    return [manifest for manifest in children.manifests if manifest["kind"] == kind]


def test_the_statefulset_comes_last_so_that_its_pod_finds_everything(children: Any) -> None:
    assert [manifest["kind"] for manifest in children().manifests][-1] == "StatefulSet"


def test_every_child_is_plain_json_owned_by_the_instance_and_labelled_for_the_watch(children: Any) -> None:
    owner = resources.INSTANCES.reference("alpha", "uid-alpha", controller=True, blockOwnerDeletion=False)
    labels = {
        "app.kubernetes.io/name": "efrit-instance",
        "app.kubernetes.io/managed-by": "efrit-operator",
        "efrit.dev/instance": "alpha",
    }
    for manifest in children().manifests:
        meta = manifest["metadata"]
        assert (meta["namespace"], meta["ownerReferences"], meta["labels"]) == ("team", [owner], labels)
        assert meta["name"].startswith("efrit-alpha")
        assert json.loads(json.dumps(manifest)) == manifest


def test_the_account_of_an_instance_has_no_token_and_is_not_made_where_its_user_names_one(children: Any) -> None:
    (account,) = of(children(), "ServiceAccount")

    assert account["automountServiceAccountToken"] is False
    assert of(children({"podTemplate": {"serviceAccountName": "mine"}}), "ServiceAccount") == []


def test_the_secret_holds_what_the_bridge_reads(children: Any) -> None:
    (secret,) = of(children(), "Secret")

    assert set(secret["data"]) == {"tls.crt", "tls.key", "token", "token-next"}
    assert base64.b64decode(secret["data"]["tls.crt"]).startswith(b"-----BEGIN CERTIFICATE-----")


def test_during_a_rotation_the_secret_holds_the_former_token_too(identity: Identity) -> None:
    rotated = replace(identity, hmac_key=b"n" * 32, previous_hmac_key=identity.hmac_key)

    (new,) = of(build(instance(), CONFIG, rotated, 1, NOW), "Secret")
    (old,) = of(build(instance(), CONFIG, identity, 1, NOW), "Secret")

    assert new["data"]["token-previous"] == old["data"]["token"]


@pytest.mark.parametrize(
    ("queue", "spec"),
    [
        (
            {"storage": {"size": "2Gi", "storageClassName": "fast", "accessModes": ["ReadWriteOncePod"]}},
            {
                "accessModes": ["ReadWriteOncePod"],
                "resources": {"requests": {"storage": "2Gi"}},
                "storageClassName": "fast",
            },
        ),
        # Without a class, the cluster's default is left to choose.
        ({"maxPending": 5}, {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}),
        ({"existingClaim": "a"}, None),
        ({"ephemeral": True}, None),
    ],
    ids=["as asked for", "nothing named", "an existing claim", "ephemeral"],
)
def test_own_storage_becomes_a_claim(children: Any, queue: Json, spec: Json | None) -> None:
    made = of(children({"queue": queue, "workspace": {"existingClaim": "b"}}), "PersistentVolumeClaim")

    assert [(manifest["metadata"]["name"], manifest["spec"]) for manifest in made] == (
        [("efrit-alpha-queue", spec)] if spec is not None else []
    )


def test_the_sample_of_a_shared_queue_has_one_pod_and_a_volume_that_others_may_mount(children: Any) -> None:
    document = yaml_documents.load((SAMPLES / "shared-queue/instance.yaml").read_text())
    assert EfritInstance.model_validate(document).metadata.name == "shared"

    made = children(document["spec"])
    queue = next(claim for claim in of(made, "PersistentVolumeClaim") if claim["metadata"]["name"].endswith("-queue"))

    assert queue["spec"]["accessModes"] == ["ReadWriteMany"]
    assert [pods["spec"]["replicas"] for pods in of(made, "StatefulSet")] == [1]


def test_the_hashes_lie_on_the_statefulset_and_its_pod_says_which_template_it_was_made_from(children: Any) -> None:
    made = children()
    (statefulset,) = of(made, "StatefulSet")

    assert statefulset["metadata"]["annotations"] == {
        "efrit.dev/children-hash": made.digest,
        "efrit.dev/statefulset-hash": made.statefulset_digest,
        "efrit.dev/template-hash": made.template_digest,
        "efrit.dev/spec-hash": made.spec_digest,
        "efrit.dev/release-hash": made.release_digest,
    }
    annotations = statefulset["spec"]["template"]["metadata"]["annotations"]
    assert annotations["efrit.dev/template-hash"] == made.template_digest


def test_an_update_of_a_running_pod_is_marked_with_its_beginning(children: Any) -> None:
    made = children()

    plain, marked = made.statefulset_manifest(), made.statefulset_manifest(NOW, trial=True)

    assert "efrit.dev/update-started" not in plain["metadata"]["annotations"]
    assert marked["metadata"]["annotations"]["efrit.dev/update-started"] == "2026-03-01T12:00:00Z"
    assert marked["metadata"]["annotations"]["efrit.dev/update-trial"] == "true"
    assert marked["spec"] == plain["spec"]


def test_equal_arguments_give_equal_objects_whatever_the_version_of_the_instance(children: Any) -> None:
    assert children() == children() == children(version="99", generation=7, status={"phase": "Ready"})


@pytest.mark.parametrize(
    "spec",
    [
        {"emacs": {"image": "other"}},
        {"emacs": {"daemonName": "other"}},
        {"limits": {"requestTimeoutSeconds": 31}},
        {"limits": {"maxResultBytes": 2048}},
        {"queue": {"ephemeral": True}},
        {"queue": {"storage": {}, "maxPending": 1}},
        {"podTemplate": {"labels": {"a": "b"}}},
        {"podTemplate": {"env": [{"name": "A", "value": "b"}]}},
        {"model": {"name": "m", "apiKeySecretRef": {"name": "s", "key": "k"}}},
    ],
)
def test_changes_of_the_pod_by_a_user_and_by_the_installation_are_distinguished(children: Any, spec: Json) -> None:
    changed, before = children(spec), children()

    assert changed.template_digest != before.template_digest
    assert changed.statefulset_digest != before.statefulset_digest
    assert changed.spec_digest != before.spec_digest
    assert changed.release_digest == before.release_digest


@pytest.mark.parametrize(
    "changed",
    [
        {"spec": {"network": {"egress": [{"to": [{"podSelector": {}}]}]}}},
        {"spec": {"workspace": {"storage": {"size": "9Gi"}}}},
        {"now": EPOCH + PERIOD * 5},
    ],
    ids=["network", "size of a volume", "certificate period"],
)
def test_what_leaves_the_pod_alone_changes_only_the_hash_of_the_other_children(children: Any, changed: Json) -> None:
    before = children()

    assert children(**changed) == replace(
        before,
        others=children(**changed).others,
        statefulset=children(**changed).statefulset,
        digest=children(**changed).digest,
    )
    assert children(**changed).digest != before.digest


def test_the_number_of_replicas_changes_only_the_hash_of_the_statefulset(children: Any) -> None:
    suspended, before = children(replicas=0), children()

    assert suspended.statefulset_digest != before.statefulset_digest
    assert (suspended.digest, suspended.template_digest) == (before.digest, before.template_digest)


@pytest.mark.parametrize(
    "spec", [{"idle": {"suspendAfterSeconds": 60}}, {"limits": {"maxToolCalls": 7}}, {"tools": {"deny": ["shell"]}}]
)
def test_what_no_child_depends_on_changes_no_child(children: Any, spec: Json) -> None:
    changed, before = children(spec), children()

    assert (changed.digest, changed.template_digest) == (before.digest, before.template_digest)
    assert changed.statefulset["spec"] == before.statefulset["spec"]


def test_another_installation_image_rolls_the_pod(children: Any) -> None:
    upgraded = replace(CONFIG, bridge_image="example.org/efrit-operator:2")

    changed, before = children(config=upgraded), children()
    assert changed.template_digest != before.template_digest
    assert changed.release_digest != before.release_digest
    assert (changed.digest, changed.spec_digest) == (before.digest, before.spec_digest)


def test_children_are_not_built_again_for_a_version_that_says_the_same_of_them(children: Any) -> None:
    assert children(version="11", generation=2, status={"suspendedIdle": True}) is children(version="10")


@pytest.mark.parametrize(
    "other",
    [
        {"spec": {"workspace": {"size": "2Gi"}}},
        {"labels": {"a": "b"}},
        {"name": "beta"},
        {"replicas": 0},
        {"now": NOW + TOKEN_PERIOD},
        {"config": replace(CONFIG, emacs_image="other")},
    ],
    ids=lambda other: next(iter(other)),
)
def test_children_are_built_again_where_something_differs_that_they_are_made_of(children: Any, other: Any) -> None:
    before = children(uid="uid-same")

    assert children(**{"uid": "uid-same"} | other) is not before


def test_children_of_few_instances_are_kept_and_no_large_ones(children: Any) -> None:
    first = children(uid="uid-first")
    large = {"podTemplate": {"env": [{"name": "A", "value": "x" * manifests.LARGEST_BUILT_BYTES}]}}

    assert children(large, uid="uid-large") == children(large, uid="uid-large")
    assert children(large, uid="uid-large") is not children(large, uid="uid-large")
    assert children(uid="uid-first") is first
    for number in range(manifests.MAX_BUILT):
        children(uid=f"uid-{number}")
    assert len(manifests._built) == manifests.MAX_BUILT
    assert children(uid="uid-first") is not first
