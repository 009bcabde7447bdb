"""Leadership: one process acts at a time, held by a Lease.

The election is the official client's. Two things are our own: the lock, because the client's (37.0.2) fails its own
validation when it creates the Lease and ends the election when the API server is away for a moment; and giving the
lease back at a clean stop, so that the successor need not wait for it to run out.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelection import LeaderElection
from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.aio.leaderelection.resourcelock.baselock import BaseLock

from efrit.api.meta import rfc3339_micro
from efrit.controller.act.kube import Kube
from efrit.errors import ApiError, ApiNotFound

log = logging.getLogger(__name__)


class _Lock(BaseLock):  # type: ignore[misc]
    """A Lease object as the election sees it: get, create, update; a failure is False and tried again."""

    def __init__(self, kube: Kube, name: str, namespace: str, identity: str) -> None:
        super().__init__(name, namespace, identity)
        self._kube = kube
        self._resource_version = ""

    async def get(self, name: str, namespace: str) -> tuple[bool, LeaderElectionRecord | Exception]:
        try:
            lease = await self._kube.call("GET", _path(namespace, name))
        except ApiNotFound:
            missing = ApiException(status=404, reason="NotFound")
            missing.body = json.dumps({"code": 404})
            return False, missing
        except ApiError as error:
            return False, ApiException(status=0, reason=str(error))
        self._resource_version = lease["metadata"]["resourceVersion"]
        spec = lease.get("spec", {})
        duration = spec.get("leaseDurationSeconds")
        return True, LeaderElectionRecord(
            spec.get("holderIdentity") or None,
            str(duration) if duration else None,
            _from_wire(spec.get("acquireTime")),
            _from_wire(spec.get("renewTime")),
        )

    async def create(self, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": _spec(election_record),
        }
        return await self._write("POST", _path(namespace), body)

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        # The resource version makes taking over a race that one process wins.
        body = {"metadata": {"resourceVersion": self._resource_version}, "spec": _spec(updated_record)}
        return await self._write("PATCH", _path(namespace, name), body)

    async def _write(self, method: str, where: str, body: dict[str, Any]) -> bool:
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            await self._kube.call(method, where, body=body, content_type=content_type)
        except ApiError as error:
            log.info("lease %s/%s: %s", self.namespace, self.name, error)
            return False
        return True


def _path(namespace: str, name: str | None = None) -> str:
    where = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    return f"{where}/{name}" if name else where


def _spec(record: LeaderElectionRecord) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder_identity,
        "leaseDurationSeconds": int(record.lease_duration or 0),
        "acquireTime": _to_wire(record.acquire_time),
        "renewTime": _to_wire(record.renew_time),
    }


def _to_wire(text: str | None) -> str:
    """Return the election's local time as a MicroTime."""
    moment = datetime.fromisoformat(text) if text else datetime.now()
    return rfc3339_micro(moment.astimezone(UTC))


def _from_wire(text: str | None) -> str | None:
    """Return a MicroTime as the election writes times: local, without a zone."""
    return str(datetime.fromisoformat(text).astimezone().replace(tzinfo=None)) if text else None


class Lease:
    """The lease of one release of the operator."""

    def __init__(self, kube: Kube, namespace: str, name: str, identity: str, seconds: float) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._seconds = seconds

    async def hold(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for the lease, run `lead` while it is held, return when it is lost and `lead` has ended."""
        leading: list[asyncio.Task[None]] = []

        async def begin() -> None:
            leading.append(asyncio.create_task(lead(), name="leading"))
            await asyncio.wait(leading)

        async def lost() -> None:
            log.error("lost the lease %s/%s", self._namespace, self._name)

        lock = _Lock(self._kube, self._name, self._namespace, self._identity)
        election = LeaderElection(
            Config(
                lock=lock,
                lease_duration=round(self._seconds),
                renew_deadline=round(self._seconds * 2 / 3),
                retry_period=max(1, round(self._seconds / 7.5)),
                onstarted_leading=begin,
                onstopped_leading=lost,
            )
        )
        try:
            await election.run()
        finally:
            # The election leaves its task behind when it is cancelled; nobody else may lead before it has ended.
            for task in leading:
                task.cancel()
            await asyncio.gather(*leading, return_exceptions=True)

    async def release(self) -> None:
        """Give the lease back, if it is held by this process."""
        where = _path(self._namespace, self._name)
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
