"""`python -m tests.bench.idle`: what an instance takes that does nothing: memory, processor time, wakings.

One bridge and one Emacs under run-emacs as plain processes, no cluster. As in a pod a controller follows the events
over TLS, some requests have been answered before, and in the second half the kubelet's probes come as often as the
pod asks for them. Waiting for SECONDS (60) each; then evals that come after a pause: an instance that rests must wake
at once.

PSS is the memory of a process with its share of what it shares with others; `own` is what nobody else has. Of a node
with several instances all but the first take little more than that. Processor time is the scheduler's account, to the
nanosecond, of all threads; `wakings` are voluntary switches to another process. The caller must be root, since
a bridge hides from other users.

Where the time goes: `strace -f -c -p PID`, and where the machine counts, `perf record -g -p PID`.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from tests.support.bridge_instance import Instance
from tests.support.command_line import parser
from tests.support.compiled_lisp import compiled_lisp

SECONDS = float(os.environ.get("SECONDS", "60"))
SETTLE_SECONDS = 15.0
"""After the last request, until an instance is at rest."""
EVALS = 20
PAUSES = 8
PAUSE_SECONDS = 3.0
PROBES = (("/readyz", 5.0), ("/healthz", 10.0))
"""What the kubelet asks for, and how often in seconds: see the manifest of the StatefulSet."""


Rest = tuple[float, float]
"""Of a process that waits: its share of a processor, and its wakings a second."""


@dataclass(frozen=True)
class Account:
    """Of one process, all its threads: nanoseconds of a processor, and voluntary switches."""

    nanoseconds: int
    switches: int


@dataclass(frozen=True)
class Memory:
    """Of one process in kB: its share of all it has mapped, and what nobody else has."""

    pss: int
    own: int


def account(pid: int) -> Account:
    """Return what the process had until now."""
    nanoseconds = switches = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        nanoseconds += int((task / "schedstat").read_text().split()[0])
        status = (task / "status").read_text()
        switches += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return Account(nanoseconds, switches)


def memory(pid: int) -> Memory:
    """Return what the process has now."""
    rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    size = {row[0]: int(row[1]) for row in rows}
    return Memory(size["Pss:"], size["Private_Clean:"] + size["Private_Dirty:"])


@contextmanager
def followed(one: Instance) -> Iterator[None]:
    """Follow the events of the instance, as its controller does."""
    is_open, ends = threading.Event(), threading.Event()

    def follow() -> None:
        with suppress(httpx.HTTPError), one.client.stream("GET", "/v1/events", timeout=None) as stream:
            for _ in stream.iter_raw():
                is_open.set()
                if ends.is_set():
                    return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    if not is_open.wait(30):
        raise RuntimeError("the bridge sends no events")
    yield
    ends.set()


@contextmanager
def probed(one: Instance) -> Iterator[None]:
    """Have the instance probed, each time over a connection of its own."""
    ends = threading.Event()

    def probe(path: str, seconds: float) -> None:
        while not ends.wait(seconds):
            with httpx.Client() as client:
                client.get(f"http://127.0.0.1:{one.probe_port}{path}").raise_for_status()

    threads = [threading.Thread(target=probe, args=arguments) for arguments in PROBES]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def rest(processes: dict[str, int], seconds: float) -> dict[str, Rest]:
    """Wait; return the share of a processor and the wakings a second of each process meanwhile."""
    began, before = time.monotonic(), {name: account(pid) for name, pid in processes.items()}
    time.sleep(seconds)
    passed = time.monotonic() - began
    after = {name: account(pid) for name, pid in processes.items()}
    return {
        name: (
            (after[name].nanoseconds - before[name].nanoseconds) / 1e9 / passed,
            (after[name].switches - before[name].switches) / passed,
        )
        for name in processes
    }


def waking(one: Instance) -> list[float]:
    """Return the seconds of evals that each come after a pause, from the PUT to the event that has the answer."""
    answered: dict[str, float] = {}
    is_open, is_answered = threading.Event(), threading.Event()

    def follow() -> None:
        with suppress(httpx.HTTPError):
            for _, name, data in one.events():
                is_open.set()
                if name == "request" and data["state"] == "answered":
                    answered[data["id"]] = time.perf_counter()
                    is_answered.set()

    threading.Thread(target=follow, daemon=True).start()
    is_open.wait(30)
    seconds = []
    for number in range(PAUSES):
        time.sleep(PAUSE_SECONDS + SETTLE_SECONDS * (number == 0))
        is_answered.clear()
        began = time.perf_counter()
        one.put(f"wake-{number}", "(+ 1 2)").raise_for_status()
        is_answered.wait(30)
        seconds.append(answered[f"wake-{number}"] - began)
        one.client.delete(f"/v1/requests/wake-{number}")
    return seconds


def measure(base: Path) -> list[str]:
    """Run an instance; return the lines of the report."""
    # Through a program: not as a fork, which would share the memory of the process that it comes from.
    with Instance(base / "instance", compiled_lisp(base / "lisp"), wrap=("env",)) as one:
        assert one.bridge is not None
        assert one.emacs is not None
        for number in range(EVALS):
            one.eval(f"before-{number}", "(+ 1 2)")
            one.client.delete(f"/v1/requests/before-{number}").raise_for_status()
        processes = {"bridge": one.bridge.pid, "Emacs": one.emacs_pid(), "run-emacs": one.emacs.pid}
        with followed(one):
            time.sleep(SETTLE_SECONDS)
            sizes = {name: memory(pid) for name, pid in processes.items()}
            alone = rest(processes, SECONDS)
            with probed(one):
                with_probes = rest(processes, SECONDS)
        seconds = waking(one)
    lines = [f"{'':<10} {'PSS':>8} {'own':>8} {'processor':>11} {'wakings':>9} {'with probes':>11} {'wakings':>9}"]
    for name, size in sizes.items():
        lines.append(row(name, size, alone[name], with_probes[name]))
    total = Memory(sum(size.pss for size in sizes.values()), sum(size.own for size in sizes.values()))
    lines.append(row("all", total, added(alone), added(with_probes)))
    first, *later = seconds
    lines.append(
        f"an eval after {SETTLE_SECONDS + PAUSE_SECONDS:.0f} s of rest: {first * 1000:.1f} ms; "
        f"after {PAUSE_SECONDS:.0f} s, p50 of {len(later)}: {statistics.median(later) * 1000:.1f} ms"
    )
    return lines


def row(name: str, size: Memory, alone: Rest, with_probes: Rest) -> str:
    """Return a line of the report."""
    shares = " ".join(f"{share:>11.3%} {switches:>7.2f}/s" for share, switches in (alone, with_probes))
    return f"{name:<10} {size.pss / 1024:>5.1f} MB {size.own / 1024:>5.1f} MB {shares}"


def added(rests: dict[str, Rest]) -> Rest:
    """Return all of them together."""
    return sum(share for share, _ in rests.values()), sum(switches for _, switches in rests.values())


def main() -> int:
    """Measure and print."""
    with TemporaryDirectory(prefix="efrit-bench-") as directory:
        lines = measure(Path(directory))
    print(f"{SECONDS:.0f} s each, load {os.getloadavg()[0]:.0f}")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
