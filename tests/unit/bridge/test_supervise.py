"""The supervisor over real processes that only look like Emacs."""

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from efrit.bridge import supervise
from efrit.bridge.emacs import EmacsProcess, is_emacs
from efrit.bridge.supervise import Supervisor, SupervisorSettings
from efrit.protocol import RequestState, from_epoch, request_id
from efrit.protocol.view import RequestView
from efrit.queue.layout import Area
from efrit.queue.process_place import here
from efrit.queue.queue import DurableQueue
from tests.support.queue_fakes import ScriptedEmacs, a_request
from tests.support.timeout import TIMEOUT

# Notes each SIGUSR2 and SIGUSR1 and lives on, as an Emacs whose form cannot be interrupted. They stay blocked: a
# handler of Python's would not run for one that comes between its last check and the wait for the next.
STUBBORN = """
import signal, sys
numbers = {signal.SIGUSR2, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("up", flush=True)
while True:
    name = signal.Signals(signal.sigwait(numbers)).name
    with open(sys.argv[1], "a") as log:
        log.write(name + "\\n")
"""


@dataclass
class LookAlike:
    """A process whose executable is called emacs."""

    process: subprocess.Popen[str]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def interrupts(self) -> int:
        return self.signals().count("SIGUSR2")

    def signals(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def look_alike(tmp_path: Path) -> Iterator[Callable[[], LookAlike]]:
    started: list[subprocess.Popen[str]] = []

    def start() -> LookAlike:
        log = tmp_path / f"signals-{len(started)}"
        process = subprocess.Popen(
            ["emacs-look-alike", "-S", "-c", STUBBORN, str(log)],
            executable=sys.executable,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return LookAlike(process, log)

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@dataclass
class Clock:
    """The supervisor's, which only a test sets forward: no time limit runs out because the machine is slow."""

    now: float = field(default_factory=time.monotonic)
    time = staticmethod(time.time)

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(supervise, "time", made)
    return made


@dataclass
class Supervised:
    """A queue under supervision and what it counted."""

    queue: DurableQueue
    supervisor: Supervisor
    root: Path
    clock: Clock
    signals: list[str] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hand = ScriptedEmacs(self.root)

    async def claimed(self, rid: str = "a", **fields: Any) -> None:
        """Submit a request that Emacs claims at once."""
        await self.queue.submit(a_request(rid, **fields))
        self.hand.claim(rid)

    async def until_in(self, state: RequestState, count: int = 1) -> None:
        await self.until(lambda: self.queue.index.count(state) == count)

    async def check(self, seconds: float = 0.0, *, late: bool = False) -> None:
        """Let so much time pass, and wait until the supervisor has looked; late: it meant to do so earlier."""
        # One check is over when the next has begun.
        for passed in (max(seconds, LITTLE_SECONDS), LITTLE_SECONDS):
            self.clock.now += passed
            if not late:
                self.supervisor._next_check = self.clock.now
            self.supervisor.wake()
            await self.until(lambda: self.supervisor.beat >= self.clock.now)

    async def overrun(self) -> None:
        """Have the time of the one request that runs be over, once its Emacs is known: it counts from then at most.

        The queue has a clock of its own.
        """
        await self.until(lambda: self.stats()["boot"] is not None)
        (run,) = self.queue.index.running()
        assert run.running_since is not None
        self.clock.now = max(self.clock.now, run.running_since) + SETTINGS.request_timeout + LITTLE_SECONDS

    async def until_resting(self, emacs: LookAlike) -> None:
        await self.until(lambda: self.stats()["alive"])
        self.beat(emacs.pid, number=1, rest=10)
        await self.until(lambda: self.supervisor.emacs_is_idle)

    def beat(
        self, pid: int, boot: str = "boot1", number: int = 0, current: str | None = None, **others: object
    ) -> None:
        text = {"boot": boot, "pid": pid, "time": "2026-01-03T18:30:00.000Z", "processed": number, "current": current}
        part = self.root / "tmp/heartbeat"
        part.write_text(json.dumps({**text, "emacs_version": "28.2", "state": "idle", **others}))
        part.rename(self.root / "heartbeat")

    async def until(self, condition: Callable[[], object], seconds: float = TIMEOUT) -> None:
        limit = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < limit, f"not within {seconds} s"
            await asyncio.sleep(0.005)

    def stats(self) -> dict[str, object]:
        return structs.asdict(self.supervisor.stats(self.clock.now))


@asynccontextmanager
async def found_at_start(root: Path, clock: Clock, emacs: LookAlike, **beat: Any) -> AsyncIterator[Supervised]:
    """Supervise a queue on which a heartbeat was before the supervisor."""
    queue = DurableQueue(root / "queue")
    await queue.open()
    made = Supervised(queue, Supervisor(queue), root / "queue", clock)
    made.beat(emacs.pid, **beat)
    task = asyncio.create_task(made.supervisor.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await queue.close()


@pytest.fixture
def emacs(supervised: Supervised, look_alike: Callable[[], LookAlike]) -> LookAlike:
    """One whose heartbeat is there."""
    started = look_alike()
    supervised.beat(started.pid)
    return started


GRACE_SECONDS = 3.5
"""Enough for several interrupts, one a second."""
LITTLE_SECONDS = 0.001
SETTINGS = SupervisorSettings(request_timeout=0.2, kill_grace=GRACE_SECONDS, stall=600)


@pytest.fixture
async def supervised(tmp_path: Path, clock: Clock, request: pytest.FixtureRequest) -> AsyncIterator[Supervised]:
    queue = DurableQueue(tmp_path / "queue")
    signals: list[str] = []
    restarts: list[float] = []
    supervisor = Supervisor(
        queue,
        getattr(request, "param", SETTINGS),
        on_signal=signals.append,
        on_restart=lambda: restarts.append(clock.now),
    )
    queue.scanner.on_heartbeat = supervisor.heartbeat
    queue.parts.on_change = supervisor.changed
    await queue.open()
    tasks = [asyncio.create_task(queue.run()), asyncio.create_task(supervisor.run())]
    yield Supervised(queue, supervisor, tmp_path / "queue", clock, signals, restarts)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await queue.close()


async def test_what_emacs_finds_of_the_models_key_is_in_the_stats(supervised: Supervised, emacs: LookAlike) -> None:
    await supervised.until(lambda: supervised.stats()["alive"])
    assert supervised.stats()["model_key"] is None
    supervised.beat(emacs.pid, number=1, model_key="TooShort")
    await supervised.until(lambda: supervised.stats()["model_key"] == "TooShort")


async def test_an_overrunning_request_is_ordered_interrupted_each_second_and_killed(
    supervised: Supervised, emacs: LookAlike
) -> None:
    await supervised.claimed()
    await supervised.until_in(RequestState.RUNNING)
    await supervised.overrun()
    await supervised.until(emacs.interrupts)
    assert (supervised.root / "control/cancel_a").read_text() == "TimedOut\n"
    while supervised.signals[-1] != "SIGKILL":
        # Noted one by one: two at once would count as one.
        await supervised.until(lambda: emacs.interrupts() == len(supervised.signals))
        sent = len(supervised.signals)
        await supervised.check(0.5)
        assert "SIGUSR2" not in supervised.signals[sent:]
        await supervised.check(0.5)
        assert len(supervised.signals) == sent + 1
    await supervised.until(lambda: emacs.process.poll() is not None)
    assert emacs.process.returncode == -signal.SIGKILL
    *interrupts, last = supervised.signals
    assert (set(interrupts), last) == ({"SIGUSR2"}, "SIGKILL")
    assert len(interrupts) >= 4
    assert emacs.signals()[0] == "SIGUSR2"
    assert "SIGUSR1" in emacs.signals(), "code may have set debug-on-event"
    await supervised.until(lambda: supervised.stats()["alive"] is False)


async def test_a_cancelled_run_is_interrupted_before_its_time_is_over(
    supervised: Supervised, emacs: LookAlike
) -> None:
    await supervised.claimed("a", options={"timeout": 600})
    await supervised.until_in(RequestState.RUNNING)
    await supervised.queue.cancel(a_request("a").id)
    supervised.supervisor.wake()
    await supervised.until(emacs.interrupts)
    supervised.hand.answer("a", status="error", reason="Cancelled", outcome="Failure")
    await supervised.until_in(RequestState.ANSWERED)
    assert emacs.process.poll() is None


async def test_a_session_is_stopped_once_the_eval_that_occupies_emacs_is_over(
    supervised: Supervised, emacs: LookAlike
) -> None:
    for rid, kind in (("s", "command"), ("x", "eval")):
        await supervised.claimed(rid, type=kind, options={"timeout": 600})
    await supervised.until_in(RequestState.RUNNING, 2)
    await supervised.queue.cancel(a_request("s").id)
    await supervised.check(2 * GRACE_SECONDS)
    assert supervised.signals == []
    assert (supervised.stats()["current"], supervised.stats()["sessions"]) == ("x", 1)
    supervised.hand.answer("x")
    await supervised.until(emacs.interrupts)
    supervised.hand.answer("s", status="error", reason="Cancelled", outcome="Failure")
    await supervised.until_in(RequestState.ANSWERED, 2)
    assert "SIGKILL" not in supervised.signals


async def test_an_emacs_that_an_eval_has_occupied_is_not_taken_for_silent_before_its_next_heartbeat(
    supervised: Supervised, emacs: LookAlike
) -> None:
    await supervised.until(lambda: supervised.stats()["responsive"])
    await supervised.claimed(options={"timeout": 600})
    await supervised.until_in(RequestState.RUNNING)

    def silence() -> float:
        return supervised.supervisor.stats(supervised.clock.now).heartbeat_age_seconds or 0.0

    while silence() < 10:
        # Less at once than what would tell the supervisor that it was stopped meanwhile.
        await supervised.check(3)
    supervised.hand.answer("a")
    await supervised.until_in(RequestState.ANSWERED)
    await supervised.check()
    await supervised.check()
    assert supervised.signals == []
    assert silence() >= 10
    assert supervised.stats()["responsive"]
    assert emacs.process.poll() is None


async def test_an_emacs_is_not_silent_for_what_began_and_ended_between_two_checks(
    supervised: Supervised, emacs: LookAlike
) -> None:
    await supervised.until(lambda: supervised.stats()["responsive"])
    supervised.clock.now += 30
    responsive = []
    # Nothing else has a turn in between; what never ran has occupied nothing.
    for started in (None, from_epoch(time.time())):
        view = RequestView(id=request_id("a"), state=RequestState.ANSWERED, started_time=started)
        supervised.supervisor.changed(view)
        responsive.append(supervised.stats()["responsive"])
    assert responsive == [False, True]


async def test_a_session_that_waits_for_its_model_does_not_keep_emacs_busy(
    supervised: Supervised, emacs: LookAlike
) -> None:
    await supervised.claimed("s", type="chat")
    await supervised.until(lambda: supervised.stats()["sessions"] == 1)
    assert supervised.stats()["current"] is None
    supervised.beat(emacs.pid, current="s")
    await supervised.until(lambda: supervised.stats()["current"] == "s")


async def test_a_chat_or_command_without_a_timeout_has_longer_than_an_eval(
    supervised: Supervised, emacs: LookAlike
) -> None:
    for rid, kind in (("s", "command"), ("x", "eval")):
        await supervised.claimed(rid, type=kind)
    await supervised.until_in(RequestState.RUNNING, 2)
    supervised.clock.now = max(run.running_since or 0 for run in supervised.queue.index.running())
    await supervised.check(1)
    await supervised.until((supervised.root / "control/cancel_x").exists)
    assert not (supervised.root / "control/cancel_s").exists()


async def test_an_answer_in_time_spares_emacs(supervised: Supervised, emacs: LookAlike) -> None:
    await supervised.queue.submit(a_request("a", options={"timeout": 600}))
    supervised.hand.do("a")
    await supervised.until_in(RequestState.ANSWERED)
    await supervised.check()
    assert "SIGKILL" not in supervised.signals
    assert emacs.process.poll() is None


async def test_emacs_is_spared_while_the_answer_it_gave_cannot_be_synced(
    supervised: Supervised, emacs: LookAlike, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = supervised.queue.disk
    synced, failed = disk.sync_dir, []

    def full(area: Area) -> None:
        if area is Area.RESPONSES:
            failed.append(area)
            raise OSError(errno.ENOSPC, "No space left on device")
        synced(area)

    await supervised.claimed()
    await supervised.until_in(RequestState.RUNNING)
    await supervised.overrun()
    await supervised.until(emacs.interrupts)
    monkeypatch.setattr(disk, "sync_dir", full)
    supervised.hand.answer("a", status="timeout", reason="TimedOut", outcome="Failure")
    await supervised.until(lambda: failed)
    # The index knows nothing of the answer, and the time of grace goes by.
    (run,) = supervised.queue.index.running()
    assert run.stop is not None
    while supervised.clock.now < run.stop.since + 2 * GRACE_SECONDS:
        await supervised.check(1)
    assert supervised.queue.index.count(RequestState.RUNNING) == 1
    assert emacs.process.poll() is None
    monkeypatch.setattr(disk, "sync_dir", synced)
    await supervised.until_in(RequestState.ANSWERED)


async def test_an_emacs_that_rests_is_looked_at_seldom_and_woken_for_a_request_it_does_not_begin(
    supervised: Supervised, emacs: LookAlike
) -> None:
    await supervised.until_resting(emacs)
    await supervised.check(8.5)
    assert supervised.supervisor.emacs_is_idle
    assert supervised.stats()["responsive"]
    await supervised.queue.submit(a_request("a"))
    await supervised.until(lambda: not supervised.supervisor.emacs_is_idle)
    assert emacs.signals() == []
    await supervised.check(3.1)
    await supervised.until(emacs.interrupts)
    # What came of it is a heartbeat, and the request goes on waiting.
    supervised.beat(emacs.pid, number=2, rest=10)
    await supervised.check()
    assert supervised.signals == []
    assert not supervised.supervisor.emacs_is_idle


@pytest.mark.parametrize(
    ("waits", "seconds"),
    [pytest.param(False, 15.9, id="until after its rest"), pytest.param(True, 10, id="while a request waits")],
)
async def test_an_emacs_that_rests_is_not_taken_for_silent_while_the_bridge_stood_still(
    supervised: Supervised, emacs: LookAlike, waits: bool, seconds: float
) -> None:
    await supervised.until_resting(emacs)
    if waits:
        await supervised.queue.submit(a_request("a"))
        await supervised.until(lambda: not supervised.supervisor.emacs_is_idle)
    # All processes of the pod go on at the same moment.
    await supervised.check(seconds, late=True)
    await supervised.check()
    assert supervised.signals == []
    assert emacs.process.poll() is None


async def test_the_rest_of_an_emacs_ends_with_it(supervised: Supervised, emacs: LookAlike) -> None:
    await supervised.until_resting(emacs)
    emacs.process.kill()
    await supervised.until(lambda: not supervised.stats()["alive"])


async def test_a_resting_emacs_that_is_silent_when_its_rest_is_over_is_killed(
    supervised: Supervised, emacs: LookAlike
) -> None:
    await supervised.until_resting(emacs)
    await supervised.check(9)
    assert emacs.signals() == []
    await supervised.check(3)
    await supervised.until(emacs.interrupts)
    assert emacs.process.poll() is None
    # Only the time counts in which it can run.
    while "SIGKILL" not in supervised.signals:
        await supervised.check(1)
    await supervised.until(lambda: emacs.process.poll() is not None)


async def test_a_resting_emacs_found_at_start_is_asked_for_a_sign_of_life(
    tmp_path: Path, look_alike: Callable[[], LookAlike], clock: Clock
) -> None:
    emacs = look_alike()
    async with found_at_start(tmp_path, clock, emacs, rest=10) as made:
        await made.until(lambda: emacs.signals() == ["SIGUSR2"])
        assert made.stats()["responsive"] is False


@pytest.mark.parametrize("supervised", [replace(SETTINGS, stall=3)], indirect=True)
async def test_a_hung_emacs_without_a_request_is_killed_in_the_end(supervised: Supervised, emacs: LookAlike) -> None:
    await supervised.until(lambda: supervised.stats()["alive"])
    while not supervised.signals:
        await supervised.check(1)
    await supervised.until(lambda: emacs.process.poll() is not None)
    assert supervised.signals == ["SIGKILL"]


def report(number: int = 0, problem: str | None = None) -> dict[str, object]:
    """Return what a heartbeat says of check number so and so."""
    return {"passed": problem is None, "time": f"2026-01-03T18:30:{number:02}.000Z", "problem": problem}


async def test_an_idle_emacs_whose_self_check_fails_is_killed_and_the_stats_say_why(
    supervised: Supervised, look_alike: Callable[[], LookAlike]
) -> None:
    first, second = look_alike(), look_alike()
    supervised.beat(first.pid, self_check=report())
    await supervised.until(lambda: supervised.stats()["responsive"])
    assert (supervised.stats()["self_check_problem"], supervised.stats()["restarted"]) == (None, None)
    supervised.beat(first.pid, self_check=report(1, "an answer was wrong " + "x" * 400))
    await supervised.until(lambda: first.process.poll() is not None)
    assert supervised.signals == ["SIGKILL"]
    supervised.beat(second.pid, "boot2", self_check=report(2))
    await supervised.until(lambda: supervised.stats()["responsive"])
    restarted = supervised.supervisor.stats(supervised.clock.now).restarted
    assert restarted is not None
    assert (restarted.reason, restarted.count) == ("SelfCheckFailed", 1)
    assert restarted.message.startswith("an answer was wrong")
    assert supervised.stats()["self_check_problem"] is None
    assert second.process.poll() is None


async def test_emacs_is_spared_while_a_request_runs_though_its_self_check_fails(
    supervised: Supervised, emacs: LookAlike
) -> None:
    await supervised.claimed("a", options={"timeout": 600})
    await supervised.until_in(RequestState.RUNNING)
    supervised.beat(emacs.pid, current="a", state="busy", self_check=report(1, "wrong"))
    await supervised.until(lambda: supervised.stats()["self_check_problem"] == "wrong")
    assert supervised.stats()["responsive"] is False
    await supervised.check()
    assert supervised.signals == []


async def test_a_process_that_is_not_emacs_is_left_alone(supervised: Supervised) -> None:
    stranger = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        supervised.beat(stranger.pid)
        await supervised.claimed()
        await supervised.until_in(RequestState.RUNNING)
        await supervised.overrun()
        await supervised.check()
        assert supervised.stats()["alive"] is False
        assert stranger.returncode is None
        assert supervised.signals == []
    finally:
        stranger.kill()
        await stranger.wait()


OWN = structs.asdict(here())


@pytest.mark.parametrize(
    ("server", "own"),
    [
        pytest.param(OWN, True, id="this PID namespace"),
        pytest.param({**OWN, "host": "renamed", "process_start": 5}, True, id="this one of a host that was renamed"),
        pytest.param({**OWN, "pid_namespace": "pid:[1]"}, False, id="that of another pod"),
        pytest.param({**OWN, "boot_id": "another"}, False, id="another host, or this one before it was booted"),
        pytest.param(
            {"host": "another", "boot_id": None, "pid_namespace": None}, True, id="one that Emacs cannot tell"
        ),
    ],
)
async def test_the_number_of_an_emacs_counts_only_in_the_pid_namespace_that_gave_it(
    supervised: Supervised, look_alike: Callable[[], LookAlike], server: dict[str, object], own: bool
) -> None:
    emacs = look_alike()
    supervised.beat(emacs.pid, server=server)
    await supervised.until(lambda: supervised.stats()["boot"] == "boot1")
    assert supervised.stats()["alive"] is own
    await supervised.claimed()
    await supervised.until_in(RequestState.RUNNING)
    await supervised.overrun()
    await supervised.check()
    assert (supervised.root / "control/cancel_a").exists() is own
    if not own:
        assert (supervised.signals, emacs.signals()) == ([], [])


async def test_a_heartbeat_found_at_start_does_not_make_emacs_responsive(
    tmp_path: Path, look_alike: Callable[[], LookAlike], clock: Clock
) -> None:
    emacs = look_alike()
    async with found_at_start(tmp_path, clock, emacs) as made:
        await made.until(lambda: made.stats()["alive"])
        assert made.stats()["responsive"] is False
        made.beat(emacs.pid, number=1)
        made.supervisor.wake()
        await made.until(lambda: made.stats()["responsive"])


async def test_the_end_and_the_next_start_of_emacs_are_noticed(
    supervised: Supervised, look_alike: Callable[[], LookAlike]
) -> None:
    first, second = look_alike(), look_alike()
    supervised.beat(first.pid)
    await supervised.until(lambda: supervised.stats()["alive"])
    first.process.kill()
    await supervised.until(lambda: not supervised.stats()["alive"])
    supervised.beat(second.pid, "boot2")
    await supervised.until(lambda: supervised.stats()["responsive"])
    assert len(supervised.restarts) == 1
    assert supervised.stats()["pid"] == second.pid


@pytest.mark.parametrize("text", ["", "{", '{"boot":"b","pid":1,"time":"2026-01-01T00:00:00Z"}', "[]"])
async def test_a_broken_heartbeat_is_survived(supervised: Supervised, text: str) -> None:
    (supervised.root / "heartbeat").write_text(text)
    await supervised.check()
    assert supervised.stats()["alive"] is False


def test_a_zombie_is_not_alive(look_alike: Callable[[], LookAlike]) -> None:
    emacs = look_alike()
    process = EmacsProcess.find(emacs.pid, "boot")
    assert process is not None
    assert process.alive()
    os.kill(emacs.pid, signal.SIGKILL)
    os.waitid(os.P_PID, emacs.pid, os.WEXITED | os.WNOWAIT)
    assert not process.alive()
    process.close()


def test_an_emacs_of_another_user_is_not_ours(
    look_alike: Callable[[], LookAlike], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pidfd: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    assert EmacsProcess.find(look_alike().pid, "boot") is None


def test_only_what_is_called_emacs_is_emacs() -> None:
    assert not is_emacs(os.getpid())
    assert EmacsProcess.find(os.getpid(), "boot") is None
    assert EmacsProcess.find(2**22 - 1, "boot") is None
