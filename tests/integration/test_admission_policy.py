"""The chart's admission policy on a real API server: what the controller may not do, whatever its roles say."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import httpx
import pytest

from efrit.api import API_VERSION
from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane
from tests.cluster.paths import REPOSITORY
from tests.cluster.progress import run
from tests.support import yaml_documents
from tests.support.chart import token
from tests.support.kube import Json, Kube, until
from tests.support.timeout import TIMEOUT

HOME, TEAM, SYSTEM = "efrit-system", "team", "kube-system"
INSTALLED = {
    "ServiceAccount": "/api/v1/namespaces/efrit-system/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/efrit-system/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/efrit-system/rolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
OWNER = {"apiVersion": API_VERSION, "kind": "EfritInstance", "name": "one", "uid": "u", "controller": True}
UNOWNED = "writes only what an EfritInstance or an EfritRequest owns"


@dataclass
class Account:
    """The controller's account, with all that the chart gives it."""

    client: httpx.Client

    def write(self, method: str, path: str, body: Json, kind: str = "json") -> tuple[int, str]:
        """Return the status and the message of the answer."""
        answer = self.client.request(method, path, json=body, headers={"Content-Type": f"application/{kind}"})
        return answer.status_code, str(answer.json().get("message", ""))


def secret(name: str, *owners: Json, type_: str = "Opaque", **annotations: str) -> Json:
    metadata = {"name": name, "ownerReferences": list(owners), "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": type_}


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    """An account on an API server of its own: the policy is for the whole cluster."""
    programs.ensure_go_programs(["helm"])
    chart = REPOSITORY / "charts" / "efrit-operator"
    text = run([programs.program("helm"), "template", "efrit-operator", chart, "-n", HOME])
    with ControlPlane() as plane, closing(Kube(plane)) as kube:
        for namespace in (HOME, TEAM):
            kube.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for each in yaml_documents.load_all(text):
            if each is not None and each["kind"] in INSTALLED:
                kube.call("POST", INSTALLED[each["kind"]], each)
        kube.call("POST", f"/api/v1/namespaces/{TEAM}/secrets", secret("theirs"))
        bearer = token(kube, HOME, "efrit-operator")
        context = ssl.create_default_context(cafile=str(plane.authority.ca))
        headers = {"Authorization": f"Bearer {bearer}"}
        with httpx.Client(
            base_url=plane.url,
            verify=context,
            headers=headers,
            timeout=TIMEOUT,
            trust_env=False,
        ) as client:
            made = Account(client)
            path = f"/api/v1/namespaces/{TEAM}/secrets?dryRun=All"
            until(lambda: made.write("POST", path, secret("probe"))[0] == 422, "the policy takes no hold")
            yield made


@pytest.mark.parametrize(
    ("namespace", "body", "message"),
    [
        (TEAM, secret("efrit-one-bridge", OWNER), ""),
        (TEAM, secret("efrit-result-u", {**OWNER, "kind": "EfritRequest"}, type_="efrit.dev/result"), ""),
        (HOME, secret("efrit-operator-identity"), ""),
        (HOME, secret("another"), UNOWNED),
        (TEAM, secret("efrit-operator-identity"), UNOWNED),
        (TEAM, secret("a", {**OWNER, "controller": False}), UNOWNED),
        (TEAM, secret("a", {**OWNER, "apiVersion": "v1", "kind": "Secret"}), UNOWNED),
        (
            SYSTEM,
            secret("a", OWNER),
            "writes nothing in the namespaces of Kubernetes",
        ),
        (
            TEAM,
            secret(
                "a",
                OWNER,
                type_="kubernetes.io/service-account-token",
                **{"kubernetes.io/service-account.name": "default"},
            ),
            "only Secrets of type Opaque",
        ),
    ],
)
def test_the_controller_creates_only_secrets_of_ours(
    account: Account, namespace: str, body: Json, message: str
) -> None:
    status, said = account.write("POST", f"/api/v1/namespaces/{namespace}/secrets", body)
    assert (status, message in said) == (422 if message else 201, True), said


def test_the_controller_cannot_make_a_secret_of_somebody_else_its_own(account: Account) -> None:
    path = f"/api/v1/namespaces/{TEAM}/secrets/theirs"
    body = {"metadata": {"ownerReferences": [OWNER]}}
    assert UNOWNED in account.write("PATCH", path, body, "merge-patch+json")[1]


@pytest.mark.parametrize("plural", ["serviceaccounts", "persistentvolumeclaims"])
def test_the_controller_creates_no_other_object_without_an_owner(account: Account, plural: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "a"}, **({"spec": spec} if plural != "serviceaccounts" else {})}
    assert UNOWNED in account.write("POST", f"/api/v1/namespaces/{TEAM}/{plural}", body)[1]
