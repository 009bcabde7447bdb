"""Where a command line says to work, how it was called, and how a person learns what no answer says."""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from efrit.backend.interface import Backend, Handle
from efrit.backend.place import BACKEND_VARIABLE, Place
from efrit.cli.commands import COMMANDS

_OPTIONS = ("backend", "config", "kubeconfig", "context", "namespace")
_COMMAND = rf"\befrit (?=(?:{'|'.join(command.name for command in COMMANDS)})\b)"
_KUBECTL_OPTIONS = ("kubeconfig", "context")
"""Options that kubectl has, too. The namespace is in the command where it matters."""
_KUBECTL_COMMAND = r"\bkubectl (?=(?:-n|cluster-info|describe|get|taint)\b)"


def place_of(args: Namespace) -> Place:
    """Return the place that the command line names."""
    place = Place(
        backend=getattr(args, "backend", None),
        context=getattr(args, "context", None),
        namespace=getattr(args, "namespace", None),
    )
    if path := getattr(args, "config", None):
        place = replace(place, config=Path(path).expanduser())
    if path := getattr(args, "kubeconfig", None):
        place = replace(place, kubeconfig=Path(path).expanduser())
    return place


class Invocation(Struct, frozen=True):
    """How the program was called, so that what it suggests reaches the same place: `program` and its options.

    `kubectl_options` are those of them that a command of kubectl takes."""

    program: str = "efrit"
    options: str = ""
    kubectl_options: str = ""

    @classmethod
    def of(cls, program: str, args: Namespace) -> Invocation:
        """Return that of a command line."""
        return cls(program, _options_given(args, _OPTIONS), _options_given(args, _KUBECTL_OPTIONS))

    def command(self, *words: str) -> str:
        """Return the command line that runs `words` in the same place."""
        return " ".join((self.program + self.options, *map(_shell_quoted, words)))

    def in_text(self, text: str) -> str:
        """Return `text` with every command in it as it has to be typed to reach the same place."""
        text = re.sub(_KUBECTL_COMMAND, lambda _: f"kubectl{self.kubectl_options} ", text)
        return re.sub(_COMMAND, lambda _: f"{self.program}{self.options} ", text)

    def report_chosen_cluster(self, args: Namespace, backend: Backend) -> None:
        """Say that a cluster was chosen for no other reason than that the program runs in a pod of it."""
        named = any(getattr(args, name, None) for name in ("backend", "kubeconfig", "context", "namespace"))
        if backend.kind == "cluster" and not named and not os.environ.get(BACKEND_VARIABLE):
            notice(
                f"running in a pod, so this works in {backend.place}; "
                f"--backend or {BACKEND_VARIABLE}=local|cluster chooses"
            )


def print_resume_hint(handle: Handle, invocation: Invocation) -> None:
    """Tell who leaves a request how to come back to it."""
    notice(f"{handle.id} goes on; wait for it with `{invocation.command('wait', handle.id)}`")


def _options_given(args: Namespace, names: tuple[str, ...]) -> str:
    named = [(name, getattr(args, name, None)) for name in names]
    return "".join(f" --{name} {_shell_quoted(value)}" for name, value in named if value is not None)


def _shell_quoted(word: str) -> str:
    if re.fullmatch(r"[\w@%+=:,./-]+", word, re.ASCII):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def notice(text: str) -> None:
    """Print on standard error what a person has to know beside the answer."""
    print(f"efrit: {text}", file=sys.stderr)
