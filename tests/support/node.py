"""Plays what a cluster has beside its API server: StatefulSet controller, volume binder and kubelet.

Runs in a thread of its own, watches the StatefulSets and pods of one namespace, and keeps the processes of each pod.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Container, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

from efrit import resources
from efrit.errors import ApiConflict, ApiError, ApiForbidden, ApiNotFound, ApiTooLarge, ApiUnavailable, ApiUnreachable
from efrit.kube.media_types import JSON, MERGE_PATCH
from efrit.kube.watch import follow_events
from tests.cluster.control_plane import ControlPlane
from tests.support.kube import Json, open_client, until
from tests.support.pod import Pod
from tests.support.timeout import TIMEOUT

GRACE_SECONDS = 3.0
FORCED_SECONDS = 2.0
"""What the kubelet leaves a pod that was deleted without grace, while the next one starts already."""
TICK_SECONDS = 0.2
RESYNC_SECONDS = 10.0
"""After what time the API server is asked although no watch reported anything and nothing is left to do."""
COLLECTS_AFTER_SECONDS = 0.5
"""After what time the garbage collector looks again: no event that is watched here tells what has gone."""
LAST_CALLS_SECONDS = 5.0
"""What calls that are under way at the end get to be answered."""
AT_ONCE: Json = {"gracePeriodSeconds": 0, "apiVersion": "v1", "kind": "DeleteOptions"}


class _Later(Exception):  # noqa: N818 - not an error
    """It cannot be done now: the API server is away, or somebody else changed or deleted what it is about."""


class _Refused(_Later):
    """The API server does not let it be made, in its own words; perhaps it will later."""


class Node:
    """One node for one namespace. Pods are named after their instance here."""

    def __init__(self, plane: ControlPlane, namespace: str, lisp: Path, directory: Path) -> None:
        self._plane = plane
        self._namespace = namespace
        self._lisp = lisp
        self._directory = directory
        self._pods: dict[str, Pod] = {}
        self.environment: Callable[[Pod], Mapping[str, str]] = lambda _: {}
        """Gives further variables for the processes of a pod."""
        self.provision: Callable[[Path], None] = lambda _: None
        """Prepares the place of a queue or workspace before a pod uses it; called again for a claim that is there."""
        self.collects = False
        """Delete what belongs to an instance that is gone, as the garbage collector does."""
        self.grace_seconds = GRACE_SECONDS
        """What a pod that was deleted is left."""
        self.kept: set[str] = set()
        """Instances whose pod stays Terminating, its processes running, as on a node that is cut off."""
        self.made: list[Pod] = []
        """Every pod there ever was; their directories stay until the site is closed."""
        self.broken_images: set[str] = set()
        """Images that cannot be pulled."""
        self.reports_ready = False
        """Report pods as Ready, which a PodDisruptionBudget counts by, while their containers run."""
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._forced: set[asyncio.Task[None]] = set()
        self._calls: set[asyncio.Task[Json]] = set()
        self._reported: set[str] = set()
        self._own_versions: set[str] = set()
        """Resource versions of pods as it made and reported them."""
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()
        until(lambda: self._loop or self._failure, "the node did not start")
        if self._loop is None and self._failure is not None:
            raise self._failure

    def close(self) -> None:
        if self._thread.is_alive() and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(TIMEOUT)
        if self._failure is not None:
            raise self._failure

    def pod(self, instance: str) -> Pod:
        """Return the running pod of an instance; waits for it."""
        return until(lambda: self._pods.get(f"efrit-{instance}-0"), f"{instance} has no pod")

    def find(self, instance: str) -> Pod | None:
        """Return the running pod of an instance, None while there is none."""
        return self._pods.get(f"efrit-{instance}-0")

    def gone(self, instance: str) -> bool:
        """Whether an instance has no pod."""
        return f"efrit-{instance}-0" not in self._pods

    def logs(self) -> str:
        return "\n".join(f"== {name}\n{pod.logs()}" for name, pod in list(self._pods.items()))

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - whoever starts or closes it is told
            self._failure = error

    async def _main(self) -> None:
        self._stop, self._look = asyncio.Event(), asyncio.Event()
        self._client = await open_client(self._plane)
        self._loop = asyncio.get_running_loop()
        try:
            tasks = [asyncio.create_task(self._watch(kind)) for kind in (resources.STATEFULSETS, resources.PODS)]
            tasks.append(asyncio.create_task(self._work()))
            stopping = asyncio.create_task(self._stop.wait())
            await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
            ending = (*self._ending.values(), *self._forced)
            for task in (*tasks, stopping, *ending):
                task.cancel()
            results = await asyncio.gather(*tasks, stopping, *ending, return_exceptions=True)
            if self._calls:
                await asyncio.wait(self._calls, timeout=LAST_CALLS_SECONDS)
            self._failure = next((result for result in results if isinstance(result, Exception)), None)
        finally:
            await self._client.close()
        for pod in self._pods.values():
            pod.end(0.01)

    async def _watch(self, resource: resources.Resource) -> None:
        """Look again at every event that may leave something to do; after a break, at once."""
        while True:
            try:
                response = await self._client.open_watch(resource.path(self._namespace), "0", {}, silence=None)
                self._look.set()
                async with aclosing(follow_events(response)) as events:
                    async for kind, obj in events:
                        if tells_something(kind, obj, self._own_versions):
                            self._look.set()
            except ApiUnreachable:
                pass
            except ApiError:
                # Refused, or ended where something may have been missed.
                self._look.set()
            # An API server that starts or ends may answer at once, time and again.
            await asyncio.sleep(0.2)

    async def _work(self) -> None:
        while True:
            self._look.clear()
            try:
                outstanding = await self._reconcile()
            except _Later:
                await asyncio.sleep(TICK_SECONDS)
                continue
            await self._until_event(TICK_SECONDS if outstanding else RESYNC_SECONDS)

    async def _until_event(self, seconds: float) -> None:
        """Wait for an event of a watch, at most so long, and restart containers that end meanwhile."""
        began = time.monotonic()
        # Asked each time: a test may have it collect from now on.
        while time.monotonic() - began < (min(seconds, COLLECTS_AFTER_SECONDS) if self.collects else seconds):
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await self._look.wait()
                    return
            except TimeoutError:
                for pod in self._pods.values():
                    if pod.started and not pod.running and pod.name not in self._ending:
                        pod.start()

    async def _reconcile(self) -> bool:
        """Return whether something is left to do that no event of a watched kind will tell of."""
        sets = await self._list("statefulsets")
        if self.collects:
            instances = await self._list("efritinstances")
            await self._collect_members(instances)
            sets = [stateful_set for stateful_set in sets if not await self._orphaned(stateful_set, instances)]
        # Others are not a StatefulSet's: those of controllers.
        listed = [pod for pod in await self._list("pods") if pod["metadata"].get("ownerReferences")]
        pods = {pod["metadata"]["name"]: pod for pod in listed}
        desired = {
            f"{stateful_set['metadata']['name']}-0": stateful_set
            for stateful_set in sets
            if stateful_set["spec"]["replicas"] == 1
        }
        for name, pod in pods.items():
            ours, statefulset = self._pods.get(name), desired.get(name)
            if pod["metadata"].get("deletionTimestamp"):
                if name not in self._ending:
                    self._ending[name] = asyncio.create_task(self._end(name))
            elif ours is None or ours.uid != pod["metadata"]["uid"]:
                # The API server made it and we never learned: nothing of it runs.
                await self._call("DELETE", "pods", name, body=AT_ONCE)
            elif statefulset is None or ours.template_hash != _template_hash(statefulset):
                await self._call("DELETE", "pods", name)
            elif not ours.started:
                await self._start(ours)
            elif not pod["status"].get("podIP"):
                await self._report(ours)
        for name in self._pods.keys() - pods.keys() - self._ending.keys():
            forced = self._pods.pop(name)
            if forced.started:
                self._forced.add(ending := asyncio.create_task(asyncio.to_thread(forced.end, FORCED_SECONDS)))
                ending.add_done_callback(self._forced.discard)
        for name, statefulset in desired.items():
            if name not in pods and name not in self._ending:
                try:
                    await self._begin(statefulset)
                except _Refused as refusal:
                    await self._record_event(statefulset, f"create Pod {name} in StatefulSet failed: {refusal}")
        served = (self._pods[name].started for name in desired if name in self._pods)
        return not desired.keys() <= self._pods.keys() or not all(served)

    async def _collect_members(self, instances: list[Json]) -> None:
        """Delete the instances whose claim or pool is gone."""
        members = [one for one in instances if one["metadata"].get("ownerReferences")]
        if not members:
            return
        owners = {one["metadata"]["uid"] for kind in ("efritpools", "efritclaims") for one in await self._list(kind)}
        for member in members:
            if not owners & {reference["uid"] for reference in member["metadata"]["ownerReferences"]}:
                await self._call("DELETE", "efritinstances", member["metadata"]["name"])

    async def _orphaned(self, statefulset: Json, instances: list[Json]) -> bool:
        """Delete a StatefulSet whose instance is gone."""
        owners = {owner_reference["uid"] for owner_reference in statefulset["metadata"].get("ownerReferences", ())}
        if owners & {instance["metadata"]["uid"] for instance in instances}:
            return False
        await self._call("DELETE", "statefulsets", statefulset["metadata"]["name"])
        return True

    async def _begin(self, statefulset: Json) -> None:
        await self._bind_claims()
        pod = Pod(
            statefulset,
            self._directory / "claims",
            self._lisp,
            self._directory / f"p{len(self.made) + 1}",
            self.provision,
        )
        made = await self._call("POST", "pods", body=resources.PODS.manifest(**pod.manifest))
        self._own_versions.add(made["metadata"]["resourceVersion"])
        pod.uid = made["metadata"]["uid"]
        pod.mount_secret(await self._call("GET", "secrets", pod.secret_name))
        pod.environment = self.environment(pod)
        self._pods[pod.name] = pod
        self.made.append(pod)
        await self._start(pod)

    async def _start(self, pod: Pod) -> None:
        """Start the containers once everything they mount is there, as the kubelet does."""
        if pod.images & self.broken_images:
            await self._call("PATCH", "pods", pod.name, "status", {"status": pod.status(pulled=False)})
            return
        secrets = {secret["metadata"]["name"]: secret for secret in await self._list("secrets")}
        for volume, name in pod.users_secrets.items():
            if name not in secrets:
                sentence = f'MountVolume.SetUp failed for volume "{volume}" : secret "{name}" not found'
                await self._warn(resources.PODS, {"name": pod.name, "uid": pod.uid}, "FailedMount", sentence)
                return
            pod.mount_secret(secrets[name], volume)
        pod.start()
        await self._report(pod)

    async def _report(self, pod: Pod) -> None:
        status = pod.status()
        if self.reports_ready:
            status["conditions"] = [{"type": "Ready", "status": "True"}]
        reported = await self._call("PATCH", "pods", pod.name, "status", {"status": status})
        self._own_versions.add(reported["metadata"]["resourceVersion"])

    async def _record_event(self, statefulset: Json, message: str) -> None:
        """Publish the StatefulSet controller's Event."""
        await self._warn(resources.STATEFULSETS, statefulset["metadata"], "FailedCreate", message)

    async def _warn(self, resource: resources.Resource, about: Json, reason: str, message: str) -> None:
        """Publish a Warning, once for each sentence."""
        if message in self._reported:
            return
        self._reported.add(message)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        event = resources.EVENTS.manifest(
            {"generateName": f"{about['name']}."},
            involvedObject=resource.reference(about["name"], about["uid"], namespace=self._namespace),
            type="Warning",
            reason=reason,
            message=message,
            firstTimestamp=now,
            lastTimestamp=now,
        )
        await self._call("POST", "events", body=event)

    async def _end(self, name: str) -> None:
        pod = self._pods.get(name)
        if pod is not None:
            while pod.instance in self.kept:  # noqa: ASYNC110 - another thread changes it
                await asyncio.sleep(0.05)
            await asyncio.to_thread(pod.end, self.grace_seconds)
        while True:
            try:
                await self._call("DELETE", "pods", name, body=AT_ONCE)
                break
            except _Later:
                await asyncio.sleep(0.2)
        self._pods.pop(name, None)
        del self._ending[name]
        self._look.set()

    async def _bind_claims(self) -> None:
        for claim in await self._list("persistentvolumeclaims"):
            if claim.get("status", {}).get("phase") != "Bound":
                body = {"status": {"phase": "Bound"}}
                await self._call("PATCH", "persistentvolumeclaims", claim["metadata"]["name"], "status", body)

    async def _list(self, plural: str) -> list[Json]:
        items: list[Json] = (await self._call("GET", plural))["items"]
        return items

    async def _call(self, method: str, plural: str, name: str = "", sub: str = "", body: Any = None) -> Json:
        path = resources.resource_named(plural).path(self._namespace, name, sub)
        content_type = MERGE_PATCH if method == "PATCH" else JSON
        try:
            call = asyncio.create_task(self._client.call(method, path, body=body, content_type=content_type))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
            # Cancelled in its TLS handshake, the client would leave the socket open.
            return await asyncio.shield(call)
        except ApiNotFound as error:
            if method == "DELETE":
                return {}
            raise _Later from error
        except ApiForbidden as error:
            raise (_Refused(error.sentence) if method == "POST" else _Later()) from error
        except (ApiConflict, ApiUnavailable, ApiTooLarge) as error:
            raise _Later from error


def tells_something(kind: str, obj: Json, own_versions: Container[str]) -> bool:
    """Return whether an event of a watch may leave the node something to do.

    Pods of controllers do not, nor do those it has as it wrote them.
    """
    metadata = obj["metadata"]
    if obj["kind"] != "Pod" or kind == "DELETED" or "deletionTimestamp" in metadata:
        return True
    return "ownerReferences" in metadata and metadata["resourceVersion"] not in own_versions


def _template_hash(statefulset: Json) -> str:
    template_hash: str = statefulset["metadata"]["annotations"]["efrit.dev/template-hash"]
    return template_hash
