"""The other tenant: a second namespace that the controller serves, with an instance and open requests of its own.

Its faults must not delay the requests of the tenant that the run is about.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from efrit import resources
from efrit.errors import ApiError
from tests.support.faults.light.cluster import LightCluster
from tests.support.faults.light.refusals import Refusal
from tests.support.kube import Json, until
from tests.support.node import Node

INSTANCE = "other"
LARGE_BYTES = 60_000
FLOOD = 150
"""How many requests a flood has."""
FINAL = ("Succeeded", "Failed")
CONTENTS = ("efritrequests", "efritinstances", "statefulsets", "pods", "secrets", "persistentvolumeclaims")


class OtherTenant:
    """A second namespace with a node of its own. Close it in every case: its instance has processes."""

    def __init__(self, cluster: LightCluster, namespace: str, directory: Path) -> None:
        self.namespace = namespace
        self._kube = cluster.kube
        self.node = Node(cluster.plane, namespace, cluster.lisp, directory)
        self._bindings: list[Json] = []
        self._refusals: list[Refusal] = []
        self.deleted = False
        self.node.start()

    def begin(self) -> None:
        """Create the instance, wait until it serves, and create its requests."""
        spec = {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}}
        self._create("efritinstances", INSTANCE, spec)
        until(self._ready, "the other tenant's instance is not ready")
        self.ask("before", '"before"')

    def ask(self, name: str, content: str) -> None:
        """Create an eval."""
        self._create("efritrequests", name, {"type": "eval", "content": content, "instanceRef": {"name": INSTANCE}})

    # Faults

    def delete(self) -> None:
        """Delete the namespace with all that is in it, as the namespace controller does."""
        path = resources.NAMESPACES.path(name=self.namespace)
        self.deleted = True
        self.ask("last", "(sleep-for 1)")
        self._kube.call("DELETE", path)
        for plural in CONTENTS:
            for item in self._kube.list(plural, self.namespace):
                with contextlib.suppress(ApiError):
                    self._kube.delete(plural, self.namespace, item["metadata"]["name"], gracePeriodSeconds=0)
        namespace = self._kube.call("GET", path)
        namespace["spec"]["finalizers"] = []
        self._kube.call("PUT", f"{path}/finalize", namespace)

    def forbid(self) -> None:
        """Delete the role bindings of the controller."""
        self.ask("forbidden", "(sleep-for 1)")
        for role_binding in self._kube.list("rolebindings", self.namespace):
            manifest = {"metadata": {"name": role_binding["metadata"]["name"]}, "roleRef": role_binding["roleRef"]}
            self._bindings.append({**manifest, "subjects": role_binding["subjects"]})
            self._kube.delete("rolebindings", self.namespace, role_binding["metadata"]["name"])

    def refuse(self) -> None:
        """Refuse result Secrets and new StatefulSets."""
        for what in ("result secrets", "statefulsets"):
            self._refusals.append(refusal := Refusal(self._kube, self.namespace, what))
            refusal.begin()
        self.ask("large", f"(make-string {LARGE_BYTES} ?x)")
        self._create("efritinstances", "refused", {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}})

    def stop_bridge(self) -> None:
        """Stop the bridge by signal while requests for it come."""
        if (pod := self.node.find(INSTANCE)) is not None:
            with contextlib.suppress(ProcessLookupError):
                pod.freeze_bridge(True)
        for number in range(5):
            self.ask(f"stopped-{number}", '"stopped"')

    def flood(self) -> None:
        """Create more requests than the instance finishes meanwhile."""
        for number in range(FLOOD):
            self.ask(f"flood-{number}", "(sleep-for 0.05)")

    def recover(self) -> None:
        """End what lasts."""
        for binding in self._bindings:
            self._kube.create("rolebindings", self.namespace, binding)
        self._bindings.clear()
        for refusal in self._refusals:
            refusal.end()
        self._refusals.clear()
        if (pod := self.node.find(INSTANCE)) is not None:
            with contextlib.suppress(ProcessLookupError):
                pod.freeze_bridge(False)

    def open(self) -> tuple[str, ...]:
        """Return the names of its requests that are not final; none where the namespace is gone."""
        if self.deleted:
            return ()
        requests = self._kube.list("efritrequests", self.namespace)
        return tuple(
            request["metadata"]["name"] for request in requests if request.get("status", {}).get("phase") not in FINAL
        )

    def close(self) -> None:
        """End its processes and its faults."""
        self.node.close()
        with contextlib.suppress(ApiError):
            self.recover()

    def _create(self, plural: str, name: str, spec: Json) -> None:
        self._kube.create(plural, self.namespace, {"metadata": {"name": name}, "spec": spec})

    def _ready(self) -> bool:
        status = self._kube.get("efritinstances", self.namespace, INSTANCE).get("status", {})
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in status.get("conditions", ())
        )
