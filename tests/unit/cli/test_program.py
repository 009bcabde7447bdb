"""Command lines as people type them: each with its exit code, what it prints, and its one line of error."""

from __future__ import annotations

import argparse
import shlex
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from efrit import __version__
from efrit.cli.commands import COMMANDS, Command, build
from efrit.cli.examples import EXAMPLES
from efrit.cli.parser import Parser
from efrit.cli.program import run


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def ended(line: str, program: str = "efrit") -> int:
    try:
        return run(program, shlex.split(line), heeds_ctrl_c=False)
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("evl 1", "unknown command 'evl' (did you mean 'eval'?); see 'efrit --help'"),
        ("xyzzy", "unknown command 'xyzzy'; see 'efrit --help'"),
        ("plan lst", "unknown command 'lst' (did you mean 'list'?); see 'efrit plan --help'"),
        ("help evl", "unknown command 'evl' (did you mean 'eval'?); see 'efrit --help'"),
        (
            "eval --timout 5 1",
            "unknown option '--timout' (did you mean '--timeout'?); see 'efrit eval --help'",
        ),
        ("plan list --xyzzy", "unknown option '--xyzzy'; see 'efrit plan list --help'"),
        (
            "eval -o jsn 1",
            "invalid value 'jsn' for -o/--output: use json, yaml, name (did you mean 'json'?); "
            "see 'efrit eval --help'",
        ),
        ("completion tcsh", "invalid value 'tcsh' for SHELL: use bash, zsh, fish; see 'efrit completion --help'"),
        (
            "eval --timeout soon 1",
            "--timeout: 'soon' is not a duration: write 30s, 5m or 1h30m, or a number of seconds; "
            "see 'efrit eval --help'",
        ),
        ("wait --for 8d x", "--for: '8d' is out of range: above 0, and at most 7d; see 'efrit wait --help'"),
        (
            "requests --limit -1",
            "-L/--limit: '-1' is not a whole number of at least 0; see 'efrit requests --help'",
        ),
        ("eval -C '' 1", "-C/--dir: the value is empty: give one, or leave the option out; see 'efrit eval --help'"),
        (
            "plan run -C '' t",
            "-C/--dir: the value is empty: give one, or leave the option out; see 'efrit plan run --help'",
        ),
        (
            "start two --queue-dir ''",
            "--queue-dir: the value is empty: give one, or leave the option out; see 'efrit start --help'",
        ),
        (
            "start two --workspace-dir ''",
            "--workspace-dir: the value is empty: give one, or leave the option out; see 'efrit start --help'",
        ),
        (
            "--config '' instances",
            "--config: the value is empty: give one, or leave the option out; see 'efrit --help'",
        ),
        (
            "--kubeconfig= instances",
            "--kubeconfig: the value is empty: give one, or leave the option out; see 'efrit --help'",
        ),
        (
            "--context '' instances",
            "--context: the value is empty: give one, or leave the option out; see 'efrit --help'",
        ),
        (
            "-n '' instances",
            "-n/--namespace: the value is empty: give one, or leave the option out; see 'efrit --help'",
        ),
        (
            "eval -i '' 1",
            "-i/--instance: the value is empty: give one, or leave the option out; see 'efrit eval --help'",
        ),
        ("eval --key '' 1", "--key: the value is empty: give one, or leave the option out; see 'efrit eval --help'"),
        ("eval -f '' 1", "-f/--file: the value is empty: give one, or leave the option out; see 'efrit eval --help'"),
        ("wait ''", "NAME: the value is empty: give the name; see 'efrit wait --help'"),
        ("requests one ''", "NAME: the value is empty: give the name; see 'efrit requests --help'"),
        ("stop ''", "NAME: the value is empty: give the name; see 'efrit stop --help'"),
        ("plan watch ''", "NAME: the value is empty: give the name; see 'efrit plan watch --help'"),
        ("claim ''", "POOL: the value is empty: give the name; see 'efrit claim --help'"),
        ("wait", "missing argument NAME; see 'efrit wait --help'"),
        ("eval --file", "-f/--file: expected one argument; see 'efrit eval --help'"),
        ("stop one two", "unexpected argument 'two'; see 'efrit stop --help'"),
    ],
)
def test_a_wrong_command_line_is_one_line_on_standard_error_and_exit_code_2(
    line: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(line) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"efrit: {error}\n")


def test_the_plugin_is_named_as_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("evl", "kubectl efrit") == 2
    assert capsys.readouterr().err.endswith("see 'kubectl efrit --help'\n")
    assert ended("eval --help", "kubectl efrit") == 0
    assert "\n  kubectl efrit eval '(+ 1 2)'\n" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["--version", "version"])
def test_the_version_is_printed(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(line) == 0
    assert capsys.readouterr().out == f"efrit {__version__}\n"


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("", "--help"),
        ("help", "--help"),
        ("help eval", "eval --help"),
        ("plan", "plan --help"),
        ("help plan run", "plan run --help"),
        ("-n team", "--help"),
    ],
)
def test_help_is_printed_on_standard_output_however_it_is_asked_for(
    line: str, same: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(line) == 0
    captured = capsys.readouterr()
    assert ended(same) == 0
    assert (captured.out, captured.err) == capsys.readouterr()
    assert captured.out.startswith("usage: efrit")


@cache
def whole_parser() -> Parser:
    """Return the parser of all commands, which takes longer to make than to use."""
    return build()


def every_command() -> list[tuple[str, Command]]:
    return [
        (name, command)
        for top in COMMANDS
        for name, command in [(top.name, top), *((f"{top.name} {part.name}", part) for part in top.commands)]
    ]


@pytest.mark.parametrize("name", [name for name, _ in every_command()])
def test_every_command_has_examples_that_parse(name: str) -> None:
    assert EXAMPLES.get(name), f"{name} has no examples"
    for example in EXAMPLES[name]:
        line = example.partition(" > ")[0].partition(" < ")[0]
        if line.startswith('eval "$('):
            line = line.removeprefix('eval "$(').removesuffix(')"')
        arguments = whole_parser().parse_args(shlex.split(line)[1:])
        assert arguments.parser.command.startswith(name.split()[0]), example


WITHOUT_A_DEFAULT = {
    *("--pool", "--selector", "--file", "--key", "--criterion", "--constraint", "--build", "--integration"),
    *("--quality", "--git-secret"),
}
"""Options that do nothing unless they are given."""


@pytest.mark.parametrize("name", [name for name, _ in every_command()])
def test_the_help_of_an_option_with_a_value_names_its_default(name: str) -> None:
    parser = parser_of(name)
    for action in parser._actions:
        if not action.option_strings or action.nargs == 0 or action.option_strings[-1] in WITHOUT_A_DEFAULT:
            continue
        assert "default" in (action.help or ""), f"{name} {action.option_strings}"


def parser_of(name: str) -> Parser:
    parser = whole_parser()
    for word in name.split():
        (below,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        parser = below.choices[word]
    return parser


def test_an_error_nobody_foresaw_is_one_line_with_an_exit_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(arguments: object) -> None:
        raise LookupError("nobody\nforesaw this")

    monkeypatch.setattr("efrit.cli.doctor.run_version", broken)
    assert ended("version") == 70
    stderr = capsys.readouterr().err
    assert stderr.splitlines()[0] == "efrit: internal error: LookupError: nobody foresaw this"
    assert "Traceback" not in stderr
    monkeypatch.setenv("EFRIT_DEBUG", "1")
    assert ended("version") == 70
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["instances", "requests", "stats", "stop default", "wait r1", "eval 1"])
def test_a_missing_configuration_file_that_was_named_is_refused(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EFRIT_BACKEND", "local")
    path = tmp_path / "nope" / "x.json"
    assert ended(f"--config {path} {command}") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"there is no configuration file {path}\n" in printed.err
    assert f"efrit --config {path} start default" in printed.err
    assert not path.parent.exists()
