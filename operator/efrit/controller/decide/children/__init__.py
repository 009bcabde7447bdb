"""The child objects of an instance: pure builders, one file per kind.

`build` returns them in the order they are applied. Each carries an ownerReference, so that deleting the instance
cleans up even while the operator is away.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from efrit.api import EfritInstance
from efrit.controller.decide.children.claims import build_claims
from efrit.controller.decide.children.credentials import Identity, credentials
from efrit.controller.decide.children.naming import CHILDREN_HASH, TEMPLATE_HASH
from efrit.controller.decide.children.network_policy import build_network_policy
from efrit.controller.decide.children.secret import build_secret
from efrit.controller.decide.children.service_account import build_service_account
from efrit.controller.decide.children.statefulset import build_statefulset
from efrit.controller.decide.views import ControllerConfig

__all__ = ["Children", "Identity", "build"]


@dataclass(frozen=True, slots=True)
class Children:
    """The manifests and what tells whether they, or the pod among them, differ from those applied."""

    manifests: tuple[Mapping[str, Any], ...]
    digest: str
    template_digest: str


def build(
    instance: EfritInstance, config: ControllerConfig, identity: Identity, replicas: int, now: datetime
) -> Children:
    """Return the child objects of an instance. Equal arguments within a certificate's period give equal objects."""
    statefulset = build_statefulset(instance, config, replicas)
    template_digest = _digest(statefulset["spec"]["template"])
    own_account = instance.spec.pod_template.service_account_name is None
    manifests = [
        *([build_service_account(instance)] if own_account else []),
        build_secret(instance, credentials(identity, instance.metadata.uid, now)),
        build_network_policy(instance, config),
        *build_claims(instance),
    ]
    digest = _digest([*manifests, statefulset])
    statefulset["metadata"]["annotations"] = {CHILDREN_HASH: digest, TEMPLATE_HASH: template_digest}
    return Children((*manifests, statefulset), digest, template_digest)


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]
