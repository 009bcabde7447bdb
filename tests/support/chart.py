"""What the chart gives the controller: its rights and its environment. The tests run it with exactly these."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from efrit.resources import INSTANCES, LEASES, resource_named, resource_of
from tests.cluster import programs
from tests.cluster.paths import REPOSITORY
from tests.cluster.progress import run
from tests.support import yaml_documents
from tests.support.kube import Json, Kube
from tests.support.rights import until_allowed

PLACEHOLDER = "namespace-of-the-test"
OTHER = "other-namespace-of-the-test"
RELEASE = "efrit"
IMAGES = "image.repository=efrit/operator,emacsImage.repository=efrit/emacs"
INSTALLED = ("ServiceAccount", "Role", "RoleBinding")
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding")


@dataclass(frozen=True)
class Installed:
    """The controller's account and environment in one namespace."""

    account: str
    env: dict[str, str]


@functools.cache
def _rendered(others: int, *, everywhere: bool = False) -> str:
    programs.ensure_go_programs(["helm"])
    watched = ",".join([PLACEHOLDER, *(f"{number}-{OTHER}" for number in range(others))])
    # What reads metrics with a token has rights in the whole cluster, as everything has there.
    served = "metrics.auth=true," if everywhere else f"watchNamespaces={{{watched}}},"
    settings = f"{served}crds.install=false,rbac.userRoles=false"
    chart = REPOSITORY / "charts" / "efrit-operator"
    return run(
        [programs.program("helm"), "template", RELEASE, chart, "-n", PLACEHOLDER, "--set", settings, "--set", IMAGES]
    )


def install(kube: Kube, namespace: str, others: Sequence[str] = (), *, everywhere: bool = False) -> Installed:
    """Make the account and the roles for a controller that lives in, and serves, one namespace, and serves others.

    everywhere: it serves the whole cluster, by a ClusterRole, and its metrics take a token. Returns once the API
    server knows what it may do.
    """
    text = _rendered(len(others), everywhere=everywhere)
    for number, name in enumerate(others):
        text = text.replace(f"{number}-{OTHER}", name)
    text = text.replace(PLACEHOLDER, namespace)
    documents: list[Json] = [document for document in yaml_documents.load_all(text) if document is not None]
    for document in documents:
        if document["kind"] in INSTALLED:
            kube.create(
                resource_named(document["kind"]).plural, document["metadata"].get("namespace", namespace), document
            )
        elif document["kind"] in CLUSTER_WIDE:
            kube.call("POST", resource_of(document).path(), document)
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    account = str(pod["serviceAccountName"])
    for where in ("",) if everywhere else (namespace, *others):
        until_allowed(kube, namespace, account, "list", INSTANCES, where)
    until_allowed(kube, namespace, account, "create", LEASES, namespace)
    env = {variable["name"]: variable["value"] for variable in pod["containers"][0]["env"] if "value" in variable}
    return Installed(account, {**env, "EFRIT_OPERATOR_NAMESPACE": namespace})


def install_policies(kube: Kube, namespace: str) -> None:
    """Make the admission policies for a controller that lives in, and serves, one namespace."""
    for document in yaml_documents.load_all(_rendered(0).replace(PLACEHOLDER, namespace)):
        if document is not None and document["kind"].startswith("ValidatingAdmissionPolicy"):
            kube.call("POST", resource_of(document).path(), document, fieldValidation="Strict")


def serve(kube: Kube, home: str, namespace: str) -> None:
    """Give the controller that lives in `home` its rights in one more namespace, as the chart would."""
    for document in yaml_documents.load_all(_rendered(0).replace(PLACEHOLDER, home)):
        if document is not None and _is_served_namespaces_rule(document):
            kube.create(
                resource_named(document["kind"]).plural,
                namespace,
                {**document, "metadata": {"name": document["metadata"]["name"]}},
            )


def refuse(kube: Kube, namespace: str) -> None:
    """Take from every controller its rights in a namespace."""
    for rbac_object in kube.list("rolebindings", namespace):
        kube.delete("rolebindings", namespace, rbac_object["metadata"]["name"])
    for rbac_object in kube.list("roles", namespace):
        kube.delete("roles", namespace, rbac_object["metadata"]["name"])


def _is_served_namespaces_rule(document: Json) -> bool:
    return document["kind"] in ("Role", "RoleBinding") and not document["metadata"]["name"].endswith("own-namespace")


def token(kube: Kube, namespace: str, account: str) -> str:
    """Return a token of the account, as the kubelet would mount it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = kube.call("POST", kube.path("serviceaccounts", namespace, account, "token"), body)
    token: str = answer["status"]["token"]
    return token
