"""The controller as a process, with the chart's rights and environment."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from pathlib import Path

import httpx

from tests.cluster.control_plane import ControlPlane
from tests.cluster.ports import free_port
from tests.support.chart import Installed, token
from tests.support.earlier_build import Part, earlier_build
from tests.support.kube import Kube, until
from tests.support.operator_pod import OperatorPod
from tests.support.plain_http import NO_TLS
from tests.support.processes import Process
from tests.support.timeout import TIMEOUT

GRACE_SECONDS = 2
"""How long a request waits for an instance that does not exist; half a minute outside of tests."""
KEPT_LEASE_SECONDS = "120"
"""For a controller that leads all the while: one whose renewals a busy machine delays for ten seconds would end."""
POLL_SECONDS = 5.0
"""How long one poll waits: a controller may be stopped in its tracks."""


class Operator:
    """One controller. `start` it again after `kill`: it is then the same pod with its container restarted."""

    def __init__(
        self,
        plane: ControlPlane,
        kube: Kube,
        namespace: str,
        installed: Installed,
        directory: Path,
        name: str,
        *,
        server: str | None = None,
    ) -> None:
        self.name = name
        self._directory = directory
        self._kubeconfig = directory / f"{name}.kubeconfig"
        self._kubeconfig.write_text(
            _kubeconfig(plane, server or plane.url, token(kube, namespace, installed.account))
        )
        self._env = {**installed.env, "EFRIT_TARGET_GRACE_SECONDS": str(GRACE_SECONDS)}
        self._process: Process | None = None
        self._port = 0
        self._termination_log = directory / f"{name}.termination-log"
        self._pod = OperatorPod(kube, namespace, name, installed.account, self._termination_log)

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    @property
    def kubeconfig(self) -> Path:
        """The file with the controller's account."""
        return self._kubeconfig

    @property
    def identity_secret(self) -> str:
        """The name of the Secret with its key."""
        return self._env["EFRIT_IDENTITY_SECRET"]

    def launch(self, **env: str) -> None:
        """Start it and return at once; a process that it had has ended, which its kubelet says now at the latest."""
        self._pod.container_starts()
        self._port = free_port()
        earlier = earlier_build(Part.CONTROLLER)
        program = (Path(sys.executable).parent if earlier is None else earlier.programs) / "efrit-operator"
        self._env |= env
        whole = {
            **self._env,
            "PATH": os.environ["PATH"],
            "HOME": str(self._directory),
            "KUBECONFIG": str(self._kubeconfig),
            "EFRIT_POD_NAME": self.name,
            "EFRIT_TERMINATION_LOG": str(self._termination_log),
            "EFRIT_HTTP_HOST": "127.0.0.1",
            "EFRIT_HTTP_PORT": str(self._port),
        }
        self._process = Process([program], whole, self._directory / f"{self.name}.log", self._directory)

    def configure(self, **env: str) -> None:
        """Change its environment from the next start on."""
        self._env |= env

    @property
    def image(self) -> str:
        """The image that it gives bridges."""
        return self._env["EFRIT_OPERATOR_IMAGE"]

    def start(self, *, leading: bool = True, **env: str) -> None:
        """Start it and wait until it is ready; with `leading`, until it acts."""
        self.launch(**env)
        roles = ("leading",) if leading else ("leading", "standby")
        until(lambda: self.role(POLL_SECONDS) in roles, lambda: f"not {roles}:\n{self.process.tail()}")
        until(self._pod.reported, "its pod is not reported")

    @property
    def ended(self) -> bool:
        """Whether it was started and does not run any more."""
        return self._process is not None and self._process.status is not None

    def diagnostics(self) -> str:
        """Return its name, whether it runs and the end of its log, for messages."""
        if self._process is None:
            return f"{self.name} was not started"
        status = self._process.status
        return f"{self.name} {'runs' if status is None else f'ended with {status}'}\n{self._process.tail()}"

    def role(self, seconds: float = TIMEOUT) -> str:
        """Return what /readyz says, empty where it does not answer within so many seconds."""
        if self.process.status is not None:
            raise AssertionError(f"the controller ended ({self.process.status}):\n{self.process.tail()}")
        return self._readiness(seconds)

    def leads(self) -> bool:
        """Whether it acts; it may just as well have ended, also while it is asked."""
        return not self.ended and self._readiness(POLL_SECONDS) == "leading"

    def _readiness(self, seconds: float) -> str:
        try:
            return self.fetch("/readyz", seconds).text.strip()
        except httpx.TransportError:
            return ""

    def fetch(self, path: str, seconds: float = TIMEOUT) -> httpx.Response:
        """GET from its own HTTP server."""
        return httpx.get(self.url(path), timeout=seconds, trust_env=False, verify=NO_TLS)

    def url(self, path: str) -> str:
        """Return where its own HTTP server has this."""
        return f"http://127.0.0.1:{self._port}{path}"

    def metric(self, line: str) -> float:
        """Return the value of a metric, named with its labels; 0 where it has not been counted yet."""
        for sample in self.fetch("/metrics").text.splitlines():
            name, _, value = sample.rpartition(" ")
            if name == line:
                return float(value)
        return 0.0

    def kill(self) -> None:
        """SIGKILL, as when the node dies: nothing is written."""
        self.process.kill()

    def report_end(self) -> None:
        """Have its kubelet say that it has ended, as it does within a second."""
        assert self.ended
        self._pod.container_ended()

    @property
    def identity(self) -> str:
        """Who its process is, by what it has left for its kubelet."""
        return self._termination_log.read_text()

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        return self.process.terminate()

    def terminate(self) -> None:
        """SIGTERM, without waiting for its end."""
        self.process.send(signal.SIGTERM)

    def freeze(self, frozen: bool) -> None:
        self.process.send(signal.SIGSTOP if frozen else signal.SIGCONT)

    def close(self) -> None:
        self._pod.close()
        if self._process is not None:
            self._process.kill()


def _kubeconfig(plane: ControlPlane, server: str, bearer: str) -> str:
    authority = base64.b64encode(plane.authority.ca.read_bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": {"token": bearer}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return json.dumps(document)
