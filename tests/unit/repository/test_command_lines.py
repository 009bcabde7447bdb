"""A module of the tests that people run says what it does when it is asked with --help, before it begins anything."""

from __future__ import annotations

from pathlib import Path

HELPS = ("parse_args(", "'--help'", '"--help"', "runpy.run_module(")
TESTS = Path(__file__).parents[2]
BY_PROGRAMS = {
    "conformance/fixtures.py",
    "conformance/relay.py",
    "integration/docs/play_notebook.py",
    "mutation/warm_pytest.py",
    "support/fork_server.py",
    "subreaper.py",
    "support/shared/inside.py",
}
"""Started by other programs of the tests, with arguments that nobody types."""


def test_each_module_with_a_command_line_takes_help() -> None:
    begins = {
        str(path.relative_to(TESTS)): text
        for path in TESTS.rglob("*.py")
        if path != Path(__file__) and 'if __name__ == "__main__":' in (text := path.read_text(encoding="utf-8"))
    }
    unheard = {name for name, text in begins.items() if not any(mark in text for mark in HELPS)}
    assert unheard == BY_PROGRAMS
