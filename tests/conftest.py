"""Tells of each failure at once: a tier takes minutes, and may be ended by another one's before it sums up."""

from __future__ import annotations

import pytest


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


# After pytest's own, which makes the terminal.
@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(terminal, pytest.TerminalReporter):
        config.pluginmanager.register(Failures(terminal))
