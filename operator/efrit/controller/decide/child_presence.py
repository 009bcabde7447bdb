"""Which children of an instance are gone, or going, though they were applied before."""

from __future__ import annotations

from collections.abc import Iterable, Set

from efrit.api import EfritInstance
from efrit.controller.manifests.volume_claims import build_volume_claims
from efrit.controller.model import names
from efrit.controller.model.keys import Key
from efrit.controller.model.snapshots import InstanceSnapshot


def missing_children(kind: str, instances: Iterable[EfritInstance], listed_keys: Set[Key]) -> list[Key]:
    """Return the keys of the instances whose child of a kind is not among `listed_keys` (namespace, child).

    kind: "ServiceAccount" or "NetworkPolicy". Every instance must have been applied before `listed_keys` was listed.
    """
    return [
        instance.key
        for instance in instances
        if _has(kind, instance) and (instance.metadata.namespace, names.child_name(instance)) not in listed_keys
    ]


def _has(kind: str, instance: EfritInstance) -> bool:
    return kind != "ServiceAccount" or instance.spec.pod_template.service_account_name is None


def missing_claims(snapshot: InstanceSnapshot) -> list[str]:
    """Return the names of the claims that the instance is to have and has not."""
    there = {claim.name for claim in snapshot.claims}
    return [name for name in _claims(snapshot) if name not in there]


def observed_claims(snapshot: InstanceSnapshot) -> tuple[str, ...]:
    """Return the names of the instance's claims that are there, as far as the watch has reported."""
    there = {claim.name for claim in snapshot.claims}
    return tuple(name for name in _claims(snapshot) if name in there)


def terminating_claims(snapshot: InstanceSnapshot) -> list[str]:
    """Return the names of the instance's claims that are being deleted: nothing may start on them."""
    terminating = {claim.name for claim in snapshot.claims if claim.terminating}
    return [name for name in _claims(snapshot) if name in terminating]


def secret_due(snapshot: InstanceSnapshot) -> bool:
    """Return whether to apply the Secret again: its turn has come, or the pod reports that it is missing.

    The controller has no right to look for it.
    """
    if snapshot.facts.secret_check:
        return True
    explained_time, applied_time = snapshot.facts.explained_time, snapshot.facts.secret_applied_time
    reported = f'secret "{names.secret_name(snapshot.instance)}" not found' in (snapshot.facts.problem or "")
    return reported and (explained_time is None or applied_time is None or applied_time < explained_time)


def _claims(snapshot: InstanceSnapshot) -> list[str]:
    return [claim["metadata"]["name"] for claim in build_volume_claims(snapshot.instance)]
