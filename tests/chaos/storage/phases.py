"""The phases of the protocol, one at a time, each prepared so that the next calls of its processes are known.

A phase is prepared, a fault may be armed, then it acts. It retries as the controller does. What each leaves behind is
judged in `test_file_faults.py`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from efrit.protocol import RequestReason, RequestState, Response
from tests.chaos.storage.recording import GO, WAIT, WatchedInstance, counting_form
from tests.chaos.storage.scenarios import LARGE
from tests.support.bridge_instance import until
from tests.support.faults.file_shim.shim import FileShim
from tests.support.timeout import TIMEOUT

SECONDS = TIMEOUT
MOMENT = 0.3
_numbers = itertools.count(1)


@dataclass
class Harness:
    """A running instance under the shim, and the kubelet's part: to start again what has ended."""

    instance: WatchedInstance
    shim: FileShim
    #: Requests to be answered, with the reason their answer must have when no process was killed.
    expected: dict[str, RequestReason] = field(default_factory=dict)
    allowed: dict[str, int] = field(default_factory=dict)
    exact: bool = True

    def keep_running(self) -> None:
        """Start what has ended, as the kubelet would."""
        one = self.instance
        if one.bridge is None or one.bridge.poll() is not None:
            one.spawn_bridge()
        if one.emacs is None or one.emacs.poll() is not None:
            one.spawn_emacs()

    def retry(self, call: Callable[[], httpx.Response], *good: int) -> None:
        """Repeat a call until it is answered with one of `good`."""

        def done() -> bool:
            self.keep_running()
            with contextlib.suppress(httpx.HTTPError):
                answer = call()
                if answer.status_code in good:
                    return True
                assert answer.status_code in (503, 507), answer.text
            return False

        until(done, SECONDS)

    def name(self, reason: RequestReason = RequestReason.SUCCEEDED, *, attempts: int = 1) -> str:
        """Return the id of a new request, and what is expected of it."""
        rid = f"plan-{next(_numbers)}"
        self.expected[rid], self.allowed[rid] = reason, attempts
        return rid

    def put(self, rid: str, content: str, **fields: object) -> None:
        """Submit a request."""
        self.retry(lambda: self.instance.put(rid, content, **fields), 200, 201)

    def answer(self, rid: str) -> Response:
        """Wait for the response to a request."""

        def response() -> Response | None:
            self.keep_running()
            with contextlib.suppress(httpx.HTTPError):
                answer = self.instance.client.get(f"/v1/requests/{rid}")
                found = answer.json().get("response") if answer.status_code == 200 else None
                return None if found is None else Response.parse(json.dumps(found))
            return None

        answered = until(response, SECONDS)
        assert answered is not None
        return answered

    def finish(self, rid: str) -> Response:
        """Let a request go on, and wait for its response."""
        self.go(rid)
        return self.answer(rid)

    def until_begun_or_answered(self, rid: str) -> None:
        """Wait until a request has begun or has a response."""

        def seen() -> bool:
            if self.begun(rid):
                return True
            self.keep_running()
            with contextlib.suppress(httpx.HTTPError):
                answer = self.instance.client.get(f"/v1/requests/{rid}")
                return answer.status_code == 200 and bool(answer.json().get("response"))
            return False

        until(seen, SECONDS)

    def cancel(self, rid: str) -> None:
        """Cancel a request."""
        self.retry(lambda: self.instance.client.post(f"/v1/requests/{rid}/cancel"), 200, 202)

    def acknowledge(self, rid: str) -> None:
        """Acknowledge a response."""
        self.retry(lambda: self.instance.client.delete(f"/v1/requests/{rid}"), 204)

    def begun(self, rid: str) -> int:
        """Return how often a request has begun."""
        counter = self.instance.workspace / "counter"
        return counter.read_text().split().count(rid) if counter.exists() else 0

    def gated_form(self, rid: str, then: str = "(* 6 7)") -> str:
        """Return a form that counts, then waits for `go`."""
        return counting_form(rid, f"(progn {WAIT.replace(GO, f'{GO}-{rid}')} {then})")

    def runs(self, rid: str, then: str = "(* 6 7)", **options: object) -> None:
        """Submit a request, and wait until it has begun; it waits for `go`."""
        self.put(rid, self.gated_form(rid, then), options={"timeout": 3600, **options})
        until(lambda: self.begun(rid) and self.instance.view(rid).state is RequestState.RUNNING, SECONDS)

    def go(self, rid: str) -> None:
        """Let a request go on."""
        (self.instance.workspace / f"{GO}-{rid}").touch()

    def finish_all(self) -> None:
        """Finish everything that a failed test has left."""
        for rid in self.expected:
            self.finish(rid)
            self.acknowledge(rid)
        self.expected.clear()

    def settle_totals(self) -> None:
        """Wait until the bridge has stored its totals, where its calls are counted exactly."""
        if self.exact:
            self.until_totals_stored()

    def until_totals_stored(self) -> None:
        """Wait until the bridge has stored its totals."""
        stored = self.instance.queue / "totals"

        def are_stored() -> bool:
            self.keep_running()
            with contextlib.suppress(OSError, ValueError, httpx.HTTPError):
                processed = self.instance.stats().processed
                return processed == 0 or bool(json.loads(stored.read_text())["processed"] == processed)
            return False

        until(are_stored, SECONDS)


Act = Callable[[], object]
Phase = Callable[[Harness], Act]
"""Prepares, and returns the act to do once the fault is armed; the act returns when its outcome is known."""


def submit(harness: Harness) -> Act:
    """Submit a request, up to the moment its form runs."""
    rid = harness.name()
    harness.settle_totals()

    def act() -> None:
        harness.put(rid, harness.gated_form(rid), options={"timeout": 3600})
        harness.until_begun_or_answered(rid)

    return act


def answer(harness: Harness) -> Act:
    """Finish a request."""
    rid = harness.name()
    harness.runs(rid)
    return lambda: harness.finish(rid)


def answer_large(harness: Harness) -> Act:
    """Finish a request with a large result."""
    rid = harness.name()
    harness.runs(rid, f"(make-string {LARGE} ?x)")
    return lambda: harness.finish(rid)


def acknowledge(harness: Harness) -> Act:
    """Acknowledge a response."""
    rid = harness.name()
    harness.runs(rid)
    harness.finish(rid)
    return lambda: harness.acknowledge(rid)


def withdraw(harness: Harness) -> Act:
    """Cancel a request that waits."""
    blocker, rid = harness.name(), harness.name(RequestReason.CANCELLED, attempts=0)
    harness.runs(blocker)
    harness.put(rid, counting_form(rid))
    harness.settle_totals()

    def act() -> None:
        harness.cancel(rid)
        harness.answer(rid)

    return act


def stop(harness: Harness) -> Act:
    """Cancel a request that runs."""
    rid = harness.name(RequestReason.CANCELLED)
    harness.runs(rid)
    harness.settle_totals()

    def act() -> None:
        harness.cancel(rid)
        harness.answer(rid)

    return act


def emacs_starts(harness: Harness) -> Act:
    """Kill Emacs, and wait until the next one has answered."""
    rid = harness.name(RequestReason.INTERRUPTED)
    harness.runs(rid)
    pid = harness.instance.emacs_pid()

    def act() -> None:
        os.kill(pid, signal.SIGKILL)
        harness.answer(rid)

    return act


def emacs_retries(harness: Harness) -> Act:
    """Kill Emacs, and let the next one run the request again."""
    rid = harness.name(attempts=3)
    harness.runs(rid, retry="if-interrupted", max_attempts=3)
    pid = harness.instance.emacs_pid()

    def act() -> None:
        os.kill(pid, signal.SIGKILL)
        harness.finish(rid)

    return act


def bridge_starts(harness: Harness) -> Act:
    """Start the bridge with a withdrawal that was interrupted, and an order to a request that is over."""
    rid = harness.name(RequestReason.CANCELLED, attempts=0)
    blocker = harness.name()
    harness.runs(blocker)
    harness.put(rid, counting_form(rid))
    queue = harness.instance.queue

    def act() -> None:
        harness.instance.kill_bridge()
        (queue / f"requests/req_{rid}.json").rename(queue / f"tmp/withdrawn_{rid}.json")
        (queue / "control/cancel_gone").write_text("Cancelled\n")
        (queue / "tmp/bridge_0123456789abcdef").write_text("half a file")
        harness.keep_running()
        harness.answer(rid)

    return act


def totals(harness: Harness) -> Act:
    """Finish a request, and wait for the totals."""
    rid = harness.name()
    harness.runs(rid)

    def act() -> None:
        harness.finish(rid)
        harness.until_totals_stored()

    return act


def heartbeat(harness: Harness) -> Act:
    """Submit a request when a heartbeat is due: one is written at the start of a run."""
    beat = harness.instance.queue / "heartbeat"
    until(lambda: time.time() - beat.stat().st_mtime > MOMENT, SECONDS)
    return submit(harness)


PHASES: dict[str, Phase] = {
    function.__name__: function
    for function in (
        submit,
        answer,
        answer_large,
        acknowledge,
        withdraw,
        stop,
        emacs_starts,
        emacs_retries,
        bridge_starts,
        totals,
        heartbeat,
    )
}
