"""Applies the children of instances and pools, and never an object of the same name that somebody else has made.

Server-side apply alone would take it over: fields of ours win, the owner too, and then it goes with the instance.
So an object is first asked whether this owner has it, and made where there is none. Its UID is kept, and is a
condition of each later apply: in the steady state that is one call.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from efrit.controller.act.kube import FIELD_MANAGER, Kube
from efrit.errors import ApiConflict, ApiNotFound, ApiRefused
from efrit.kube.json_pointer import json_pointer
from efrit.resources import DISRUPTION_BUDGETS, resource_of

MAX_KNOWN = 20_000
"""The one that was applied longest ago is forgotten, and asked again, when there are more."""

Json = dict[str, Any]


class OwnedChildren:
    """The writer of the children of instances and pools."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._known: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        """UIDs of children, by their owner's UID, kind and name."""

    async def apply(self, manifest: Mapping[str, Any], *, create: bool = True) -> Json:
        """Make or change one child; without `create` one that is not there is left so, and {} returned.

        Raises ApiRefused where an object of its name is not its owner's, and any other ApiError.
        """
        meta = manifest["metadata"]
        key = (meta["ownerReferences"][0]["uid"], manifest["kind"], meta["name"])
        uid = self._known.pop(key, None)
        if uid is not None:
            with contextlib.suppress(ApiConflict):
                # A conflict: it is gone, or another one has its name by now.
                return self._remember_applied(key, await self._kube.apply(manifest, uid=uid))  # gate: child-uid
        try:
            existing = await self._owned(manifest, key[0])  # gate: owned-child
        except ApiNotFound:
            if not create:
                return {}
            return self._remember_applied(key, await self._as_applied(manifest, await self._kube.create(manifest)))
        existing = await self._as_applied(manifest, existing)
        return self._remember_applied(key, await self._kube.apply(manifest, uid=existing["metadata"]["uid"]))

    async def _owned(self, manifest: Mapping[str, Any], owner: str) -> Json:
        """Return the object that is there. An object has one controlling owner at most, and ours have no other."""
        meta, kind = manifest["metadata"], manifest["kind"]
        expected = {"/metadata/ownerReferences/0/uid": owner, "/metadata/ownerReferences/0/controller": True}
        try:
            return await self._kube.test(resource_of(manifest), meta["namespace"], meta["name"], expected)
        except ApiRefused as error:
            if error.status != 422:
                raise
            if kind == DISRUPTION_BUDGETS.kind and (orphan := await self._adopted(manifest)) is not None:
                return orphan
            owner_kind = meta["ownerReferences"][0]["kind"]
            sentence = (
                f"{kind} {meta['name']} already exists and does not belong to this {owner_kind}: delete it, if "
                f"nobody needs it, or create the {owner_kind} under another name."
            )
            raise ApiRefused(str(error), sentence, status=error.status) from error

    async def _adopted(self, manifest: Mapping[str, Any]) -> Json | None:
        """Return an object of the operator's that has lost its owner, once it has this one; None if it is none.

        A pool that is deleted with `--cascade=orphan` leaves its budget so.
        """
        meta = manifest["metadata"]
        labels = {json_pointer("metadata", "labels", name): value for name, value in meta["labels"].items()}
        expected = {**labels, "/metadata/ownerReferences": None}  # gate: adopts-orphan
        operations = [{"op": "test", "path": pointer, "value": value} for pointer, value in expected.items()]
        operations.append({"op": "add", "path": "/metadata/ownerReferences", "value": meta["ownerReferences"]})
        try:
            return await self._kube.json_patch(resource_of(manifest), meta["namespace"], meta["name"], operations)
        except ApiRefused as error:
            if error.status != 422:
                raise
            return None

    async def _as_applied(self, manifest: Mapping[str, Any], obj: Json) -> Json:
        """Record what was created as applied: what a later apply leaves out would stay in it otherwise."""
        meta = obj["metadata"]
        ours = [
            (number, entry.get("operation"))
            for number, entry in enumerate(meta.get("managedFields", ()))
            if entry.get("manager") == FIELD_MANAGER and not entry.get("subresource")
        ]
        if [operation for _, operation in ours] != ["Update"]:
            return obj
        field = f"/metadata/managedFields/{ours[0][0]}"
        operations = [
            {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
            {"op": "test", "path": f"{field}/manager", "value": FIELD_MANAGER},
            {"op": "test", "path": f"{field}/operation", "value": "Update"},
            {"op": "replace", "path": f"{field}/operation", "value": "Apply"},
        ]
        try:
            return await self._kube.json_patch(resource_of(manifest), meta["namespace"], meta["name"], operations)
        except ApiRefused as error:
            # Somebody was faster, and the entry has moved: come back.
            raise ApiConflict(str(error), error.sentence, status=error.status) from error

    def _remember_applied(self, key: tuple[str, str, str], obj: Json) -> Json:
        self._known[key] = obj["metadata"]["uid"]
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return obj
