"""Leadership: one process acts at a time, held by a Lease.

The election is our own. The official client's (37.0.2) judges by the wall clock: set forward, it takes the lease of a
living holder; set back, it waits that much longer for a dead one. Nor does it show whether the lease still holds at
this moment, which a process must know that was stopped and goes on. Here only the monotonic clock counts; the
times in the Lease are for people. A lease whose holder is known to have ended (`process_end.py`) is taken at once:
what has ended does nothing more, and what it had sent may arrive late, as it may from one that was stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol

from efrit.api.meta import rfc3339_micro
from efrit.controller.retry import Outage
from efrit.errors import ApiConflict, ApiError, ApiNotFound
from efrit.kube.client import KubeClient
from efrit.kube.media_types import MERGE_PATCH
from efrit.resources import LEASES

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""How often a candidate reads the lease: how long a release of it goes unnoticed."""


class Ends(Protocol):
    """Which processes have ended."""

    seen: asyncio.Event
    """Set when the one that was asked about last is seen to have ended."""

    def knows_ended(self, identity: str) -> bool:
        """Return whether a process has ended for certain."""

    def stop(self) -> None:
        """Stop watching."""


class _HeldByOther(Exception):  # noqa: N818 - reads as what happened
    """Somebody else holds the lease."""


class Lease:
    """The lease of one release of the operator."""

    def __init__(
        self,
        kube: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        seconds: float,
        is_responsive: Callable[[], bool] = lambda: True,
        ends: Ends | None = None,
    ) -> None:
        """Hold `namespace/name` as `identity`, a name of this process alone.

        It is neither taken nor renewed while `is_responsive` returns False. It is taken at once from a process that
        has ended, as `ends` knows.
        """
        self._is_responsive = is_responsive
        self._ends = ends
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._seconds = seconds
        # The last third is for calls that are under way when it can no longer be renewed.
        self._sure_seconds = seconds * 2 / 3
        self._pause = max(1.0, seconds / 7.5)
        self._sure_until = 0.0
        self.stands_by = False
        """Whether another was seen to hold the lease: what is to be ready by the time that it is taken may begin."""
        self._observed: tuple[Any, ...] = ()
        self._observed_at = 0.0
        self._outage = Outage()

    @property
    def held(self) -> bool:
        """Whether nobody else can hold the lease at this moment."""
        return _now() < self._sure_until

    async def hold(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for the lease, run `lead` while it is held, return when it is lost and `lead` has ended."""
        await self._acquire()
        task = asyncio.create_task(lead(), name="leading")
        try:
            await self._keep()
            log.error("lost the lease %s/%s", self._namespace, self._name)
        finally:
            # Nobody else may lead before it has ended.
            self._sure_until = 0.0
            task.cancel()  # gate: lease-lost
            await asyncio.gather(task, return_exceptions=True)

    async def _acquire(self) -> None:
        try:
            while not (self._is_responsive() and await self._try()):
                await self._until_next_poll()
        finally:
            if self._ends is not None:
                self._ends.stop()

    async def _until_next_poll(self) -> None:
        """Wait for a moment, and no longer once the holder is seen to have ended."""
        if self._ends is None or self._ends.seen.is_set():
            await asyncio.sleep(POLL_SECONDS)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._ends.seen.wait()

    async def _keep(self) -> None:
        """Renew it for ever; return when it could not be renewed in time, or somebody else has it."""
        try:
            while True:
                async with asyncio.timeout_at(self._sure_until):
                    renewed = False
                    while not renewed:
                        await asyncio.sleep(self._pause)
                        renewed = self._is_responsive() and await self._try(ours=True)
        except (TimeoutError, _HeldByOther):
            return

    async def _try(self, *, ours: bool = False) -> bool:
        """Take or renew the lease; False where it did not work. With `ours`, raises _HeldByOther for another's."""
        began = _now()
        try:
            await self._take_or_renew(ours)
        except _HeldByOther:
            self._answered()
            if ours:
                raise
            self.stands_by = True
            return False
        except ApiConflict as error:
            self._answered()
            # Another candidate was quicker, or somebody has changed it.
            log.info("lease %s/%s: %s", self._namespace, self._name, error)
            return False
        except ApiError as error:
            if self._outage.failed(error, _now()):
                log.info("lease %s/%s: %s", self._namespace, self._name, error)
            return False
        self._answered()
        # From before the call: no candidate has seen the renewal any earlier.
        self._sure_until = began + self._sure_seconds
        return True

    def _answered(self) -> None:
        """Take in that the API server has answered as it should."""
        ended = self._outage.ended(_now())
        if ended is not None:
            log.info(
                "lease %s/%s: calls succeed again after %.0f s; the last failure was: %s",
                self._namespace,
                self._name,
                *ended,
            )

    async def _take_or_renew(self, ours: bool) -> None:
        try:
            lease = await self._kube.call("GET", self._path)
        except ApiNotFound:
            manifest = LEASES.manifest({"name": self._name, "namespace": self._namespace}, spec=self._spec({}))
            await self._kube.call("POST", LEASES.path(self._namespace), body=manifest)
            return
        spec = lease.get("spec", {})
        holder = spec.get("holderIdentity")
        if holder not in (None, "", self._identity) and (ours or not self._may_be_taken(lease, holder)):
            raise _HeldByOther
        # The resource version makes taking over a race that one process wins.
        body = {"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": self._spec(spec)}
        await self._kube.call("PATCH", self._path, body=body, content_type=MERGE_PATCH)

    @property
    def _path(self) -> str:
        return LEASES.path(self._namespace, self._name)

    def _may_be_taken(self, lease: dict[str, Any], holder: str) -> bool:
        """Return whether its holder can do nothing more: it has ended, or cannot be sure of the lease any more."""
        has_ended = self._ends is not None and self._ends.knows_ended(holder)
        return self._is_expired(lease) or has_ended  # gate: holder-lives

    def _is_expired(self, lease: dict[str, Any]) -> bool:
        """Return whether its holder has not renewed it for as long as it lasts, by the clock of this process."""
        spec = lease["spec"]
        observed = lease["metadata"].get("uid"), spec["holderIdentity"], spec.get("renewTime")
        if observed != self._observed:
            self._observed, self._observed_at = observed, _now()
        lasts = max(self._seconds, float(spec.get("leaseDurationSeconds") or 0))
        return _now() - self._observed_at >= lasts

    def _spec(self, old: dict[str, Any]) -> dict[str, Any]:
        now = rfc3339_micro(datetime.now(UTC))
        is_same_holder = old.get("holderIdentity") == self._identity
        spec: dict[str, Any] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": round(self._seconds),
            "acquireTime": old.get("acquireTime", now) if is_same_holder else now,
            "renewTime": now,
        }
        if old and not is_same_holder:
            spec["leaseTransitions"] = int(old.get("leaseTransitions") or 0) + 1
        return spec

    async def release(self) -> None:
        """Release the lease, if it is held by this process."""
        try:
            lease = await self._kube.call("GET", self._path)
            if lease.get("spec", {}).get("holderIdentity") != self._identity:
                return
            body = {
                "metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]},
                "spec": {"holderIdentity": None},
            }
            await self._kube.call("PATCH", self._path, body=body, content_type=MERGE_PATCH)
        except ApiError as error:
            log.warning("the lease could not be released, it will expire: %s", error)


def _now() -> float:
    return asyncio.get_running_loop().time()
