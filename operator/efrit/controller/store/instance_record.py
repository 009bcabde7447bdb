"""What the store keeps of one instance: the object, its children, its bridge and its requests."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from efrit.api import EfritClaim, EfritInstance, EfritPool, condition_of
from efrit.api.instance import READY, UPDATED
from efrit.controller.model import names
from efrit.controller.model.instance_facts import InstanceFacts
from efrit.controller.model.keys import Key
from efrit.controller.model.views import BridgeView, ClaimView, PodView, StatefulSetView
from efrit.controller.store.backlog import Backlog
from efrit.controller.store.packed_spec import pack, unpack
from efrit.controller.store.records import ObjectRecord
from efrit.controller.store.request_views import RequestViews

MAX_POD_OWNERS = 4
"""A StatefulSet that was deleted may still have a pod that stops; older ones have none."""


class AppliedChild(NamedTuple):
    """What was last applied of a child: the digest of its manifest, and the version that came of it."""

    digest: str
    version: int


class PoolOwner(NamedTuple):
    """The EfritPool of the same namespace that owns an instance, whatever has the UID that the instance names."""

    key: Key
    uid: str


class ClaimOwner(NamedTuple):
    """The EfritClaim that owns an instance."""

    key: Key
    uid: str


class Work(NamedTuple):
    """Whether an instance has something to do, and whether a suspended plan lives on it."""

    active: bool = False
    suspended: bool = False


def new_handover_id() -> str:
    """Return an id that no process has used before."""
    return secrets.token_hex(8)


@dataclass(slots=True)
class InstanceRecord(ObjectRecord[EfritInstance | None]):
    """What is known around one instance; `object` is None while only its children were seen."""

    object: EfritInstance | None = None
    """Without what may be large of its spec."""
    packed_spec: bytes | None = None
    pool: PoolOwner | None = None
    """The pool that it is a member of: that which owns it, unless an exclusive claim takes it."""
    pool_in_object: PoolOwner | None = None
    """The pool that owns it, as its object says."""
    sole_owner: bool = False
    """Whether it has one owner and no more."""
    claim: ClaimOwner | None = None
    """The exclusive claim that owns it."""
    taken_by: Key | None = None
    """The exclusive claim that is becoming its owner, until it is known whether it has."""
    too_large: bool = False
    """Whether its spec is larger than anything is made of."""
    statefulset: StatefulSetView | None = None
    pod: PodView | None = None
    """The pod of the name that the StatefulSet's has; `own_pod` says whether it is that."""
    pod_owners: dict[str, None] = field(default_factory=dict)
    """UIDs of the instance's StatefulSets, the newest last."""
    claims: dict[str, ClaimView] = field(default_factory=dict)
    bridge: BridgeView = field(default_factory=BridgeView)
    figures_taken: float = -math.inf
    """When it was, or will be, reconciled because of figures alone, on the monotonic clock."""
    facts: InstanceFacts = field(default_factory=lambda: InstanceFacts(handover_id=new_handover_id()))
    views: RequestViews = field(default_factory=RequestViews)
    submitting: int = 0
    """Hand-overs whose outcome is not known yet."""
    replacing: bool = False
    """Whether a StatefulSet that may replace the pod is being applied, or was and nobody knows whether it is."""
    removals: int = 0
    """Deletions of it that are under way."""
    open_requests: set[Key] = field(default_factory=set)
    recorded_requests: set[Key] = field(default_factory=set)
    """Those of them whose status names the queue that they are being handed to."""
    backlog: Backlog = field(default_factory=Backlog)
    work: Work = field(default_factory=Work)
    pod_started: datetime | None = None
    """When the pod started that `facts.first_ready` is about, as its status says."""
    newest_uid: str | None = None
    """UID of the newest EfritInstance of the name, though it is gone."""
    deleted_uid: str | None = None
    """UID of the EfritInstance that this process has deleted: what the watch still reports of it is late."""
    failures: int = 0
    """How often in a row the API server failed over its children."""
    children_seen: dict[tuple[str, str], int] = field(default_factory=dict)
    """Newest resource version seen of each child, by kind and name, those included that are gone."""
    children_applied: dict[tuple[str, str], AppliedChild] = field(default_factory=dict)
    """What this process has applied of the children whose versions are seen, by kind and name."""

    @property
    def instance(self) -> EfritInstance | None:
        """The object, without what may be large of its spec."""
        return self.object

    def store_instance(self, instance: EfritInstance) -> str | None:
        """Keep an instance; return why nothing is made of it, None where something is."""
        self.pool_in_object = pool_owner(instance)
        self.pool = self.pool_in_object if self.taken_by is None else None
        self.sole_owner = len(instance.metadata.owner_references) == 1
        self.claim = claim_owner(instance)
        self.object, self.packed_spec, refusal = pack(instance)
        self.too_large = refusal is not None
        return refusal

    def whole_instance(self) -> EfritInstance | None:
        """Return the object with all of its spec, unless that is too large."""
        return unpack(self.object, self.packed_spec) if self.object is not None else None

    def accept_version(self, kind: str, child: Mapping[str, Any]) -> bool:
        """Return whether this is later than all that was seen of a child of the name; remembers it if it is."""
        meta = child["metadata"]
        version = str(meta.get("resourceVersion", ""))
        if not version.isdigit():
            return True
        place = kind, str(meta["name"])
        if int(version) <= self.children_seen.get(place, 0):  # gate: child-version
            return False
        self.children_seen[place] = int(version)
        return True

    def accept_again(self, kind: str, name: str) -> None:
        """Have a child that was not found accepted as it was seen last: it may be there all the same."""
        seen = self.children_seen.get((kind, name))
        if seen is not None:
            self.children_seen[kind, name] = seen - 1  # gate: child-again

    def observe_owner(self, statefulset: StatefulSetView) -> None:
        """Remember a StatefulSet as one that may own the pod of the instance, if the instance owns it."""
        if self.instance is None or statefulset.owner_uid != self.instance.metadata.uid:
            return
        self.pod_owners.pop(statefulset.uid, None)
        self.pod_owners[statefulset.uid] = None
        if len(self.pod_owners) > MAX_POD_OWNERS:
            del self.pod_owners[next(iter(self.pod_owners))]

    @property
    def own_statefulset(self) -> StatefulSetView | None:
        """The StatefulSet, if the instance owns it: anyone may create one with its labels."""
        if self.instance is None or self.statefulset is None:
            return None
        return self.statefulset if self.statefulset.owner_uid == self.instance.metadata.uid else None

    @property
    def takes_work(self) -> bool:
        """Whether its Emacs claims requests, and goes on to: it is not being deleted, nor its pod stopped."""
        stays = not self.removals and not (self.pod is not None and self.pod.deleting)  # gate: removal-room
        return self.bridge.takes_work and stays

    @property
    def disk_takes_work(self) -> bool:
        """Whether its bridge reports no problem of the volume of its queue."""
        stats = self.bridge.stats
        return stats is None or stats.disk is None or stats.disk.problem is None

    @property
    def own_pod(self) -> PodView | None:
        """The pod, if a StatefulSet of the instance owns it, one that is deleted by now included."""
        return self.pod if self.pod is not None and self.pod.owner_uid in self.pod_owners else None

    @property
    def unfinished(self) -> int:
        """Return at least how many requests the pod's end would cut off, in the queue or on their way to it.

        A request that is recorded on an ephemeral queue counts until it is final: it may be handed over any moment.
        """
        ephemeral = self.instance is not None and bool(self.instance.spec.queue.ephemeral)
        return self.submitting + self.views.unfinished + (len(self.recorded_requests) if ephemeral else 0)

    @property
    def empty(self) -> bool:
        """Whether nothing is left to remember."""
        parts = (self.instance, self.statefulset, self.pod, self.claims, self.views, self.open_requests)
        return not any(parts) and self.bridge.pod_uid is None and not self.submitting


def pool_owner(instance: EfritInstance) -> PoolOwner | None:
    """Return the pool that controls an instance."""
    meta = instance.metadata
    pools = (owner for owner in meta.owner_references if owner.kind == EfritPool.kind and owner.controller)
    return next((PoolOwner((meta.namespace, owner.name), owner.uid) for owner in pools), None)


def claim_owner(instance: EfritInstance) -> ClaimOwner | None:
    """Return the exclusive claim that controls an instance."""
    meta = instance.metadata
    claims = (owner for owner in meta.owner_references if owner.kind == EfritClaim.kind and owner.controller)
    return next((ClaimOwner((meta.namespace, owner.name), owner.uid) for owner in claims), None)


def scheduling_fingerprint(instance: EfritInstance) -> tuple[object, ...]:
    """Return what of an instance its requests, and those that look for one, may have been waiting for.

    Its figures are not among it: they are written every few seconds while it works, however many requests wait.
    """
    meta, status = instance.metadata, instance.status
    ready = condition_of(status.conditions, READY)
    ready_state = (ready.status, ready.reason) if ready else None
    updated = condition_of(status.conditions, UPDATED)
    updated_state = (updated.status, updated.reason) if updated else None
    asleep = bool(status.suspended_idle)
    return (
        meta.uid,
        meta.generation,
        meta.deletion_timestamp,
        meta.labels,
        asleep,
        ready_state,
        updated_state,
        status.handover,
    )


def instance_key(child: Mapping[str, Any]) -> Key | None:
    """Return the instance that a child's labels name."""
    meta = child["metadata"]
    name = meta.get("labels", {}).get(names.INSTANCE_LABEL)
    return (meta["namespace"], name) if name else None


def claim_key(claim: Mapping[str, Any]) -> Key | None:
    """Return the instance that a claim belongs to; None for one that only carries its label."""
    key = instance_key(claim)
    return key if key is not None and claim["metadata"]["name"] in names.claim_names(key[1]) else None
