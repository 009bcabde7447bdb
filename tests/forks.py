"""pytest's option `--forks N`: test files side by side, in N forks of the process that has collected them.

The workers of pytest-xdist would each import what is tested, and collect it: the tests of the queue and of the MCP
server take 25 s of a processor with four of them, and 11 s in four forks. A file belongs to one fork, with its
fixtures; those of the session are made once in each fork. Whichever is free takes the next file, in the order in
which they were collected.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import io
import itertools
import logging
import mmap
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from multiprocessing import connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Literal, NamedTuple

import _pytest.logging
import pytest
from _pytest.config import create_terminal_writer
from xdist.remote import serialize_warning_message
from xdist.workermanage import unserialize_warning_message

NUMBER_BYTES = 4
"""What the number of a file takes in the pipe that hands them out; a read of so many bytes is never shared."""

LINGER_SECONDS = 0.1
"""How long what has passed waits for more to be sent with it: each message is a switch between two processes."""

LONGEST_NAME_BYTES = 4096

INTERRUPTED = 130

CONTEXT = multiprocessing.get_context("fork")

SHARED = pytest.StashKey[Path]()


class Hooks:
    """What plugins and conftest.py files may implement."""

    def pytest_before_forks(self, session: pytest.Session, until_end: contextlib.ExitStack) -> None:
        """Make what all forks share, in the process that has collected; it is closed once they have ended."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hook that is called before the forks."""
    pluginmanager.add_hookspecs(Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--forks", type=int, default=0, metavar="N", help="run the test files in N processes")


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of pytest's own loop, where it is asked for."""
    if config.getoption("--forks"):
        config.pluginmanager.register(Forks(config.getoption("--forks")))


def made_once(config: pytest.Config, name: str, make: Callable[[Path], object]) -> Path:
    """Return the directory of that name that all forks share; the first that wants it has `make` fill it.

    It is for what nobody changes.
    """
    directory = config.stash.get(SHARED, None) or vars(config)["_tmp_path_factory"].getbasetemp()
    made = Path(directory, name)
    with made.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            # It has its name once it is complete: whoever made it may have failed.
            unfinished = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=directory), name)
            make(unfinished)
            unfinished.rename(made)
    return made


class Forks:
    """The process that collects, forks and reports."""

    def __init__(self, number: int) -> None:
        self._number = number

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all that was collected; pytest's own loop says what is wrong where that failed."""
        if session.testsfailed or session.config.option.collectonly:
            return None
        by_path: dict[Path, list[pytest.Item]] = {}
        for item in session.items:
            by_path.setdefault(item.path, []).append(item)
        files = list(by_path.values())
        # Made once, and not anew by each fork.
        session.config.stash[SHARED] = vars(session.config)["_tmp_path_factory"].getbasetemp()
        with contextlib.ExitStack() as until_end:
            session.config.hook.pytest_before_forks(session=session, until_end=until_end)
            # Which conftest.py files a path has is known by now; pytest looks at each call of a hook for a test.
            vars(session)["gethookproxy"] = functools.cache(session.gethookproxy)
            self._run(session, files)
        return True

    def _run(self, session: pytest.Session, files: Sequence[Sequence[pytest.Item]]) -> None:
        numbers, filling = os.pipe()
        os.write(filling, b"".join(number.to_bytes(NUMBER_BYTES, "big") for number in range(len(files))))
        os.close(filling)
        forks: dict[connection.Connection, Fork] = {}
        for number in range(min(self._number, len(files))):
            ours, theirs = CONTEXT.Pipe(duplex=False)
            running = RunningTest()
            arguments = (session, files, numbers, theirs, running, f"fork{number}")
            process = CONTEXT.Process(target=_run, args=arguments)
            process.start()
            theirs.close()
            forks[ours] = Fork(process, running)
        try:
            self._report(session, forks)
        except KeyboardInterrupt:
            # The terminal has interrupted the forks, too: a second signal would end the teardown of their fixtures.
            os.read(numbers, NUMBER_BYTES * len(files))
            raise
        except BaseException:
            for fork in forks.values():
                fork.interrupt()
            raise
        finally:
            os.close(numbers)
            for receiver, fork in forks.items():
                fork.drain(receiver)
                fork.process.join()

    def _report(self, session: pytest.Session, forks: dict[connection.Connection, Fork]) -> None:
        hook = session.config.hook
        while forks:
            for ready in connection.wait(list(forks)):
                assert isinstance(ready, connection.Connection)
                try:
                    messages = ready.recv()
                except EOFError:
                    if (lost := forks.pop(ready).lost()) is not None:
                        hook.pytest_runtest_logreport(report=lost)
                    continue
                for message in messages:
                    _replay(session, message)


class RunningTest:
    """The name of the test that a fork runs, in memory that it shares with the collecting process."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, NUMBER_BYTES + LONGEST_NAME_BYTES)
        self.set("nothing yet")

    def set(self, nodeid: str) -> None:
        name = nodeid.encode()[:LONGEST_NAME_BYTES]
        self._memory.seek(0)
        self._memory.write(len(name).to_bytes(NUMBER_BYTES, "big") + name)

    def get(self) -> str:
        self._memory.seek(0)
        length = int.from_bytes(self._memory.read(NUMBER_BYTES), "big")
        return self._memory.read(length).decode(errors="replace")


class Fork:
    """What the collecting process knows of a fork."""

    def __init__(self, process: ForkProcess, running: RunningTest) -> None:
        self.process = process
        self._running = running

    def interrupt(self) -> None:
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGINT)

    def drain(self, receiver: connection.Connection) -> None:
        """Receive what the fork still sends, which it could not end without, until it ends."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                receiver.recv()

    def lost(self) -> pytest.TestReport | None:
        """Return a failure of the test that was running, if it did not end as it should."""
        self.process.join()
        if self.process.exitcode == 0:
            return None
        problem = f"the process of the tests ended with {self.process.exitcode} at or after this test"
        running = self._running.get()
        location = (running.partition("::")[0], None, running)
        return pytest.TestReport(running, location, {}, "failed", problem, "call")


class RecordedWarning(NamedTuple):
    """A warning of a test in a fork, serialized, with what pytest's hook has beside it."""

    warning: dict[str, Any]
    nodeid: str
    location: tuple[str, int, str] | None

    def replay(self, config: pytest.Config) -> None:
        config.hook.pytest_warning_recorded.call_historic(
            kwargs={
                "warning_message": unserialize_warning_message(self.warning),
                "when": "runtest",
                "nodeid": self.nodeid,
                "location": self.location,
            }
        )


def _replay(session: pytest.Session, message: RecordedWarning | dict[str, Any]) -> None:
    """Have what happened in a fork happen in the collecting process."""
    if isinstance(message, RecordedWarning):
        message.replay(session.config)
        return
    hook = session.config.hook
    report = hook.pytest_report_from_serializable(config=session.config, data=message)
    hook.pytest_runtest_logreport(report=report)
    if report.when == "teardown":
        hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


class Sender:
    """Sends the collecting process what happens in this fork: failures and warnings at once, what passes together."""

    def __init__(self, config: pytest.Config, to: connection.Connection, running: RunningTest) -> None:
        self._config = config
        self._to = to
        self._running = running
        self._waiting: list[RecordedWarning | dict[str, Any]] = []
        self._sent_at = time.monotonic()

    def flush(self) -> None:
        """Send what waits."""
        if self._waiting:
            self._to.send(self._waiting)
            self._waiting = []
        self._sent_at = time.monotonic()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running.set(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._waiting.append(data)
        if report.failed or time.monotonic() - self._sent_at >= LINGER_SECONDS:
            self.flush()

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: Literal["config", "collect", "runtest"],
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        # Those from before the fork are repeated when this is registered, and are in the summary already.
        if when == "runtest":
            self._waiting.append(RecordedWarning(serialize_warning_message(warning_message), nodeid, location))
            self.flush()


def _run(
    session: pytest.Session,
    files: Sequence[Sequence[pytest.Item]],
    numbers: int,
    to: connection.Connection,
    running: RunningTest,
    name: str,
) -> None:
    """Run files in this fork as long as there are any."""
    config = session.config
    try:
        _separate(config, name)
        sender = Sender(config, to, running)
        config.pluginmanager.register(sender)
        try:
            while number := os.read(numbers, NUMBER_BYTES):
                items = files[int.from_bytes(number, "big")]
                # What is of the session stays, as if another item of it came next.
                for item, successor in itertools.pairwise([*items, session]):
                    config.hook.pytest_runtest_protocol(item=item, nextitem=successor)
                    if session.shouldfail or session.shouldstop:
                        return
        finally:
            sender.flush()
            session._setupstate.teardown_exact(None)
            # The little that is left is done also where the others have been asked to end.
            signal.signal(signal.SIGINT, lambda *_: None)
        # Fails for what was left unawaited, unclosed or raised in a finalizer.
        config._ensure_unconfigure()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        raise


class RootLogs(_pytest.logging.catching_logs[Any]):
    """Records what reaches the root; pytest looks for other loggers among hundreds, six times for each test."""

    def __enter__(self) -> Any:
        if self.level is not None:
            return super().__enter__()
        root = logging.getLogger()
        root.addHandler(self.handler)
        self.attached_loggers.append(root)
        return self.handler


def _separate(config: pytest.Config, name: str) -> None:
    """Give this fork a terminal that shows nothing, captured streams and temporary directories of its own."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    terminal._tw = create_terminal_writer(config, io.StringIO())
    for hook in (config.hook.pytest_runtest_logstart, config.hook.pytest_runtest_logreport):
        hook._remove_plugin(terminal)
    vars(_pytest.logging)["catching_logs"] = RootLogs
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if capture.is_globally_capturing():
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture(in_=False)
    factory: Any = vars(config)["_tmp_path_factory"]
    factory._basetemp = factory.getbasetemp() / name
    factory._basetemp.mkdir()
