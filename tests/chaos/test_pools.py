"""A controller that is killed at each write for a pool: each request runs once, and the members are as wanted."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.effort import EVERYTHING
from tests.chaos.proxied_cluster import CLAIMLESS, ProxiedCluster
from tests.support.faults.api_proxy.proxy import Effect, Fault
from tests.support.faults.api_proxy.rules import final_status
from tests.support.kube import Json
from tests.support.site import FINAL

KILLS = (Effect.KILL_BEFORE_SEND, Effect.KILL_AFTER_COMMIT, Effect.KILL_AFTER_REPLY)


def _is_open(body: Json) -> bool:
    return not final_status(body)


WRITES = {
    "member-created": Fault(KILLS[0], "create", "efritinstances"),
    "bound": Fault(KILLS[0], "patch", "efritrequests", "status", when=_is_open),
    "pool-status": Fault(KILLS[0], "patch", "efritpools", "status"),
    "member-deleted": Fault(KILLS[0], "delete", "efritinstances"),
}
REQUESTS = 4


class Crew:
    """A pool of a cluster and its requests."""

    def __init__(self, cluster: ProxiedCluster, replicas: int) -> None:
        self._cluster = cluster
        self.name = f"crew-{uuid.uuid4().hex[:6]}"
        self._counter: Path = cluster.site.directory / self.name
        spec = {"replicas": replicas, "template": {"spec": CLAIMLESS}, "placement": {"maxLoadPerInstance": 1}}
        self._create("efritpools", self.name, spec)

    def _create(self, plural: str, name: str, spec: Json) -> None:
        kube, namespace = self._cluster.kube, self._cluster.namespace
        kube.create(plural, namespace, {"metadata": {"name": name}, "spec": spec}, fieldValidation="Strict")

    def ask(self, number: int) -> None:
        content = f'(progn (write-region "{number}\\n" nil "{self._counter}" t 0) {number})'
        spec = {"type": "eval", "content": content, "poolRef": {"name": self.name}, "timeoutSeconds": 600}
        self._create("efritrequests", f"{self.name}-r{number}", spec)

    def scale(self, replicas: int) -> None:
        kube, namespace = self._cluster.kube, self._cluster.namespace
        kube.patch("efritpools", namespace, self.name, {"spec": {"replicas": replicas}})

    def members(self) -> list[str]:
        instances = self._cluster.kube.list("efritinstances", self._cluster.namespace)
        names = [instance["metadata"]["name"] for instance in instances]
        return [name for name in names if name.startswith(f"{self.name}-")]

    def phases(self) -> Counter[str]:
        requests = self._cluster.kube.list("efritrequests", self._cluster.namespace)
        own = [request for request in requests if request["metadata"]["name"].startswith(f"{self.name}-")]
        return Counter(request.get("status", {}).get("phase", "") for request in own)

    def ran(self) -> list[str]:
        """Return what each run has counted."""
        return self._counter.read_text().split() if self._counter.exists() else []

    def until(self, **expected: Any) -> None:
        """Wait until the status of the pool says so; a controller that has ended is started again."""

        def reached() -> bool | None:
            pool = self._cluster.kube.get("efritpools", self._cluster.namespace, self.name)
            return expected.items() <= pool.get("status", {}).items() or None

        self._cluster.until(reached, f"the pool is not {expected}")


@pytest.mark.parametrize("effect", KILLS if EVERYTHING else KILLS[:2])
@pytest.mark.parametrize("write", WRITES)
def test_each_request_of_a_pool_runs_once_whenever_the_controller_is_killed(
    cluster: ProxiedCluster, write: str, effect: Effect
) -> None:
    is_member_deleted = write == "member-deleted"
    crew = None if write == "member-created" else Crew(cluster, 1)
    if crew is not None:
        crew.until(ready=1)
    killed = cluster.proxy.arm(replace(WRITES[write], effect=effect))
    crew = crew or Crew(cluster, 1)
    if is_member_deleted:
        crew.scale(0)
        cluster.wait_injected(killed)
        crew.scale(1)
    if write == "pool-status":
        # Requests that are answered at once change nothing of what it says.
        crew.scale(2)
    for number in range(REQUESTS):
        crew.ask(number)
    cluster.wait_injected(killed)
    if write == "pool-status":
        crew.scale(1)
    cluster.until(lambda: crew.phases()["Succeeded"] == REQUESTS or None, lambda: f"{crew.phases()}")
    assert sorted(crew.ran()) == [str(number) for number in range(REQUESTS)]
    assert set(crew.phases()) <= set(FINAL)

    cluster.until(lambda: len(crew.members()) == 1 or None, lambda: f"the members are {crew.members()}")
    crew.scale(0)
    cluster.until(lambda: not crew.members() or None, lambda: f"there are still {crew.members()}")
    cluster.proxy.heal()
    cluster.check_history()
