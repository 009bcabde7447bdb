"""The chart's admission policies on a real API server: what our accounts may not do, whatever their roles say."""

from __future__ import annotations

import copy
import functools
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from efrit import resources
from efrit.api import EfritInstance, EfritPool
from efrit.controller.act.identity import new_identity
from efrit.controller.manifests import build
from efrit.controller.manifests.disruption_budget import MAX_NAMED, build_disruption_budget
from efrit.controller.manifests.pod_network_policy import build_pod_network_policy
from efrit.controller.manifests.pool_history import build_revision
from efrit.controller.manifests.result_secret import result_secret
from efrit.controller.model.config import ControllerConfig
from efrit.errors import ApiError
from efrit.kube.media_types import MERGE_PATCH
from efrit.resources import CONTROLLER_REVISIONS, INSTANCES, resource_of
from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane
from tests.cluster.paths import REPOSITORY
from tests.cluster.progress import run
from tests.support import yaml_documents
from tests.support.chart import token
from tests.support.custom_resources import install_crds
from tests.support.factory import request
from tests.support.kube import Json, Kube, until
from tests.support.timeout import TIMEOUT

DRY_RUN = "?dryRun=All"
HOME, TEAM, SYSTEM = "efrit-system", "team", "kube-system"
INSTALLED = {
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
RELEASES = {
    # The release's name, with its account's name in it, and its values.
    "efrit-operator": ["mcp.enabled=true", "mcp.tlsSecretName=tls"],
    "strict-efrit-operator": ["admissionPolicy.references=granted", "rbac.userRoles=false"],
    "own-efrit-operator": [f"watchNamespaces={{{HOME}}}", "rbac.userRoles=false"],
}
OWNER = resources.INSTANCES.reference("one", "u", controller=True)
UNOWNED = "writes only what an EfritInstance, an EfritRequest or an EfritPool owns"
CONFIG = ControllerConfig(bridge_image="bridge:1", emacs_image="emacs:1")
SPEC: Json = {
    "emacs": {"initConfigMapRef": {"name": "my-init"}},
    "model": {"name": "m", "apiKeySecretRef": {"name": "key", "key": "token"}},
    "podTemplate": {
        "annotations": {"note": "x"},
        "volumes": [{"name": "extra", "emptyDir": {}}],
        "volumeMounts": [{"name": "extra", "mountPath": "/extra"}],
    },
}


@dataclass
class Account:
    """One of our accounts, with all that the chart gives it."""

    client: httpx.Client

    def write(self, method: str, path: str, body: object, kind: str = "json") -> tuple[int, str]:
        """Return the status and the message of the answer."""
        answer = self.client.request(method, path, json=body, headers={"Content-Type": f"application/{kind}"})
        return answer.status_code, str(answer.json().get("message", ""))

    def create(self, manifest: Json) -> tuple[int, str]:
        return self.write("POST", resource_of(manifest).path(manifest["metadata"]["namespace"]), manifest)


def secret(name: str, *owners: Json, namespace: str = TEAM, type_: str = "Opaque", **annotations: str) -> Json:
    metadata = {
        "name": name,
        "namespace": namespace,
        "ownerReferences": list(owners),
        "annotations": annotations,
    }
    return resources.SECRETS.manifest(metadata, type=type_)


@pytest.fixture(scope="module")
def admin() -> Iterator[tuple[ControlPlane, Kube]]:
    """Yield an API server of its own, with the releases: the policies are for the whole cluster."""
    programs.ensure_go_programs(["helm"])
    chart = REPOSITORY / "charts" / "efrit-operator"
    with ControlPlane() as plane, closing(Kube(plane)) as kube:
        install_crds(kube)
        for namespace in (HOME, TEAM):
            kube.call("POST", resources.NAMESPACES.path(), {"metadata": {"name": namespace}})
        for release, values in RELEASES.items():
            words = [
                word
                for value in [*values, "image.repository=i", "emacsImage.repository=i"]
                for word in ("--set", value)
            ]
            text = run([programs.program("helm"), "template", release, chart, "-n", HOME, *words])
            for manifest in yaml_documents.load_all(text):
                # Where one release serves a namespace, no other does: its members are for its own account alone.
                if manifest is None or (
                    release != "efrit-operator" and manifest["metadata"]["name"].endswith(("-members", "-revisions"))
                ):
                    continue
                if manifest["kind"] in INSTALLED:
                    kube.call("POST", resource_of(manifest).path(manifest["metadata"].get("namespace")), manifest)
        kube.call("POST", resources.SECRETS.path(TEAM), {**secret("theirs"), "stringData": {"a": "hidden"}})
        yield plane, kube


@pytest.fixture(scope="module")
def account(admin: tuple[ControlPlane, Kube]) -> Iterator[Callable[[str], Account]]:
    """Return an account by its name, once its policies have taken hold."""
    plane, kube = admin
    with ExitStack() as stack:

        @functools.cache
        def of(name: str) -> Account:
            context = ssl.create_default_context(cafile=str(plane.authority.ca))
            headers = {"Authorization": f"Bearer {token(kube, HOME, name)}"}
            client = httpx.Client(
                base_url=plane.url, verify=context, headers=headers, timeout=TIMEOUT, trust_env=False
            )
            made = Account(stack.enter_context(client))
            namespace = HOME if name.startswith("own-") else TEAM
            probes = [secret("probe", namespace=namespace), changed("StatefulSet", HOST_NETWORK, namespace=namespace)]
            for probe in [] if name.endswith("-mcp") else probes:
                path = resource_of(probe).path(namespace) + "?dryRun=All"
                until(functools.partial(lambda *a: made.write(*a)[0] == 422, "POST", path, probe), "no policy holds")
            return made

        yield of


@pytest.fixture
def controller(account: Callable[[str], Account]) -> Account:
    return account("efrit-operator")


def example(spec: str = "", namespace: str = TEAM, name: str = "one") -> EfritInstance:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return EfritInstance.model_validate({"metadata": metadata, "spec": SPEC if spec == "all" else {}})


@functools.cache
def children(spec: str = "", namespace: str = TEAM, name: str = "one") -> tuple[Json, ...]:
    now = datetime(2026, 2, 1, tzinfo=UTC)
    return tuple(
        dict(manifest) for manifest in build(example(spec, namespace, name), CONFIG, new_identity(), 1, now).manifests
    )


def isolation(change: Callable[[Any], object]) -> Json:
    manifest = build_pod_network_policy(example(name="two"), CONFIG, "efrit-two-0", "uid-pod")
    change(manifest)
    return manifest


def child(kind: str, namespace: str = TEAM, name: str = "two", spec: str = "") -> Json:
    child = next(child for child in children(spec, namespace, name) if child["kind"] == kind)
    return copy.deepcopy(child)


def changed(kind: str, change: Callable[[Any], object], **fields: str) -> Json:
    manifest = child(kind, **fields)
    change(manifest["spec"]["template"]["spec"] if kind == "StatefulSet" else manifest)
    return manifest


HOST_NETWORK: Callable[[Any], object] = lambda pod: pod.update(hostNetwork=True)  # noqa: E731


def test_the_controller_makes_and_applies_all_children_of_an_instance_and_results(controller: Account) -> None:
    own_policy = build_pod_network_policy(example("all"), CONFIG, "efrit-one-0", "uid-pod")
    assert controller.create(own_policy)[0] == 201, controller.create(own_policy)
    for source in [*children("all"), result_secret(request("one"), "text")]:
        manifest = copy.deepcopy(dict(source))
        assert controller.create(manifest)[0] == 201, controller.create(manifest)
        resource, meta = resource_of(manifest), manifest["metadata"]
        path = resource.path(meta["namespace"], meta["name"]) + "?fieldManager=f&force=true"
        status, text = controller.write("PATCH", path, manifest, "apply-patch+yaml")
        assert status == 200, text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (secret("efrit-one-bridge", OWNER, namespace="default"), ""),
        (secret("efrit-result-u", {**OWNER, "kind": "EfritRequest"}, type_="efrit.dev/result"), ""),
        (secret("efrit-operator-identity", namespace=HOME), ""),
        (secret("another", namespace=HOME), "no instances in its own namespace"),
        (secret("efrit-one-bridge", OWNER, namespace=HOME), "no instances in its own namespace"),
        (secret("efrit-operator-identity"), UNOWNED),
        (secret("efrit-one-bridge", {**OWNER, "controller": False}), UNOWNED),
        (secret("efrit-one-bridge", {**OWNER, **resources.SECRETS.reference("one", "u")}), UNOWNED),
        (secret("efrit-one-bridge", {**OWNER, "kind": "EfritRequest"}), UNOWNED),
        (secret("efrit-two-bridge", OWNER), "the name that follows from its owner's"),
        (
            secret("efrit-result-v", {**OWNER, "kind": "EfritRequest"}, type_="efrit.dev/result"),
            "the name that follows",
        ),
        (secret("efrit-one-bridge", OWNER, namespace=SYSTEM), "writes nothing in the namespaces of Kubernetes"),
        (
            secret(
                "efrit-one-bridge",
                OWNER,
                type_="kubernetes.io/service-account-token",
                **{"kubernetes.io/service-account.name": "default"},
            ),
            "only Secrets of type Opaque",
        ),
    ],
)
def test_the_controller_creates_only_secrets_of_ours(controller: Account, body: Json, message: str) -> None:
    status, text = controller.create(body)
    assert (status, message in text) == (422 if message else 201, True), text


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"metadata": {"ownerReferences": [OWNER]}}, "merge-patch+json"),
        # This one changes nothing: the API server would answer it with the object.
        ([{"op": "test", "path": "/metadata/name", "value": "theirs"}], "json-patch+json"),
    ],
)
def test_the_controller_neither_takes_nor_reads_a_secret_of_somebody_else(
    controller: Account, body: object, kind: str
) -> None:
    path = resources.SECRETS.path(TEAM, "theirs")
    assert UNOWNED in controller.write("PATCH", path, body, kind)[1]
    assert controller.write("GET", path, None)[0] == 403


def test_an_object_keeps_its_owner(controller: Account, admin: tuple[ControlPlane, Kube]) -> None:
    admin[1].call("POST", resources.SECRETS.path(TEAM), secret("efrit-kept-bridge", {**OWNER, "name": "kept"}))
    body = {"metadata": {"ownerReferences": [{**OWNER, "name": "kept", "uid": "another"}]}}
    path = resources.SECRETS.path(TEAM, "efrit-kept-bridge")
    assert UNOWNED in controller.write("PATCH", path, body, "merge-patch+json")[1]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (changed("ServiceAccount", lambda obj: obj["metadata"].pop("ownerReferences")), UNOWNED),
        (
            changed(
                "ServiceAccount", lambda obj: obj["metadata"].update(annotations={"eks.amazonaws.com/role-arn": "a"})
            ),
            "without a token and without annotations",
        ),
        (
            changed("ServiceAccount", lambda obj: obj.update(automountServiceAccountToken=True)),
            "without a token and without annotations",
        ),
        (
            changed("ServiceAccount", lambda obj: obj.update(secrets=[{"name": "theirs"}])),
            "without a token and without annotations",
        ),
        (
            changed("NetworkPolicy", lambda obj: obj["spec"].update(podSelector={})),
            "only for the pod of their instance",
        ),
        (
            changed("NetworkPolicy", lambda obj: obj["metadata"].update(name="another")),
            "the name that follows from its owner's",
        ),
        (
            changed(
                "PersistentVolumeClaim",
                lambda obj: obj["spec"].update(dataSource={"kind": "PersistentVolumeClaim", "name": "theirs"}),
            ),
            "only claims of new and empty volumes",
        ),
        (isolation(lambda obj: obj["spec"].update(egress=[{}])), UNOWNED),
        (isolation(lambda obj: obj["spec"].update(ingress=[{}])), UNOWNED),
        (isolation(lambda obj: obj["spec"].update(podSelector={})), UNOWNED),
        (isolation(lambda obj: obj["metadata"].update(name="another")), UNOWNED),
        (changed("StatefulSet", HOST_NETWORK), "without what is the node's"),
        (changed("StatefulSet", lambda pod: pod.update(hostPID=True, shareProcessNamespace=False)), "the node's"),
        (
            changed("StatefulSet", lambda pod: pod["containers"][0].update(securityContext={"privileged": True})),
            "without privileges",
        ),
        (
            changed(
                "StatefulSet",
                lambda pod: pod["initContainers"][0]["securityContext"]["capabilities"].update(add=["SYS_PTRACE"]),
            ),
            "without privileges",
        ),
        (
            changed("StatefulSet", lambda pod: pod["volumes"].append({"name": "h", "hostPath": {"path": "/"}})),
            "only kinds of volumes that an EfritInstance may name",
        ),
        (
            changed("StatefulSet", lambda pod: pod["containers"].append({"name": "more", "image": "i"})),
            "one pod, with one Emacs and one bridge",
        ),
        (
            changed("StatefulSet", lambda pod: pod.update(automountServiceAccountToken=True)),
            "no token of the account that it has made",
        ),
    ],
)
def test_the_controller_makes_no_other_objects_than_an_instance_can_ask_for(
    controller: Account, body: Json, message: str
) -> None:
    status, text = controller.create(body)
    assert (status, message in text) == (422, True), text


CREW = EfritPool.model_validate(
    {"metadata": {"name": "crew", "namespace": TEAM, "uid": "p"}, "spec": {"replicas": 1}}
)
POOL = resources.POOLS.reference("crew", "p", controller=True)
POD_NAME = "statefulset.kubernetes.io/pod-name"


def budget(*members: str, change: Callable[[Json], object] = lambda body: None) -> Json:
    body = build_disruption_budget(CREW, members)
    change(body)
    return body


def selecting(**selector: object) -> Json:
    return budget(change=lambda body: body["spec"].update(selector=selector))


def by_pods(*pods: str) -> Json:
    return selecting(matchExpressions=[{"key": POD_NAME, "operator": "In", "values": list(pods)}])


OTHERS = "PodDisruptionBudgets only for pods of instances of a pool"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (budget(), ""),
        (budget("crew-a", "crew-b"), ""),
        (budget(*(f"crew-{number}" for number in range(MAX_NAMED + 1))), ""),
        (budget(change=lambda body: body["metadata"].update(ownerReferences=[])), UNOWNED),
        (budget(change=lambda body: body["metadata"].update(ownerReferences=[OWNER])), UNOWNED),
        (
            budget(change=lambda body: body["metadata"].update(name="theirs")),
            "the name that follows from its owner's",
        ),
        (budget(change=lambda body: body["metadata"].update(namespace=SYSTEM)), "namespaces of Kubernetes"),
        (by_pods("efrit-crew-a-0", "database-0"), OTHERS),
        (selecting(), OTHERS),
        (selecting(matchLabels={"app": "database"}), OTHERS),
        (selecting(matchLabels={"efrit.dev/pool": "crew"}), OTHERS),
        (selecting(matchExpressions=[{"key": POD_NAME, "operator": "Exists"}]), OTHERS),
        (selecting(matchExpressions=[{"key": POD_NAME, "operator": "NotIn", "values": ["efrit-crew-a-0"]}]), OTHERS),
        (selecting(matchExpressions=[{"key": "app", "operator": "DoesNotExist"}]), OTHERS),
    ],
)
def test_the_controller_keeps_only_pods_of_instances_from_being_evicted(
    controller: Account, body: Json, message: str
) -> None:
    status, text = controller.write("POST", resource_of(body).path(body["metadata"]["namespace"]) + DRY_RUN, body)
    assert (status, message in text) == (422 if message else 201, True), text


def test_the_controller_does_not_make_a_budget_of_somebody_else_its_own(
    admin: tuple[ControlPlane, Kube], controller: Account
) -> None:
    body = budget("crew-a")
    path = resource_of(body).path(TEAM)
    admin[1].call("POST", path, budget(change=lambda body: body["metadata"].update(ownerReferences=[], labels={})))
    apply = f"{path}/efrit-crew?fieldManager=x&force=true"
    status, text = controller.write("PATCH", apply, body, "apply-patch+yaml")
    assert (status, UNOWNED in text) == (422, True), text
    # What an orphaned one of its own looks like: that it takes over.
    for labels, owners, refused in (
        (body["metadata"]["labels"], [], False),
        ({**body["metadata"]["labels"], "efrit.dev/pool": "other"}, [], True),
        (body["metadata"]["labels"], [{**OWNER, "controller": False}], True),
    ):
        admin[1].call("DELETE", f"{path}/efrit-crew")
        other = {**body, "metadata": {**body["metadata"], "labels": labels, "ownerReferences": owners}}
        admin[1].call("POST", path, other)
        status, text = controller.write("PATCH", apply, body, "apply-patch+yaml")
        assert (status, UNOWNED in text) == ((422, True) if refused else (200, False)), text


def member(*owners: Json, name: str = "crew-x1", namespace: str = TEAM, pool: str = "crew") -> Json:
    labels = {"efrit.dev/pool": pool}
    metadata = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": list(owners)}
    return INSTANCES.manifest(metadata, spec={})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (member(POOL), ""),
        ({**member(POOL), "metadata": {**member(POOL)["metadata"], "name": None, "generateName": "crew-"}}, ""),
        (member(), UNOWNED),
        (member({**POOL, "controller": False}), UNOWNED),
        (member(OWNER), UNOWNED),
        (member(POOL, name="other-x1"), "which have its name and label"),
        (member(POOL, pool="other"), "which have its name and label"),
        (member(POOL, namespace=HOME), "no instances in its own namespace"),
        (member(POOL, namespace=SYSTEM), "writes nothing in the namespaces of Kubernetes"),
    ],
)
def test_the_controller_creates_only_the_instances_of_pools(controller: Account, body: Json, message: str) -> None:
    status, text = controller.create(body)
    assert (status, message in text) == (422 if message else 201, True), text


def refusal_of(kube: Kube, where: str, method: str, name: str, body: Json | None, **options: str) -> str:
    """Return what a call of the administrator is refused with, nothing where it is not."""
    try:
        kube.call(method, f"{where}{name}", body, **options)
    except ApiError as refused:
        return refused.sentence
    return ""


def test_nobody_but_the_controller_makes_an_instance_a_member_of_a_pool(
    controller: Account, admin: tuple[ControlPlane, Kube]
) -> None:
    refusal = functools.partial(refusal_of, admin[1], INSTANCES.path(TEAM))
    alone = "alone makes the members of an EfritPool"

    until(lambda: alone in refusal("POST", "", member(POOL, name="crew-f1"), dryRun="All"), "no policy holds")
    assert alone in refusal("POST", "", member({**POOL, "controller": False}, name="crew-f1"))
    # The label alone makes no member of a pool.
    assert refusal("POST", "", member(name="crew-f1")) == ""
    for owner in (POOL, CLAIM):
        forged = {"metadata": {"ownerReferences": [owner]}}
        assert alone in refusal("PATCH", "/crew-f1", forged, content_type=MERGE_PATCH)

    assert controller.create(member(POOL, name="crew-m1"))[0] == 201
    for change in ({"labels": {"mine": "x"}}, {"ownerReferences": None}):
        assert refusal("PATCH", "/crew-m1", {"metadata": change}, content_type=MERGE_PATCH) == ""


def template(*owners: Json, name: str = "crew-abc", namespace: str = TEAM, **labels: str) -> Json:
    """Return what keeps a template of a pool."""
    metadata = {"name": name, "namespace": namespace, "ownerReferences": list(owners), "labels": labels}
    return CONTROLLER_REVISIONS.manifest(metadata, data={}, revision=1)


ONLY_POOLS = "only ControllerRevisions of an EfritPool"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (template(POOL), ""),
        (template(), ONLY_POOLS),
        (template(OWNER), ONLY_POOLS),
        (template(resources.STATEFULSETS.reference("crew", "p", controller=True)), ONLY_POOLS),
        (template(POOL, name="other-abc"), ONLY_POOLS),
        (template(POOL, namespace=SYSTEM), "writes nothing in the namespaces of Kubernetes"),
    ],
)
def test_the_controller_keeps_only_templates_of_pools(controller: Account, body: Json, message: str) -> None:
    until(lambda: ONLY_POOLS in controller.create(template())[1], "no policy holds")
    path = resource_of(body).path(body["metadata"]["namespace"]) + DRY_RUN
    status, text = controller.write("POST", path, body)
    assert (status, message in text) == (422 if message else 201, True), text


def test_the_controller_neither_changes_nor_deletes_what_a_stateful_set_can_go_back_to(
    controller: Account, admin: tuple[ControlPlane, Kube]
) -> None:
    where = CONTROLLER_REVISIONS.path(TEAM)
    until(lambda: ONLY_POOLS in controller.create(template())[1], "no policy holds")
    admin[1].call("POST", where, template(name="crew-theirs"))
    # Its role has no right to change one.
    assert controller.write("PATCH", f"{where}/crew-theirs", {"revision": 9}, "merge-patch+json")[0] == 403
    status, text = controller.write("DELETE", f"{where}/crew-theirs", {})
    assert (status, ONLY_POOLS in text) == (422, True), text
    assert controller.write("POST", where, template(POOL, name="crew-ours"))[0] == 201
    assert controller.write("DELETE", f"{where}/crew-ours", {})[0] == 200


def test_nobody_but_the_controller_keeps_a_template_of_a_pool(
    controller: Account, admin: tuple[ControlPlane, Kube]
) -> None:
    where = CONTROLLER_REVISIONS.path(TEAM)
    refusal = functools.partial(refusal_of, admin[1], where)
    alone = "alone keeps the templates of an EfritPool"

    until(lambda: alone in refusal("POST", "", template(POOL, name="crew-f"), dryRun="All"), "no policy holds")
    for owner in ({**POOL, "controller": False}, {**POOL, "apiVersion": "x.example/v1"}):
        assert alone in refusal("POST", "", template(owner, name="crew-f"))
    # Those of others are none of its concern.
    assert refusal("POST", "", template(name="crew-f")) == ""
    for owner in (POOL, {**POOL, "apiVersion": "x.example/v1"}):
        forged = {"metadata": {"ownerReferences": [owner]}}
        assert alone in refusal("PATCH", "/crew-f", forged, content_type=MERGE_PATCH)

    assert controller.write("POST", where, template(POOL, name="crew-t"))[0] == 201
    assert alone in refusal("PATCH", "/crew-t", {"revision": 7}, content_type=MERGE_PATCH)
    for change in ({"labels": {"mine": "x"}}, {"ownerReferences": None}):
        assert refusal("PATCH", "/crew-t", {"metadata": change}, content_type=MERGE_PATCH) == ""
    assert refusal("DELETE", "/crew-f", None) == ""


LABELS: dict[str, str] = build_revision(CREW, {}, "abc", 1)["metadata"]["labels"]


def test_nobody_but_the_controller_makes_what_it_reads_for_the_templates_of_a_pool(
    controller: Account, admin: tuple[ControlPlane, Kube]
) -> None:
    where = CONTROLLER_REVISIONS.path(TEAM)
    refusal = functools.partial(refusal_of, admin[1], where)
    alone = "alone makes ControllerRevisions with the labels"

    until(lambda: alone in refusal("POST", "", template(name="crew-g", **LABELS), dryRun="All"), "no policy holds")
    # A StatefulSet's has the labels of its pods, and the members of a pool have some of these.
    of_member = {**LABELS, "efrit.dev/instance": "crew-x1"}
    owner = resources.STATEFULSETS.reference("efrit-crew-x1", "s", controller=True)
    assert refusal("POST", "", template(owner, name="efrit-crew-x1-7f", **of_member)) == ""
    del of_member["efrit.dev/pool-revision"]
    assert refusal("POST", "", template(owner, name="efrit-crew-x1-8a", **of_member)) == ""
    assert refusal("POST", "", template(name="crew-g")) == ""
    assert alone in refusal("PATCH", "/crew-g", {"metadata": {"labels": LABELS}}, content_type=MERGE_PATCH)

    # A garbage collector leaves the labels as they are, and takes the owner away.
    assert controller.write("POST", where, template(POOL, name="crew-h", **LABELS))[0] == 201
    for change in ({"labels": {"mine": "x"}}, {"ownerReferences": None}, {"labels": {"mine": "y"}}):
        assert refusal("PATCH", "/crew-h", {"metadata": change}, content_type=MERGE_PATCH) == ""


CLAIM = resources.EXCLUSIVE_CLAIMS.reference("ada", "c", controller=True)
KEPT = "only from a pool's to a claim's or back"


@pytest.mark.parametrize(
    ("owners", "patch", "message"),
    [
        ([POOL], {"metadata": {"ownerReferences": [CLAIM], "labels": {"efrit.dev/claim": "ada"}}}, ""),
        ([CLAIM], {"metadata": {"ownerReferences": [POOL]}}, ""),
        ([POOL], {"metadata": {"ownerReferences": [CLAIM]}, "spec": {"operatingMode": "Suspended"}}, KEPT),
        ([], {"metadata": {"ownerReferences": [CLAIM]}}, KEPT),
        ([POOL], {"metadata": {"ownerReferences": [OWNER]}}, UNOWNED),
        ([POOL], {"metadata": {"ownerReferences": []}}, UNOWNED),
        ([], {"metadata": {"labels": {"a": "b"}}}, UNOWNED),
    ],
)
def test_the_controller_changes_of_an_instance_only_whose_it_is(
    admin: tuple[ControlPlane, Kube], controller: Account, owners: list[Json], patch: Json, message: str
) -> None:
    path = INSTANCES.path(TEAM, "crew-c1")
    if owners:
        assert controller.create(member(POOL, name="crew-c1"))[0] == 201
    else:
        admin[1].create("efritinstances", TEAM, member(name="crew-c1"))
    if owners == [CLAIM]:
        assert (
            controller.write("PATCH", path, {"metadata": {"ownerReferences": owners}}, "merge-patch+json")[0] == 200
        )
    status, text = controller.write("PATCH", path, patch, "merge-patch+json")
    admin[1].delete("efritinstances", TEAM, "crew-c1")
    assert (status, message in text) == (422 if message else 200, True), text


def test_the_controller_creates_no_instance_of_a_claim(controller: Account) -> None:
    status, text = controller.create(member(CLAIM, name="crew-x2"))
    assert (status, UNOWNED in text) == (422, True), text


def test_a_release_that_serves_its_own_namespace_makes_instances_there(account: Callable[[str], Account]) -> None:
    own = account("own-efrit-operator")
    for child in children(namespace=HOME, name="home"):
        status, text = own.create(child)
        assert status == 201, text
    assert own.create(secret("another", namespace=HOME))[0] == 422


PROJECTED = {"name": "p", "projected": {"sources": [{"secret": {"name": "theirs"}}]}}
NODE_PUBLISH = {"name": "c", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "theirs"}}}
FROM_SECRET = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "theirs", "key": "a"}}}


@pytest.mark.parametrize(
    "use",
    [
        lambda pod: pod["volumes"].append({"name": "s", "secret": {"secretName": "theirs"}}),
        lambda pod: pod["volumes"].append(PROJECTED),
        lambda pod: pod["volumes"].append(NODE_PUBLISH),
        lambda pod: pod["containers"][0]["env"].append(FROM_SECRET),
        lambda pod: pod["containers"][0].update(envFrom=[{"secretRef": {"name": "theirs"}}]),
        lambda pod: pod.update(imagePullSecrets=[{"name": "theirs"}]),
        lambda pod: pod.update(serviceAccountName="theirs"),
    ],
)
def test_with_granted_references_a_pod_uses_nothing_that_nobody_has_granted(
    account: Callable[[str], Account], admin: tuple[ControlPlane, Kube], use: Callable[[Any], object]
) -> None:
    strict, kube = account("strict-efrit-operator"), admin[1]
    body = changed("StatefulSet", use, name="strict")
    status, text = strict.create(body)
    assert (
        status,
        "theirs: system:serviceaccount:efrit-system:strict-efrit-operator needs the verb use" in text,
    ) == (
        422,
        True,
    ), text
    with granted(kube, "strict-efrit-operator"):
        path = resource_of(body).path(TEAM) + "?dryRun=All"
        until(lambda: strict.write("POST", path, body)[0] == 201, lambda: strict.write("POST", path, body)[1])


class granted(ExitStack):  # noqa: N801 - reads as what happens
    """`use` of what is called theirs, by a Role."""

    def __init__(self, kube: Kube, name: str) -> None:
        super().__init__()
        rule = {"apiGroups": [""], "resources": ["secrets", "serviceaccounts"], "resourceNames": ["theirs"]}
        metadata = {"metadata": {"name": "use"}}
        binding = {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "use"},
            "subjects": [{"kind": "ServiceAccount", "namespace": HOME, "name": name}],
        }
        role = {"rules": [{**rule, "verbs": ["use"]}]}
        for resource, body in ((resources.ROLES, role), (resources.ROLE_BINDINGS, binding)):
            kube.call("POST", resource.path(TEAM), {**metadata, **body})
            self.callback(kube.call, "DELETE", resource.path(TEAM, "use"))


def test_the_mcp_server_writes_nothing_else_even_with_every_right(
    account: Callable[[str], Account], admin: tuple[ControlPlane, Kube]
) -> None:
    body = {
        "metadata": {"name": "everything"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": HOME, "name": "efrit-operator-mcp"}],
    }
    admin[1].call("POST", resources.CLUSTER_ROLE_BINDINGS.path(), body)
    server, path = account("efrit-operator-mcp"), resources.SECRETS.path(TEAM)
    refusal = "writes only instances, requests and plans"
    until(lambda: refusal in server.write("POST", path + "?dryRun=All", secret("a"))[1], "the policy takes no hold")
    review = resources.TOKEN_REVIEWS.manifest({}, spec={"token": "t"})
    assert server.write("POST", resources.TOKEN_REVIEWS.path(), review)[0] == 201
    assert refusal in server.write("DELETE", f"{path}/theirs", None)[1]
