"""The actions of the protocol, one at a time, each so prepared that what its processes do next is known.

A phase is prepared, a fault may be armed, then it acts. It insists, as the controller does: a call that fails is made
again. What each leaves behind is judged in `test_file_faults.py`.
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

from efrit.protocol import Reason, RequestState, Response
from tests.chaos.storage.recording import GO, WAIT, WatchedInstance, counting
from tests.chaos.storage.scenarios import LARGE
from tests.support.bridge_instance import until
from tests.support.faults.file_shim.shim import FileShim

SECONDS = 60
MOMENT = 0.3
_numbers = itertools.count(1)


@dataclass
class Bench:
    """A running instance under the recorder, and the kubelet that starts again what has ended."""

    instance: WatchedInstance
    recorder: FileShim
    #: Requests to be answered, with the reason their answer must have when no process was killed.
    expected: dict[str, Reason] = field(default_factory=dict)
    allowed: dict[str, int] = field(default_factory=dict)
    exact: bool = True

    def keep_running(self) -> None:
        """Starts what has ended, as the kubelet would."""
        one = self.instance
        if one.bridge is None or one.bridge.poll() is not None:
            one.spawn_bridge()
        if one.emacs is None or one.emacs.poll() is not None:
            one.spawn_emacs()

    def insist(self, call: Callable[[], httpx.Response], *good: int) -> None:
        """Repeats a call until it is answered with one of `good`."""
        limit = time.monotonic() + SECONDS
        while True:
            self.keep_running()
            with contextlib.suppress(httpx.HTTPError):
                answer = call()
                if answer.status_code in good:
                    return
                assert answer.status_code in (503, 507), answer.text
            assert time.monotonic() < limit, "the service did not come back"
            time.sleep(0.02)

    def name(self, reason: Reason = Reason.SUCCEEDED, *, attempts: int = 1) -> str:
        """A new request's id."""
        rid = f"plan-{next(_numbers)}"
        self.expected[rid], self.allowed[rid] = reason, attempts
        return rid

    def put(self, rid: str, content: str, **fields: object) -> None:
        self.insist(lambda: self.instance.put(rid, content, **fields), 200, 201)

    def answer(self, rid: str) -> Response:
        limit = time.monotonic() + SECONDS
        while True:
            self.keep_running()
            with contextlib.suppress(httpx.HTTPError):
                answer = self.instance.client.get(f"/v1/requests/{rid}")
                response = answer.json().get("response") if answer.status_code == 200 else None
                if response is not None:
                    return Response.parse(json.dumps(response))
            assert time.monotonic() < limit, f"{rid} was never answered"
            time.sleep(0.02)

    def finish(self, rid: str) -> Response:
        self.go(rid)
        return self.answer(rid)

    def until_begun_or_answered(self, rid: str) -> None:
        limit = time.monotonic() + SECONDS
        while not self.begun(rid):
            assert time.monotonic() < limit, f"{rid} was never begun"
            self.keep_running()
            with contextlib.suppress(httpx.HTTPError):
                answer = self.instance.client.get(f"/v1/requests/{rid}")
                if answer.status_code == 200 and answer.json().get("response"):
                    return
            time.sleep(0.005)

    def cancel(self, rid: str) -> None:
        self.insist(lambda: self.instance.client.post(f"/v1/requests/{rid}/cancel"), 200, 202)

    def acknowledge(self, rid: str) -> None:
        self.insist(lambda: self.instance.client.delete(f"/v1/requests/{rid}"), 204)

    def begun(self, rid: str) -> int:
        counter = self.instance.workspace / "counter"
        return counter.read_text().split().count(rid) if counter.exists() else 0

    def waiting(self, rid: str, then: str = "(* 6 7)") -> str:
        """A form that counts, then waits for `go`."""
        return counting(rid, f"(progn {WAIT.replace(GO, f'{GO}-{rid}')} {then})")

    def runs(self, rid: str, then: str = "(* 6 7)", **options: object) -> None:
        """A request that has begun and waits for `go`."""
        self.put(rid, self.waiting(rid, then), options={"timeout": 120, **options})
        until(lambda: self.begun(rid) and self.instance.view(rid).state is RequestState.RUNNING, SECONDS)

    def go(self, rid: str) -> None:
        (self.instance.workspace / f"{GO}-{rid}").touch()

    def abandon(self) -> None:
        """Lets everything that a failed test has left come to its end."""
        for rid in self.expected:
            self.finish(rid)
            self.acknowledge(rid)
        self.expected.clear()

    def quiet(self) -> None:
        """Where that matters, until the bridge has stored its totals: it has no file to write by itself then."""
        if self.exact:
            self.until_stored()

    def until_stored(self) -> None:
        stored = self.instance.queue / "totals"
        limit = time.monotonic() + SECONDS
        while time.monotonic() < limit:
            self.keep_running()
            with contextlib.suppress(OSError, ValueError, httpx.HTTPError):
                processed = self.instance.stats().processed
                if processed == 0 or json.loads(stored.read_text())["processed"] == processed:
                    return
            time.sleep(0.02)
        raise AssertionError("the totals were not stored")


Act = Callable[[], object]
Phase = Callable[[Bench], Act]
"""Prepares, and returns what is to be done once the fault is armed; that returns when the outcome is there."""


def submit(bench: Bench) -> Act:
    """Up to the moment the form runs."""
    rid = bench.name()
    bench.quiet()

    def act() -> None:
        bench.put(rid, bench.waiting(rid), options={"timeout": 120})
        bench.until_begun_or_answered(rid)

    return act


def answer(bench: Bench) -> Act:
    rid = bench.name()
    bench.runs(rid)
    return lambda: bench.finish(rid)


def answer_large(bench: Bench) -> Act:
    rid = bench.name()
    bench.runs(rid, f"(make-string {LARGE} ?x)")
    return lambda: bench.finish(rid)


def acknowledge(bench: Bench) -> Act:
    rid = bench.name()
    bench.runs(rid)
    bench.finish(rid)
    return lambda: bench.acknowledge(rid)


def withdraw(bench: Bench) -> Act:
    blocker, rid = bench.name(), bench.name(Reason.CANCELLED, attempts=0)
    bench.runs(blocker)
    bench.put(rid, counting(rid))
    bench.quiet()

    def act() -> None:
        bench.cancel(rid)
        bench.answer(rid)

    return act


def stop(bench: Bench) -> Act:
    rid = bench.name(Reason.CANCELLED)
    bench.runs(rid)
    bench.quiet()

    def act() -> None:
        bench.cancel(rid)
        bench.answer(rid)

    return act


def emacs_starts(bench: Bench) -> Act:
    rid = bench.name(Reason.INTERRUPTED)
    bench.runs(rid)
    pid = bench.instance.emacs_pid()

    def act() -> None:
        os.kill(pid, signal.SIGKILL)
        bench.answer(rid)

    return act


def emacs_retries(bench: Bench) -> Act:
    rid = bench.name(attempts=3)
    bench.runs(rid, retry="if-interrupted", max_attempts=3)
    pid = bench.instance.emacs_pid()

    def act() -> None:
        os.kill(pid, signal.SIGKILL)
        bench.finish(rid)

    return act


def bridge_starts(bench: Bench) -> Act:
    """With a withdrawal that was cut short, and an order to a request that is over."""
    rid = bench.name(Reason.CANCELLED, attempts=0)
    blocker = bench.name()
    bench.runs(blocker)
    bench.put(rid, counting(rid))
    queue = bench.instance.queue

    def act() -> None:
        bench.instance.kill_bridge()
        (queue / f"requests/req_{rid}.json").rename(queue / f"tmp/withdrawn_{rid}.json")
        (queue / "control/cancel_gone").write_text("Cancelled\n")
        (queue / "tmp/bridge_0123456789abcdef").write_text("half a file")
        bench.keep_running()
        bench.answer(rid)

    return act


def totals(bench: Bench) -> Act:
    rid = bench.name()
    bench.runs(rid)

    def act() -> None:
        bench.finish(rid)
        bench.until_stored()

    return act


def heartbeat(bench: Bench) -> Act:
    """There is one at the beginning of a run, unless the last was a moment ago."""
    beat = bench.instance.queue / "heartbeat"
    until(lambda: time.time() - beat.stat().st_mtime > MOMENT, SECONDS)
    return submit(bench)


PHASES: dict[str, Phase] = {
    each.__name__: each
    for each in (
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
