"""Carries out actions, one after the other, and tells the sink what came of them.

An action that fails raises; the work queue comes back to its key later, and everything here is safe to repeat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from efrit.api import FINAL_PHASES, GROUP, VERSION
from efrit.controller import metrics
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.confirm_claims import confirm_claims
from efrit.controller.act.confirm_idle import confirm_idle
from efrit.controller.act.event_recorder import EventRecorder
from efrit.controller.act.explain import Explainer
from efrit.controller.act.kube import Kube
from efrit.controller.act.plan_actor import PlanActor
from efrit.controller.act.result_secret import create_result
from efrit.controller.act.sink import Sink
from efrit.controller.decide.actions import (
    Acknowledge,
    Action,
    ApplyChildren,
    ApplySecret,
    CancelRequest,
    CancelWork,
    ConfirmClaims,
    ConfirmIdle,
    ConnectBridge,
    CreateRequest,
    Delete,
    DisconnectBridge,
    Explain,
    FetchAnswer,
    FindSession,
    ListRequests,
    PatchStatus,
    PauseHandover,
    ReadResult,
    Record,
    ResourceKind,
    ResumeHandover,
    StoreResult,
    Submit,
)
from efrit.controller.decide.views import Key
from efrit.errors import (
    ApiConflict,
    ApiError,
    ApiFailed,
    ApiNotFound,
    ApiRefused,
    ApiTooLarge,
    ApiUnavailable,
    BridgeUnreachable,
    EfritError,
    InvalidRequest,
    NotLeading,
    RequestConflict,
    RequestNotFound,
)
from efrit.protocol import RequestView, kind_label

log = logging.getLogger(__name__)

API_VERSION = f"{GROUP}/{VERSION}"
USED = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadTokens",
    "cache_write": "cacheWriteTokens",
}
"""Directions of tokens, and their names in a status."""


class Actor:
    """The only writer of the cluster and the bridges."""

    def __init__(
        self,
        kube: Kube,
        bridges: Bridges,
        sink: Sink,
        clock: Callable[[], datetime],
        name: str,
        leading: Callable[[], bool],
    ) -> None:
        self._kube = kube
        self._bridges = bridges
        self._sink = sink
        self._clock = clock
        self._name = name
        self._leading = leading
        self._plans = PlanActor(kube, sink)
        self._explainer = Explainer(kube)
        self._events = EventRecorder(kube, clock, name)

    async def carry_out(self, action: Action) -> bool:
        """Carry out one action; whether the rest of its decision still stands.

        Raises EfritError where it should be tried again.
        """
        # A process that was stopped for a while goes on in the middle of things: somebody else may lead by now.
        if not self._leading():
            raise NotLeading(
                f"{self._name} cannot be sure that it holds the lease: {type(action).__name__} is not done"
            )
        match action:
            case Submit():
                return await self._submit(action)
            case PatchStatus(droppable=True):
                await self._tell_progress(action)
            case PatchStatus():
                if action.closes and not self._sink.close_begins(action.key):
                    return False
                await self._patch_status(action)
            case FindSession():
                await self._find_session(action)
            case Acknowledge(instance=instance, uid=uid):
                await self._bridges.acknowledge(instance, uid)
                self._sink.acknowledged(instance, uid)
            case FetchAnswer():
                await self._fetch(action)
            case CancelWork():
                await self._cancel(action)
            case StoreResult():
                return await self._store_result(action)
            case ConnectBridge():
                await self._bridges.connect(action)
            case DisconnectBridge(instance=instance):
                await self._bridges.disconnect(instance)
            case ApplyChildren():
                return await self._apply(action)
            case ApplySecret():
                return await self._apply_child(action.instance, action.generation, action.manifest)
            case Delete():
                return await self._delete(action)
            case PauseHandover(instance=instance):
                self._sink.pause_handover(instance)
            case ResumeHandover(instance=instance):
                self._sink.resume_handover(instance)
            case ConfirmClaims():
                return await confirm_claims(self._kube, self._sink, action)
            case ConfirmIdle(instance=instance):
                return await confirm_idle(self._kube, self._sink, instance)
            case Explain(instance=instance):
                # A question that is left out comes again; a worker that waits for its turn would do nothing else.
                if not self._explainer.busy:
                    self._sink.explained(instance, await self._explainer.explain(instance))
            case Record():
                await self._events.record(action)
            case CreateRequest():
                return await self._plans.create(action)
            case CancelRequest():
                await self._plans.cancel(action)
            case ListRequests():
                await self._plans.list(action)
            case ReadResult():
                await self._plans.read(action)
            case _:
                raise TypeError(f"{action!r} is not for the actor")
        return True

    async def _submit(self, action: Submit) -> bool:
        uid = str(action.request.id)
        if not self._sink.submit_begins(action.instance, action.request_key, uid, action.handover_id):
            return False
        try:
            view = await self._hand_over(action, uid)
        except InvalidRequest as error:
            self._sink.turned_away(action.request_key, uid, error.message)
        except EfritError as error:
            if isinstance(error, BridgeUnreachable):
                self._sink.handed_over(action.instance, action.request_key, uid)
            self._sink.action_failed(action.request_key, uid, "Submit", error)
            raise
        except asyncio.CancelledError:
            self._sink.handed_over(action.instance, action.request_key, uid)
            raise
        else:
            self._sink.request_view(action.instance, view)
        finally:
            self._sink.submit_ended(action.instance, action.request_key, uid)
        return True

    async def _hand_over(self, action: Submit, uid: str) -> RequestView:
        try:
            return await self._bridges.submit(action.instance, action.request)
        except RequestConflict:
            # UIDs are unique: it is the same request, handed over under other defaults of its instance.
            self._sink.handed_over(action.instance, action.request_key, uid)
            return await self._bridges.read(action.instance, uid)

    async def _cancel(self, action: CancelWork) -> None:
        try:
            view = await self._bridges.cancel(action.instance, action.uid, action.request, running=action.running)
        except RequestNotFound:
            self._sink.absent(action.request_key, action.uid, "")
        except InvalidRequest as error:
            self._sink.turned_away(action.request_key, action.uid, error.message)
        except EfritError as error:
            self._sink.action_failed(action.request_key, action.uid, "CancelWork", error)
            raise
        else:
            self._sink.request_view(action.instance, view)

    async def _fetch(self, action: FetchAnswer) -> None:
        try:
            view = await self._bridges.read(action.instance, action.uid)
        except EfritError as error:
            self._sink.action_failed(action.request_key, action.uid, "FetchAnswer", error)
            raise
        self._sink.request_view(action.instance, view)

    async def _tell_progress(self, action: PatchStatus) -> None:
        """Patch the status, on the same condition as any; one that does not succeed is dropped.

        The object has changed, or is final: the watch tells, and the next news of the request are better than these.
        """
        try:
            obj = await self._send_patch(action)
        except ApiError as error:
            log.debug("%s/%s: how far it has come is not told: %s", *action.key, error)
            self._sink.progress_dropped(action.key, action.uid)
            return
        metrics.STATUS_WRITES.labels(action.kind).inc()
        self._sink.observe_request(obj)

    async def _send_patch(self, action: PatchStatus) -> dict[str, Any]:
        namespace, name = action.key
        removed = dict.fromkeys(action.old.keys() - action.status.keys())
        body = {
            "metadata": {"resourceVersion": action.resource_version, "uid": action.uid},
            "status": {**_merge(action.status, action.old), **removed},
        }
        return await self._kube.patch_status(API_VERSION, action.kind, namespace, name, body)

    async def _find_session(self, action: FindSession) -> None:
        found = ""
        selector = f"status.session.id={action.session}"
        async for obj in self._kube.pages(API_VERSION, "EfritRequest", action.request_key[0], fieldSelector=selector):
            found = obj["status"].get("instanceName") or found
        self._sink.session_found(action.request_key, action.uid, found)

    async def _patch_status(self, action: PatchStatus) -> None:
        try:
            obj = await self._send_patch(action)
        except (ApiConflict, ApiNotFound):
            # Somebody was faster, or it is another object by now: take in what is there and decide anew.
            await self._reread(action)
            return
        except ApiTooLarge:
            if action.kind == "EfritRequest":
                self._sink.cramped(action.key, action.uid)
            elif action.kind == "EfritPlan":
                self._sink.plans.cramped(action.key, action.uid)
            raise
        except ApiRefused:
            # Perhaps it is final already, which the watch has yet to tell; otherwise come back later.
            await self._reread(action)
            raise
        metrics.STATUS_WRITES.labels(action.kind).inc()
        self._observe(action.kind, obj)
        if action.kind == "EfritRequest":
            _count(action, self._clock())
        elif action.kind == "EfritInstance":
            self._sink.status_written(action.key)
        elif action.status.get("phase") in FINAL_PHASES:
            metrics.PLANS_FINISHED.labels(action.status.get("reason", "")).inc()

    async def _reread(self, action: PatchStatus) -> None:
        try:
            obj = await self._kube.get(API_VERSION, action.kind, *action.key)
        except ApiNotFound:
            self._gone(action.kind, action.key, action.uid)
            return
        self._observe(action.kind, obj)

    def _observe(self, kind: ResourceKind, obj: Mapping[str, Any]) -> None:
        match kind:
            case "EfritRequest":
                self._sink.observe_request(obj)
            case "EfritPlan":
                self._sink.plans.observe_plan(obj)
            case _:
                self._sink.observe_instance(obj)

    def _gone(self, kind: ResourceKind, key: Key, uid: str) -> None:
        match kind:
            case "EfritRequest":
                self._sink.request_gone(key, uid)
            case "EfritPlan":
                self._sink.plans.plan_gone(key, uid)
            case _:
                self._sink.instance_deleted(key, uid)

    async def _apply(self, action: ApplyChildren) -> bool:
        for manifest in action.manifests:
            if not await self._apply_child(action.instance, action.generation, manifest):
                return False
        return self._sink.applied(action.instance, action.generation, action.digest)

    async def _apply_child(self, instance: Key, generation: int, manifest: Mapping[str, Any]) -> bool:
        """Apply one child; False where it was refused, which the store then knows."""
        try:
            obj = await self._kube.apply(manifest)
        except ApiRefused as error:
            self._sink.refused(instance, generation, error.sentence)
            return False
        except ApiFailed as error:
            if self._sink.failed(instance, generation, error.sentence):
                return False
            raise
        except ApiUnavailable:
            # It may have taken it all the same, which the watch may tell later, or never.
            self._sink.apply_unanswered(instance)
            raise
        match manifest["kind"]:
            case "StatefulSet":
                self._sink.observe_statefulset(obj)
            case "PersistentVolumeClaim":
                self._sink.observe_claim(obj)
            case "Secret":
                self._sink.secret_applied(instance)
        return True

    async def _store_result(self, action: StoreResult) -> bool:
        """Create the Secret of a result; False where it was refused, which the store then knows.

        A namespace that is being deleted refuses everything, the request included: that is no refusal of the result.
        """
        try:
            await create_result(self._kube, action.manifest)
        except ApiRefused as error:
            self._sink.action_failed(action.request_key, action.uid, "StoreResult", error, refused=True)
            return False
        except ApiError as error:
            self._sink.action_failed(action.request_key, action.uid, "StoreResult", error, refused=False)
            raise
        self._sink.result_stored(action.request_key, action.uid)
        return True

    async def _delete(self, action: Delete) -> bool:
        """Delete an object; False where it has changed since, and is to be decided about anew."""
        try:
            await self._kube.delete(API_VERSION, action.kind, *action.key, action.uid, action.resource_version)
        except ApiNotFound:
            log.debug("%s %s/%s is gone already", action.kind, *action.key)
        except ApiConflict:
            obj = await self._still_there(action)
            if obj is not None and action.resource_version is None:
                raise
            if obj is not None:
                self._observe(action.kind, obj)
                return False
        self._gone(action.kind, action.key, action.uid)
        return True

    async def _still_there(self, action: Delete) -> dict[str, Any] | None:
        try:
            obj = await self._kube.get(API_VERSION, action.kind, *action.key)
        except ApiNotFound:
            return None
        return obj if obj["metadata"]["uid"] == action.uid else None


def _merge(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return `new` as a merge patch over `old`: keys that are gone from nested objects become null."""
    result: dict[str, Any] = {}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            result[key] = {**_merge(value, before), **dict.fromkeys(before.keys() - value.keys())}
        else:
            result[key] = value
    return result


def _count(action: PatchStatus, now: datetime) -> None:
    if action.status.get("phase") not in FINAL_PHASES:
        return
    metrics.REQUESTS_FINISHED.labels(action.status.get("reason", "")).inc()
    if action.created is not None:
        metrics.REQUEST_SECONDS.observe(max(0.0, (now - action.created).total_seconds()))
    usage: Mapping[str, Any] = action.status.get("usage", {})
    for direction, name in USED.items():
        metrics.MODEL_TOKENS.labels(direction).inc(usage.get(name, 0))
    metrics.MODEL_CALLS.inc(usage.get("modelCalls", 0))
    for kind, count in usage.get("modelErrors", {}).items():
        metrics.MODEL_ERRORS.labels(kind_label(kind)).inc(count)
