"""Names, labels, selectors and owners of the objects the controller makes: the one place that spells them."""

from __future__ import annotations

from typing import Any

from efrit.api import EfritInstance
from efrit.api_group import EMACS_CONTAINER as EMACS_CONTAINER
from efrit.api_group import GROUP
from efrit.api_group import POOL_LABEL as POOL_LABEL
from efrit.api_group import PREFIX as PREFIX
from efrit.api_group import QUEUE_DIR as QUEUE_DIR
from efrit.api_group import QUEUE_MOUNT as QUEUE_MOUNT
from efrit.api_group import REVISION_LABEL as REVISION_LABEL
from efrit.api_group import WORKSPACE as WORKSPACE
from efrit.api_group import pod_name as pod_name
from efrit.api_group import revision_name as revision_name
from efrit.api_group import statefulset_name as statefulset_name
from efrit.resources import INSTANCES

INSTANCE_LABEL = f"{GROUP}/instance"
CHILDREN_HASH = f"{GROUP}/children-hash"
TEMPLATE_HASH = f"{GROUP}/template-hash"
STATEFULSET_HASH = f"{GROUP}/statefulset-hash"
SPEC_HASH = f"{GROUP}/spec-hash"
RELEASE_HASH = f"{GROUP}/release-hash"
UPDATE_STARTED = f"{GROUP}/update-started"
UPDATE_TRIAL = f"{GROUP}/update-trial"
CLAIM_LABEL = f"{GROUP}/claim"
REQUEST_LABEL = f"{GROUP}/request"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
"""Kubernetes gives it to each pod of a StatefulSet."""
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "efrit-operator"
CHILD_SELECTOR = f"{MANAGED_BY_LABEL}={MANAGED_BY},{INSTANCE_LABEL}"
"""Label selector of all children of all instances."""
OPEN_SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of the requests and plans that are not final."""
NEW_SELECTOR = "status.phase="
"""Field selector of those without a status: nobody has worked on them."""
UNENDED_SELECTOR = "status.phase!=Expired,status.phase!=Released,status.phase!=Failed"
"""Field selector of the exclusive claims that have not ended."""
RESULT_KEY = "result"
"""Key of the data in the Secret of a result."""

BRIDGE_PORT = 8443
BRIDGE_PROBE_PORT = 8444
"""Without TLS, whose handshake costs more than all else that a probe asks for."""
USER_ID = 65532

DUMPS_DIR = f"{QUEUE_MOUNT}/dumps"
SHARED_DUMPS_DIR = "/var/lib/efrit-dumps"
SHARED = "/efrit"
HOME = "/home/efrit"
BRIDGE_SECRETS = "/etc/efrit/bridge"
MODEL_SECRETS = "/etc/efrit/model"
INIT_DIR = "/etc/efrit/init"


def instance_id(instance: EfritInstance) -> str:
    """Return the name an instance answers to in request files: `namespace/name`."""
    return f"{instance.metadata.namespace}/{instance.metadata.name}"


def child_name(instance: EfritInstance) -> str:
    """Return the name of the StatefulSet and the other children that there is one of."""
    return statefulset_name(instance.metadata.name)


def claim_name(instance: EfritInstance, volume: str) -> str:
    """Return the name of the claim made for `queue` or `workspace`."""
    return f"{child_name(instance)}-{volume}"


def claim_names(instance: str) -> tuple[str, str]:
    """Return the names that the claims of an instance of this name may have."""
    return f"{PREFIX}{instance}-queue", f"{PREFIX}{instance}-workspace"


def disruption_budget_name(pool: str) -> str:
    """Return the name of the PodDisruptionBudget of a pool of this name."""
    return f"{PREFIX}{pool}"


def instances_of(child: str) -> tuple[str, ...]:
    """Return the names of the instances that a child of this name may be of, whatever its labels say."""
    base = child.removeprefix(PREFIX)
    return base, base.removesuffix("-queue"), base.removesuffix("-workspace")


def secret_name(instance: EfritInstance) -> str:
    """Return the name of the Secret with the bridge's certificate and token."""
    return f"{child_name(instance)}-bridge"


def result_secret_name(request_uid: str) -> str:
    """Return the name of the Secret of a result, by UID: a request created again under its name gets another."""
    return f"efrit-result-{request_uid}"


def selector_labels(instance: EfritInstance) -> dict[str, str]:
    """Return the labels that select the instance's pod, and no other."""
    return {
        "app.kubernetes.io/name": "efrit-instance",
        MANAGED_BY_LABEL: MANAGED_BY,
        INSTANCE_LABEL: instance.metadata.name,
    }


def child_metadata(instance: EfritInstance, name: str) -> dict[str, Any]:
    """Return metadata of a child: labels and the instance as its controlling owner."""
    meta = instance.metadata
    return {
        "name": name,
        "namespace": meta.namespace,
        "labels": selector_labels(instance),
        "ownerReferences": [
            # Foreground deletion would otherwise need rights on the instance's finalizers.
            INSTANCES.reference(meta.name, meta.uid, controller=True, blockOwnerDeletion=False)
        ],
    }
