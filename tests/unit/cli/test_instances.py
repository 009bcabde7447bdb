"""cli/instances.py: what is said before Emacs is shown."""

from __future__ import annotations

import io
import sys
from argparse import Namespace
from typing import cast

import pytest

from efrit.backend.errors import Refused
from efrit.backend.interface import Backend
from efrit.cli.instances import run_attach
from tests.unit.cli.listed import Listed


class Screen(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


class Attached(Exception):  # noqa: N818 - it is what happened
    """The instance was looked for: Emacs would be shown next."""


class Attachable(Listed):
    """A backend that ends a command once it looks for the instance."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    async def instance(self, name: str) -> None:
        raise Attached


@pytest.mark.parametrize(
    ("kind", "reads", "writes", "attaches"),
    [
        ("local", True, True, True),
        ("local", False, True, True),
        ("local", True, False, False),
        ("cluster", True, True, True),
        ("cluster", False, True, False),
        ("cluster", True, False, False),
    ],
)
async def test_attach_without_the_terminal_that_it_needs_says_so(
    monkeypatch: pytest.MonkeyPatch, kind: str, reads: bool, writes: bool, attaches: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Screen(reads))
    monkeypatch.setattr(sys, "stdout", Screen(writes))
    with pytest.raises(Attached if attaches else Refused) as caught:
        await run_attach(cast("Backend", Attachable(kind)), Namespace(name="one"))
    if not attaches:
        assert str(caught.value) == "attach needs a terminal: standard input or output is a file or a pipe"
