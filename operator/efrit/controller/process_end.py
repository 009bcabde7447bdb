"""Which process of the operator has ended, as its kubelet reports: its lease can be taken before it expires.

Each process writes who it is into its container's termination log. Once that container has ended, the kubelet copies
the file into the status of the pod. A status that names a process there says that this process has ended, this one
and no other, however late it is read: a restarted container has a file of its own. So has a pod that was made anew
under the same name, as a StatefulSet does: the name of a process is not that of its pod, and UIDs need no comparison.
Nothing else counts, neither a pod that is deleted or not ready nor a container of which the kubelet only knows that
it does not find it: on a node that is cut off, the process may be at work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from efrit.errors import ApiError, ApiForbidden
from efrit.kube.client import KubeClient, name_selector
from efrit.resources import PODS

log = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
"""Between two watches of a pod."""
REFUSED_PAUSE_SECONDS = 60.0
"""The same where it was refused: an API server that has just started knows no roles for a moment."""


def process_identity(pod_name: str) -> str:
    """Return a name for this process that no other has, of its pod or elsewhere."""
    return f"{pod_name}_{secrets.token_hex(8)}"


def pod_of(identity: str) -> str | None:
    """Return the name of the pod of a process; None where the name is not one that `process_identity` makes."""
    return identity.rpartition("_")[0] or None


def leave_identity(path: str, identity: str) -> None:
    """Write who this process is where the kubelet reads it once the process has ended; without a kubelet, nothing."""
    try:
        # Not created: it is a file that the kubelet mounts.
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        with os.fdopen(descriptor, "w") as file:
            file.write(identity)
    except OSError as error:
        log.info("no termination log, a successor waits until the lease expires: %s", error)


def has_ended(pod: Mapping[str, Any], identity: str) -> bool:
    """Return whether the status of a pod says that this process of it has ended."""
    if pod["metadata"]["name"] != pod_of(identity):  # gate: end-of-own-pod
        return False
    return any(message.strip() == identity for message in _termination_messages(pod))  # gate: termination-message


def _termination_messages(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the containers of a pod that have ended left in their termination logs."""
    for container in pod.get("status", {}).get("containerStatuses") or ():
        for state in (container.get("state"), container.get("lastState")):
            yield ((state or {}).get("terminated") or {}).get("message") or ""


class ProcessEnds:
    """Watches the pod of one process, that which holds the lease, until it is known to have ended."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._watched: str | None = None
        self._ended: str | None = None
        self._task: asyncio.Task[None] | None = None
        self.seen = asyncio.Event()
        """Set when the process that is watched is seen to have ended."""

    def knows_ended(self, identity: str) -> bool:
        """Return whether this process has ended for certain; from now on its pod is watched, and no other."""
        if identity != self._watched:
            self.stop()
            self._watched = identity
            pod = pod_of(identity)
            if pod is not None:
                self._task = asyncio.create_task(self._watch(pod, identity), name=f"pod {pod}")
        return identity == self._ended  # gate: ended-identity

    def stop(self) -> None:
        """Watch nothing any more."""
        self._watched = None
        self.seen.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self, pod: str, identity: str) -> None:
        """Watch a pod until the process has ended. For as long as that is refused, the lease has to run out."""
        is_reported = False
        while self._ended != identity:
            pause = PAUSE_SECONDS
            try:
                listing = self._kube.named(PODS, self._namespace, pod)
                async for obj in listing:
                    self._observe(obj, identity)
                events = self._kube.follow(PODS, self._namespace, listing.version, fieldSelector=name_selector(pod))
                async with contextlib.aclosing(events):
                    async for kind, obj in events:
                        if kind != "BOOKMARK":
                            self._observe(obj, identity)
            except ApiForbidden as error:
                pause = REFUSED_PAUSE_SECONDS  # gate: refused-watch
                if not is_reported:
                    log.warning("that the leader has ended is only seen once its lease runs out: %s", error)
                is_reported = True
            except ApiError as error:
                log.debug("pod %s cannot be watched: %s", pod, error)
            await asyncio.sleep(pause)

    def _observe(self, pod: Mapping[str, Any], identity: str) -> None:
        if has_ended(pod, identity):
            log.info("%s has ended, as its kubelet says", identity)
            self._ended = identity
            self.seen.set()
