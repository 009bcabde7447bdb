"""Pods, StatefulSets and claims of instances as last seen, and which other children are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from efrit.api import EfritInstance
from efrit.controller.decide.explanation import LATE
from efrit.controller.manifests import digest_of
from efrit.controller.model import names
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.store.from_kubernetes import claim_view, pod_view, statefulset_view
from efrit.controller.store.index import Index
from efrit.controller.store.instance_record import AppliedChild, InstanceRecord, claim_key, instance_key
from efrit.controller.store.records import in_scope


class Children:
    """The children of all instances. ServiceAccounts, NetworkPolicies and Secrets are not watched but checked."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._not_listed: set[tuple[str, str | None]] = set()
        """Kinds that may not be listed, each in a namespace; None: in the whole cluster."""

    # Watched children.

    def observe_pod(self, obj: Mapping[str, Any]) -> None:
        """Take in an instance's pod."""
        key = instance_key(obj)
        if key is not None and obj["metadata"]["name"] == names.pod_name(key[1]):
            entry = self._index.instances[key]
            if not entry.accept_version("Pod", obj):
                return
            view = pod_view(obj)
            if entry.pod is None or entry.pod.uid != view.uid:
                entry.facts = replace(
                    entry.facts, problem=None, explained_time=None, pod_awaited=None, events_after=view.created
                )
            if view.is_running and entry.facts.problem is not None:
                entry.facts = replace(entry.facts, problem=None)
            entry.pod = view
            self._index.requeue_instance(key)
            if view.deleting:
                self._index.requeue_waiting(key)

    def forget_pod(self, obj: Mapping[str, Any]) -> None:
        """Take in that a pod is gone."""
        key = instance_key(obj)
        if key is None or obj["metadata"]["name"] != names.pod_name(key[1]):
            return
        entry = self._index.instances[key]
        entry.accept_version("Pod", obj)
        if entry.pod is not None and entry.pod.uid == obj["metadata"]["uid"]:
            self._pod_gone(entry)
            self._index.requeue_instance(key)

    def observe_statefulset(self, obj: Mapping[str, Any]) -> None:
        """Take in an instance's StatefulSet."""
        key = instance_key(obj)
        if key is None or obj["metadata"]["name"] != names.statefulset_name(key[1]):
            self._instances_of_mislabelled("StatefulSet", obj)
            return
        if self._index.instances[key].accept_version("StatefulSet", obj):
            view, entry = statefulset_view(obj), self._index.instances[key]
            is_scaled = entry.statefulset is not None and entry.statefulset.replicas != view.replicas
            if is_scaled and entry.pod is None:
                self._await_pod(entry)
                moments = (entry.facts.events_after, self._index.clock() - LATE)
                events_after = max(moment for moment in moments if moment is not None)
                entry.facts = replace(entry.facts, events_after=events_after)  # gate: events-scaled
            entry.statefulset = view
            entry.observe_owner(view)
            self._index.observe_rollout(key)
            self._index.requeue_instance(key)

    def forget_statefulset(self, obj: Mapping[str, Any]) -> None:
        """Take in that a StatefulSet is gone."""
        key = instance_key(obj)
        if key is None or obj["metadata"]["name"] != names.statefulset_name(key[1]):
            return
        entry = self._index.instances[key]
        entry.accept_version("StatefulSet", obj)
        if entry.statefulset is not None and entry.statefulset.uid == obj["metadata"]["uid"]:
            entry.statefulset = None
            entry.children_applied.clear()
            self._index.observe_rollout(key)
            self._index.requeue_instance(key)

    def observe_claim(self, obj: Mapping[str, Any]) -> None:
        """Take in a PersistentVolumeClaim of an instance."""
        key = claim_key(obj)
        if key is None:
            self._instances_of_mislabelled("PersistentVolumeClaim", obj)
        elif self._index.instances[key].accept_version("PersistentVolumeClaim", obj):
            view = claim_view(obj)
            recorded = self._index.instances[key].claims.get(view.name)
            self._index.instances[key].claims[view.name] = view
            if recorded is None or (recorded.phase, recorded.terminating) != (view.phase, view.terminating):
                self._index.requeue_instance(key)

    def forget_claim(self, obj: Mapping[str, Any]) -> None:
        """Take in that a claim is gone."""
        key = claim_key(obj)
        if key is None:
            return
        entry, name = self._index.instances[key], obj["metadata"]["name"]
        entry.accept_version("PersistentVolumeClaim", obj)
        if name in entry.claims and entry.claims[name].uid == obj["metadata"]["uid"]:
            del entry.claims[name]
            entry.children_applied.clear()
            self._index.requeue_instance(key)

    def uids(self, scope: str | None = None) -> set[str]:
        """Return the UIDs of all pods, StatefulSets and claims of a namespace that are known."""
        entries = (entry for key, entry in self._index.instances.items() if in_scope(key, scope))
        children = (child for entry in entries for child in (entry.pod, entry.statefulset, *entry.claims.values()))
        return {child.uid for child in children if child is not None}

    def forget(self, uids: set[str]) -> None:
        """Forget the pods, StatefulSets and claims with these UIDs, which a list has left out."""
        for key, entry in self._index.instances.items():
            missing = [name for name, claim in entry.claims.items() if claim.uid in uids]
            for name in missing:
                del entry.claims[name]
                entry.accept_again("PersistentVolumeClaim", name)
            if missing:
                entry.children_applied.clear()
                self._index.requeue_instance(key)
            if entry.pod is not None and entry.pod.uid in uids:
                self._pod_gone(entry)
                entry.accept_again("Pod", names.pod_name(key[1]))
                self._index.requeue_instance(key)
            if entry.statefulset is not None and entry.statefulset.uid in uids:
                entry.statefulset = None
                entry.accept_again("StatefulSet", names.statefulset_name(key[1]))
                entry.children_applied.clear()
                self._index.observe_rollout(key)
                self._index.requeue_instance(key)

    def _pod_gone(self, entry: InstanceRecord) -> None:
        """Take in that there is no pod: what was wrong with it is not why there is none."""
        entry.pod = None
        self._await_pod(entry)

    def _await_pod(self, entry: InstanceRecord) -> None:
        """Take in that a pod is to come, or none: what was wrong before does not say why there is none."""
        entry.facts = replace(entry.facts, problem=None, explained_time=None, pod_awaited=self._index.clock())

    # What was applied.

    def is_as_applied(self, instance: Key, manifest: Mapping[str, Any]) -> bool:
        """Return whether a child is known to be as this process has applied it."""
        entry, place = self._index.instances[instance], _place(manifest)
        applied = entry.children_applied.get(place)
        if applied is None or self._is_unseen(manifest["kind"], instance):
            return False
        return applied == AppliedChild(digest_of(manifest), entry.children_seen.get(place, 0))  # gate: as-applied

    def apply_begins(self, instance: Key, manifest: Mapping[str, Any]) -> None:
        """Take in that a child is about to be applied: nothing is known of it until `child_applied`."""
        self._index.instances[instance].children_applied.pop(_place(manifest), None)

    def child_applied(self, instance: Key, manifest: Mapping[str, Any], obj: Mapping[str, Any]) -> None:
        """Remember what a child was applied as, and which version of it that is."""
        entry, version = self._index.instances[instance], str(obj["metadata"].get("resourceVersion", ""))
        if not self._is_unseen(manifest["kind"], instance) and version.isdigit():
            entry.accept_version(manifest["kind"], obj)
            entry.children_applied[_place(manifest)] = AppliedChild(digest_of(manifest), int(version))

    def not_listed(self, kind: str, scope: str | None) -> None:
        """Take in that children of a kind cannot be listed in a namespace: nobody sees what becomes of them."""
        self._not_listed.add((kind, scope))

    def listed(self, kind: str, scope: str | None) -> None:
        """Take in that children of a kind were listed in a namespace."""
        self._not_listed.discard((kind, scope))

    def _is_unseen(self, kind: str, instance: Key) -> bool:
        """Return whether no later version of a child is seen: it may have been changed or deleted."""
        return kind == "Secret" or not self._not_listed.isdisjoint({(kind, None), (kind, instance[0])})

    def observe_listed(self, kind: str, obj: Mapping[str, Any]) -> None:
        """Take in the metadata of a child of this kind; one that somebody has changed is applied again."""
        key = instance_key(obj)
        entry = self._index.instances.get(key) if key is not None else None
        if key is None or entry is None or (kind, obj["metadata"]["name"]) not in entry.children_applied:
            key = self._instances_of_mislabelled(kind, obj)
        elif not entry.accept_version(kind, obj):
            return
        if key is not None:
            entry = self._index.instances[key]
            entry.facts = replace(entry.facts, resync=True)
            self._index.requeue_instance(key)

    def _instances_of_mislabelled(self, kind: str, obj: Mapping[str, Any]) -> Key | None:
        """Have a child applied again whose labels name its instance no more; return the instance that it is of."""
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        for key in ((namespace, instance_name) for instance_name in names.instances_of(name)):
            entry = self._index.instances.get(key)
            if entry is not None and entry.children_applied.pop((kind, name), None) is not None:  # gate: mislabelled
                return key
        return None

    # Checks of children.

    def applied_instances(self, scope: str | None = None) -> list[EfritInstance]:
        """Return the instances of a namespace whose children have all been applied: the StatefulSet comes last."""
        return [
            entry.instance
            for key, entry in self._index.instances.items()
            if in_scope(key, scope)
            and entry.instance is not None
            and entry.instance.metadata.deletion_timestamp is None
            and entry.own_statefulset is not None
        ]

    def missing(self, instances: Iterable[Key]) -> None:
        """Take in that a child of each of these instances is not there any more."""
        for key in instances:
            if key in self._index.instances:
                entry = self._index.instances[key]
                entry.facts = replace(entry.facts, child_missing=True)
                entry.children_applied.clear()
                self._index.requeue_instance(key)

    def check_secret(self, instance: Key) -> None:
        """Have the Secret of an instance applied again."""
        if instance in self._index.instances:
            entry = self._index.instances[instance]
            entry.facts = replace(entry.facts, secret_check=True)
            self._index.queue.add_background(WorkKey(EfritInstance.kind, *instance))

    def claim_gone(self, instance: Key, name: str) -> None:
        """Take in that the API server does not know a claim of an instance."""
        entry = self._index.instances[instance]
        if entry.claims.pop(name, None) is not None:
            entry.accept_again("PersistentVolumeClaim", name)
        entry.children_applied.clear()
        self._index.requeue_instance(instance)

    def pod_isolated(self, instance: Key, pod_uid: str) -> None:
        """Take in that a pod of an instance has a NetworkPolicy of its own."""
        entry = self._index.instances[instance]
        entry.facts = replace(entry.facts, isolated_pod=pod_uid)

    def secret_applied(self, instance: Key) -> None:
        """Take in that the Secret of an instance is there."""
        entry = self._index.instances[instance]
        entry.facts = replace(entry.facts, secret_check=False, secret_applied_time=self._index.clock())


def _place(manifest: Mapping[str, Any]) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]
