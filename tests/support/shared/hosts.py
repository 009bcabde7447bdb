"""Three hosts at one queue, what happens to them, and what must hold of what they did.

A host is a process with PID, mount and UTS namespaces of its own. Its clock is that of this machine. The file system
of its queue remembers for `memory` seconds what it has seen (delayed_mount): a simulation of an NFS client's caches,
not NFS.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.paths import REPOSITORY
from tests.support.efrit_program import PROGRAM, Done
from tests.support.kube import until
from tests.support.shared.inside import WAVES, hold
from tests.support.shared.program import delayed_mount
from tests.support.timeout import TIMEOUT

NAMESPACES = ("unshare", "--pid", "--mount", "--uts", "--fork", "--mount-proc", "--kill-child=SIGKILL")


class Host:
    """One of the hosts. `requests` evals are sent, `at_once` of them at a time."""

    def __init__(self, name: str, site: Path, *, memory: float, takeover: float, requests: int, at_once: int) -> None:
        self.name = name
        self.keys = [f"{name}-{number}" for number in range(requests)]
        self.directory = site / name
        self.directory.mkdir(exist_ok=True)
        environment = {key: os.environ[key] for key in ("PATH", "LANG", "XDG_CACHE_HOME") if key in os.environ}
        environment |= {
            # Sockets of Emacs have short names; each host has its own.
            "HOME": str(self.directory),
            "TMPDIR": str(self.directory),
            "XDG_CACHE_HOME": environment.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
            "GOCACHE": str(Path.home() / ".cache/go-build"),
            "EFRIT_TAKEOVER_SECONDS": str(takeover),
        }
        command = [*NAMESPACES, sys.executable, "-m", "tests.support.shared.inside"]
        command += [name, str(memory), str(site / "store"), str(self.directory), str(requests), str(at_once)]
        self._environment = environment
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdin=subprocess.PIPE, start_new_session=True
        )

    @property
    def done(self) -> bool:
        """Whether all its requests are answered."""
        return (self.directory / "results.json").exists()

    def answers(self) -> list[dict[str, Any]]:
        """Return how its requests ended."""
        answers: list[dict[str, Any]] = json.loads((self.directory / "results.json").read_text())
        return answers

    def efrit(self, *words: str) -> Done:
        """Run the command line there."""
        (init,) = self._init()
        command = ["nsenter", "--target", init, "--pid", "--mount", "--uts", "--", str(PROGRAM), *words]
        environment = {**self._environment, "EFRIT_CONFIG": str(self.directory / "config.json")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    def _init(self) -> list[str]:
        return Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()

    def _processes(self) -> dict[int, str]:
        """Return the processes inside, by their number outside, with their names."""
        inits = self._init()
        if not inits:
            return {}
        namespace = Path(f"/proc/{inits[0]}/ns/pid").readlink()
        names = {}
        for path in Path("/proc").iterdir():
            try:
                if path.name.isdecimal() and (path / "ns/pid").readlink() == namespace:
                    names[int(path.name)] = (path / "comm").read_text().strip()
            except OSError:
                continue
        return names

    def emacs(self) -> list[int]:
        """Return the Emacsen that run there."""
        return [pid for pid, name in self._processes().items() if name.startswith("emacs")]

    def freeze(self) -> None:
        """Stop everything there but the file system, as when a machine is paused."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        signalled: set[int] = set()
        # What was about to fork may have done so meanwhile.
        while (
            new := {pid for pid, name in self._processes().items() if not name.startswith("delayed-mount")}
            - signalled
        ):
            for pid in new:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            signalled |= new

    def kill(self) -> None:
        """End everything there at once, as when the power fails."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


@dataclass
class Site:
    """The hosts and their queue. `memory` and `takeover` in seconds."""

    directory: Path
    memory: float
    takeover: float
    hosts: list[Host] = field(default_factory=list)

    def __post_init__(self) -> None:
        delayed_mount()
        (self.directory / "store").mkdir()

    def host(self, name: str, requests: int, at_once: int = 16) -> Host:
        """Start a host."""
        host = Host(
            name, self.directory, memory=self.memory, takeover=self.takeover, requests=requests, at_once=at_once
        )
        self.hosts.append(host)
        return host

    def close(self) -> None:
        """End all hosts."""
        for host in self.hosts:
            host.kill()

    def heartbeat(self) -> dict[str, Any]:
        """Return the heartbeat as the file server has it."""
        try:
            beat: dict[str, Any] = json.loads((self.directory / "store/queue/heartbeat").read_text())
        except (OSError, ValueError):
            return {}
        return beat

    def server(self) -> Host | None:
        """Return the host whose Emacs serves the queue."""
        server = self.heartbeat().get("server", {})
        return next((host for host in self.hosts if host.name == server.get("host")), None)

    def generation(self) -> int:
        """Return the number of the run that serves the queue, 0 before the first."""
        return int(self.heartbeat().get("server", {}).get("generation") or 0)

    def begun(self) -> int:
        """Return how many requests have begun."""
        return sum(word == "begin" for word, _, _ in self.notes())

    def notes(self) -> list[tuple[str, str, int]]:
        """Return what each evaluation has noted, in order: a word, the key, the number of its Emacs."""
        try:
            # A line that is being written is not a line yet.
            lines = (self.directory / "log").read_text().rpartition("\n")[0].splitlines()
        except OSError:
            return []
        return [(word, key, int(number)) for word, key, number in (line.split() for line in lines)]


def play(site: Site, requests: int) -> list[dict[str, Any]]:
    """Send so many requests from three hosts and return the answers; what serves is lost twice meanwhile.

    The host that serves is frozen, another one takes over, and the first one goes on; then the one that serves is
    killed. It starts again once another one has taken over, and sends all its requests again under the same keys.
    A host takes over only for work of its own: a quarter of each host's requests is sent after each loss.
    """
    share = requests // 3
    holds = [hold(site.directory, wave) for wave in range(WAVES)]
    for path in holds[1:]:
        path.touch()
    hosts = [site.host(name, count) for name, count in (("a", requests - 2 * share), ("b", share), ("c", share))]
    until(lambda: site.begun() > requests // 8, "half of the first quarter has begun")
    holds[1].unlink()
    until(lambda: site.begun() > requests // 4, "the second quarter has begun")
    frozen, generation = until(site.server, "one serves"), site.generation()
    frozen.freeze()
    holds[2].unlink()
    until(
        lambda: site.generation() > generation, lambda: f"no other host than {frozen.name} serves: {site.heartbeat()}"
    )
    frozen.thaw()
    until(lambda: not frozen.emacs(), "the Emacs that was frozen has ended")
    until(lambda: site.begun() > requests // 2, "half of the requests has begun")
    killed = until(site.server, "one serves")
    generation = site.generation()
    killed.kill()
    holds[3].unlink()
    until(
        lambda: site.generation() > generation, lambda: f"no other host than {killed.name} serves: {site.heartbeat()}"
    )
    again = site.host(killed.name, len(killed.keys))
    hosts = [again if host is killed else host for host in hosts]
    until(lambda: all(host.done for host in hosts), "every host has its answers", 1800.0)
    return [answer for host in hosts for answer in host.answers()]


def violations(site: Site, answers: list[dict[str, Any]]) -> list[str]:
    """Return what must not be: a result without its run, a request that ran twice, two Emacsen at a time."""
    answered = {answer["key"] for answer in answers}
    violations = [f"{key} has no answer" for host in site.hosts for key in host.keys if key not in answered]
    notes = site.notes()
    begun = Counter(key for word, key, _ in notes if word == "begin")
    ended = Counter(key for word, key, _ in notes if word == "end")
    for answer in answers:
        key, reason = answer["key"], answer["reason"]
        if reason == "Succeeded" and (begun[key], ended[key], answer["result"]) != (1, 1, f'"{key}"'):
            violations.append(
                f"{key} Succeeded: began {begun[key]} times, ended {ended[key]}, result {answer['result']}"
            )
        elif reason not in ("Succeeded", "Interrupted"):
            violations.append(f"{key} ended {reason}: {answer['error']}")
    violations += [f"{key} began {times} times" for key, times in begun.items() if times > 1]
    newest = 0
    for word, key, number in notes:
        # What an Emacs was in the midst of when it was frozen may end late: see docs/shared-queues.md.
        if word == "begin" and number < newest:
            violations.append(f"{key} began in Emacs {number}, after Emacs {newest} had begun work")
        newest = max(newest, number)
    return violations
