"""The child objects of an instance: pure builders, one file per kind.

`build` returns them in the order they are applied. Each carries an ownerReference, so that deleting the instance
cleans up even while the operator is away.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from efrit import __version__
from efrit.api import EfritInstance, InstanceStatus
from efrit.api.meta import ObjectMeta, rfc3339
from efrit.controller.manifests.bridge_secret import build_secret
from efrit.controller.manifests.network_policy import build_network_policy
from efrit.controller.manifests.service_account import build_service_account
from efrit.controller.manifests.statefulset import build_statefulset
from efrit.controller.manifests.volume_claims import build_volume_claims
from efrit.controller.model import names
from efrit.controller.model.config import ControllerConfig
from efrit.controller.model.credentials import Credentials, Identity, credentials

__all__ = ["Children", "Identity", "build", "digest_of", "release_digest"]

NOT_IN_TEMPLATE: Any = {
    "operating_mode": True,
    "idle": True,
    "network": True,
    "queue": {"storage"},
    "workspace": {"storage"},
}
"""Parts of an instance's spec that its pod template does not depend on."""
MAX_BUILT = 16
"""Instances whose children are not built again while nothing of theirs changes: those that were built for last."""
LARGEST_BUILT_BYTES = 32 * 1024
"""Children that have more as JSON are built each time."""


@dataclass(frozen=True, slots=True)
class Children:
    """The manifests, and the digests that tell which of them differ from those applied."""

    others: tuple[Mapping[str, Any], ...]
    """Every child but the StatefulSet, in the order they are applied."""
    statefulset: Mapping[str, Any]
    digest: str
    """Of the other children."""
    statefulset_digest: str
    template_digest: str
    """Of the pod template: a pod with another one must be replaced."""
    spec_digest: str
    """Of what the user decides in the template."""
    release_digest: str
    """Of what the installation decides in the template."""

    @property
    def manifests(self) -> tuple[Mapping[str, Any], ...]:
        """All child objects, the StatefulSet last: its pod needs the others."""
        return (*self.others, self.statefulset)

    def statefulset_manifest(self, update_started: datetime | None = None, *, trial: bool = False) -> dict[str, Any]:
        """Return the StatefulSet; with `update_started`, marked as the update of a running pod that began then."""
        meta = self.statefulset["metadata"]
        annotations = dict(meta["annotations"])
        if update_started is not None:
            annotations |= {names.UPDATE_STARTED: rfc3339(update_started), names.UPDATE_TRIAL: str(trial).lower()}
        return {**self.statefulset, "metadata": {**meta, "annotations": annotations}}


def build(
    instance: EfritInstance, config: ControllerConfig, identity: Identity, replicas: int, now: datetime
) -> Children:
    """Return the child objects of an instance, which nobody changes.

    Equal arguments within a certificate's period give equal objects.
    """
    meta = instance.metadata
    # What is built of is in what is compared, by construction.
    bare = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid, labels=meta.labels)
    instance = instance.model_copy(update={"metadata": bare, "status": _NO_STATUS})
    inputs = _Inputs(instance, config, credentials(identity, meta.uid, now), replicas)
    built = _built.get(meta.uid)
    if built is not None and built[0] == inputs:  # gate: built-before
        _built.move_to_end(meta.uid)
        return built[1]
    children, size = _build(inputs)
    _built.pop(meta.uid, None)
    if size <= LARGEST_BUILT_BYTES:  # gate: built-size
        _built[meta.uid] = inputs, children
    if len(_built) > MAX_BUILT:
        _built.popitem(last=False)
    return children


class _Inputs(NamedTuple):
    """All that the children of an instance are built of."""

    instance: EfritInstance
    """Without its status, and what changes with each version of it."""
    config: ControllerConfig
    credentials: Credentials
    replicas: int


_NO_STATUS = InstanceStatus()
_built: OrderedDict[str, tuple[_Inputs, Children]] = OrderedDict()
"""By UID."""


def _build(inputs: _Inputs) -> tuple[Children, int]:
    """Return the children, and how many bytes of JSON they have."""
    instance, config, issued, replicas = inputs
    statefulset = build_statefulset(instance, config, replicas)
    template = statefulset["spec"]["template"]
    template_digest = digest_of(template)
    # The pod says by this which template it has.
    template["metadata"]["annotations"][names.TEMPLATE_HASH] = template_digest
    own_account = instance.spec.pod_template.service_account_name is None
    others = [
        *([build_service_account(instance)] if own_account else []),
        build_secret(instance, issued),
        build_network_policy(instance, config),
        *build_volume_claims(instance),
    ]
    others_text, statefulset_text = _canonical(others), _canonical(statefulset)
    digest, statefulset_digest = _digest(others_text), _digest(statefulset_text)
    # Without defaults: those may change with the operator's version, which is not a change by the user.
    spec = instance.spec.model_dump(mode="json", exclude_defaults=True, exclude=NOT_IN_TEMPLATE)
    spec_digest, release = digest_of({key: part for key, part in spec.items() if part != {}}), release_digest(config)
    statefulset["metadata"]["annotations"] = {
        names.CHILDREN_HASH: digest,
        names.STATEFULSET_HASH: statefulset_digest,
        names.TEMPLATE_HASH: template_digest,
        names.SPEC_HASH: spec_digest,
        names.RELEASE_HASH: release,
    }
    children = Children(tuple(others), statefulset, digest, statefulset_digest, template_digest, spec_digest, release)
    return children, len(others_text) + len(statefulset_text)


def release_digest(config: ControllerConfig) -> str:
    """Return a digest of what the installation decides in every pod template, the operator's version included."""
    parts = (config.bridge_image, config.emacs_image, config.image_pull_policy, config.image_pull_secrets)
    return digest_of([__version__, *parts, config.bridge_resources, config.emacs_resources])


def digest_of(data: object) -> str:
    """Return a digest of JSON data, which equal data share."""
    return _digest(_canonical(data))


def _canonical(data: object) -> bytes:
    return json.dumps(data, sort_keys=True).encode()


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:32]
