"""A controller behind the proxy, its instances, and who watches from outside: where the deterministic plans play.

One stage serves many plans, one after the other. A plan asks for work through `ask`, arms faults at `proxy`, and ends
with `examine`, which waits until everything asked for so far is over and holds it against the invariants.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tests.cluster.control_plane import ControlPlane
from tests.support.faults.api_proxy.proxy import Armed, Proxy
from tests.support.faults.history import Answer, Digest, End, History, Loss, QueueFile, Ran, Submitted
from tests.support.faults.recorder import Recorder
from tests.support.faults.request_invariants import OPEN_AREAS, violations
from tests.support.kube import Json, Kube, until
from tests.support.site import Site

T = TypeVar("T")

ONE = "one"
"""The instance most work goes to: its queue is on a claim, and it has the label team=a."""
EPHEMERAL = "eph"
"""An instance whose queue goes with its pod."""
ASLEEP = "asleep"
"""A suspended instance."""
CLAIMLESS: Json = {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}}
WATCHED = ("efritinstances", "efritrequests", "pods", "statefulsets", "persistentvolumeclaims")
PATIENCE_SECONDS = 60.0
SETTINGS = {"EFRIT_SWEEP_SECONDS": "1"}


class Stage:
    """Close it in every case: it has processes."""

    def __init__(self, plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> None:
        self.began = time.time()
        self.site = Site(plane, kube, audit_log, lisp)
        self.kube, self.namespace = kube, self.site.namespace
        self.proxy = Proxy(plane)
        self.proxy.start()
        self.recorder = Recorder(plane, self.namespace, self.now)
        self.asked: list[Submitted] = []
        self.losses: list[Loss] = []
        self.restarts = 0
        self.before_instances = ""
        """Version of the world before there was an instance."""
        self.when_struck: Callable[[Armed], None] | None = None
        """Called by `struck`, once what it waits for has happened."""
        self._settings: dict[str, str] = {}
        try:
            self.operator = self.site.operator(server=self.proxy.url)
            self.proxy.victim = self.operator.kill
            self.recorder.start()
        except BaseException:
            self.close()
            raise

    def launch(self, **settings: str) -> None:
        """Start the controller, and wait for nothing."""
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
        self.site.instance(ASLEEP, ready=False, operatingMode="Suspended", **CLAIMLESS)
        self.until(lambda: all(map(self._is_ready, (ONE, EPHEMERAL))), "the first instances are not ready", 90)
        self.until(lambda: self.site.condition(ASLEEP, "Suspended").get("status") == "True", "it does not sleep")

    def close(self) -> None:
        for end in (self.proxy.close, self.recorder.close, self.site.close):
            end()

    def now(self) -> float:
        """Seconds since the stage was set."""
        return time.time() - self.began

    # The controller

    def until(self, found: Callable[[], T | None], what: str | Callable[[], str], seconds: float = 60) -> T:
        """Wait as `until` does, and start a controller that has ended again, as the kubelet does."""

        def look() -> T | None:
            self.revive()
            return found()

        return self.wait(look, what, seconds)

    def wait(self, found: Callable[[], T | None], what: str | Callable[[], str], seconds: float = 60) -> T:
        """Wait as `until` does, and leave a controller that has ended as it is."""
        return until(found, lambda: f"{what if isinstance(what, str) else what()}\n{self.logs()}", seconds)

    def revive(self) -> None:
        """Start the controller if it is not running."""
        if self.operator.ended:
            self.restarts += 1
            self.operator.launch(**self._settings)

    def until_leading(self) -> None:
        """Wait until the controller acts."""
        self.until(self.operator.leads, "the controller does not lead")

    def until_watching(self) -> None:
        """Wait until every watch is open: what happens before is told by a list, as no event of its own."""
        self.until(lambda: all(map(self.proxy.watching, WATCHED)), "it does not watch everything")

    def struck(self, armed: Armed, seconds: float = 60) -> None:
        """Wait until a fault has befallen something."""
        self.until(armed.struck.is_set, lambda: f"nothing was hit by {armed.fault}", seconds)
        if self.when_struck is not None:
            self.when_struck(armed)

    # Work

    def ask(
        self,
        word: str,
        content: str = "",
        *,
        to: str | None = ONE,
        ends: tuple[End, ...] = (),
        deleted: bool = False,
        **spec: Any,
    ) -> Submitted:
        """Create a request that counts `word` and, unless told otherwise, ends with it as its result."""
        attempts = int(spec.get("maxAttempts", 1))
        at = self.now()
        self.site.ask(content or self.site.count(word), word, to=to, **spec)
        uid = self.kube.get("efritrequests", self.namespace, word)["metadata"]["uid"]
        wanted = ends or (succeeded(word),)
        asked = Submitted(self.namespace, word, uid, at, word, (to or ONE,), wanted, attempts, deleted)
        self.asked.append(asked)
        return asked

    def gate(self, word: str) -> str:
        """Return Lisp that counts, then waits for its gate to be opened, and returns the word."""
        wait = f'(while (not (file-exists-p "{word}.go")) (sleep-for 0.02))'
        return f'(progn (write-region "{word}\\n" nil "counter" t 0) {wait} "{word}")'

    def open_gate(self, word: str, instance: str = ONE) -> None:
        (self.site.node.pod(instance).workspace / f"{word}.go").touch()

    def until_runs(self, word: str, instance: str = ONE) -> None:
        self.until(lambda: word in self.site.counted(instance), f"{word} does not start")

    def on_queue(self, asked: Submitted, instance: str = ONE) -> bool:
        """Whether the queue of an instance has a request that is not archived."""
        queue = self.site.node.pod(instance).queue
        return any((queue / area / f"req_{asked.uid}.json").exists() for area in ("requests", "processing"))

    def status(self, asked: Submitted) -> Json:
        """Return the newest status the recorder has seen."""
        version = self.recorder.latest.get(asked.uid)
        return dict(version.status) if version else {}

    def ended(self, asked: Submitted, seconds: float = PATIENCE_SECONDS) -> Json:
        """Wait for the end of a request and return its final status."""
        self.until(
            lambda: asked.uid in self.recorder.final,
            lambda: f"{asked.name} does not end: {self.status(asked)}",
            seconds,
        )
        return dict(self.recorder.final[asked.uid].status)

    # The end

    def examine(self) -> None:
        """Wait until all is over and tidy, then hold the history against the invariants."""
        quiet = self.now()
        for asked in self.asked:
            if not asked.deleted:
                self.ended(asked)
        files: list[QueueFile] = []

        def tidy() -> bool:
            # Judged as they lie now: Emacs passes through tmp/ every second.
            files[:] = self._files()
            return not any(each.area in OPEN_AREAS and not each.reserved for each in files)

        self.until(tidy, lambda: f"the queues are not empty: {files}")
        # Not asked again below: a controller on a busy machine may hear only then of a pod that was replaced before.
        self.until(lambda: all(map(self._is_ready, (ONE, EPHEMERAL))), "the instances are not ready again")
        found = violations(self.history(quiet, files))
        assert not found, "\n".join(map(str, found)) + f"\n{self.logs()}"

    def _is_ready(self, name: str) -> bool:
        return self.site.condition(name, "Ready").get("status") == "True"

    def _queues(self) -> Iterator[tuple[str, Path]]:
        for name in (ONE, EPHEMERAL):
            if not self.site.node.gone(name):
                yield name, self.site.node.pod(name).queue

    def _files(self) -> list[QueueFile]:
        return [
            QueueFile(self.namespace, name, _identity(queue), area, each.name)
            for name, queue in self._queues()
            for area in (*OPEN_AREAS, "archive")
            for each in sorted((queue / area).glob("*"))
        ]

    def history(self, quiet: float, files: list[QueueFile]) -> History:
        """Return everything seen so far."""
        ran, answers = [], []
        for name, queue in self._queues():
            ran += [Ran(self.namespace, name, word) for word in self.site.counted(name)]
            for each in sorted((queue / "archive").glob("resp_*.json")):
                response = json.loads(each.read_text())
                answers.append(Answer(self.namespace, name, _identity(queue), "archive", response["id"], response))
        return History(
            submitted=tuple(self.asked),
            versions=self.recorder.versions,
            ran=tuple(ran),
            files=tuple(files),
            answers=tuple(answers),
            losses=tuple(self.losses),
            gaps=self.recorder.gaps,
            quiet_at=quiet,
            ended_at=self.now(),
            patience=PATIENCE_SECONDS,
        )

    def logs(self) -> str:
        """What went through the proxy last, and the ends of all logs."""
        calls = [
            f"{each.time - self.began:7.2f} {each.target} {each.status or ''} {each.fate}"
            for each in self.proxy.calls[-60:]
            if each.target.writes or each.fate
        ]
        return "\n".join(["== through the proxy", *calls, self.site.logs()])


def _identity(queue: Path) -> str:
    return (queue / "identity").read_text().strip()


def printed(text: str) -> Digest:
    """Return the digest of a string as Emacs prints it."""
    return Digest.of(f'"{text}"')


def succeeded(word: str) -> End:
    """Return the ordinary end: it ran once and returned its word."""
    return End("Succeeded", printed(word), (1,))


def unbegun(reason: str) -> End:
    """Return the end of what never ran."""
    return End(reason, None, (0,))
