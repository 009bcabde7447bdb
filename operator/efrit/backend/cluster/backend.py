"""The backend of a cluster: creates and watches custom resources. What a user may not do, the API server refuses."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import efrit.backend.eval_log as eval_log
import efrit.backend.resource_fields as resource_fields
from efrit.api_group import EMACS_CONTAINER, QUEUE_DIR, pod_name
from efrit.backend.claims import Claim, NewClaim
from efrit.backend.cluster import claims, convert, pool_history, pools
from efrit.backend.cluster.api import Api, Json, decoded, load_connection
from efrit.backend.cluster.doctor import examine
from efrit.backend.cluster.plans import ClusterPlans
from efrit.backend.cluster.watch_object import states_of
from efrit.backend.cluster.work_log import WorkLog
from efrit.backend.cluster.work_log import follow as followed
from efrit.backend.errors import (
    Conflict,
    Forbidden,
    InstanceNotFound,
    NoInstance,
    NotFinished,
    NotFound,
    NotReady,
    Refused,
    RequestNotFound,
    ResultGone,
    ResultTruncated,
)
from efrit.backend.interface import (
    ANY_INSTANCE,
    Finding,
    Handle,
    Instance,
    InstanceStats,
    Phase,
    Removed,
    RequestState,
    Setup,
    Started,
    StartStatus,
    Stopped,
    StopStatus,
    Update,
    Work,
)
from efrit.backend.placement import default_instance, least_loaded
from efrit.backend.pools import Pool, PoolRevision, Scaled, Undone
from efrit.backend.whole_result import without_texts
from efrit.backend.work_log import entry, model_text
from efrit.kube.client import name_selector
from efrit.protocol.enums import UNSTORED_RESULT
from efrit.resources import INSTANCES, REQUESTS, SECRETS

START_SECONDS = 300.0
STOP_SECONDS = 120.0


async def connect_cluster(kubeconfig: Path | None, context: str | None, namespace: str | None) -> ClusterBackend:
    """Return the backend of the cluster that kubectl would use. Raises `NoCluster`."""
    configuration, own, place = await load_connection(kubeconfig, context, namespace)
    options = ["--kubeconfig", str(kubeconfig)] if kubeconfig is not None else []
    options += ["--context", context] if context is not None else []
    return ClusterBackend(Api(configuration), own, place, tuple(options))


class ClusterBackend:
    """`efrit.backend.interface.Backend` in one namespace of a cluster."""

    kind = "cluster"
    max_daemon_names = 1000
    """Of the instances that were read last: a server reads ever new ones."""

    def __init__(self, api: Api, namespace: str, place: str, kubectl_options: Sequence[str] = ()) -> None:
        self.api = api
        self.namespace = namespace
        self._place = place
        self._kubectl_options = tuple(kubectl_options)
        self._daemon_names: dict[str, str] = {}

    @property
    def place(self) -> str:
        """The context and the namespace."""
        return self._place

    async def close(self, *, handed_over: bool = True) -> None:
        """Close the connections. A response in a status stays where it is."""
        await self.api.close()

    # Instances

    async def instances(self) -> Sequence[Instance]:
        """Return the instances of the namespace, by name."""
        pages = self.api.pages(INSTANCES, self.namespace)
        return sorted([convert.instance_of(obj, _now()) async for obj in pages], key=lambda instance: instance.id)

    async def instance(self, name: str) -> Instance:
        """Return one instance. Raises `InstanceNotFound`."""
        instance = convert.instance_of(await self._instance(name), _now())
        self._daemon_names.pop(name, None)
        self._daemon_names[name] = instance.daemon_name or convert.DAEMON
        if len(self._daemon_names) > self.max_daemon_names:
            del self._daemon_names[next(iter(self._daemon_names))]
        return instance

    async def _instance(self, name: str) -> Json:
        try:
            return await self.api.get(INSTANCES, self.namespace, name)
        except NotFound as error:
            raise InstanceNotFound(
                f"there is no instance {name!r} in the namespace {self.namespace}", "see `efrit instances`"
            ) from error

    async def start(self, name: str, setup: Setup | None = None) -> Started:
        """Create the instance, or end its suspension, and wait until it is ready."""
        setup = setup or Setup()
        if setup.init is not None:
            raise Refused(
                "an instance in a cluster cannot load your init file", "name one in spec.emacs.initConfigMapRef"
            )
        if setup.queue_dir is not None or setup.workspace_dir is not None:
            raise Refused("in a cluster the queue and the workspace are volumes", "leave the directories out")
        emacs = {"image": setup.image, "daemonName": setup.daemon_name}
        emacs = {key: value for key, value in emacs.items() if value is not None}
        try:
            obj = await self._instance(name)
        except InstanceNotFound:
            manifest = INSTANCES.manifest({"name": name}, spec={"emacs": emacs})
            obj = await self.api.create(manifest, self.namespace)
        else:
            now = obj.get("spec", {}).get("emacs") or {}
            if any(now.get(key) != value for key, value in emacs.items()):
                raise Refused(
                    f"{name} already exists with another image or daemon name", "change its spec with kubectl"
                )
            if resource_fields.condition(obj, "Ready").get("status") == "True" and not _suspended(obj):
                return self._started(StartStatus.ALREADY_RUNNING, f"{name} was running", obj)
            await self.api.patch(INSTANCES, self.namespace, name, {"spec": {"operatingMode": "Running"}})
        obj = await self._until(name, START_SECONDS, lambda obj: _condition_is(obj, "Ready", "True"))
        return self._started(StartStatus.STARTED, f"{name} takes work", obj)

    def _started(self, status: StartStatus, message: str, obj: Json) -> Started:
        daemon = convert.instance_of(obj, _now()).daemon_name or convert.DAEMON
        return Started(status, message, QUEUE_DIR, daemon)

    async def stop(self, name: str, *, now: bool = False) -> Stopped:
        """Suspend the instance once its running requests have ended; with `now`, cancel them. Its volumes stay.

        Pending requests stay pending.
        """
        obj = await self._instance(name)
        if _suspended(obj) and not _condition_is(obj, "Ready", "True"):
            return Stopped(StopStatus.NOT_RUNNING, f"{name} is suspended")
        await self.api.patch(INSTANCES, self.namespace, name, {"spec": {"operatingMode": "Suspended"}})
        suspended = asyncio.ensure_future(
            self._until(name, STOP_SECONDS, lambda obj: _condition_is(obj, "Suspended", "True"))
        )
        try:
            if now:
                await self._cancel_running(name, suspended)
            await suspended
        finally:
            suspended.cancel()
        return Stopped(StopStatus.STOPPED, f"{name} is suspended")

    async def _cancel_running(self, name: str, suspended: asyncio.Future[Json]) -> None:
        """Cancel what runs on the instance until it is suspended: what was claimed last shows only after a second."""
        cancelled: set[str] = set()
        while not suspended.done():
            for state in await self.requests(name, brief=True):
                if state.phase is Phase.RUNNING and state.handle.id not in cancelled:
                    cancelled.add(state.handle.id)
                    await self.cancel(state.handle)
            await asyncio.wait({suspended}, timeout=1.0)

    async def remove(self, name: str, *, files: bool = False) -> Removed:
        """Delete the EfritInstance; the claims of its volumes go or stay as its spec says."""
        if files:
            raise Refused("in a cluster an instance's volumes follow its spec", "leave --files out")
        await self._instance(name)
        await self.api.delete(INSTANCES, self.namespace, name, uid=None)
        return Removed(f"{name} is deleted")

    async def _until(self, name: str, seconds: float, reached: Callable[[Json], bool]) -> Json:
        limit = time.monotonic() + seconds
        last: Json = {}
        while True:
            objects, version = await self.api.list(INSTANCES, self.namespace, fieldSelector=name_selector(name))
            if not objects:
                raise InstanceNotFound(f"the instance {name} was deleted")
            last = objects[0]
            if reached(last):
                return last
            try:
                async with asyncio.timeout(max(0.0, limit - time.monotonic())):
                    async for _, last in self.api.watch(
                        INSTANCES, self.namespace, version, fieldSelector=name_selector(name)
                    ):
                        if reached(last):
                            return last
                await asyncio.sleep(0.2)
            except TimeoutError:
                message = (
                    resource_fields.condition(last, "Ready").get("message") or "the operator has not reconciled it"
                )
                raise NotReady(
                    f"{name} is not there yet after {seconds:g} s: {message}", "run `efrit doctor`"
                ) from None

    async def stats(self, name: str) -> InstanceStats:
        """Return the figures of the instance's queue, at most ten seconds old."""
        return convert.stats_of(await self._instance(name), _now())

    def attach_command(self, name: str) -> Sequence[str]:
        """Return the kubectl command that runs `emacsclient` in the pod."""
        daemon = self._daemon_names.get(name, convert.DAEMON)
        inside = ["emacsclient", "--tty", f"--socket-name={daemon}"]
        command = ["kubectl", *self._kubectl_options, "--namespace", self.namespace]
        return [*command, "exec", "--stdin", "--tty", pod_name(name), "--container", EMACS_CONTAINER, "--", *inside]

    async def examine(self) -> Sequence[Finding]:
        """Examine the API server, the operator's resources, your permissions and each instance."""
        return await examine(self.api, self.namespace, self._place)

    def planning(self) -> ClusterPlans:
        """Return the plans of the namespace."""
        return ClusterPlans(self.api, self.namespace, self)

    # Pools

    async def pools(self) -> Sequence[Pool]:
        """Return the pools of the namespace, by name."""
        return await pools.list_pools(self.api, self.namespace)

    async def pool(self, name: str) -> Pool:
        """Return one pool. Raises `PoolNotFound`."""
        return await pools.get_pool(self.api, self.namespace, name)

    async def scale_pool(self, name: str, replicas: int) -> Scaled:
        """Set spec.replicas through /scale; the operator does the rest."""
        return await pools.scale_pool(self.api, self.namespace, name, replicas)

    async def pool_history(self, name: str) -> Sequence[PoolRevision]:
        """Return the ControllerRevisions of the pool, the oldest first."""
        return await pool_history.pool_history(self.api, self.namespace, name)

    async def undo_pool(self, name: str, to_revision: int | None = None) -> Undone:
        """Set spec.template to a former one; the operator does the rest."""
        return await pool_history.undo_pool(self.api, self.namespace, name, to_revision)

    # Exclusive claims

    async def claims(self) -> Sequence[Claim]:
        """Return the claims of the namespace, by name."""
        return await claims.list_claims(self.api, self.namespace)

    async def claim(self, name: str) -> Claim:
        """Return one claim. Raises `ClaimNotFound`."""
        return await claims.get_claim(self.api, self.namespace, name)

    async def claim_member(self, new: NewClaim) -> Claim:
        """Create an EfritClaim; the operator does the rest."""
        return await claims.claim_member(self.api, self.namespace, new)

    def watch_claim(self, name: str) -> AsyncIterator[Claim]:
        """Yield the claim's states as they change."""
        return claims.watch_claim(self.api, self.namespace, name)

    async def release_claim(self, name: str) -> Claim:
        """Set spec.released; the operator does the rest."""
        return await claims.release_claim(self.api, self.namespace, name)

    # Work

    async def submit(self, work: Work) -> Handle:
        """Create an EfritRequest; one with the same key is the same request."""
        name = convert.request_name(work, secrets.token_hex(10))
        if work.key is not None:
            existing = await self._find(name)
            if existing is not None:
                return self._existing_handle(work, existing)
        target = await self._target(work)
        body = convert.manifest(work, name, target)
        try:
            created = await self.api.create(body, self.namespace)
        except Conflict:
            existing = await self._find(name)
            if existing is None or work.key is None:
                raise
            return self._existing_handle(work, existing)
        return convert.request_of(created).handle

    def _existing_handle(self, work: Work, existing: Json) -> Handle:
        stored_digest = existing["metadata"].get("annotations", {}).get(resource_fields.DIGEST)
        digest = convert.manifest(work, "-", {})["metadata"]["annotations"][resource_fields.DIGEST]
        if stored_digest != digest:
            raise Conflict(f"the key {work.key!r} was used before for other work", "choose another key")
        return convert.request_of(existing).handle

    async def _find(self, name: str) -> Json | None:
        try:
            return await self.api.get(REQUESTS, self.namespace, name)
        except NotFound:
            return None

    async def _target(self, work: Work) -> Mapping[str, Any]:
        if work.instance not in (None, ANY_INSTANCE):
            await self._instance(str(work.instance))
            return {"instanceRef": {"name": work.instance}}
        if work.pool is not None:
            await pools.check_pool(self.api, self.namespace, work.pool)
            return {"poolRef": {"name": work.pool}}
        if work.selector:
            return {"selector": {"matchLabels": dict(work.selector)}}
        if work.session is not None:
            return {"instanceRef": {"name": await self._instance_of_session(work.session)}}
        instances = await self.instances()
        name = (
            least_loaded(instances).id if work.instance else default_instance(instance.id for instance in instances)
        )
        return {"instanceRef": {"name": name}}

    async def _instance_of_session(self, session: str) -> str:
        selector = f"status.session.id={session}"
        async for obj in self.api.pages(REQUESTS, self.namespace, fieldSelector=selector):
            if name := obj.get("status", {}).get("instanceName"):
                return str(name)
        raise NoInstance(f"no request names the instance of the session {session}", "name the instance")

    def handle_of(self, key: str, instance: str | None = None) -> Handle:
        """Return the handle of the request that was submitted with `key`, if one was."""
        return Handle(convert.name_of_key(key), instance)

    async def get(self, handle: Handle) -> RequestState:
        """Return the present state. Raises `RequestNotFound`."""
        return convert.request_of(await self._request(handle))

    async def _request(self, handle: Handle) -> Json:
        obj = await self._find(handle.id)
        if obj is None:
            raise _gone(handle, self.namespace)
        return obj

    async def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        """Yield the request's states as they change.

        With `words`, and the permission to exec into pods, also yields the model's text as it comes.
        """
        changes = self._changes(handle)
        if not words:
            async for state in changes:
                yield Update(state)
            return
        async for update in followed(changes, await self._log_of(handle)):
            if isinstance(update, RequestState):
                yield Update(update)
            elif text := model_text(entry(update)):
                yield Update(text=text)

    def _changes(self, handle: Handle) -> AsyncIterator[RequestState]:
        return states_of(
            self.api, REQUESTS, self.namespace, handle.id, convert.request_of, lambda: _gone(handle, self.namespace)
        )

    async def cancel(self, handle: Handle) -> RequestState:
        """Set spec.cancel; the operator does the rest."""
        try:
            obj = await self.api.patch(REQUESTS, self.namespace, handle.id, {"spec": {"cancel": True}})
        except NotFound as error:
            raise _gone(handle, self.namespace) from error
        return convert.request_of(obj)

    async def result(self, handle: Handle, *, before_rest: Callable[[], Awaitable[None]] | None = None) -> str:
        """Return the whole result: from the status, from the Secret it names, or from the workspace volume."""
        obj = await self._request(handle)
        state = convert.request_of(obj)
        if not state.final:
            raise NotFinished(f"{handle.id} is {state.reason}: it has no result yet", f"efrit wait {handle.id}")
        reference = obj.get("status", {}).get("resultRef")
        if not reference:
            if state.truncated:
                raise _not_stored(state) or _truncated(handle, state.result or "")
            return state.result or ""
        if before_rest is not None:
            await before_rest()
        data = await self._referenced(state, reference)
        if not (sha256 := reference.get("sha256")):
            # Emacs names the digest of whole results only.
            raise _truncated(handle, data.decode(errors="replace"))
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ResultGone(f"the whole result of {handle.id} was changed since")
        return data.decode(errors="replace")

    async def _referenced(self, state: RequestState, reference: Json) -> bytes:
        name = reference.get("secretName")
        try:
            if name is not None:
                data = decoded(await self.api.get(SECRETS, self.namespace, name), reference.get("key", ""))
                if data is not None:
                    return data
                raise NotFound(f"the Secret {name} has no such key")
            pod = pod_name(state.handle.instance or "")
            return await self.api.exec_output(
                self.namespace,
                pod,
                EMACS_CONTAINER,
                ["cat", "--", str(reference["workspacePath"])],
                # Code in the pod may have put another file there, one without an end included.
                max_bytes=int(reference.get("bytes") or 0),
            )
        except Forbidden:
            raise
        except Refused as error:
            problem = f"the whole result of {state.handle.id} is too large to be read, or was changed since: {error}"
            raise ResultGone(problem) from error
        except NotFound as error:
            raise ResultGone(f"the whole result of {state.handle.id} is no longer there: {error}") from error

    async def log(self, handle: Handle, *, follow: bool = False) -> AsyncIterator[str]:
        """Yield the request's work log, read from the queue's volume by an exec into the pod."""
        state = await self.get(handle)
        if eval_log.is_eval(state):
            # What it did is in its status: no right to exec into the pod is needed.
            if follow and not state.final:
                async for change in self._changes(handle):
                    state = change
            for line in eval_log.lines(state):
                yield line
            return
        log = await self._log_of(handle)
        log.begin(state)
        if state.handle.instance is not None and (state.started is not None or state.final):
            # Who may not read it gets the refusal here.
            for line in await log.read_remaining(state.handle.instance):
                yield line
        if follow and not state.final:
            async for update in followed(self._changes(handle), log):
                if isinstance(update, str):
                    yield update

    async def _log_of(self, handle: Handle) -> WorkLog:
        return WorkLog(self.api, self.namespace, (await self._request(handle))["metadata"]["uid"])

    async def requests(
        self, instance: str | None = None, *, limit: int | None = None, brief: bool = False
    ) -> Sequence[RequestState]:
        """Return the requests of the namespace or of one instance; with `limit`, the newest so many."""
        query = {} if instance is None else {"fieldSelector": f"status.instanceName={instance}"}
        epoch = datetime.fromtimestamp(0, UTC)
        states: list[RequestState] = []
        # One object at a time: thousands of large ones may be there.
        async for obj in self.api.pages(REQUESTS, self.namespace, **query):
            state = convert.request_of(obj)
            states.append(without_texts(state) if brief else state)
        states.sort(key=lambda state: state.created or epoch)
        return states if limit is None else states[-limit:]


def _truncated(handle: Handle, beginning: str) -> ResultTruncated:
    return ResultTruncated(
        f"the result of {handle.id} is truncated: Emacs kept the first {len(beginning.encode())} bytes",
        "have the work write it to a file, or raise spec.limits.maxResultBytes of the instance",
        beginning,
    )


def _not_stored(state: RequestState) -> ResultTruncated | None:
    """Return the note about a result whose Secret was refused; None where Emacs itself kept no more."""
    _, separator, reason = state.message.partition(UNSTORED_RESULT)
    if not separator:
        return None
    return ResultTruncated(
        f"the result of {state.handle.id} is truncated:{reason}",
        "read the file that is named while it is kept, or run the work again once such a Secret is allowed",
        state.result or "",
    )


def _gone(handle: Handle, namespace: str) -> RequestNotFound:
    return RequestNotFound(f"there is no request {handle.id} in the namespace {namespace}", "see `efrit requests`")


def _condition_is(obj: Json, kind: str, status: str) -> bool:
    condition = resource_fields.condition(obj, kind)
    current = condition.get("observedGeneration") in (None, obj["metadata"].get("generation"))
    return bool(current and condition.get("status") == status)


def _suspended(obj: Json) -> bool:
    return bool(obj.get("spec", {}).get("operatingMode") == "Suspended")


def _now() -> datetime:
    return datetime.now(UTC)
