"""The command line as data."""

import contextlib
import importlib
import io
from functools import cache

import pytest

from efrit.cli.commands import COMMANDS, PLAN_COMMANDS, build
from efrit.cli.parser import Parser

whole_parser = cache(build)
"""It takes longer to make than to use."""


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_names_a_function_that_is_there(name: str) -> None:
    needed = {"start": ["x"], "stop": ["x"], "restart": ["x"], "rm": ["x"], "attach": ["x"], "completion": ["bash"]}
    needed |= {name: ["x"] for name in ("wait", "cancel", "logs", "result")} | {"plan": ["list"], "scale": ["x", "1"]}
    needed |= {"claim": ["x"], "release": ["x"]}
    arguments = whole_parser().parse_args([name, *needed.get(name, [])])
    module, _, function = arguments.run.partition(":")
    assert callable(getattr(importlib.import_module(f"efrit.cli.{module}"), function))


@pytest.mark.parametrize("name", [command.name for command in PLAN_COMMANDS])
def test_every_command_on_plans_names_a_function_that_is_there(name: str) -> None:
    needed = {"run": [], "list": [], "amend": ["x", "y"]}
    arguments = whole_parser().parse_args(["plan", name, *needed.get(name, ["x"])])
    module, _, function = arguments.run.partition(":")
    assert callable(getattr(importlib.import_module(f"efrit.cli.{module}"), function))


def test_where_to_work_may_stand_at_all_three_places_of_a_command_on_plans() -> None:
    for words in (["-n", "team", "plan", "list"], ["plan", "-n", "team", "list"], ["plan", "list", "-n", "team"]):
        assert build("efrit", words).parse_args(words).namespace == "team"


def test_where_to_work_may_stand_before_or_after_the_command() -> None:
    before = build().parse_args(["-n", "team", "eval", "1"])
    after = build().parse_args(["eval", "1", "-n", "team"])
    assert before.namespace == after.namespace == "team"


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_a_command_alone_takes_what_it_takes_among_all(name: str) -> None:
    def options(parser: Parser) -> str:
        with pytest.raises(SystemExit), contextlib.redirect_stdout(io.StringIO()) as stdout:
            parser.parse_args([name, "--help"])
        return stdout.getvalue()

    assert options(build("efrit", [name])) == options(whole_parser()) != ""
