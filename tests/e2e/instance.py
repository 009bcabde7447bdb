"""An EfritInstance in the hands of a test: make it, send it work, read answers, look into its pod."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl, worked
from tests.support.timeout import TIMEOUT

QUEUE = "/var/lib/efrit/queue"
SMALL = {"storage": {"size": "64Mi"}}
QUEUE_VOLUME = {"queue": SMALL}
VOLUMES = {**QUEUE_VOLUME, "workspace": SMALL}
EPHEMERAL = {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}}
"""Each volume costs the node two pods more: what makes it, and what takes it away. On a queue that goes with its pod
a request has one attempt less and one write more: what is about retries or queues has a volume.
"""

# No image need hold ps or pkill, /proc says it all: $1 is a pattern for the command line, $2 a signal.
SIGNAL = """
for each in /proc/[0-9]*; do
  if [ "$each" = "/proc/$$" ]; then continue; fi
  case "$(tr '\\0' ' ' <"$each/cmdline" 2>/dev/null)" in $1) kill -s "$2" "${each#/proc/}" && exit 0;; esac
done
exit 1
"""


class Instance:
    """One EfritInstance by name."""

    def __init__(self, kube: Kube, namespace: str, name: str) -> None:
        self.kube = kube
        self.namespace = namespace
        self.name = name
        self.pod_name = f"efrit-{name}-0"

    @classmethod
    def create(cls, kube: Kube, namespace: str, name: str, labels: Json | None = None, **spec: object) -> Instance:
        """Create it, with what goes with its pod unless `spec` has QUEUE_VOLUME or VOLUMES; `wait_ready` waits."""
        whole = {**EPHEMERAL, **spec}
        kube.create("EfritInstance", namespace, {"metadata": {"name": name, "labels": labels or {}}, "spec": whole})
        return cls(kube, namespace, name)

    def get(self) -> Json:
        return self.kube.get("EfritInstance", self.namespace, self.name)

    def patch(self, **spec: object) -> Json:
        return self.kube.patch("EfritInstance", self.namespace, self.name, {"spec": spec})

    def condition(self, kind: str = "Ready") -> Json:
        """Return the condition, or an empty one where there is none about the spec of now."""
        return _condition(self.get(), kind)

    def wait_reason(self, reason: str, kind: str = "Ready", seconds: float = TIMEOUT) -> Json:
        """Return the condition once it has this reason."""

        def there(obj: Json) -> Json | None:
            condition = _condition(obj, kind)
            return condition if condition["reason"] == reason else None

        def diagnostics() -> str:
            return f"{kind} has no reason {reason}\n{self.diagnostics()}"

        return self.kube.wait("EfritInstance", self.namespace, self.name, there, diagnostics, seconds)

    def wait_ready(self, seconds: float = TIMEOUT) -> Instance:
        self.wait_reason("Ready", seconds=seconds)
        return self

    def pod(self) -> Json | None:
        return self.kube.find("Pod", self.namespace, self.pod_name)

    def pod_uid(self) -> str | None:
        pod = self.pod()
        return str(pod["metadata"]["uid"]) if pod else None

    def wait_pod_leaves(self) -> None:
        """Wait until its pod is being deleted."""

        def leaves() -> bool:
            pod = self.pod()
            return pod is None or "deletionTimestamp" in pod["metadata"]

        until(leaves, lambda: f"the pod is not being deleted\n{self.diagnostics()}")

    def wait_no_pod(self) -> None:
        until(lambda: self.pod() is None, lambda: f"the pod is still there\n{self.diagnostics()}")

    def wait_new_pod(self, old: str | None) -> Instance:
        """Wait until another pod than `old` serves."""
        until(lambda: self.pod_uid() not in (None, old), lambda: f"the pod was not replaced\n{self.diagnostics()}")
        return self.wait_ready()

    def shell(self, script: str, *arguments: str, stdin_text: str | None = None) -> str:
        """Run a script of sh in the Emacs container."""
        stdin = ("-i",) if stdin_text is not None else ()
        where = ("exec", *stdin, "-n", self.namespace, self.pod_name, "-c", "emacs", "--")
        return kubectl(*where, "sh", "-c", script, "sh", *arguments, stdin=stdin_text)

    def touch(self, path: str) -> None:
        """Make a file, once there is a container to make it in: what waits for it goes on."""
        until(lambda: worked(lambda: self.shell('touch "$1"', path)), self.diagnostics)

    def kill_emacs(self) -> None:
        self.shell(SIGNAL, "emacs *--fg-daemon*", "KILL")

    def kill_bridge(self) -> None:
        self.shell(SIGNAL, "*python*efrit-bridge*", "KILL")

    def diagnostics(self) -> str:
        """Return what a person would look at to understand why it hangs."""
        here = ("-n", self.namespace)
        return "\n".join(
            (
                kubectl("describe", "efi", self.name, *here, check=False),
                kubectl("get", "pods,pvc", *here, check=False),
                kubectl("describe", "pod", self.pod_name, *here, check=False)[-3000:],
                "--- bridge\n" + kubectl("logs", self.pod_name, "-c", "bridge", "--tail=30", *here, check=False),
                "--- emacs\n" + kubectl("logs", self.pod_name, "-c", "emacs", "--tail=30", *here, check=False),
            )
        )

    # Requests

    def send(self, content: str, **spec: Any) -> Request:
        """Create an eval for this instance."""
        return send(self.kube, self.namespace, content, instanceRef={"name": self.name}, **spec)

    def run(self, content: str, **spec: Any) -> Json:
        """Send an eval and return its final status."""
        return self.send(content, **spec).wait()

    def value(self, content: str) -> str:
        """Return what an eval that must succeed evaluates to, as printed."""
        status = self.run(content)
        assert status["phase"] == "Succeeded", f"{content}: {status}"
        return str(status["result"])


class Request:
    """One EfritRequest by name."""

    def __init__(self, kube: Kube, namespace: str, name: str) -> None:
        self.kube = kube
        self.namespace = namespace
        self.name = name

    def get(self) -> Json:
        return self.kube.get("EfritRequest", self.namespace, self.name)

    def status(self) -> Json:
        status: Json = self.get().get("status", {})
        return status

    def cancel(self) -> None:
        self.kube.patch("EfritRequest", self.namespace, self.name, {"spec": {"cancel": True}})

    def wait(self, seconds: float = TIMEOUT) -> Json:
        """Return the status once it is final."""
        return self._wait(complete, "is not complete", seconds)

    def wait_reason(self, reason: str) -> Json:
        """Return the status once it has this reason."""
        return self._wait(lambda status: status.get("reason") == reason, f"has no reason {reason}", TIMEOUT)

    def _wait(self, predicate: Callable[[Json], bool], what: str, seconds: float) -> Json:
        def there(request: Json) -> Json | None:
            status: Json = request.get("status", {})
            return status if predicate(status) else None

        def diagnostics() -> str:
            here = ("-n", self.namespace)
            described = kubectl("describe", "efr", self.name, *here, check=False)
            return f"{self.name} {what}\n{described}\n{kubectl('get', 'efi,pods', *here, check=False)}"

        return self.kube.wait("EfritRequest", self.namespace, self.name, there, diagnostics, seconds)


def _condition(instance: Json, kind: str) -> Json:
    for condition in instance.get("status", {}).get("conditions", []):
        if condition["type"] == kind and condition.get("observedGeneration") == instance["metadata"]["generation"]:
            return dict(condition)
    return {"status": "", "reason": "", "message": ""}


def send(
    kube: Kube, namespace: str, content: str, *, name: str | None = None, labels: Json | None = None, **spec: Any
) -> Request:
    """Create an eval; the target is part of `spec`."""
    metadata = {**({"name": name} if name else {"generateName": "e-"}), "labels": labels or {}}
    whole = {"type": "eval", "content": content, **spec}
    made = kube.create("EfritRequest", namespace, {"metadata": metadata, "spec": whole})
    return Request(kube, namespace, made["metadata"]["name"])


def held(path: str, value: str) -> str:
    """Return a form that evaluates to `value` once the file is there."""
    return f'(progn (while (not (file-exists-p "{path}")) (sleep-for 0.05)) {value})'


def complete(status: Json) -> bool:
    """Whether a request's status is final, as `kubectl wait --for=condition=Complete` sees it."""
    conditions = status.get("conditions", [])
    return any(condition["type"] == "Complete" and condition["status"] == "True" for condition in conditions)


class Batch:
    """Many requests that each append their number to a file on the workspace: what ran, and how often.

    Once `held_after` of them have begun, no further one ends before `go_on`.
    """

    SIZE = 200

    def __init__(self, instance: Instance, label: str, seconds: float, held_after: int = SIZE) -> None:
        self.instance = instance
        self.label = label
        self.file = f"/workspace/{label}.log"
        self.gate = f"/workspace/{label}.go"

        def one(number: int) -> None:
            count = f'(with-temp-buffer (insert-file-contents "{self.file}") (count-lines 1 (point-max)))'
            value = f"(if (> {count} {held_after}) {held(self.gate, str(number))} {number})"
            content = f'(progn (write-region "{number}\\n" nil "{self.file}" t) (sleep-for {seconds}) {value})'
            instance.send(content, name=f"{label}-{number}", labels={"batch": label}, timeoutSeconds=600)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, range(self.SIZE)))

    def go_on(self) -> None:
        """Let those end that are held."""
        self.instance.touch(self.gate)

    def statuses(self) -> dict[int, Json]:
        """Return the status of each by its number."""
        items = self.instance.kube.list("EfritRequest", self.instance.namespace, labelSelector=f"batch={self.label}")
        return {self._number(item): item.get("status", {}) for item in items}

    def _number(self, request: Json) -> int:
        return int(request["metadata"]["name"].removeprefix(f"{self.label}-"))

    def wait_answered(self, count: int = SIZE, seconds: float = 3 * TIMEOUT) -> dict[int, Json]:
        """Return every status once at least `count` are final.

        They are followed: to poll hundreds of objects would be most of what the API server has to do.
        """
        statuses: dict[int, Json] = {}
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            where, labels = self.instance.namespace, f"batch={self.label}"
            for event in self.instance.kube.follow("EfritRequest", where, left, labelSelector=labels):
                statuses[self._number(event["object"])] = event["object"].get("status", {})
                if len(statuses) == self.SIZE and sum(map(complete, statuses.values())) >= count:
                    return statuses
        open_requests = {number: status for number, status in statuses.items() if not complete(status)}
        shown = json.dumps(open_requests)[:2000]
        raise AssertionError(f"{len(open_requests)} of {self.SIZE} are open: {shown}\n{self.instance.diagnostics()}")

    def executed(self) -> dict[int, int]:
        """Return how often each number was run, as the runs themselves have written down."""
        text = self.instance.shell(f'if [ -e "{self.file}" ]; then cat "{self.file}"; fi')
        return Counter(int(line) for line in text.split())

    def check(self) -> dict[str, int]:
        """Assert that each was answered and none ran twice; return how many ended with which reason."""
        statuses, executed = self.wait_answered(), self.executed()
        assert sorted(statuses) == list(range(self.SIZE))
        twice = {number: times for number, times in executed.items() if times > 1}
        assert not twice, f"ran more than once: {twice}"
        for number, status in statuses.items():
            reason = status["reason"]
            assert reason in ("Succeeded", "Interrupted"), f"{self.label}-{number}: {status}"
            if reason == "Succeeded":
                assert status["result"] == str(number), f"an answer to another request: {status}"
                assert executed.get(number) == 1, f"{self.label}-{number} succeeded without having run: {status}"
        return Counter(status["reason"] for status in statuses.values())
