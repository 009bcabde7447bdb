"""The cluster of the cluster tier, shared by its runs: the bare node and the installed operator.

`repair` brings back what a fault took away; `fresh_operator` replaces controllers that a fault has hit.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TypeVar

from efrit import resources
from efrit.controller.process_end import pod_of
from efrit.errors import ApiError
from efrit.kube.media_types import MERGE_PATCH
from tests.support.faults.node.host import Host, HostPod, Role
from tests.support.kube import Json, Kube, until

T = TypeVar("T")

RELEASE = os.environ.get("RELEASE", "efrit-operator")
SYSTEM = os.environ.get("NAMESPACE", "efrit-system")
DEPLOYMENT = resources.DEPLOYMENTS.path(SYSTEM, RELEASE)
LEASE = resources.LEASES.path(SYSTEM, RELEASE)
LABELS = {"pod-security.kubernetes.io/enforce": "restricted", "efrit.dev/chaos": "yes"}
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
READY_SECONDS = 240.0
GONE_SECONDS = 240.0


class NodeCluster:
    """The bare cluster. `env`: settings of the operator as long as the context manager is open."""

    def __init__(self, env: dict[str, str] | None = None) -> None:
        self.host = Host()
        self._env = env or {}
        self._made: list[str] = []

    def __enter__(self) -> NodeCluster:
        self.host.repair()
        self.plane = self.host.cluster.reached()
        self.kube = Kube(self.plane)
        try:
            self._set_env(self._env)
            self._adopt_leftovers()
        except BaseException:
            self.close()
            raise
        return self

    def _adopt_leftovers(self) -> None:
        """Delete the namespaces of an earlier process that was killed."""
        namespaces = self.kube.call("GET", resources.NAMESPACES.path(), labelSelector="efrit.dev/chaos=yes")["items"]
        for namespace in namespaces:
            self._made.append(namespace["metadata"]["name"])
            self.remove(namespace["metadata"]["name"])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster as it was: every program runs, one fresh operator, none of our namespaces."""
        try:
            self.repair()
            self.fresh_operator(1)
            if self._env:
                self._set_env(dict.fromkeys(self._env))
                self.wait_rolled_out()
            self.wait_gone()
        finally:
            self.kube.close()

    def repair(self) -> None:
        """Continue and start every program of the cluster, and wait until the node is ready."""
        self.host.repair()

    # Namespaces

    def new_namespace(self) -> str:
        """Create a namespace that enforces the restricted Pod Security Standard, and return its name."""
        name = f"chaos-{secrets.token_hex(3)}"
        body = resources.NAMESPACES.manifest({"name": name, "labels": LABELS})
        self.kube.call("POST", resources.NAMESPACES.path(), body)
        self._made.append(name)
        # Kubernetes creates the account a moment later, and refuses pods without it.
        path = resources.SERVICE_ACCOUNTS.path(name, "default")
        until(lambda: self.exists(path), f"{name} gets no service account")
        return name

    def remove(self, namespace: str) -> None:
        """Begin to delete a namespace; `wait_gone` waits for its end."""
        call_with_retries(lambda: self.kube.call("DELETE", resources.NAMESPACES.path(name=namespace)))
        # The pods have been observed: their grace period would only delay the next run.
        at_once = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        call_with_retries(lambda: self.kube.call("DELETE", resources.PODS.path(namespace), at_once))

    def wait_gone(self) -> None:
        """Wait until every namespace of ours is gone, with its pods' directories and its volumes."""
        for name in self._made:
            self.remove(name)
        until(lambda: not self.leftovers(), lambda: f"left behind: {self.leftovers()}", GONE_SECONDS)
        self._made.clear()

    def leftovers(self) -> list[str]:
        """Return what is left of the namespaces that should be gone."""
        leftovers = [name for name in self._made if self.exists(resources.NAMESPACES.path(name=name))]
        volumes = [path.name for path in self.host.layout.volumes.glob("pvc-*")]
        leftovers += [volume for volume in volumes if volume.split("_")[1] in self._made]
        return leftovers + [pod.name for name in self._made for pod in self.host.running(name)]

    def exists(self, path: str) -> bool:
        """Return whether there is an object at a path, once the API server has answered."""
        return call_with_retries(lambda: self.kube.call("GET", path)) is not None

    # The operator

    def operators(self) -> list[HostPod]:
        """Return the operator's pods whose process runs."""
        return [pod for pod in self.host.pods(SYSTEM) if pod.name.startswith(RELEASE) and pod.pid(Role.OPERATOR)]

    def operator_pods(self) -> list[Json]:
        """Return the operator's pods as the API server has them."""
        query = {"labelSelector": f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/name=efrit-operator"}
        items: list[Json] = self.kube.call("GET", resources.PODS.path(SYSTEM), **query)["items"]
        return items

    def leader(self) -> str | None:
        """Return the pod that holds the lease, None where the API server does not say."""
        try:
            holder: str | None = self.kube.call("GET", LEASE)["spec"].get("holderIdentity")
        except ApiError:
            return None
        return pod_of(holder) if holder else None

    def fresh_operator(self, replicas: int) -> None:
        """Have this many controllers, none of which has ever restarted, and one of which leads."""
        call_with_retries(
            lambda: self.kube.call("PATCH", DEPLOYMENT, {"spec": {"replicas": replicas}}, content_type=MERGE_PATCH)
        )
        for pod in call_with_retries(self.operator_pods) or []:
            if any(status["restartCount"] for status in pod["status"].get("containerStatuses", [])):
                path = resources.PODS.path(SYSTEM, pod["metadata"]["name"])
                call_with_retries(partial(self.kube.call, "DELETE", path))
        self.wait_rolled_out(replicas)

    def wait_rolled_out(self, replicas: int = 1) -> None:
        """Wait until the operator's pods are up to date and ready, and one of them leads."""

        def settled() -> bool:
            deployment = self.kube.call("GET", DEPLOYMENT)
            status, generation = deployment.get("status", {}), deployment["metadata"]["generation"]
            figures = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")]
            pods = [pod["metadata"]["name"] for pod in self.operator_pods()]
            new = status.get("observedGeneration") == generation and figures == [replicas] * 3
            return new and len(pods) == replicas and self.leader() in pods

        until(
            lambda: call_with_retries(settled),
            lambda: f"the operator is not ready: {self.operator_pods()}",
            READY_SECONDS,
        )

    def restart_operator(self) -> None:
        """Roll the Deployment, as an upgrade does."""
        annotations = {"efrit.dev/rolled": secrets.token_hex(4)}
        body = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        call_with_retries(lambda: self.kube.call("PATCH", DEPLOYMENT, body, content_type=STRATEGIC_PATCH))

    def _set_env(self, variables: dict[str, str | None] | dict[str, str]) -> None:
        if not variables:
            return
        env = [
            {"name": name, "value": value} if value else {"name": name, "$patch": "delete"}
            for name, value in variables.items()
        ]
        body = {"spec": {"template": {"spec": {"containers": [{"name": "controller", "env": env}]}}}}
        self.kube.call("PATCH", DEPLOYMENT, body, content_type=STRATEGIC_PATCH)


def call_with_retries(call: Callable[[], T], seconds: float = READY_SECONDS) -> T | None:
    """Return what the API server answers, retrying while it is away; None for what does not exist."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except ApiError as error:
            if error.status == 404:
                return None
            if (error.status is not None and error.status < 429) or time.monotonic() > deadline:
                raise
        except ValueError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
