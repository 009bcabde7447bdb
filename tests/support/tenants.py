"""Two tenants of one controller: `loud` misbehaves, `quiet` must not notice. All is real but their bridges."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from efrit import resources
from efrit.errors import ApiError
from tests.cluster.control_plane import ControlPlane
from tests.support.custom_resources import new_namespace
from tests.support.kube import Json, Kube, until
from tests.support.operator import Operator
from tests.support.simulated_bridge import SimulatedBridge, SimulatedNode
from tests.support.site import EPHEMERAL, FINAL, Site

QUOTA = "few"
POOL = "crew"


class Node(Protocol):
    """Where bridges run."""

    def serve(self, namespace: str, names: Sequence[str]) -> list[SimulatedBridge]:
        """Create instances and play their pods and bridges; return those that can be reached from here."""


@dataclass
class Tenant:
    """A namespace with its instances; `bridge` is that of the first."""

    kube: Kube
    namespace: str
    bridges: list[SimulatedBridge]

    @property
    def bridge(self) -> SimulatedBridge:
        return self.bridges[0]

    def ask(self, name: str, pool: str = "", **metadata: Json) -> None:
        """Create an eval for the first instance, or for a pool."""
        target = {"poolRef": {"name": pool}} if pool else {"instanceRef": {"name": "one"}}
        spec = {"type": "eval", "content": "(+ 1 2)", "timeoutSeconds": 600, **target}
        self.kube.create("efritrequests", self.namespace, {"metadata": {"name": name, **metadata}, "spec": spec})

    def status(self, name: str) -> Json:
        status: Json = self.kube.get("efritrequests", self.namespace, name).get("status", {})
        return status

    def ready(self, name: str = "one") -> Json:
        """Return the condition Ready of an instance."""
        status = self.kube.get("efritinstances", self.namespace, name).get("status", {})
        return next((condition for condition in status.get("conditions", ()) if condition["type"] == "Ready"), {})

    def finished(self) -> int:
        """Return how many requests are final."""
        requests = self.kube.list("efritrequests", self.namespace)
        return sum(request.get("status", {}).get("phase") in FINAL for request in requests)

    def unfinished(self) -> bool:
        """Return whether a request is not final: of a list that is polled the API server sends one at most."""
        others = ",".join(f"status.phase!={phase}" for phase in sorted(FINAL))
        return bool(self.kube.list("efritrequests", self.namespace, fieldSelector=others, limit="1"))

    def use_up_quota(self) -> None:
        """Allow no StatefulSet more. Nobody counts here: the status that the quota controller writes is given."""
        hard = {"count/statefulsets.apps": str(len(self.kube.list("statefulsets", self.namespace)))}
        body: Json = resources.QUOTAS.manifest({"name": QUOTA}, spec={"hard": hard})
        quota = self.kube.call("POST", self._quotas, body)
        quota["status"] = {"hard": hard, "used": hard}
        self.kube.call("PUT", f"{self._quotas}/{QUOTA}/status", quota)
        until(self._quota_holds, "the API server does not know of the quota")

    def _quota_holds(self) -> bool:
        """Return whether the API server, which learns of it by a watch, refuses a StatefulSet for it."""
        another = {"metadata": {"name": "another"}, "spec": self.kube.list("statefulsets", self.namespace)[0]["spec"]}
        try:
            self.kube.create("statefulsets", self.namespace, another, dryRun="All")
        except ApiError as refusal:
            return "exceeded quota" in refusal.sentence
        return False

    def drop_quota(self) -> None:
        """Allow StatefulSets again."""
        self.kube.call("DELETE", f"{self._quotas}/{QUOTA}")

    @property
    def _quotas(self) -> str:
        return resources.QUOTAS.path(self.namespace)


class Tenants:
    """Leave it in every case: it has processes."""

    def __init__(
        self,
        plane: ControlPlane,
        kube: Kube,
        audit_log: Path,
        lisp: Path,
        *,
        instances: Sequence[str] = ("one",),
        env: Mapping[str, str] | None = None,
        loud_node: Node | None = None,
    ) -> None:
        """Start all; loud_node: where the bridges of `loud` run, if not beside those of `quiet`."""
        self.kube = kube
        self._names = itertools.count(1)
        self._open = ExitStack()
        loud, quiet = new_namespace(kube), new_namespace(kube)
        # The controller ends before the bridges that it is connected to.
        self.node = self._open.enter_context(SimulatedNode(kube))
        self.site = Site(plane, kube, audit_log, lisp, others=[loud, quiet])
        self._open.callback(self.site.close)
        self.operator: Operator = self.site.operator()
        self.operator.configure(**(env or {}))
        try:
            self._start(loud, quiet, instances, loud_node or self.node)
        except BaseException:
            self._open.close()
            raise

    def _start(self, loud: str, quiet: str, instances: Sequence[str], loud_node: Node) -> None:
        kube = self.kube
        self.operator.start()
        self.quiet = Tenant(kube, quiet, self.node.serve(quiet, ["one"]))
        self.loud = Tenant(kube, loud, loud_node.serve(loud, instances))
        for tenant, names in ((self.quiet, ["one"]), (self.loud, instances)):
            for name in names:
                self.until_ready(tenant, name, status="True")

    def __enter__(self) -> Tenants:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def until_ready(self, tenant: Tenant, name: str = "one", **expected: str) -> Json:
        """Wait for a status or a reason of the condition Ready, and return the condition."""

        def reached() -> Json | None:
            condition = tenant.ready(name)
            return condition if expected.items() <= condition.items() else None

        return until(
            reached, lambda: f"{name} is not {expected}: {tenant.ready(name)}\n{self.operator.diagnostics()}"
        )

    def pool(self, tenant: Tenant, replicas: int = 1, **spec: Any) -> list[SimulatedBridge]:
        """Create the pool `crew` of a tenant, play the pods of its members, and wait until they are ready."""
        made = {"replicas": replicas, "template": {"spec": EPHEMERAL}, **spec}
        manifest: Json = {"metadata": {"name": POOL}, "spec": made}
        self.kube.create("efritpools", tenant.namespace, manifest, fieldValidation="Strict")
        members = until(lambda: self.members(tenant, replicas), "no members") if replicas else []
        bridges = [self.node.play(tenant.namespace, name) for name in members]
        for name in members:
            self.until_ready(tenant, name, status="True")
        return bridges

    def members(self, tenant: Tenant, count: int) -> list[str] | None:
        """Return the names of the members of a tenant's pool, None while there are more or fewer."""
        instances = self.kube.list("efritinstances", tenant.namespace)
        names = [name for one in instances if (name := one["metadata"]["name"]).startswith(f"{POOL}-")]
        return names if len(names) == count else None

    def answer(self, tenant: Tenant, name: str = "", pool: str = "") -> Json:
        """Create an eval for the first instance or a pool, wait for its end and return its status."""
        name = name or f"q{next(self._names)}"
        tenant.ask(name, pool)

        def reached() -> Json | None:
            status = tenant.status(name)
            return status if status.get("phase") in FINAL else None

        return until(reached, lambda: f"{name} has no end: {tenant.status(name)}\n{self.operator.diagnostics()}")
