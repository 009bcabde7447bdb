"""pytest's option `--forks N`: test files side by side, in N forks of the process that has collected them.

Runs or workers of their own would each import what is tested, and collect it: with thousands of tests of a few
milliseconds that is a third of the time. A file belongs to one fork, with its fixtures; those of the session are made
once in each fork. Whichever is free takes the next file, in the order in which they were collected.
"""

from __future__ import annotations

import io
import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing import connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import pytest
from _pytest.config import create_terminal_writer

NUMBER_BYTES = 4
"""What the number of a file takes in the pipe that hands them out; a read of so many bytes is never shared."""

INTERRUPTED = 130

CONTEXT = multiprocessing.get_context("fork")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--forks", type=int, default=0, metavar="N", help="run the test files in N processes")


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of pytest's own loop, where it is asked for."""
    if config.getoption("--forks"):
        config.pluginmanager.register(Forks(config.getoption("--forks")))


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
        vars(session.config)["_tmp_path_factory"].getbasetemp()
        numbers, filling = os.pipe()
        os.write(filling, b"".join(number.to_bytes(NUMBER_BYTES, "big") for number in range(len(files))))
        os.close(filling)
        forks: dict[connection.Connection, Fork] = {}
        for number in range(min(self._number, len(files))):
            ours, theirs = CONTEXT.Pipe(duplex=False)
            process = CONTEXT.Process(target=_run, args=(session, files, numbers, theirs, f"fork{number}"))
            process.start()
            theirs.close()
            forks[ours] = Fork(process)
        os.close(numbers)
        try:
            self._report(session, forks)
        finally:
            # What was interrupted puts its things away.
            for fork in forks.values():
                fork.interrupt()
            for fork in forks.values():
                fork.process.join()
        return True

    def _report(self, session: pytest.Session, forks: dict[connection.Connection, Fork]) -> None:
        hook = session.config.hook
        while forks:
            for ready in connection.wait(list(forks)):
                assert isinstance(ready, connection.Connection)
                try:
                    told = ready.recv()
                except EOFError:
                    if (lost := forks.pop(ready).lost()) is not None:
                        hook.pytest_runtest_logreport(report=lost)
                    continue
                if isinstance(told, str):
                    forks[ready].running = told
                    continue
                report = hook.pytest_report_from_serializable(config=session.config, data=told)
                hook.pytest_runtest_logreport(report=report)
                if report.when == "teardown":
                    hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)


class Fork:
    """What the collecting process knows of a fork."""

    def __init__(self, process: ForkProcess) -> None:
        self.process = process
        self.running = "nothing yet"

    def interrupt(self) -> None:
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGINT)

    def lost(self) -> pytest.TestReport | None:
        """Return a failure of the test that was running, if it did not end as it should."""
        self.process.join()
        if self.process.exitcode == 0:
            return None
        said = f"the process of the tests ended with {self.process.exitcode} at or after this test"
        where = (self.running.partition("::")[0], None, self.running)
        return pytest.TestReport(self.running, where, {}, "failed", said, "call")


class Teller:
    """Tells the collecting process what happens in this fork."""

    def __init__(self, config: pytest.Config, to: connection.Connection) -> None:
        self._config = config
        self._to = to

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._to.send(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._to.send(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


def _run(
    session: pytest.Session,
    files: Sequence[Sequence[pytest.Item]],
    numbers: int,
    to: connection.Connection,
    name: str,
) -> None:
    """Run files in this fork as long as there are any."""
    config = session.config
    _separate(config, name)
    config.pluginmanager.register(Teller(config, to))

    try:
        try:
            while number := os.read(numbers, NUMBER_BYTES):
                items = files[int.from_bytes(number, "big")]
                # What is of the session stays, as if another item of it came next.
                for item, successor in itertools.pairwise([*items, session]):
                    config.hook.pytest_runtest_protocol(item=item, nextitem=successor)
                    if session.shouldfail or session.shouldstop:
                        return
        finally:
            session._setupstate.teardown_exact(None)
        # Fails for what was left unawaited, unclosed or raised in a finalizer.
        config._ensure_unconfigure()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        raise


def _separate(config: pytest.Config, name: str) -> None:
    """Give this fork a terminal, captured streams and temporary directories of its own."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    terminal._tw = create_terminal_writer(config, io.StringIO())
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if capture.is_globally_capturing():
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture(in_=False)
    factory: Any = vars(config)["_tmp_path_factory"]
    factory._basetemp = factory.getbasetemp() / name
    factory._basetemp.mkdir()
