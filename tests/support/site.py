"""A namespace with a controller and a node: what a test of the controller talks to."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.cluster.control_plane import ControlPlane
from tests.scratch import owned_directory, remove
from tests.support import chart
from tests.support.custom_resources import new_namespace
from tests.support.earlier_build import Part, earlier_build
from tests.support.failure_logs import logs_on_failure
from tests.support.kube import Json, Kube, until
from tests.support.node import Node
from tests.support.operator import KEPT_LEASE_SECONDS, Operator
from tests.support.timeout import TIMEOUT

FINAL = ("Succeeded", "Failed")
EPHEMERAL: Json = {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}}
# running_after of the controller.
SAYS_SO_AFTER = timedelta(seconds=1)


class Site:
    """Close it in every case: it has processes. others: further namespaces that its controllers serve.

    everywhere: they serve the whole cluster instead. usual_lease: a controller's lease is as short as by default, for
    tests that may see it end or restart; in the others it is so long that a busy machine takes it from nobody.
    """

    def __init__(
        self,
        plane: ControlPlane,
        kube: Kube,
        audit_log: Path,
        lisp: Path,
        *,
        others: Sequence[str] = (),
        everywhere: bool = False,
        usual_lease: bool = False,
    ) -> None:
        self._usual_lease = usual_lease
        self.plane = plane
        self.kube = kube
        self.namespace = new_namespace(kube)
        self.directory = owned_directory("site")
        self._audit_log = audit_log
        # Before it are the writes of other tests: nothing in this namespace.
        self._audit_begin = audit_log.stat().st_size if audit_log.exists() else 0
        self._installed = chart.install(kube, self.namespace, others, everywhere=everywhere)
        self._names = itertools.count(1)
        self.operators: list[Operator] = []
        self.node = Node(plane, self.namespace, lisp, self.directory)
        self._failure_logs = ExitStack()
        self._failure_logs.enter_context(logs_on_failure(f"logs of {self.namespace}", self.logs))
        self.node.start()

    def operator(self, name: str = "operator-0", *, server: str | None = None) -> Operator:
        """Return a controller that is yet to be started; `server` stands in for the API server's own URL."""
        made = Operator(self.plane, self.kube, self.namespace, self._installed, self.directory, name, server=server)
        # An earlier build may wait until the lease of a process that was killed has run out.
        if not self._usual_lease and earlier_build(Part.CONTROLLER) is None:
            made.configure(EFRIT_LEASE_SECONDS=KEPT_LEASE_SECONDS)
        self.operators.append(made)
        return made

    def close(self) -> None:
        self._failure_logs.close()
        for operator in self.operators:
            operator.close()
        try:
            self.node.close()
        finally:
            remove(self.directory)

    # Instances

    def instance(self, name: str = "one", *, labels: Json | None = None, ready: bool = True, **spec: Any) -> None:
        """Create an instance; with `ready`, wait until it answers."""
        manifest = {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}
        self.kube.create("efritinstances", self.namespace, manifest, fieldValidation="Strict")
        if ready:
            self.until_condition(name, "Ready", status="True")

    def condition(self, name: str, kind: str) -> Json:
        """Return a condition of an instance, empty while there is none."""
        status = self.kube.get("efritinstances", self.namespace, name).get("status", {})
        return next((condition for condition in status.get("conditions", ()) if condition["type"] == kind), {})

    def until_condition(self, name: str, kind: str, seconds: float = TIMEOUT, **expected: str) -> Json:
        """Wait for a condition with this status or reason, and return it."""

        def reached() -> Json | None:
            condition = self.condition(name, kind)
            return condition if expected.items() <= condition.items() else None

        return until(
            reached, lambda: f"{name}: {kind} is not {expected}: {self.condition(name, kind)}\n{self.logs()}", seconds
        )

    # The pool of a test

    def pool(self, **spec: Any) -> None:
        """Create the pool `crew`, whose members have no volumes."""
        manifest = {"metadata": {"name": "crew"}, "spec": {"template": {"spec": EPHEMERAL}, **spec}}
        self.kube.create("efritpools", self.namespace, manifest, fieldValidation="Strict")

    def change_pool(self, **spec: Any) -> None:
        """Change these fields of its spec."""
        self.kube.patch("efritpools", self.namespace, "crew", {"spec": spec})

    def pool_status(self) -> Json:
        """Return its status."""
        status: Json = self.kube.get("efritpools", self.namespace, "crew").get("status", {})
        return status

    def until_pool(self, **expected: Any) -> Json:
        """Wait for these fields in its status, and return the status."""

        def reached() -> Json | None:
            status = self.pool_status()
            return status if expected.items() <= status.items() else None

        return until(reached, lambda: f"the pool is not {expected}: {self.pool_status()}\n{self.logs()}")

    def ask_pool(self, name: str, content: str = "(+ 1 2)", *, labels: Json | None = None, **spec: Any) -> None:
        """Create an eval for it."""
        pool = {"poolRef": {"name": "crew"}}
        self.create_eval(content, name, to=None, timeoutSeconds=600, labels=labels, **pool, **spec)

    # Requests

    def ask(
        self,
        content: str,
        name: str = "",
        *,
        to: str | None = "one",
        timeoutSeconds: int | None = 3600,  # noqa: N803 - a field of the spec
        **spec: Any,
    ) -> str:
        """Create an eval, by default with more time than a test takes, and return its name."""
        made = self.create_eval(content, name, to=to, timeoutSeconds=timeoutSeconds, **spec)
        return str(made["metadata"]["name"])

    def create_eval(
        self,
        content: str,
        name: str = "",
        *,
        to: str | None = "one",
        timeoutSeconds: int | None = 3600,  # noqa: N803 - a field of the spec
        labels: Json | None = None,
        **spec: Any,
    ) -> Json:
        """Do the same, and return the object as it was created: it may have ended, and be gone, a moment later."""
        name = name or f"r{next(self._names)}"
        if to is not None:
            spec["instanceRef"] = {"name": to}
        if timeoutSeconds is not None:
            spec["timeoutSeconds"] = timeoutSeconds
        spec = {"type": "eval", "content": content, **spec}
        manifest = {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}
        return self.kube.create("efritrequests", self.namespace, manifest, fieldValidation="Strict")

    def status(self, name: str) -> Json:
        """Return the status of a request."""
        status: Json = self.kube.get("efritrequests", self.namespace, name).get("status", {})
        return status

    def until_status(self, name: str, seconds: float = TIMEOUT, **expected: Any) -> Json:
        """Wait for these fields in a request's status, and return the status."""

        def reached() -> Json | None:
            status = self.status(name)
            return status if expected.items() <= status.items() else None

        return until(reached, lambda: f"{name} is not {expected}: {self.status(name)}\n{self.logs()}", seconds)

    def answer(self, name: str, seconds: float = TIMEOUT) -> Json:
        """Wait for the end of a request and return its status."""

        def reached() -> Json | None:
            status = self.status(name)
            return status if status.get("phase") in FINAL else None

        return until(reached, lambda: f"{name} does not end: {self.status(name)}\n{self.logs()}", seconds)

    def answers(self, seconds: float = TIMEOUT) -> dict[str, Json]:
        """Wait for the end of every request and return name -> status."""

        def reached() -> dict[str, Json] | None:
            statuses = {
                request["metadata"]["name"]: request.get("status", {})
                for request in self.kube.list("efritrequests", self.namespace)
            }
            return statuses if all(status.get("phase") in FINAL for status in statuses.values()) else None

        def complaint() -> str:
            open_requests = {
                request["metadata"]["name"]: request.get("status", {})
                for request in self.kube.list("efritrequests", self.namespace)
                if request.get("status", {}).get("phase") not in FINAL
            }
            return f"not ended: {open_requests}\n{self.logs()}"

        return until(reached, complaint, seconds)

    def cancel(self, name: str) -> None:
        """Ask to stop a request."""
        self.kube.patch("efritrequests", self.namespace, name, {"spec": {"cancel": True}})

    # What was done

    def counter(self, instance: str = "one") -> Path:
        """Return a file that evals append to: how often, and in which order, they really ran."""
        return self.node.pod(instance).workspace / "counter"

    def count(self, word: str) -> str:
        """Return Lisp that appends a line to the counter file and returns the word."""
        return f'(progn (write-region "{word}\\n" nil "counter" t 0) "{word}")'

    def counted(self, instance: str = "one") -> list[str]:
        """Return the lines of the counter file."""
        path = self.counter(instance)
        return path.read_text().split() if path.exists() else []

    def writes(self, name: str) -> list[tuple[str, str]]:
        """Return (verb, resource) of every write to a request that the API server accepted."""
        return [(verb, resource) for _, verb, resource in self._timed_writes(name)]

    def prompt_writes(self, name: str) -> list[tuple[str, str]]:
        """Return `writes` of a request that has ended, without those before the last one that say it takes a second.

        The second counts from the time of creation in the object, which has whole seconds.
        """

        def recorded() -> list[tuple[datetime, str, str]]:
            # Who asks for the object sees a write before it is in the log.
            found = self._timed_writes(name)
            return found if found and found[-1][-1].endswith("/status") else []

        writes = until(recorded, lambda: f"no status of {name} was written: {self._timed_writes(name)}")
        says_so = writes[0][0].replace(microsecond=0) + SAYS_SO_AFTER
        return [(verb, resource) for at, verb, resource in writes[:-1] if at < says_so] + [writes[-1][1:]]

    def _timed_writes(self, name: str) -> list[tuple[datetime, str, str]]:
        writes = []
        with self._audit_log.open("rb") as log:
            log.seek(self._audit_begin)
            # A line that is being written is not a line yet.
            text = log.read().rpartition(b"\n")[0].decode()
        for line in text.splitlines():
            if self.namespace not in line:
                continue
            event = json.loads(line)
            of, code = event.get("objectRef", {}), event.get("responseStatus", {}).get("code", 0)
            if of.get("namespace") == self.namespace and of.get("name") == name and code < 300:
                sub = of.get("subresource")
                received = datetime.fromisoformat(event["requestReceivedTimestamp"].replace("Z", "+00:00"))
                writes.append((received, event["verb"], f"{of['resource']}/{sub}" if sub else of["resource"]))
        return writes

    def logs(self) -> str:
        """Return the ends of all logs, for messages."""
        own = [f"== {operator.diagnostics()}" for operator in self.operators]
        return "\n".join([*own, self.node.logs()])
