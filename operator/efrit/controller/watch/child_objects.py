"""The store's part for children that are watched: pods, StatefulSets and claims as their events tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from efrit.controller.decide.children import naming
from efrit.controller.watch.child_checks import ChildChecks
from efrit.controller.watch.records import claim_key, in_scope, instance_key
from efrit.controller.watch.views import claim_view, pod_view, statefulset_view


class ChildObjects(ChildChecks):
    """The memory with the pod, the StatefulSet and the claims of each instance."""

    def observe_pod(self, obj: Mapping[str, Any]) -> None:
        """Take in an instance's pod."""
        key = instance_key(obj)
        if key is not None and obj["metadata"]["name"] == f"{naming.PREFIX}{key[1]}-0":
            entry = self._instances[key]
            if not entry.news("Pod", obj):
                return
            view = pod_view(obj)
            if entry.pod is None or entry.pod.uid != view.uid:
                entry.problem, entry.explained_time = None, None
            entry.pod = view
            self._look_instance(key)
            if view.deleting:
                self._look_waiting(key)

    def forget_pod(self, obj: Mapping[str, Any]) -> None:
        """Take in that a pod is gone."""
        key = instance_key(obj)
        if key is None or obj["metadata"]["name"] != f"{naming.PREFIX}{key[1]}-0":
            return
        entry = self._instances[key]
        entry.news("Pod", obj)
        if entry.pod is not None and entry.pod.uid == obj["metadata"]["uid"]:
            entry.pod = None
            self._look_instance(key)

    def observe_statefulset(self, obj: Mapping[str, Any]) -> None:
        """Take in an instance's StatefulSet."""
        key = instance_key(obj)
        if key is None or obj["metadata"]["name"] != f"{naming.PREFIX}{key[1]}":
            return
        if self._instances[key].news("StatefulSet", obj):
            view = statefulset_view(obj)
            self._instances[key].statefulset = view
            self._instances[key].observe_owner(view)
            self._observe_rollout(key)
            self._look_instance(key)

    def forget_statefulset(self, obj: Mapping[str, Any]) -> None:
        """Take in that a StatefulSet is gone."""
        key = instance_key(obj)
        if key is None or obj["metadata"]["name"] != f"{naming.PREFIX}{key[1]}":
            return
        entry = self._instances[key]
        entry.news("StatefulSet", obj)
        if entry.statefulset is not None and entry.statefulset.uid == obj["metadata"]["uid"]:
            entry.statefulset = None
            self._observe_rollout(key)
            self._look_instance(key)

    def observe_claim(self, obj: Mapping[str, Any]) -> None:
        """Take in a PersistentVolumeClaim of an instance."""
        key = claim_key(obj)
        if key is not None and self._instances[key].news("PersistentVolumeClaim", obj):
            view = claim_view(obj)
            known = self._instances[key].claims.get(view.name)
            self._instances[key].claims[view.name] = view
            if known is None or (known.phase, known.terminating) != (view.phase, view.terminating):
                self._look_instance(key)

    def forget_claim(self, obj: Mapping[str, Any]) -> None:
        """Take in that a claim is gone."""
        key = claim_key(obj)
        if key is None:
            return
        entry, name = self._instances[key], obj["metadata"]["name"]
        entry.news("PersistentVolumeClaim", obj)
        if name in entry.claims and entry.claims[name].uid == obj["metadata"]["uid"]:
            del entry.claims[name]
            self._look_instance(key)

    def child_uids(self, scope: str | None = None) -> set[str]:
        """Return the UIDs of all pods, StatefulSets and claims of a namespace that are known."""
        entries = (entry for key, entry in self._instances.items() if in_scope(key, scope))
        children = (child for entry in entries for child in (entry.pod, entry.statefulset, *entry.claims.values()))
        return {child.uid for child in children if child is not None}

    def forget_children(self, uids: set[str]) -> None:
        """Forget the pods, StatefulSets and claims with these UIDs."""
        for key, entry in self._instances.items():
            gone = [name for name, claim in entry.claims.items() if claim.uid in uids]
            for name in gone:
                del entry.claims[name]
            if gone:
                self._look_instance(key)
            if entry.pod is not None and entry.pod.uid in uids:
                entry.pod = None
                self._look_instance(key)
            if entry.statefulset is not None and entry.statefulset.uid in uids:
                entry.statefulset = None
                self._observe_rollout(key)
                self._look_instance(key)
