"""What is done to the children of an instance: each is applied, and the store records what became of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from efrit.controller.act.kube import Kube
from efrit.controller.act.owned_children import OwnedChildren
from efrit.controller.model.actions import (
    ApplyChildren,
    ApplySecret,
    IsolatePod,
    KeepChildren,
    StopPod,
    Superseded,
)
from efrit.controller.store.store import Store
from efrit.errors import (
    ApiConflict,
    ApiExists,
    ApiFailed,
    ApiNamespaceTerminating,
    ApiNotFound,
    ApiRefused,
    ApiUnavailable,
)
from efrit.resources import STATEFULSETS


class InstanceChildrenActor:
    """The part of the actor that writes the children of instances."""

    def __init__(self, kube: Kube, store: Store, owned: OwnedChildren) -> None:
        self._kube = kube
        self._store = store
        self._owned = owned

    async def apply(self, action: ApplyChildren) -> None:
        """Apply all children. Raises Superseded where one is refused, or the instance is decided about anew."""
        await self.apply_each(action, only_changed=action.resync)
        if not self._store.instances.applied(action.instance, action.uid, action.generation, action.digest):
            raise Superseded(
                "the children are accepted, which were refused before, or the instance is another by now"
            )

    async def apply_each(self, action: ApplyChildren | KeepChildren, *, only_changed: bool) -> None:
        """Apply children; only_changed: leave those alone that are known to be as they were applied."""
        for manifest in action.manifests:
            if only_changed and self._store.children.is_as_applied(action.instance, manifest):  # gate: resync-alone
                continue
            if _may_replace_pod(manifest) and not self._store.instances.replace_begins(action.instance):
                raise Superseded("a request was handed over since the decision")
            self._store.children.apply_begins(action.instance, manifest)
            obj = await self.apply_child(action, manifest)
            self._store.children.child_applied(action.instance, manifest, obj)

    async def stop_pod(self, action: StopPod) -> None:
        """Scale a StatefulSet down. Raises Superseded where it is gone, or another one by now."""
        body = {"metadata": {"uid": action.statefulset_uid}, "spec": {"replicas": 0}}
        with self._record_refusals(action):
            try:
                obj = await self._kube.patch(STATEFULSETS, action.instance[0], action.statefulset, body)
            except (ApiConflict, ApiNotFound) as error:
                raise Superseded("the StatefulSet is another one by now") from error
        self._store.children.observe_statefulset(obj)

    async def apply_child(
        self, action: ApplyChildren | ApplySecret | KeepChildren, manifest: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Apply one child and return it. Raises Superseded where it was refused, which the store then knows."""
        with self._record_refusals(action):
            obj = await self._owned.apply(manifest)
        match manifest["kind"]:
            case "StatefulSet":
                self._store.children.observe_statefulset(obj)
            case "PersistentVolumeClaim":
                self._store.children.observe_claim(obj)
            case "Secret":
                self._store.children.secret_applied(action.instance)
        return obj

    @contextlib.contextmanager
    def _record_refusals(
        self, action: ApplyChildren | ApplySecret | KeepChildren | StopPod | IsolatePod
    ) -> Iterator[None]:
        """Tell the store why a child could not be written. Raises Superseded where it was refused."""
        instance, uid, generation = action.instance, action.uid, action.generation
        try:
            yield
        except (ApiRefused, ApiNamespaceTerminating) as error:
            self._store.instances.refused(instance, uid, generation, error.sentence)
            raise Superseded("a child was refused") from error
        except ApiFailed as error:
            if self._store.instances.failed(instance, uid, generation, error.sentence):
                raise Superseded("a child could not be applied for some time") from error
            raise
        except ApiUnavailable:
            # It may have taken it all the same, which the watch may report later, or never.
            self._store.instances.apply_unanswered(instance)
            raise

    async def isolate_pod(self, action: IsolatePod) -> None:
        """Create the NetworkPolicy of a pod. Raises Superseded where it was refused, which the store then knows."""
        # Its name has the pod's UID: an earlier attempt made it, or the process that led then.
        with self._record_refusals(action), contextlib.suppress(ApiExists):
            await self._kube.create(action.manifest)
        self._store.children.pod_isolated(action.instance, action.pod_uid)


def _may_replace_pod(manifest: Mapping[str, Any]) -> bool:
    """Return whether a child is a StatefulSet that is to have a pod."""
    return bool(manifest["kind"] == "StatefulSet" and manifest.get("spec", {}).get("replicas") != 0)
