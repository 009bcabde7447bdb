"""`completion`: a script for a shell. It asks `efrit __complete WORDS` what may come next; kubectl asks the same way.

The answer is one candidate a line (a tab and its description may follow), then `:4`, or `:0` where files fit: the
protocol of Cobra, which kubectl speaks with its plugins.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from efrit.backend.interface import Backend
from efrit.backend.open import cluster_contexts, cluster_namespaces, open_backend
from efrit.cli.commands import COMMANDS, Command, build
from efrit.cli.exit_codes import Exit
from efrit.cli.parser import Parser
from efrit.cli.place import place_of
from efrit.cli.terminal_text import sanitized_line

SECONDS = 3.0
"""How long the names of a cluster may take: a person waits at the prompt."""
SECONDS_VARIABLE = "EFRIT_COMPLETION_SECONDS"

_MAX_SHOWN = 200
_FILES, _NO_FILES = ":0", ":4"
_PLACE_OPTIONS = ("backend", "config", "kubeconfig", "context", "namespace")


def run_completion(args: Namespace) -> Exit:
    """Run `efrit completion`."""
    print({"bash": bash, "zsh": zsh, "fish": fish}[args.shell]())
    return Exit.DONE


def run_complete(program: str, words: Sequence[str]) -> Exit:
    """Run `efrit __complete`: print the completions of the last of `words`."""
    line = CommandLine.read(program, list(words) or [""])
    # The shell prints them: what controls its terminal is not offered.
    matches = (item for item in line.candidates() if item[0].startswith(line.prefix) and item[0].isprintable())
    for value, description in itertools.islice(matches, _MAX_SHOWN):
        print(line.before + value + (f"\t{sanitized_line(description)}" if description else ""))
    print(_FILES if line.completes_files() else _NO_FILES)
    return Exit.DONE


@dataclass
class CommandLine:
    """A command line as far as it is typed: the command it has come to, and what its last word is to be.

    `prefix` is what there is of the last word; `before` what stands in front of it in the same word (`--option=`).
    """

    parser: Parser
    prefix: str
    before: str = ""
    command: tuple[str, ...] = ()
    #: The option whose value the last word is, or the positional argument it belongs to.
    action: argparse.Action | None = None
    positionals: list[str] = field(default_factory=list)
    args: Namespace = field(default_factory=Namespace)
    only_arguments: bool = False

    @classmethod
    def read(cls, program: str, words: list[str]) -> CommandLine:
        """Return what `words` amount to; the last one is being typed."""
        completion = cls(build(program), "")
        joined, split = _joined_options(words)
        for word in joined[:-1]:
            completion._consume(word)
        completion.prefix = joined[-1]
        if (
            completion.action is None
            and completion.prefix.startswith("--")
            and "=" in completion.prefix
            and not completion.only_arguments
        ):
            option, _, value = completion.prefix.partition("=")
            completion.action, completion.prefix = completion._option(option), value
            # bash completes what is behind the sign alone.
            completion.before = "" if split else f"{option}="
        return completion

    def _option(self, word: str) -> argparse.Action | None:
        return next((action for action in self.parser._actions if word in action.option_strings), None)

    def _consume(self, word: str) -> None:
        if self.action is not None:
            self._record_option(self.action, word)
            self.action = None
        elif word == "--":
            self.only_arguments = True
        elif word.startswith("-") and word != "-" and not self.only_arguments:
            option, sign, value = word.partition("=")
            action = self._option(option)
            if action is not None and sign:
                self._record_option(action, value)
            elif action is not None and action.nargs != 0:
                self.action = action
        elif (below := self._subcommands()) is not None:
            self.parser = below.get(word, self.parser)
            self.command += (word,)
        else:
            self.positionals.append(word)

    def _record_option(self, action: argparse.Action, value: str) -> None:
        if action.dest in _PLACE_OPTIONS or action.dest == "instance":
            setattr(self.args, action.dest, value)

    def _subcommands(self) -> dict[str, Parser] | None:
        subcommands = [action for action in self.parser._actions if isinstance(action, argparse._SubParsersAction)]
        return subcommands[0].choices if subcommands else None

    def _target(self) -> argparse.Action | None:
        if self.action is not None:
            return self.action
        positional = [
            action
            for action in self.parser._actions
            if not action.option_strings and not isinstance(action, argparse._SubParsersAction)
        ]
        if not positional or (positional[0].nargs is None and self.positionals):
            return None
        return positional[0]

    def completes_files(self) -> bool:
        """Return whether the word may be the name of a file or directory."""
        action = self.action
        return action is not None and action.metavar in ("FILE", "DIR")

    def candidates(self) -> Iterable[tuple[str, str]]:
        """Return (value, description) of what the word may become, whatever its prefix is."""
        if self.action is None and self.prefix.startswith("-") and not self.only_arguments:
            return _options(self.parser)
        if self.action is None and self._subcommands() is not None:
            return _commands(self.parser)
        target = self._target()
        if target is None or self.completes_files():
            return ()
        if target.choices:
            return [(str(choice), "") for choice in target.choices]
        if self.command == ("help",):
            return _help_topics(self.positionals)
        if target.metavar == "SHELL":
            return ()
        kind = _kind(self.command, target)
        return (
            []
            if kind is None
            else [(name, "") for name in _completion_names(kind, self.args) if name not in self.positionals]
        )


def _joined_options(words: list[str]) -> tuple[list[str], bool]:
    """Join `--option`, `=`, `value`, as bash splits words; also return whether the last word is such a one."""
    joined: list[str] = []
    split = False
    for index, word in enumerate(words):
        split = False
        if word == "=" and joined and joined[-1].startswith("--"):
            joined[-1] += "="
            split = True
        elif (
            index and words[index - 1] == "=" and joined and joined[-1].startswith("--") and joined[-1].endswith("=")
        ):
            joined[-1] += word
            split = True
        else:
            joined.append(word)
    return joined, split


def _options(parser: Parser) -> list[tuple[str, str]]:
    return [
        (text, (action.help or "").replace("%%", "%"))
        for action in parser._actions
        for text in action.option_strings
        if text.startswith("--")
    ]


def _commands(parser: Parser) -> list[tuple[str, str]]:
    (subcommands,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return [(choice.dest, choice.help or "") for choice in subcommands._choices_actions]


def _help_topics(positionals: list[str]) -> list[tuple[str, str]]:
    commands: Sequence[Command] = COMMANDS
    for word in positionals:
        commands = next((command.commands for command in commands if command.name == word), ())
    return [(command.name, command.what) for command in commands]


_OF_INSTANCES = {"start", "stop", "restart", "rm", "attach", "stats", "instances"}
_OF_REQUESTS = {"wait", "cancel", "logs", "result", "requests"}


def _kind(command: tuple[str, ...], action: argparse.Action) -> str | None:
    """Return the kind of what an argument names: instances, requests, plans, pools, labels and so on; or None."""
    by_option = {
        "instance": "instances",
        "pool": "pools",
        "session": "sessions",
        "selector": "labels",
        "context": "contexts",
        "namespace": "namespaces",
    }
    if action.option_strings:
        return by_option.get(action.dest)
    if command[:1] == ("plan",) and action.dest == "name":
        return "plans"
    if command[:1] in (("pools",), ("scale",), ("rollout",)) or (command[:1] == ("claim",) and action.dest == "pool"):
        return "pools"
    if command[:1] in (("claims",), ("release",)):
        return "claims"
    if command and command[0] in _OF_INSTANCES:
        return "instances"
    return "requests" if command and command[0] in _OF_REQUESTS else None


def _completion_names(kind: str, args: Namespace) -> list[str]:
    """Return the names there are; none where they cannot be had, for nobody wants to read why at a prompt."""
    try:
        seconds = float(os.environ.get(SECONDS_VARIABLE) or SECONDS)
        return asyncio.run(asyncio.wait_for(_fetch_names(kind, args), seconds))
    except Exception:  # noqa: BLE001 - completion offers what it can
        return []


async def _fetch_names(kind: str, args: Namespace) -> list[str]:
    place = place_of(args)
    if kind == "contexts":
        return cluster_contexts(place)
    if kind == "namespaces":
        return await cluster_namespaces(place)
    backend = await open_backend(place)
    try:
        return await _backend_names(kind, args, backend)
    finally:
        await backend.close(handed_over=False)


async def _backend_names(kind: str, args: Namespace, backend: Backend) -> list[str]:
    if kind == "plans":
        return [plan.name for plan in await backend.planning().plans()]
    if kind == "pools":
        return [pool.name for pool in await backend.pools()]
    if kind == "claims":
        return [claim.name for claim in await backend.claims()]
    if kind in ("instances", "labels"):
        instances = await backend.instances()
        labels = {f"{key}={value}" for instance in instances for key, value in instance.labels.items()}
        return [instance.id for instance in instances] if kind == "instances" else sorted(labels)
    requests = await backend.requests(getattr(args, "instance", None), limit=_MAX_SHOWN)
    if kind == "requests":
        return [state.handle.id for state in reversed(requests)]
    return list(dict.fromkeys(state.session.id for state in reversed(requests) if state.session and state.session.id))


def bash() -> str:
    """Return the script for bash 4 and later."""
    return r"""# efrit completion for bash: eval "$(efrit completion bash)"
_efrit() {
  local line
  COMPREPLY=()
  # Not `for line in $(…)`: that would take a star in a description for a pattern.
  while IFS= read -r line; do
    case $line in
      :4) compopt +o default 2>/dev/null ;;
      :0) ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <(efrit __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  return 0
}
complete -o default -F _efrit efrit"""


def zsh() -> str:
    """Return the script for zsh: a file `_efrit` of its `fpath`, or for `eval` after `compinit`."""
    # Not bash's by way of bashcompinit: zsh takes ${COMP_WORDS[@]:1:COMP_CWORD} for another thing.
    return r"""#compdef efrit
_efrit() {
  local line files=yes
  local -a candidates
  for line in "${(@f)$(efrit __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      :4) files= ;;
      :0 | '') ;;
      *) candidates+=("${line%%$'\t'*}") ;;
    esac
  done
  (( $#candidates )) && compadd -- "${candidates[@]}" && return
  [[ -n $files ]] && _files
}
# Of a file of fpath, zsh runs the whole for the first word that is completed.
if [[ ${funcstack[1]} == _efrit ]]; then _efrit "$@"; else compdef _efrit efrit; fi"""


def fish() -> str:
    """Return the script for fish."""
    return r"""# efrit completion for fish: efrit completion fish | source
function __efrit_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l lines (efrit __complete $words[2..-1] 2>/dev/null)
  if test "$lines[-1]" = ":0"
    __fish_complete_path (commandline -ct)
  end
  string match -rv '^:\d+$' -- $lines
end
complete -c efrit -f -a '(__efrit_complete)'"""
