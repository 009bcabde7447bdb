"""The command line as data."""

import contextlib
import importlib
import io
import subprocess

import pytest

from efrit.cli.arguments import build
from efrit.cli.completion import Command, bash, commands, fish, zsh


@pytest.mark.parametrize("name", [each.name for each in commands()])
def test_every_command_names_a_function_that_is_there(name: str) -> None:
    needed = {"start": ["x"], "stop": ["x"], "restart": ["x"], "rm": ["x"], "attach": ["x"], "completion": ["bash"]}
    needed |= {each: ["x"] for each in ("wait", "cancel", "logs", "result")} | {"plan": ["list"]}
    given = build().parse_args([name, *needed.get(name, [])])
    module, _, function = given.run.partition(":")
    assert callable(getattr(importlib.import_module(f"efrit.cli.{module}"), function))


def parts(name: str) -> list[Command]:
    return [part for each in commands() if each.name == name for part in each.commands]


@pytest.mark.parametrize("name", [each.name for each in parts("plan")])
def test_every_command_on_plans_names_a_function_that_is_there(name: str) -> None:
    needed = {"run": [], "list": [], "amend": ["x", "y"]}
    given = build().parse_args(["plan", name, *needed.get(name, ["x"])])
    module, _, function = given.run.partition(":")
    assert callable(getattr(importlib.import_module(f"efrit.cli.{module}"), function))


def test_where_to_work_may_stand_at_all_three_places_of_a_command_on_plans() -> None:
    for words in (["-n", "team", "plan", "list"], ["plan", "-n", "team", "list"], ["plan", "list", "-n", "team"]):
        assert build("efrit", words).parse_args(words).namespace == "team"


def test_where_to_work_may_stand_before_or_after_the_command() -> None:
    before = build().parse_args(["-n", "team", "eval", "1"])
    after = build().parse_args(["eval", "1", "-n", "team"])
    assert before.namespace == after.namespace == "team"


@pytest.mark.parametrize(
    "words", [["eval", "--timeout", "0"], ["eval", "--timeout", "soon"], ["nothing"], [], ["plan"], ["plan", "walk"]]
)
def test_a_wrong_command_line_ends_with_code_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build().parse_args(words)
    assert ended.value.code == 2
    assert "usage: efrit" in capsys.readouterr().err


@pytest.mark.parametrize("name", [each.name for each in commands()])
def test_a_command_alone_takes_what_it_takes_among_all(name: str) -> None:
    def options(words: list[str] | None) -> str:
        with pytest.raises(SystemExit), contextlib.redirect_stdout(io.StringIO()) as told:
            build("efrit", words).parse_args([name, "--help"])
        return told.getvalue()

    assert options([name]) == options(None) != ""


def test_completion_scripts_know_every_command() -> None:
    for script in (bash(), zsh(), fish()):
        assert all(each.name in script for each in commands())


def test_bash_completes_commands_and_options() -> None:
    script = f"{bash()}\nCOMP_WORDS=(efrit ev); COMP_CWORD=1; _efrit; echo ${{COMPREPLY[@]}}\n"
    script += "COMP_WORDS=(efrit eval --ret); COMP_CWORD=2; _efrit; echo ${COMPREPLY[@]}\n"
    script += "COMP_WORDS=(efrit plan s); COMP_CWORD=2; _efrit; echo ${COMPREPLY[@]}\n"
    script += "COMP_WORDS=(efrit plan run --max-s); COMP_CWORD=3; _efrit; echo ${COMPREPLY[@]}\n"
    script += "efrit() { [[ $* == 'plan list -o name' ]] && echo calc; }\n"
    script += "COMP_WORDS=(efrit plan show c); COMP_CWORD=3; _efrit; echo ${COMPREPLY[@]}\n"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["eval", "--return-context --retry", "show suspend", "--max-steps", "calc"]
