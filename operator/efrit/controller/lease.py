"""Leadership: one process acts at a time, held by a Lease.

The election is the official client's. What it lacks is added here: a process that stops cleanly gives the lease
back, so that its successor need not wait for it to run out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelection import LeaderElection
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

from efrit.controller.act.kube import Kube
from efrit.errors import ApiError

log = logging.getLogger(__name__)


class Lease:
    """The lease of one release of the operator."""

    def __init__(self, kube: Kube, namespace: str, name: str, identity: str, seconds: float) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._seconds = seconds

    async def hold(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for the lease, run `lead` while it is held, return when it is lost."""

        async def lost() -> None:
            log.error("lost the lease %s/%s", self._namespace, self._name)

        lock = LeaseLock(self._name, self._namespace, self._identity, self._kube.client)
        await LeaderElection(
            Config(
                lock=lock,
                lease_duration=round(self._seconds),
                renew_deadline=round(self._seconds * 2 / 3),
                retry_period=max(1, round(self._seconds / 7.5)),
                onstarted_leading=lead,
                onstopped_leading=lost,
            )
        ).run()

    async def release(self) -> None:
        """Give the lease back, if it is held by this process."""
        where = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases/{self._name}"
        try:
            lease = await self._kube.call("GET", where)
            if lease.get("spec", {}).get("holderIdentity") != self._identity:
                return
            body = {
                "metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]},
                "spec": {"holderIdentity": None},
            }
            await self._kube.call("PATCH", where, body=body, content_type="application/merge-patch+json")
        except ApiError as error:
            log.warning("the lease could not be given back, it runs out by itself: %s", error)
