"""For every tier: what is tested of any value may take its time; a failure is reported at once.

A tier takes minutes, and may be ended by another one's failure before it sums up.
"""

from __future__ import annotations

import gc
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import scratch
from tests.support.forked_programs import for_all_forks
from tests.support.local_daemons import HOMES, end_daemons, serving

scratch.use_memory()

pytest_plugins = ("tests.forks",)

# A busy machine fails no test: pytest's own time limit ends what hangs.
settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "explore",
    max_examples=int(os.environ.get("EFRIT_FUZZ_EXAMPLES", "0")) or 100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# The same examples every time, unless `make fuzz` asks for new ones.
settings.load_profile("explore" if "EFRIT_FUZZ_EXAMPLES" in os.environ else "fixed")

# Nothing that is imported or collected is garbage: see pytest_collection_finish.
gc.disable()

# A shell has what it starts in the background ignore Ctrl-C, and so would every program that a test presses it for.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Failures:
    """Writes a line between the dots."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    # After the letter of the outcome.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            first = str(crash.message if crash is not None else report.longrepr).strip().partition("\n")[0]
            self._terminal.write_line(f"\n!! {report.nodeid} ({report.when}): {first[:200]}")


class OwnDirectory:
    """Removes the run's temporary directory, unless a test has failed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            scratch.remove(self._directory)
        elif exitstatus in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERNAL_ERROR):
            scratch.keep_for_a_day(self._directory)


class NoDaemons:
    """Fails the run if it leaves an Emacs behind, and ends that."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    # After the end of the fixtures.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        places = [Path(self._directory), *HOMES]
        if commands := [" ".join(process.cmdline()[:2]) for process in serving(places)]:
            for place in places:
                end_daemons(place)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            print(f"\n!! the run has left daemons behind: {commands}")


# Before pytest's own, which makes the factory of temporary directories.
@pytest.hookimpl(tryfirst=True, specname="pytest_configure")
def pytest_configure_directory(config: pytest.Config) -> None:
    """Give each run a directory of its own.

    In a common one, as is the default, a run ends with an error if it tidies up what another one just removes.
    """
    if config.option.basetemp is None and not hasattr(config, "workerinput"):
        scratch.remove_left_behind()
        directory = scratch.owned_directory("run")
        # pytest makes this one anew, and it would have no owner then.
        config.option.basetemp = str(directory / "t")
        config.pluginmanager.register(OwnDirectory(directory))
        config.pluginmanager.register(NoDaemons(config.option.basetemp))


# After pytest's own, which makes the terminal.
@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(terminal, pytest.TerminalReporter):
        config.pluginmanager.register(Failures(terminal))


FEWER_COLLECTIONS = (200_000, 20, 50)
"""With its own thresholds (700, 10, 10) Python spends a twentieth of a test run on looking for cycles."""


def pytest_collection_finish() -> None:
    """Keep what was collected, which lives as long as the process, out of every later garbage collection."""
    gc.freeze()
    gc.set_threshold(*FEWER_COLLECTIONS)
    gc.enable()


@given(st.text(), st.integers(), st.floats())
def _any_property(text: str, number: int, real: float) -> None:
    """Have Hypothesis read what its first property needs: the constants in our sources, and Unicode's tables."""


def pytest_before_forks(session: pytest.Session, until_end: ExitStack) -> None:
    """Import our programs once for all forks, when the first is started; the same for what properties need."""
    until_end.enter_context(for_all_forks())
    if any(item.get_closest_marker("hypothesis") for item in session.items):
        _any_property()
