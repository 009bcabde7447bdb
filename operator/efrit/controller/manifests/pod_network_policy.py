"""The NetworkPolicy that one pod of an instance owns: it isolates the pod after the instance is gone.

The garbage collector deletes the instance's own policy with the instance, which its pod may outlive by minutes. This
one goes with the pod. Policies add up, so it takes nothing away as long as there is the other.
"""

from __future__ import annotations

from typing import Any

from efrit.api import EfritInstance
from efrit.controller.manifests.network_policy import operator_ingress
from efrit.controller.model.config import ControllerConfig
from efrit.controller.model.names import selector_labels
from efrit.resources import NETWORK_POLICIES, PODS


def build_pod_network_policy(
    instance: EfritInstance, config: ControllerConfig, pod_name: str, pod_uid: str
) -> dict[str, Any]:
    """Return the policy: the operator may reach the bridge for the last answers, all else is closed."""
    labels = selector_labels(instance)
    return NETWORK_POLICIES.manifest(
        {
            "name": f"{pod_name}-{pod_uid}",
            "namespace": instance.metadata.namespace,
            "labels": labels,
            "ownerReferences": [PODS.reference(pod_name, pod_uid)],
        },
        spec={
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [operator_ingress(config)],
        },
    )
