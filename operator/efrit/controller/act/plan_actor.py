"""Carries out what only plans ask for: their requests are created, cancelled and listed, long results read.

A part of the actor, which has made sure that this process leads. Decides nothing; everything is safe to repeat.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
from collections.abc import Mapping
from typing import Any

from efrit.api import GROUP, VERSION, EfritPlan, EfritRequest
from efrit.api.plan import PLAN_UID_LABEL
from efrit.controller.act.kube import Kube
from efrit.controller.act.sink import Sink
from efrit.controller.decide.actions import CancelRequest, CreateRequest, ListRequests, ReadResult
from efrit.controller.decide.answers import RESULT_KEY, result_secret_name
from efrit.errors import ApiConflict, ApiExists, ApiNamespaceTerminating, ApiNotFound, ApiRefused

log = logging.getLogger(__name__)

API_VERSION = f"{GROUP}/{VERSION}"


class PlanActor:
    """The actor's hands for plans."""

    def __init__(self, kube: Kube, sink: Sink) -> None:
        self._kube = kube
        self._sink = sink

    async def create(self, action: CreateRequest) -> bool:
        """Create a request; False where the API server will not have it, which the plan is then to say."""
        name = action.manifest["metadata"]["name"]
        try:
            obj = await self._kube.create(action.manifest)
        except ApiExists:
            # Made before, by this process or the one that led then; or it is somebody else's.
            obj = await self._kube.get(API_VERSION, EfritRequest.kind, action.plan[0], name)
            if not _belongs(obj, action.plan_uid):
                sentence = f"EfritRequest {name} is there and is none of this plan's: delete it."
                self._sink.plans.refused(action.plan, action.plan_uid, sentence)
                return False
        except (ApiRefused, ApiNamespaceTerminating) as error:
            self._sink.plans.refused(action.plan, action.plan_uid, error.sentence)
            return False
        else:
            # The work need not wait for the watch.
            self._sink.observe_request(obj)
        self._sink.plans.created(action.plan, action.plan_uid, obj)
        return True

    async def cancel(self, action: CancelRequest) -> None:
        """Set spec.cancel; a request that is gone, or another by now, needs none."""
        body = {"metadata": {"uid": action.uid}, "spec": {"cancel": True}}
        try:
            obj = await self._kube.patch(API_VERSION, EfritRequest.kind, *action.key, body)
        except ApiNotFound:
            self._sink.request_gone(action.key, action.uid)
        except ApiConflict:
            log.debug("%s/%s is another request by now", *action.key)
        else:
            self._sink.observe_request(obj)

    async def list(self, action: ListRequests) -> None:
        """Read which requests a plan has."""
        selector = f"{PLAN_UID_LABEL}={action.uid}"
        pages = self._kube.pages(API_VERSION, EfritRequest.kind, action.plan[0], labelSelector=selector)
        found = [obj async for obj in pages if _belongs(obj, action.uid)]
        self._sink.plans.listed(action.plan, action.uid, found)

    async def read(self, action: ReadResult) -> None:
        """Read a long result from its Secret; where it is gone, not ours or out of reach, its beginning has to do."""
        name = result_secret_name(action.uid)
        try:
            obj = await self._kube.get("v1", "Secret", action.plan[0], name)
            text = _whole(obj, action.sha256)
        except (ApiNotFound, ApiRefused) as error:
            log.warning("%s/%s: only the beginning of the result is known: %s", action.plan[0], action.name, error)
            text = None
        found = action.beginning if text is None else text
        self._sink.plans.result_read(action.plan, action.plan_uid, action.uid, found)


def _belongs(obj: Mapping[str, Any], plan_uid: str) -> bool:
    owners = obj["metadata"].get("ownerReferences", ())
    return any(each["kind"] == EfritPlan.kind and each["uid"] == plan_uid for each in owners)


def _whole(secret: Mapping[str, Any], sha256: str) -> str | None:
    """Return what a result's Secret holds, None where that is not what was stored."""
    try:
        data = base64.b64decode(secret.get("data", {}).get(RESULT_KEY, ""), validate=True)
        return data.decode() if hashlib.sha256(data).hexdigest() == sha256 else None
    except (binascii.Error, UnicodeDecodeError, AttributeError):
        return None
