"""The one dispatcher of actions: carries them out, one after the other, and records in the store what came of them.

An action that fails raises; the work queue comes back to its key later, and everything here is safe to repeat.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from efrit.api import FINAL_PHASES
from efrit.controller import metrics, pool_metrics
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.bulkhead import Depth
from efrit.controller.act.confirm import Confirmations
from efrit.controller.act.event_recorder import EventRecorder
from efrit.controller.act.instance_children import InstanceChildrenActor
from efrit.controller.act.kube import Kube
from efrit.controller.act.owned_children import OwnedChildren
from efrit.controller.act.plan_actor import PlanActor
from efrit.controller.act.pool_actor import PoolActor
from efrit.controller.act.result_secret import create_result
from efrit.controller.act.warning_events import WarningEvents
from efrit.controller.model.actions import (
    Acknowledge,
    Action,
    ApplyChildren,
    ApplyDisruptionBudget,
    ApplySecret,
    Bind,
    CancelRequest,
    CancelWork,
    ConfirmClaims,
    ConfirmHandover,
    ConfirmLeft,
    ConfirmMissing,
    ConfirmPlan,
    ConnectBridge,
    CreateMember,
    CreateRequest,
    Decision,
    DecisionOutcome,
    Delete,
    DeleteLater,
    DisconnectBridge,
    Drain,
    FetchAnswer,
    FindSession,
    IsolatePod,
    KeepChildren,
    KeepRevision,
    ListRequests,
    Parked,
    PatchStatus,
    PauseHandover,
    PutBack,
    ReadContent,
    ReadHistory,
    ReadResult,
    ReadWarningEvents,
    Record,
    ReleaseDisruptionBudget,
    RemoveInstance,
    RemoveRevision,
    RequeueAfter,
    ReserveUpdate,
    ResumeHandover,
    ReturnMember,
    Scale,
    SettleOrphan,
    StopPod,
    StoreResult,
    Submit,
    Superseded,
    TakeFiguresTurn,
    TakeMember,
    Wake,
)
from efrit.controller.model.keys import WorkKey
from efrit.controller.store.expirations import Expiration
from efrit.controller.store.store import Store
from efrit.errors import (
    ApiConflict,
    ApiError,
    ApiForbidden,
    ApiNotFound,
    ApiRefused,
    ApiTooLarge,
    BridgeUnreachable,
    BridgeUnresponsive,
    EfritError,
    InvalidRequest,
    NoSpace,
    NotAnswered,
    NotLeading,
    QueueFull,
    QueueNotReady,
    RequestConflict,
    RequestNotFound,
)
from efrit.protocol import RequestId, kind_label
from efrit.protocol.handover import BatchElement, BatchOperation
from efrit.protocol.resource_case import from_resource
from efrit.protocol.session import Usage
from efrit.protocol.token_counts import TOKEN_DIRECTIONS, tokens_of
from efrit.protocol.view import RequestView
from efrit.resources import REQUESTS, resource_named

log = logging.getLogger(__name__)

BridgeCall = Submit | CancelWork | FetchAnswer | Acknowledge

OUT_OF_TURN = {Decision.SESSION_HOME, Decision.PREEMPTING}
"""Placements that need no room: whoever continues a session, or takes the place of another."""
TOKENS = {direction: metrics.MODEL_TOKENS.labels(direction) for direction in TOKEN_DIRECTIONS}
RETRY_CONFLICT = timedelta(seconds=1)
SLOW_CALL_SECONDS = 1.0
"""A call to a bridge that takes longer holds no worker: its disk may hang."""
SAY_UNRESPONSIVE = timedelta(seconds=1)
"""When a request is decided about again that is not handed over: until then its status says nothing."""


class Actor:
    """The only writer of the cluster and the bridges."""

    def __init__(
        self,
        kube: Kube,
        bridges: Bridges,
        store: Store,
        clock: Callable[[], datetime],
        name: str,
        leading: Callable[[], bool],
    ) -> None:
        self._kube = kube
        self._bridges = bridges
        self._store = store
        self._clock = clock
        self._name = name
        self._leading = leading
        owned = OwnedChildren(kube)
        self._children = InstanceChildrenActor(kube, store, owned)
        self._pools = PoolActor(kube, store, owned)
        self._plans = PlanActor(kube, store)
        self._confirm = Confirmations(kube, store)
        self._warnings = WarningEvents(kube)
        self._events = EventRecorder(kube, clock, name)
        self._calls: set[asyncio.Task[None]] = set()
        """Calls that go on without a worker; they end with the connections to their bridges."""

    async def carry_out_all(self, key: WorkKey, actions: Iterable[Action]) -> DecisionOutcome:
        """Carry out a decision about `key`, action by action, as long as it stands."""
        remaining = deque(actions)
        try:
            while remaining:
                action = remaining.popleft()
                await self.carry_out(key, action, detachable=all(map(_needs_no_outcome, remaining)))
        except Superseded as cause:
            log.debug("%s %s/%s: the decision is superseded: %s", *key, cause)
            if isinstance(cause, Parked):
                for action in remaining:
                    if isinstance(action, RequeueAfter):
                        await self.carry_out(key, action)
            return DecisionOutcome.SUPERSEDED
        return DecisionOutcome.CARRIED_OUT

    def reconciled(self, key: WorkKey) -> None:
        """Take in that the reconciliation of a key is over: a place it was given and did not use goes to others."""
        self._bridges.key_reconciled(key)

    async def carry_out(self, key: WorkKey, action: Action, *, detachable: bool = False) -> None:
        """Carry out one action of a decision about `key`.

        detachable: a call to a bridge may go on when this returns; the key is not reconciled again until it is over.

        Raises Superseded where the rest of the decision does not stand, EfritError where it should be tried again.
        """
        match action:
            case RequeueAfter(after=after):
                self._store.requeue_after(key, after)
            case Wake(instance=instance):
                self._store.instances.requeue(instance)
            case DeleteLater(kind=kind, key=finished, uid=uid, due=due):
                self._store.expirations.add(Expiration(due, kind, finished, uid))
            case ReserveUpdate(instance=instance, cause=cause):
                # Others that are decided about while the status is being written must see it.
                self._store.rollouts.reserve(instance, cause, self._clock())
            case TakeFiguresTurn(instance=instance):
                self._store.instances.take_figures_turn(instance)
            case Scale(pool=pool, pool_uid=uid, needed=needed, wanted=wanted, cause=cause):
                self._store.pools.scale(pool, uid, needed, wanted, cause)
                pool_metrics.count_scaling(action)
            case Drain(pool=pool, pool_uid=uid, members=members):
                self._store.pools.drain(pool, uid, members)
            case _:
                self._require_lease(action)
                await self._write(key, action, detachable)

    def _require_lease(self, action: Action) -> None:
        # A process that was stopped for a while goes on in the middle of things: somebody else may lead by now.
        if not self._leading():  # gate: leading
            raise NotLeading(
                f"{self._name} cannot be sure that it holds the lease: {type(action).__name__} is not done"
            )

    async def _write(self, key: WorkKey, action: Action, detachable: bool) -> None:
        match action:
            case Submit() | CancelWork() | FetchAnswer() | Acknowledge():
                await self._call_in_bulkhead(key, action, detachable)
            case PatchStatus(droppable=True):
                await self._write_progress(action)
            case Bind():
                await self._bind(action)
            case PutBack():
                await self._patch_status(action)
                pool_metrics.count_preemption(action)
            case PatchStatus():
                self._begin_patch(action)
                await self._patch_status(action)
            case FindSession():
                await self._find_session(action)
            case ReadContent():
                await self._confirm.content(action)
            case SettleOrphan():
                await self._settle_orphan(key, action)
            case StoreResult():
                await self._store_result(action)
            case ConnectBridge():
                await self._bridges.connect(action)
            case DisconnectBridge(instance=instance):
                await self._bridges.disconnect(instance)
            case ApplyChildren():
                await self._children.apply(action)
            case ApplySecret():
                await self._children.apply_child(action, action.manifest)
            case KeepChildren():
                await self._children.apply_each(action, only_changed=True)
            case StopPod():
                await self._children.stop_pod(action)
            case IsolatePod():
                await self._children.isolate_pod(action)
            case Delete():
                await self._delete(action)
            case RemoveInstance():
                await self._remove(action)
            case PauseHandover(instance=instance):
                self._store.instances.pause_handover(instance)
            case ResumeHandover(instance=instance):
                self._store.instances.resume_handover(instance)
            case ConfirmLeft():
                await self._confirm.left(action)
            case ConfirmMissing():
                await self._confirm.missing(action)
            case ConfirmHandover():
                await self._confirm.handover(action)
            case ConfirmClaims():
                await self._confirm.claims(action)
            case ConfirmPlan():
                await self._confirm.plan(action)
            case ReadWarningEvents():
                # A read that is left out is asked for again; a worker that waits for its turn would do nothing else.
                if not self._warnings.busy:
                    problem = await self._warnings.explain(action)
                    self._store.instances.explained(action.instance, action.pod_uid, problem)
            case Record():
                await self._events.record(action)
            case CreateMember():
                await self._pools.create_member(action)
            case ApplyDisruptionBudget():
                await self._pools.apply_disruption_budget(action)
            case ReleaseDisruptionBudget():
                await self._pools.release_disruption_budget(action)
            case ReadHistory():
                await self._pools.read_history(action)
            case KeepRevision():
                await self._pools.keep_revision(action)
            case RemoveRevision():
                await self._pools.remove_revision(action)
            case TakeMember():
                await self._pools.take_member(action)
            case ReturnMember():
                await self._pools.return_member(action)
            case CreateRequest():
                await self._plans.create(action)
            case CancelRequest():
                await self._plans.cancel(action)
            case ListRequests():
                await self._plans.list(action)
            case ReadResult():
                await self._plans.read(action)
            case _:
                raise TypeError(f"{action!r} is not an action")

    async def _call_in_bulkhead(self, key: WorkKey, action: BridgeCall, detachable: bool) -> None:
        """Call the bridge. Raises Parked where too many calls to it are under way, or none are made at all."""
        line = self._batch_line(action)
        try:
            with contextlib.ExitStack() as place:
                together = line is not None
                place.enter_context(self._bridges.call(action.instance, key, _depth(action), together=together))
                if together and detachable:
                    self._detach(key, action, line, place.pop_all())
                    return
                with self._yield_worker_if_slow(key):
                    await self._call_bridge(action, line)
        except Parked as parked:
            if isinstance(action, Submit):
                self._store.requests.parked(action.request_key, str(action.request.id))
            if parked.problem is not None and not isinstance(action, Acknowledge):
                uid = str(action.request.id) if isinstance(action, Submit) else action.uid
                reported_problem = parked.problem
                where = f"{action.instance[0]}/{action.instance[1]}"
                error = (
                    NoSpace(reported_problem)
                    if parked.no_room
                    else BridgeUnresponsive(f"{where}: {reported_problem}")
                )
                if self._store.requests.action_failed(action.request_key, uid, type(action).__name__, error):
                    self._store.requeue_after(key, SAY_UNRESPONSIVE)
            raise

    def _batch_line(self, action: BridgeCall) -> bytes | None:
        """Return what of a call travels in a batch, None where it is to be made on its own."""
        element = batch_element(action)
        return None if element is None else self._bridges.batch_line(action.instance, element)

    def _detach(self, key: WorkKey, action: BridgeCall, line: bytes | None, place: contextlib.ExitStack) -> None:
        """Have a call go on without a worker: in a burst many wait for the same batch."""
        self._store.detach(key)
        task = asyncio.create_task(self._call_detached(key, action, line, place), name="batch-element")
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _call_detached(
        self, key: WorkKey, action: BridgeCall, line: bytes | None, place: contextlib.ExitStack
    ) -> None:
        failure: Exception | None = None
        try:
            with place:
                await self._call_bridge(action, line)
        except Superseded as cause:
            log.debug("%s %s/%s: the call is superseded: %s", *key, cause)
        except Exception as error:  # noqa: BLE001 - the work queue logs it, and comes back to the key
            failure = error
            metrics.RECONCILE_FAILURES.labels(key.kind).inc()
        else:
            if isinstance(action, Acknowledge) and key.kind == "EfritRequest":
                # Once its answer is acknowledged nothing may be left to do with it.
                self._store.requests.drop_if_done((key.namespace, key.name))
        finally:
            self._store.release(key, failure)

    @contextlib.contextmanager
    def _yield_worker_if_slow(self, key: WorkKey) -> Iterator[None]:
        """Have others worked on meanwhile, where what is done in this block takes long."""
        timer = asyncio.get_running_loop().call_later(SLOW_CALL_SECONDS, self._store.set_aside, key)
        try:
            yield
        finally:
            timer.cancel()

    async def _call_bridge(self, action: BridgeCall, line: bytes | None) -> None:
        match action:
            case Submit():
                await self._submit(action, line)
            case CancelWork():
                await self._cancel(action, line)
            case FetchAnswer():
                await self._fetch(action)
            case Acknowledge(instance=instance, uid=uid):
                await self._bridges.acknowledge(instance, uid, line)
                self._store.bridges.answer_acknowledged(instance, uid)

    async def _submit(self, action: Submit, line: bytes | None) -> None:
        uid = str(action.request.id)
        if not self._store.handovers.submit_begins(action.instance, action.request_key, uid, action.handover_id):
            raise Superseded("the instance is not open under this id any more")
        may_have_arrived = True
        try:
            view = await self._hand_over(action, uid, line)
        except InvalidRequest as error:
            self._store.handovers.bridge_refused(action.request_key, uid, error.message)
        except EfritError as error:
            may_have_arrived = _may_have_arrived(error)
            if isinstance(error, BridgeUnreachable) and may_have_arrived:  # gate: may-have-arrived
                self._store.handovers.handed_over(action.instance, action.request_key, uid)
            self._store.requests.action_failed(action.request_key, uid, "Submit", error)
            raise
        except asyncio.CancelledError:
            self._store.handovers.handed_over(action.instance, action.request_key, uid)
            raise
        else:
            self._store.bridges.request_submitted(action.instance, view)
        finally:
            self._store.handovers.submit_ended(
                action.instance, action.request_key, uid, may_have_arrived=may_have_arrived
            )

    async def _hand_over(self, action: Submit, uid: str, line: bytes | None) -> RequestView:
        try:
            return await self._bridges.submit(action.instance, action.request, line)
        except RequestConflict:
            # UIDs are unique: it is the same request, handed over under other defaults of its instance.
            self._store.handovers.handed_over(action.instance, action.request_key, uid)
            return await self._bridges.read(action.instance, uid)

    async def _cancel(self, action: CancelWork, line: bytes | None) -> None:
        instance, uid = action.instance, action.uid
        try:
            view = await self._bridges.cancel(instance, uid, action.request, line, running=action.running)
        except RequestNotFound:
            self._store.handovers.absent(action.request_key, action.uid, "")
        except InvalidRequest as error:
            self._store.handovers.bridge_refused(action.request_key, action.uid, error.message)
        except EfritError as error:
            self._store.requests.action_failed(action.request_key, action.uid, "CancelWork", error)
            raise
        else:
            self._store.bridges.view(action.instance, view)

    async def _fetch(self, action: FetchAnswer) -> None:
        try:
            view = await self._bridges.read(action.instance, action.uid)
        except EfritError as error:
            self._store.requests.action_failed(action.request_key, action.uid, "FetchAnswer", error)
            raise
        self._store.bridges.view(action.instance, view)

    async def _write_progress(self, action: PatchStatus) -> None:
        """Patch the status, on the same condition as any; one that does not succeed is dropped.

        The object has changed, or is final: the watch reports it, and what it says next of the request is newer.
        """
        try:
            obj = await self._send_patch(action)
        except ApiError as error:  # gate: progress-refused
            log.debug("%s/%s: its progress is not reported: %s", *action.key, error)
            self._store.requests.progress_dropped(action.key, action.uid)
            return
        metrics.status_writes(action.kind).inc()
        self._store.requests.observe_written(obj)

    async def _send_patch(self, action: PatchStatus) -> dict[str, Any]:
        namespace, name = action.key
        removed = dict.fromkeys(action.old.keys() - action.status.keys())
        body = {
            "metadata": {"resourceVersion": action.resource_version, "uid": action.uid},  # gate: status-version
            "status": {**_merge(action.status, action.old), **removed},
        }
        return await self._kube.patch_status(resource_named(action.kind), namespace, name, body)

    async def _find_session(self, action: FindSession) -> None:
        instance_name = ""
        selector = f"status.session.id={action.session}"
        async for obj in self._kube.pages(REQUESTS, action.request_key[0], fieldSelector=selector):
            # A session stays where it began, and may have had thousands of requests.
            if instance_name := obj["status"].get("instanceName") or "":
                break  # gate: session-found
        self._store.requests.session_found(action.request_key, action.uid, instance_name)

    async def _bind(self, action: Bind) -> None:
        """Bind a request; one that could not be counts for the instance no more.

        Where the API server is unavailable it keeps its turn, and nobody else has it meanwhile: they would all fail.
        """
        self._begin_patch(action)
        in_turn = action.placed is None or action.placed.decision not in OUT_OF_TURN
        self._store.requests.assume(action.key, action.instance, in_turn=in_turn)
        try:
            await self._patch_status(action)
        except BaseException as error:
            if not isinstance(error, (ApiRefused, Superseded)):
                self._store.requests.binding_failed(action.key, action.uid)  # gate: bind-pause
            self._store.requests.assume(action.key, None)  # gate: bind-failed
            raise
        if action.placed is not None:
            pool_metrics.count_placement(action.placed)

    def _begin_patch(self, action: PatchStatus) -> None:
        """Let the store know of what others must see while the status is being written."""
        if action.closes and not self._store.handovers.close_begins(action.key):
            raise Superseded("a request was handed over since the decision")
        queue = action.status.get("queueID")
        if action.kind == "EfritRequest" and queue not in (None, action.old.get("queueID")):
            self._store.requests.queue_recorded(action.key, action.uid, queue)

    async def _settle_orphan(self, key: WorkKey, action: SettleOrphan) -> None:
        request, instance, uid = action.request_key, action.instance, action.uid
        is_open = await self._confirm.orphan_is_open(request, uid)
        if is_open:
            return
        if is_open is None:
            log.info("%s/%s: its work %s on %s is stopped: nobody asks for it any more", *request, uid, instance[1])
            await self.carry_out(key, CancelWork(instance, request, uid))
        try:
            await self.carry_out(key, Acknowledge(instance, uid))
        except NotAnswered:
            log.debug("%s/%s: waiting for the end of its work", *request)
        else:
            self._store.bridges.orphan_settled(request, instance, uid)

    async def _patch_status(self, action: PatchStatus) -> None:
        try:
            obj = await self._send_patch(action)
        except (ApiConflict, ApiNotFound) as error:
            # Somebody was faster, or it is another object by now: take in what is there and decide anew.
            await self._reread(action)  # gate: reread
            # Not every change requeues: of a plan only what it may wait for.
            self._store.requeue_after(WorkKey(action.kind, *action.key), RETRY_CONFLICT)
            raise Superseded("the object has changed") from error
        except ApiRefused as error:
            if isinstance(error, ApiTooLarge):
                self._store.of(action.kind).status_too_large(action.key, action.uid)
            else:
                # Perhaps it is final already, which the watch has yet to report; otherwise come back later.
                await self._reread(action)
            if action.kind == "EfritRequest":
                self._store.requests.status_refused(action.key, action.uid)
            elif action.kind == "EfritClaim":
                forbidden = isinstance(error, ApiForbidden)
                self._store.claims.status_refused(action.key, action.uid, error.sentence, forbidden=forbidden)
            raise
        metrics.status_writes(action.kind).inc()
        self._store.of(action.kind).observe_written(obj)
        if action.kind == "EfritRequest":
            _count(action, self._clock())
        elif action.kind == "EfritInstance":
            self._store.instances.status_written(action.key, figures_alone=action.figures_alone)
        elif action.kind == "EfritPool":
            self._store.pools.status_written(action.key)
        elif action.kind == "EfritPlan" and action.status.get("phase") in FINAL_PHASES:
            metrics.PLANS_FINISHED.labels(action.status.get("reason", "")).inc()

    async def _reread(self, action: PatchStatus) -> None:
        if action.kind == "EfritPool":
            # Nothing depends on it at once, and the watch reports it.
            return
        try:
            obj = await self._kube.get(resource_named(action.kind), *action.key)
        except ApiNotFound:
            self._store.of(action.kind).deleted(action.key, action.uid)
            return
        # What is known would be decided about at once, and refused again.
        meta = obj["metadata"]
        if (meta["uid"], meta["resourceVersion"]) != (action.uid, action.resource_version):
            self._store.of(action.kind).observe(obj)

    async def _store_result(self, action: StoreResult) -> None:
        """Create the Secret of a result. Raises Superseded where it was refused, which the store then knows.

        A namespace that is being deleted refuses everything, the request included: that is no refusal of the result.
        """
        try:
            await create_result(self._kube, action.manifest)
        except ApiRefused as error:
            self._store.requests.action_failed(action.request_key, action.uid, "StoreResult", error, refused=True)
            raise Superseded("the Secret was refused") from error
        except ApiError as error:
            self._store.requests.action_failed(action.request_key, action.uid, "StoreResult", error, refused=False)
            raise
        self._store.requests.result_stored(action.request_key, action.uid)

    async def _delete(self, action: Delete) -> None:
        """Delete an object. Raises Superseded where it has changed since the decision."""
        try:
            await self._kube.delete(
                resource_named(action.kind), *action.key, uid=action.uid, resource_version=action.resource_version
            )
        except ApiNotFound:
            log.debug("%s %s/%s is gone already", action.kind, *action.key)
        except ApiConflict:
            obj = await self._current_object(action)
            if obj is not None and action.resource_version is None:
                raise
            if obj is not None:
                self._store.of(action.kind).observe(obj)
                raise Superseded("the object has changed") from None
        self._store.of(action.kind).deleted(action.key, action.uid)

    async def _remove(self, action: RemoveInstance) -> None:
        """Delete an instance. Raises Superseded where it has changed since the decision, or has work by now."""
        instances, key = self._store.instances, action.instance
        if not instances.removal_begins(key, only_idle=action.only_idle):
            raise Superseded("the instance has work by now")
        try:
            if action.only_idle:
                await self._confirm.idle(key)  # gate: confirm-idle
            version = action.resource_version  # gate: removal-version
            await self._delete(Delete("EfritInstance", key, action.uid, version))
        finally:
            instances.removal_ended(key)

    async def _current_object(self, action: Delete) -> dict[str, Any] | None:
        try:
            obj = await self._kube.get(resource_named(action.kind), *action.key)
        except ApiNotFound:
            return None
        return obj if obj["metadata"]["uid"] == action.uid else None


def _may_have_arrived(error: EfritError) -> bool:
    """Return whether a hand-over that failed may be on the queue all the same."""
    if isinstance(error, BridgeUnreachable):
        return error.sent
    return not isinstance(error, QueueNotReady | QueueFull | NotLeading)


def batch_element(action: BridgeCall) -> BatchElement | None:
    """Return a call as an element of a batch, None for one that cannot be one."""
    match action:
        case Submit(request=request):
            return BatchElement(op=BatchOperation.SUBMIT, id=request.id, request=request)
        case CancelWork(uid=uid, request=request, running=running):
            return BatchElement(op=BatchOperation.CANCEL, id=RequestId(uid), request=request, running=running)
        case Acknowledge(uid=uid):
            return BatchElement(op=BatchOperation.ACKNOWLEDGE, id=RequestId(uid))
        case FetchAnswer():
            return None


def _needs_no_outcome(action: Action) -> bool:
    """Return whether an action may be carried out before it is known what came of the one before it."""
    return isinstance(action, RequeueAfter | DeleteLater)


def _depth(action: BridgeCall) -> Depth:
    match action:
        case Submit():
            return Depth.SUBMIT
        case FetchAnswer():
            return Depth.READ
        case _:
            return Depth.WRITE


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
    if not action.status.get("usage"):
        return
    usage = from_resource(Usage, action.status["usage"])
    for direction, counter in TOKENS.items():
        counter.inc(tokens_of(usage, direction))
    metrics.MODEL_CALLS.inc(usage.model_calls)
    for kind, count in usage.model_errors.items():
        metrics.MODEL_ERRORS.labels(kind_label(kind)).inc(count)
