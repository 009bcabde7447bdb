"""A controller behind the API proxy, its instances, and a recorder: where the deterministic fault tests run.

One cluster serves many tests, one after the other. A test creates work by `submit`, arms faults at `proxy` and ends
with `check_history`, which waits until every request is final and checks the history against the invariants.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tests.cluster.control_plane import ControlPlane
from tests.support.faults.api_proxy.proxy import ArmedFault, Proxy
from tests.support.faults.checker import check
from tests.support.faults.history import (
    Answer,
    Digest,
    Execution,
    ExpectedEnd,
    History,
    Loss,
    QueueFile,
    SubmittedRequest,
)
from tests.support.faults.recorder import RequestRecorder
from tests.support.faults.request_invariants import OPEN_AREAS
from tests.support.kube import Json, Kube, until
from tests.support.site import Site
from tests.support.timeout import TIMEOUT

T = TypeVar("T")

ONE = "one"
"""The instance most work goes to: its queue is on a claim, and it has the label team=a."""
EPHEMERAL = "eph"
"""An instance whose queue goes with its pod."""
SUSPENDED = "suspended"
"""A suspended instance."""
CLAIMLESS: Json = {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}}
WATCHED = ("efritinstances", "efritrequests", "pods", "statefulsets", "persistentvolumeclaims")
RECOVERY_SECONDS = TIMEOUT
SETTINGS = {"EFRIT_SWEEP_SECONDS": "1", "EFRIT_LEASE_SECONDS": "60"}
"""A leader gives up that has not renewed its lease for 40 s, not for 10 as by default: a busy machine takes long."""


class ProxiedCluster:
    """A site whose controller reaches the API server through the proxy. Close it in every case: it has processes."""

    def __init__(self, plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> None:
        self.began = time.time()
        self.site = Site(plane, kube, audit_log, lisp)
        self.kube, self.namespace = kube, self.site.namespace
        self.proxy = Proxy(plane)
        self.proxy.start()
        self.recorder = RequestRecorder(plane, self.namespace, self.now)
        self.submitted: list[SubmittedRequest] = []
        self.losses: list[Loss] = []
        self.restarts = 0
        self.before_instances = ""
        """Resource version before there was an instance."""
        self.on_injected: Callable[[ArmedFault], None] | None = None
        """Called by `wait_injected` once the fault was injected."""
        self._settings: dict[str, str] = {}
        try:
            self.operator = self.site.operator(server=self.proxy.url)
            self.proxy.kill_controller = self.operator.kill
            self.recorder.start()
        except BaseException:
            self.close()
            raise

    def launch(self, **settings: str) -> None:
        """Start the controller, without waiting."""
        self._settings = {**SETTINGS, **settings}
        self.operator.launch(**self._settings)

    def open(self, **settings: str) -> None:
        """Start the controller and its first instances."""
        self.launch(**settings)
        self.until_leading()
        self.before_instances = str(
            self.kube.call("GET", self.kube.path("efritinstances", self.namespace))["metadata"]["resourceVersion"]
        )
        self.site.instance(ONE, labels={"team": "a"}, ready=False)
        self.site.instance(EPHEMERAL, ready=False, **CLAIMLESS)
        self.site.instance(SUSPENDED, ready=False, operatingMode="Suspended", **CLAIMLESS)
        self.until(lambda: all(map(self._is_ready, (ONE, EPHEMERAL))), "the first instances are not ready")
        self.until(lambda: self.site.condition(SUSPENDED, "Suspended").get("status") == "True", "it is not suspended")

    def close(self) -> None:
        """End every process."""
        for end in (self.proxy.close, self.recorder.close, self.site.close):
            end()

    def now(self) -> float:
        """Return the seconds since the cluster was made."""
        return time.time() - self.began

    # The controller

    def until(self, condition: Callable[[], T | None], what: str | Callable[[], str], seconds: float = TIMEOUT) -> T:
        """Wait as `until` does, and restart a controller that has ended, as the kubelet does."""

        def attempt() -> T | None:
            self.restart_if_ended()
            return condition()

        return self.wait(attempt, what, seconds)

    def wait(self, condition: Callable[[], T | None], what: str | Callable[[], str], seconds: float = TIMEOUT) -> T:
        """Wait as `until` does, and leave a controller that has ended as it is."""
        return until(condition, lambda: f"{what if isinstance(what, str) else what()}\n{self.logs()}", seconds)

    def restart_if_ended(self) -> None:
        """Start the controller if it is not running."""
        if self.operator.ended:
            self.restarts += 1
            self.operator.launch(**self._settings)

    def until_leading(self) -> None:
        """Wait until the controller leads."""
        self.until(self.operator.leads, "the controller does not lead")

    def until_watching(self) -> None:
        """Wait until every watch is open: earlier changes come by a list, not as events."""
        self.until(lambda: all(map(self.proxy.watching, WATCHED)), "it does not watch everything")

    def wait_injected(self, armed: ArmedFault, seconds: float = TIMEOUT) -> None:
        """Wait until a fault has hit a call or an event."""
        self.until(armed.injected.is_set, lambda: f"not injected: {armed.fault}", seconds)
        if self.on_injected is not None:
            self.on_injected(armed)

    # Work

    def submit(
        self,
        name: str,
        content: str = "",
        *,
        to: str | None = ONE,
        ends: tuple[ExpectedEnd, ...] = (),
        deleted: bool = False,
        **spec: Any,
    ) -> SubmittedRequest:
        """Create a request that counts `name` and, unless `content` says otherwise, returns it."""
        attempts = int(spec.get("maxAttempts", 1))
        at = self.now()
        created = self.site.create_eval(content or self.site.count(name), name, to=to, **spec)
        uid = created["metadata"]["uid"]
        expected = ends or (succeeded(name),)
        request = SubmittedRequest(self.namespace, name, uid, at, name, (to or ONE,), expected, attempts, deleted)
        self.submitted.append(request)
        return request

    def gated_form(self, name: str) -> str:
        """Return Lisp that counts, waits for `open_gate`, and returns the name."""
        wait = f'(while (not (file-exists-p "{name}.go")) (sleep-for 0.02))'
        return f'(progn (write-region "{name}\\n" nil "counter" t 0) {wait} "{name}")'

    def open_gate(self, name: str, instance: str = ONE) -> None:
        """Let an eval of `gated_form` go on."""
        (self.site.node.pod(instance).workspace / f"{name}.go").touch()

    def until_running(self, name: str, instance: str = ONE) -> None:
        """Wait until the eval of a request has counted."""
        self.until(lambda: name in self.site.counted(instance), f"{name} does not start")

    def on_queue(self, request: SubmittedRequest, instance: str = ONE) -> bool:
        """Return whether the queue of an instance has the request, not archived."""
        queue = self.site.node.pod(instance).queue
        return any((queue / area / f"req_{request.uid}.json").exists() for area in ("requests", "processing"))

    def status(self, request: SubmittedRequest) -> Json:
        """Return the newest status that was recorded."""
        version = self.recorder.latest.get(request.uid)
        return dict(version.status) if version else {}

    def wait_final(self, request: SubmittedRequest, seconds: float = RECOVERY_SECONDS) -> Json:
        """Wait until a request is final, and return its status."""
        self.until(
            lambda: request.uid in self.recorder.final,
            lambda: f"{request.name} does not end: {self.status(request)}",
            seconds,
        )
        return dict(self.recorder.final[request.uid].status)

    # The end

    def check_history(self) -> None:
        """Wait until every request is final and the queues are empty, then check the history."""
        quiet = self.now()
        for request in self.submitted:
            if not request.deleted:
                self.wait_final(request)
        files: list[QueueFile] = []

        def tidy() -> bool:
            # Judged in this state: Emacs uses tmp/ every second.
            files[:] = self._files()
            return not any(file.area in OPEN_AREAS and not file.may_stay for file in files)

        self.until(tidy, lambda: f"the queues are not empty: {files}")
        # Not checked again below: a controller on a busy machine may learn late of a pod that was replaced before.
        self.until(lambda: all(map(self._is_ready, (ONE, EPHEMERAL))), "the instances are not ready again")
        violations = check(self.history(quiet, files))
        assert not violations, "\n".join(map(str, violations)) + f"\n{self.logs()}"

    def _is_ready(self, name: str) -> bool:
        return self.site.condition(name, "Ready").get("status") == "True"

    def _queues(self) -> Iterator[tuple[str, Path]]:
        for name in (ONE, EPHEMERAL):
            if not self.site.node.gone(name):
                yield name, self.site.node.pod(name).queue

    def _files(self) -> list[QueueFile]:
        return [
            QueueFile(self.namespace, name, _identity(queue), area, path.name)
            for name, queue in self._queues()
            for area in (*OPEN_AREAS, "archive")
            for path in sorted((queue / area).glob("*"))
        ]

    def history(self, quiet: float, files: list[QueueFile]) -> History:
        """Return the history so far."""
        ran, answers = [], []
        for name, queue in self._queues():
            ran += [Execution(self.namespace, name, marker) for marker in self.site.counted(name)]
            for path in sorted((queue / "archive").glob("resp_*.json")):
                response = json.loads(path.read_text())
                answers.append(Answer(self.namespace, name, _identity(queue), "archive", response["id"], response))
        return History(
            submitted=tuple(self.submitted),
            versions=self.recorder.versions,
            ran=tuple(ran),
            files=tuple(files),
            answers=tuple(answers),
            losses=tuple(self.losses),
            watch_gaps=self.recorder.watch_gaps,
            healed_at=quiet,
            ended_at=self.now(),
            recovery_seconds=RECOVERY_SECONDS,
        )

    def logs(self) -> str:
        """Return the last calls through the proxy, and the ends of all logs."""
        calls = [
            f"{call.time - self.began:7.2f} {call.target} {call.status or ''} {call.effect}"
            for call in self.proxy.calls[-60:]
            if call.target.writes or call.effect
        ]
        return "\n".join(["== through the proxy", *calls, self.site.logs()])


def _identity(queue: Path) -> str:
    """Return whose queue it is; empty while its first bridge has not said so."""
    path = queue / "identity"
    return path.read_text().strip() if path.exists() else ""


def printed_digest(text: str) -> Digest:
    """Return the digest of a string as Emacs prints it."""
    return Digest.of(f'"{text}"')


def succeeded(name: str) -> ExpectedEnd:
    """Return the ordinary end: it ran once and returned its name."""
    return ExpectedEnd("Succeeded", printed_digest(name), (1,))


def never_ran(reason: str) -> ExpectedEnd:
    """Return the end of a request that never ran."""
    return ExpectedEnd(reason, None, (0,))
