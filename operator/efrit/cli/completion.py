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


@dataclass(frozen=True)
class Command:
    """One command: its options by their spellings, the words its first argument may be."""

    name: str
    help: str
    options: tuple[str, ...]
    choices: tuple[str, ...]


def commands() -> Iterator[Command]:
    """Every command of the program."""
    for action in build()._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        helps = {each.dest: each.help or "" for each in action._choices_actions}
        for name, parser in action.choices.items():
            options = tuple(text for each in parser._actions for text in each.option_strings)
            positional = [each for each in parser._actions if not each.option_strings and each.choices]
            yield Command(
                name, helps[name], options, tuple(str(word) for each in positional for word in each.choices or ())
            )


def run_completion(given: Namespace) -> Exit:
    """`efrit completion`."""
    print({"bash": bash, "zsh": zsh, "fish": fish}[given.shell]())
    return Exit.DONE


def bash() -> str:
    """For bash 4 and later; also what zsh uses."""
    cases = "\n".join(
        f"    {each.name}) words='{' '.join((*each.options, *each.choices))}' ;;" for each in commands()
    )
    return f"""# efrit completion for bash: eval "$(efrit completion bash)"
_efrit() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} command= words= index
  for ((index = 1; index < COMP_CWORD; index++)); do
    case ${{COMP_WORDS[index]}} in -*) ;; *) command=${{COMP_WORDS[index]}}; break ;; esac
  done
  case $command in
    '') words='{" ".join(each.name for each in commands())}' ;;
{cases}
  esac
  case $word in -*) ;; *)
    case $command in
      {"|".join(sorted(_OF_INSTANCES))}) words="$words $(efrit instances -o name 2>/dev/null)" ;;
      {"|".join(sorted(_OF_REQUESTS))}) words="$words $(efrit requests -o name 2>/dev/null)" ;;
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
        here = f"-n '__fish_seen_subcommand_from {each.name}'"
        for option in each.options:
            dashes = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            lines.append(f"complete -c efrit {here} {dashes}")
        if each.choices:
            lines.append(f"complete -c efrit {here} -a '{' '.join(each.choices)}'")
        kind = "instances" if each.name in _OF_INSTANCES else "requests" if each.name in _OF_REQUESTS else None
        if kind is not None:
            lines.append(f"complete -c efrit {here} -a '(efrit {kind} -o name 2>/dev/null)'")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return text.replace("'", "\\'")
