"""What an instance looks like in the cluster: a pod that may do nothing, and children that go with it."""

from __future__ import annotations

import pytest

from efrit.api.pool import REQUESTER
from efrit.errors import ApiError
from tests.e2e.instance import VOLUMES, Instance
from tests.support.kube import Json, Kube


@pytest.fixture(scope="module")
def instance(kube: Kube, shared_namespace: str) -> Instance:
    return Instance.create(kube, shared_namespace, "plain", **VOLUMES).wait_ready()


@pytest.fixture
def pod(instance: Instance) -> Json:
    pod = instance.pod()
    assert pod is not None
    return pod


def test_the_pod_runs_where_the_restricted_pod_security_standard_is_enforced(kube: Kube, pod: Json) -> None:
    namespace = kube.get("Namespace", None, pod["metadata"]["namespace"])
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    spec = {"containers": [{"name": "any", "image": "any", "securityContext": {"privileged": True}}]}
    with pytest.raises(ApiError, match="restricted"):
        kube.create("Pod", pod["metadata"]["namespace"], {"metadata": {"name": "any"}, "spec": spec})


def test_no_token_of_the_cluster_is_in_the_pod(instance: Instance, pod: Json) -> None:
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert instance.shell("ls /var/run/secrets/kubernetes.io 2>/dev/null || :") == ""
    assert not [volume for volume in pod["spec"]["volumes"] if "projected" in volume]


def test_the_root_file_system_is_read_only_and_nothing_runs_as_root(instance: Instance, pod: Json) -> None:
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
    assert instance.shell("touch /usr/here 2>/dev/null && echo written || :") == ""
    assert instance.value("(user-uid)") == "65532"


def test_emacs_reaches_neither_the_token_of_the_bridge_nor_its_key(instance: Instance) -> None:
    assert instance.value('(file-exists-p "/etc/efrit/bridge")') == "nil"


def test_emacs_works_in_the_workspace(instance: Instance) -> None:
    assert instance.value("default-directory") == '"/workspace/"'


def test_every_child_has_the_labels_and_is_owned_by_the_instance(kube: Kube, instance: Instance, pod: Json) -> None:
    uid = instance.get()["metadata"]["uid"]
    expected_labels = {"app.kubernetes.io/managed-by": "efrit-operator", "efrit.dev/instance": instance.name}
    names = {
        "StatefulSet": "efrit-plain",
        "ServiceAccount": "efrit-plain",
        "NetworkPolicy": "efrit-plain",
        "Secret": "efrit-plain-bridge",
        "PersistentVolumeClaim": "efrit-plain-queue",
    }
    for kind, name in names.items():
        metadata = kube.get(kind, instance.namespace, name)["metadata"]
        assert expected_labels.items() <= metadata["labels"].items(), f"{kind}: {metadata}"
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == [uid], f"{kind}: {metadata}"
        assert not metadata.get("finalizers") or kind == "PersistentVolumeClaim", f"{kind}: {metadata}"
    assert expected_labels.items() <= pod["metadata"]["labels"].items()


def test_instances_and_requests_carry_nothing_the_operator_has_written_but_status(instance: Instance) -> None:
    request = instance.send("1")
    request.wait()
    for obj in (instance.get(), request.get()):
        assert "finalizers" not in obj["metadata"]
        # The API server notes the requester, where the chart's policy has it do so (Kubernetes 1.36).
        noted = {REQUESTER} if obj["kind"] == "EfritRequest" else set()
        assert obj["metadata"].get("annotations", {}).keys() <= noted
        managers = {entry["manager"]: entry.get("subresource") for entry in obj["metadata"]["managedFields"]}
        assert sorted(manager for manager in managers.values() if manager) == ["status"], managers
