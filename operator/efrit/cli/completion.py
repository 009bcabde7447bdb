"""`completion`: a script for a shell, made from the command line's own description; it asks for names."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass

from efrit.cli.arguments import build
from efrit.cli.exits import Exit

_OF_INSTANCES = {"start", "stop", "attach", "stats", "instances"}
_OF_REQUESTS = {"wait", "cancel", "logs", "result", "requests"}
_ABOVE = ("plan",)
_OF_PLANS = {"show", "watch", "log", "amend", "suspend", "resume", "cancel", "report"}


@dataclass(frozen=True)
class Command:
    """One command: its options by their spellings, the words its first argument may be, the commands below it."""

    name: str
    help: str
    options: tuple[str, ...]
    choices: tuple[str, ...]
    commands: tuple[Command, ...] = ()


def commands(of: argparse.ArgumentParser | None = None) -> Iterator[Command]:
    """Every command of the program, or of one of its parsers."""
    for action in (of or build())._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        helps = {each.dest: each.help or "" for each in action._choices_actions}
        for name, parser in action.choices.items():
            options = tuple(text for each in parser._actions for text in each.option_strings)
            positional = [each for each in parser._actions if not each.option_strings and each.choices]
            choices = tuple(str(word) for each in positional for word in each.choices or ())
            yield Command(name, helps[name], options, choices, tuple(commands(parser)))


def run_completion(given: Namespace) -> Exit:
    """`efrit completion`."""
    print({"bash": bash, "zsh": zsh, "fish": fish}[given.shell]())
    return Exit.DONE


def bash() -> str:
    """For bash 4 and later; also what zsh uses."""
    every = [(each.name, each) for each in commands()]
    parts = [(f"{above.name} {each.name}", each) for _, above in every for each in above.commands]
    cases = "\n".join(
        f"    '{name}') words='{' '.join((*each.options, *each.choices))}' ;;" for name, each in (*parts, *every)
    )
    above = "|".join(each.name for _, each in every if each.commands)
    of_plans = "|".join(f"'plan {name}'" for name in sorted(_OF_PLANS))
    return f"""# efrit completion for bash: eval "$(efrit completion bash)"
_efrit() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} command= words= index
  for ((index = 1; index < COMP_CWORD; index++)); do
    case ${{COMP_WORDS[index]}} in
      -*) ;;
      *) command=${{command:+$command }}${{COMP_WORDS[index]}}; case $command in {above}) ;; *) break ;; esac ;;
    esac
  done
  case $command in
    '') words='{" ".join(each.name for each in commands())}' ;;
{cases}
  esac
  case $word in -*) ;; *)
    case $command in
      {"|".join(sorted(_OF_INSTANCES))}) words="$words $(efrit instances -o name 2>/dev/null)" ;;
      {"|".join(sorted(_OF_REQUESTS))}) words="$words $(efrit requests -o name 2>/dev/null)" ;;
      {of_plans}) words="$words $(efrit plan list -o name 2>/dev/null)" ;;
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _efrit efrit"""


def zsh() -> str:
    """For zsh, by its reading of bash's."""
    return f"#compdef efrit\nautoload -U +X bashcompinit && bashcompinit\n{bash()}"


def fish() -> str:
    """For fish."""
    lines = ["# efrit completion for fish: efrit completion fish | source", "complete -c efrit -f"]
    for each in commands():
        lines.append(f"complete -c efrit -n __fish_use_subcommand -a {each.name} -d '{_quoted(each.help)}'")
        # What is below a command is seen with words of its own, which other commands may have as well.
        names = " ".join(part.name for part in each.commands)
        below = f"; and not __fish_seen_subcommand_from {names}" if names else ""
        above = "".join(f"; and not __fish_seen_subcommand_from {other}" for other in _ABOVE if other != each.name)
        kind = "instances" if each.name in _OF_INSTANCES else "requests" if each.name in _OF_REQUESTS else None
        lines += _fish(each, f"__fish_seen_subcommand_from {each.name}{below}{above}", kind)
        for part in each.commands:
            where = f"__fish_seen_subcommand_from {each.name}; and __fish_seen_subcommand_from {part.name}"
            lines += _fish(part, where, "plan list" if part.name in _OF_PLANS else None)
    return "\n".join(lines)


def _fish(command: Command, where: str, kind: str | None) -> Iterator[str]:
    here = f"complete -c efrit -n '{where}'"
    for option in command.options:
        dashes = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
        yield f"{here} {dashes}"
    helps = {part.name: f" -d '{_quoted(part.help)}'" for part in command.commands}
    if command.commands:
        yield from (f"{here} -a {name}{told}" for name, told in helps.items())
    elif command.choices:
        yield f"{here} -a '{' '.join(command.choices)}'"
    if kind is not None:
        yield f"{here} -a '(efrit {kind} -o name 2>/dev/null)'"


def _quoted(text: str) -> str:
    return text.replace("'", "\\'")
