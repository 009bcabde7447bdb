"""Carries out what only plans ask for: their requests are created, cancelled and listed, long results read.

A part of the actor, which has made sure that this process leads. Decides nothing; everything is safe to repeat.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from efrit.api import EfritPlan
from efrit.api.plan import PLAN_UID_LABEL
from efrit.controller.act.kube import Kube
from efrit.controller.model.actions import CancelRequest, CreateRequest, ListRequests, ReadResult, Superseded
from efrit.controller.model.keys import WorkKey
from efrit.controller.model.names import RESULT_KEY, result_secret_name
from efrit.controller.store.store import Store
from efrit.errors import ApiConflict, ApiExists, ApiNamespaceTerminating, ApiNotFound, ApiRefused
from efrit.resources import PLANS, REQUESTS, SECRETS

log = logging.getLogger(__name__)

UNREADABLE_PAUSE = timedelta(seconds=60)
"""Until a plan is asked for again that could not be read; a change of it is reported by the watch."""
CROWDED_PAUSE = timedelta(seconds=1)
"""Until a plan is read again for which there was no room beside those that were being read."""


class PlanActor:
    """The actor's hands for plans."""

    def __init__(self, kube: Kube, store: Store) -> None:
        self._kube = kube
        self._store = store

    async def create(self, action: CreateRequest) -> None:
        """Create a request. Raises Superseded where the API server refuses it, which the plan is then to say."""
        name = action.manifest["metadata"]["name"]
        try:
            obj = await self._kube.create(action.manifest)
        except ApiExists:
            # Made before, by this process or the one that led then; or it is somebody else's.
            obj = await self._kube.get(REQUESTS, action.plan[0], name)
            if not _is_owned_by(obj, action.plan_uid):  # gate: request-belongs
                sentence = f"EfritRequest {name} already exists and does not belong to this plan: delete it."
                self._store.plans.refused(action.plan, action.plan_uid, sentence)
                raise Superseded("the name is taken") from None
        except (ApiRefused, ApiNamespaceTerminating) as error:
            self._store.plans.refused(action.plan, action.plan_uid, error.sentence)
            raise Superseded("the request was refused") from error
        else:
            # The work need not wait for the watch.
            self._store.requests.observe(obj)
        self._store.plans.created(action.plan, action.plan_uid, obj)

    async def cancel(self, action: CancelRequest) -> None:
        """Set spec.cancel; a request that is gone, or another by now, needs none."""
        body = {"metadata": {"uid": action.uid}, "spec": {"cancel": True}}
        try:
            obj = await self._kube.patch(REQUESTS, *action.key, body)
        except ApiNotFound:
            self._store.requests.observe_gone(action.key, action.uid)
        except ApiConflict:
            log.debug("%s/%s is another request by now", *action.key)
        else:
            self._store.requests.observe(obj)

    async def list(self, action: ListRequests) -> None:
        """Read which requests a plan has, and the plan where it is not at hand.

        Raises Superseded where the plan is gone, cannot be read, or has more than fits into memory.
        """
        plans = self._store.plans
        if not plans.has_object(action.plan):
            try:
                plans.observe(await self._kube.get(PLANS, *action.plan))
            except ApiNotFound:
                plans.observe_gone(action.plan, action.uid)
                raise Superseded("the plan is gone") from None
            if not plans.has_object(action.plan):  # gate: plan-readable
                # It is final, older than what was seen, or no plan: a list would bring the decision no further.
                self._store.requeue_after(WorkKey(EfritPlan.kind, *action.plan), UNREADABLE_PAUSE)
                raise Superseded("the plan cannot be decided about")
        names = set()
        async for obj in self._kube.pages(REQUESTS, action.plan[0], labelSelector=f"{PLAN_UID_LABEL}={action.uid}"):
            if _is_owned_by(obj, action.uid):
                names.add(obj["metadata"]["name"])
                plans.observe_listed(obj)
                if plans.is_too_large(action.plan, action.uid):
                    # Alone, which its status says, or beside others that are being read now.
                    self._store.requeue_after(WorkKey(EfritPlan.kind, *action.plan), CROWDED_PAUSE)
                    raise Superseded("its requests do not fit into memory")
        plans.listed(action.plan, action.uid, names)

    async def read(self, action: ReadResult) -> None:
        """Read a long result from its Secret; where it is gone, not ours or out of reach, its beginning has to do.

        Needs no right to read Secrets: the API server answers a patch that changes nothing with the object.
        """
        name = result_secret_name(action.uid)
        try:
            expected = {"/metadata/ownerReferences/0/uid": action.uid}
            obj = await self._kube.test(SECRETS, action.plan[0], name, expected)
            text = _verified_result(obj, action.sha256)
        except (ApiNotFound, ApiRefused) as error:
            log.warning("%s/%s: only the beginning of the result is known: %s", action.plan[0], action.name, error)
            text = None
        result = action.beginning if text is None else text
        self._store.plans.result_read(action.plan, action.plan_uid, action.uid, result)


def _is_owned_by(obj: Mapping[str, Any], plan_uid: str) -> bool:
    owners = obj["metadata"].get("ownerReferences", ())
    return any(owner["kind"] == EfritPlan.kind and owner["uid"] == plan_uid for owner in owners)


def _verified_result(secret: Mapping[str, Any], sha256: str) -> str | None:
    """Return what a result's Secret holds, None where that is not what was stored."""
    try:
        data = base64.b64decode(secret.get("data", {}).get(RESULT_KEY, ""), validate=True)
        return data.decode() if hashlib.sha256(data).hexdigest() == sha256 else None  # gate: result-digest
    except (binascii.Error, UnicodeDecodeError, AttributeError):
        return None
