"""The policy by which the API server notes who made a request, and the flows of a pool that follow from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from efrit import resources
from efrit.api.pool import MAX_FLOW_CHARS, REQUESTER
from efrit.kube.media_types import APPLY_PATCH, MERGE_PATCH
from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane
from tests.cluster.paths import REPOSITORY
from tests.cluster.progress import run
from tests.support import chart, yaml_documents
from tests.support.custom_resources import install_crds, new_namespace
from tests.support.kube import Json, Kube, until
from tests.support.operator import Operator

SERVED = f"{resources.MUTATING_POLICIES.api_version}/{resources.MUTATING_POLICIES.kind}"
FORGED = {REQUESTER: "somebody else"}


def policies(namespace: str, **values: Any) -> list[Json]:
    """Return the policy and its binding, as a release in this namespace has them."""
    values |= {"image": {"repository": "i"}, "emacsImage": {"repository": "i"}}
    command = [str(programs.program("helm")), "template", "efrit", "charts/efrit-operator", "-n", namespace]
    command += ["--api-versions", SERVED, "--values", "-", "--show-only", "templates/mutation-policy.yaml"]
    text = run(command, cwd=REPOSITORY, text=json.dumps(values))
    return [manifest for manifest in yaml_documents.load_all(text) if manifest is not None]


class User(Kube):
    """Somebody who may do everything in the cluster, under a name of their own."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        super().__init__(plane, [("Impersonate-User", name), ("Impersonate-Group", "system:masters")])


class Cluster:
    """An API server with the policy of a release that serves one of two namespaces."""

    def __init__(self, plane: ControlPlane, kube: Kube) -> None:
        self.plane, self.kube = plane, kube
        self.namespace, self.other = new_namespace(kube), new_namespace(kube)
        served: Json = {"watchNamespaces": [self.namespace], "pools": {"requester": True}}
        for manifest in policies(self.namespace, **served):
            kube.call("POST", resources.resource_of(manifest).path(), manifest, fieldValidation="Strict")
        until(self._takes_hold, "the policy takes no hold")

    def _takes_hold(self) -> bool:
        return REQUESTER in self.create("admin", "efritrequests", request(), dryRun="All")["metadata"].get(
            "annotations", {}
        )

    def create(self, name: str, plural: str, body: Json, namespace: str = "", **query: str) -> Json:
        """Create an object as the user of this name."""
        with closing(User(self.plane, name)) as user:
            return user.create(plural, namespace or self.namespace, body, **query)

    def change(
        self,
        name: str,
        plural: str,
        obj: Json,
        body: Json,
        sub: str = "",
        content_type: str = MERGE_PATCH,
        **query: str,
    ) -> Json:
        """Change an object as the user of this name."""
        meta = obj["metadata"]
        with closing(User(self.plane, name)) as user:
            path = user.path(plural, meta["namespace"], meta["name"], sub)
            return user.call("PATCH", path, body, content_type=content_type, **query)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Yield an API server of its own: the policy is for the whole cluster."""
    programs.ensure_go_programs(["helm"])
    with ControlPlane() as plane, closing(Kube(plane)) as kube:
        install_crds(kube)
        yield Cluster(plane, kube)


def request(pool: str = "none", **metadata: Any) -> Json:
    spec = {"poolRef": {"name": pool}, "type": "eval", "content": "1"}
    return {"metadata": {"generateName": "r-", **metadata}, "spec": spec}


def plan(**metadata: Any) -> Json:
    spec = {"poolRef": {"name": "none"}, "intent": {"description": "d", "acceptanceCriteria": ["c"]}}
    return {"metadata": {"generateName": "p-", **metadata}, "spec": spec}


def annotations_of(obj: Json) -> Json:
    annotations: Json = obj["metadata"].get("annotations", {})
    return annotations


@pytest.mark.parametrize(
    ("metadata", "others"),
    [
        ({}, {}),
        ({"annotations": {}}, {}),
        ({"annotations": None}, {}),
        ({"annotations": {"mine": "x"}}, {"mine": "x"}),
        ({"annotations": FORGED}, {}),
        ({"annotations": {**FORGED, "mine": "x"}}, {"mine": "x"}),
    ],
    ids=["none", "empty", "null", "another", "forged", "forged beside another"],
)
@pytest.mark.parametrize(("plural", "body"), [("efritrequests", request), ("efritplans", plan)])
def test_the_api_server_notes_who_creates_a_request_or_a_plan_whatever_they_write(
    cluster: Cluster, plural: str, body: Any, metadata: Json, others: Json
) -> None:
    made = cluster.create("kim", plural, body(**metadata), dryRun="All")
    assert annotations_of(made) == {**others, REQUESTER: "kim"}


def test_whoever_changes_a_request_leaves_its_requester_as_it_is(cluster: Cluster) -> None:
    made = cluster.create("kim", "efritrequests", request())
    forged = {"metadata": {"annotations": FORGED}}
    assert annotations_of(cluster.change("lee", "efritrequests", made, forged)) == {REQUESTER: "kim"}
    assert annotations_of(cluster.change("kim", "efritrequests", made, forged, "status")) == {REQUESTER: "kim"}
    removed = {"metadata": {"annotations": {REQUESTER: None, "mine": "x"}}}
    assert annotations_of(cluster.change("kim", "efritrequests", made, removed)) == {REQUESTER: "kim", "mine": "x"}
    without = {"metadata": {"annotations": None}}
    assert annotations_of(cluster.change("kim", "efritrequests", made, without)) == {REQUESTER: "kim"}
    cancelled = cluster.change("lee", "efritrequests", made, {"spec": {"cancel": True}})
    assert (annotations_of(cancelled), cancelled["spec"]["cancel"]) == ({REQUESTER: "kim"}, True)


def test_server_side_apply_is_no_way_around_it(cluster: Cluster) -> None:
    name = {"metadata": {"name": "applied", "namespace": cluster.namespace}}
    made = request(name="applied", annotations=FORGED)
    del made["metadata"]["generateName"]
    body = resources.REQUESTS.manifest(made.pop("metadata"), **made)
    for user in ("kim", "lee"):
        query = {"fieldManager": user, "force": "true"}
        applied = cluster.change(user, "efritrequests", name, body, content_type=APPLY_PATCH, **query)
        assert annotations_of(applied) == {REQUESTER: "kim"}


def test_a_request_from_before_the_policy_gets_no_requester_later(cluster: Cluster) -> None:
    account = f"system:serviceaccount:{cluster.namespace}:efrit-efrit-operator"
    # The controller's own account, which the policy leaves alone, stands for the time before.
    made = cluster.create(account, "efritrequests", request())
    assert annotations_of(made) == {}
    forged = {"metadata": {"annotations": {**FORGED, "mine": "x"}}}
    assert annotations_of(cluster.change("kim", "efritrequests", made, forged)) == {"mine": "x"}


def test_the_controller_passes_the_requester_of_a_plan_on_to_its_requests(cluster: Cluster) -> None:
    account = f"system:serviceaccount:{cluster.namespace}:efrit-efrit-operator"
    made = cluster.create(account, "efritrequests", request(annotations={REQUESTER: "kim"}), dryRun="All")
    assert annotations_of(made) == {REQUESTER: "kim"}


def test_a_long_name_is_cut(cluster: Cluster) -> None:
    made = cluster.create("k" * 1000, "efritrequests", request(), dryRun="All")
    assert annotations_of(made) == {REQUESTER: "k" * MAX_FLOW_CHARS}


def test_a_release_for_some_namespaces_leaves_others_alone(cluster: Cluster) -> None:
    made = cluster.create("kim", "efritrequests", request(annotations=FORGED), cluster.other, dryRun="All")
    assert annotations_of(made) == FORGED


@pytest.mark.parametrize(
    ("noted", "flows"),
    [("true", {"kim": 2, "lee": 1}), ("false", {"": 3})],
    ids=["noted", "not noted, so not believed"],
)
def test_the_requests_of_a_pool_are_shared_between_those_who_made_them(
    cluster: Cluster, tmp_path: Path, noted: str, flows: Json
) -> None:
    namespace = cluster.namespace if noted == "true" else cluster.other
    pool = {"metadata": {"name": "crew"}, "spec": {"replicas": 0}}
    cluster.kube.create("efritpools", namespace, pool)
    for user in ("kim", "kim", "lee"):
        cluster.create(user, "efritrequests", request("crew", annotations=FORGED), namespace)
    operator = Operator(
        cluster.plane, cluster.kube, namespace, chart.install(cluster.kube, namespace), tmp_path, "operator-0"
    )

    def waiting() -> Json:
        status = cluster.kube.get("efritpools", namespace, "crew").get("status", {})
        return {flow["name"]: flow["pending"] for flow in status.get("flows", ())}

    try:
        operator.start(EFRIT_REQUESTER=noted)
        until(lambda: waiting() == flows, lambda: f"{waiting()}\n{operator.diagnostics()}")
    finally:
        operator.close()
