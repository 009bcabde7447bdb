"""The cluster of the light tier, shared by its runs: a control plane with our CRDs, and the compiled Lisp.

Each run has a namespace of its own on it. `repair` starts again what a fault took away.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from types import TracebackType

from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import Daemon
from tests.model.running import Model, running
from tests.scratch import owned_directory, remove, remove_left_behind
from tests.support.compiled_lisp import compiled_lisp
from tests.support.custom_resources import install_crds
from tests.support.faults.large_results import AUDIT_POLICY
from tests.support.faults.workload import TALK, TALK_SCENARIO
from tests.support.kube import Kube
from tests.support.processes import Process

COLLECTORS = "namespace-controller,garbage-collector-controller"
DISRUPTION = "disruption-controller"


class LightCluster:
    """A control plane for many runs. Use it as a context manager: everything in it ends with it."""

    def __init__(self) -> None:
        remove_left_behind()
        self.directory = owned_directory("chaos")
        self.audit_log = self.directory / "audit.log"
        """Where the API server writes down every creation of a Secret, one JSON object a line."""
        policy = self.directory / "audit-policy.json"
        policy.write_text(json.dumps(AUDIT_POLICY))
        self.plane = ControlPlane(
            flags=(
                f"--audit-policy-file={policy}",
                f"--audit-log-path={self.audit_log}",
                "--audit-log-mode=blocking",
            )
        )
        self._collectors: Process | None = None
        self._disruption: Process | None = None
        self._model: Model | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> LightCluster:
        try:
            self.lisp = compiled_lisp(self.directory / "lisp")
            self.plane.start()
            self.kube = self._open.enter_context(contextlib.closing(Kube(self.plane)))
            install_crds(self.kube)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process, and remove the directory."""
        self._open.close()
        self.collect_garbage(False)
        if self._disruption is not None:
            self._disruption.kill()
        self.plane.stop()
        remove(self.directory)

    def daemon(self, name: str) -> Daemon:
        """Return the process of `etcd` or `kube-apiserver`."""
        return self.plane.etcd if name == "etcd" else self.plane.apiserver

    def freeze(self, name: str, frozen: bool) -> None:
        """Stop or continue `etcd` or `kube-apiserver` by signal."""
        pid = self.daemon(name).pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if frozen else signal.SIGCONT)

    def repair(self) -> None:
        """Continue and start both, and wait until the API server is ready."""
        for name in ("etcd", "kube-apiserver"):
            self.freeze(name, False)
        self.plane.start()

    def collect_garbage(self, enabled: bool) -> None:
        """Run Kubernetes' controllers that delete namespaces and orphans, or stop them."""
        if not enabled:
            if self._collectors is not None:
                self._collectors.kill()
                self._collectors = None
            return
        if self._collectors is None:
            self._collectors = self._kubernetes(COLLECTORS)

    def guard_disruptions(self) -> None:
        """Run Kubernetes' controller of PodDisruptionBudgets, which counts the pods that they guard."""
        if self._disruption is None or self._disruption.status is not None:
            self._disruption = self._kubernetes(DISRUPTION)

    def model(self) -> Model:
        """Return the model that sessions have, which plays a script."""
        if self._model is None:
            self._model = self._open.enter_context(running())
            self._model.play(TALK, TALK_SCENARIO)
        return self._model

    def _kubernetes(self, controllers: str) -> Process:
        programs.ensure_go_programs(["kube-controller-manager"])
        command: list[str | Path] = [
            programs.program("kube-controller-manager"),
            f"--kubeconfig={self.plane.kubeconfig}",
            f"--controllers={controllers}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ]
        return Process(command, {}, self.directory / f"{controllers}.log", self.directory)
