"""The program `efrit` as a person runs it: a process with an environment, what it printed and how it ended."""

from __future__ import annotations

import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.forked_programs import Forked, Piped, can_be_forked
from tests.support.forked_programs import run as run_forked
from tests.support.timeout import TIMEOUT

PROGRAM = Path(sys.executable).with_name("efrit")


@dataclass(frozen=True)
class Done:
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Program:
    """The program in one place: `env` is all of its environment, `where` goes behind the command."""

    kind: str
    env: dict[str, str]
    where: tuple[str, ...] = ()
    #: The file of an instance's workspace, as the test sees it.
    workspace: Callable[[str], Path] = field(default=lambda name: Path(name))
    program: Path = PROGRAM
    cwd: Path | None = None

    def command(self, name: str, *words: str) -> list[str]:
        return [str(self.program), name, *self.where, *words]

    def run(self, name: str, *words: str, stdin: str = "") -> Done:
        """Run it to its end, as in a pipe."""
        command = self.command(name, *words)
        if can_be_forked(command, self.env):
            done = run_forked(command, self.env, self.cwd or Path.cwd(), stdin=stdin, timeout=TIMEOUT)
            return Done(done.returncode, done.stdout, done.stderr)
        done = subprocess.run(
            command, env=self.env, cwd=self.cwd, input=stdin, capture_output=True, text=True, timeout=TIMEOUT
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def ok(self, name: str, *words: str, stdin: str = "") -> str:
        """Run it, want success, return what it printed."""
        done = self.run(name, *words, stdin=stdin)
        assert done.code == 0, done
        return done.out

    def begin(self, name: str, *words: str) -> subprocess.Popen[str] | Piped:
        """Run it beside the test."""
        command = self.command(name, *words)
        if can_be_forked(command, self.env):
            return Piped(command, self.env, self.cwd or Path.cwd())
        return subprocess.Popen(
            command,
            env=self.env,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def state(self, name: str) -> Any:
        """All that is reported of a request."""
        return self.run("requests", name, "-o", "json").json


class Terminal:
    """The program before a person: what is typed reaches it, what it shows is read as it comes."""

    def __init__(self, program: Program, name: str, *words: str) -> None:
        self.shown = ""
        command, cwd = program.command(name, *words), program.cwd or Path.cwd()
        env = {**program.env, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        self._fd, its = os.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._process: Forked | subprocess.Popen[bytes]
        if can_be_forked(command, env):
            self._process = Forked(command, env, cwd, streams=(its, its, its), start_new_session=True)
        else:
            # --ctty: Ctrl-C reaches it.
            self._process = subprocess.Popen(
                ["setsid", "--ctty", *command], env=env, cwd=cwd, stdin=its, stdout=its, stderr=its
            )
        os.close(its)
        self.pid = self._process.pid

    def expect(self, text: str, seconds: float = TIMEOUT) -> None:
        """Read until `text` is shown, and forget what came before its end."""
        limit = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < limit, f"{text!r} is not shown: {self.shown!r}"
            if not select.select([self._fd], [], [], 0.2)[0]:
                continue
            try:
                self.shown += os.read(self._fd, 65536).decode(errors="replace")
            except OSError as error:
                raise AssertionError(f"it ended without {text!r}: {self.shown!r}") from error
        self.shown = self.shown[self.shown.index(text) + len(text) :]

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def end(self) -> int:
        """Wait for its end and return the exit code."""
        try:
            while os.read(self._fd, 65536):
                pass
        except OSError:
            pass
        code = self._process.wait()
        self.pid = 0
        os.close(self._fd)
        return code

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pid:
            self._process.kill()
            self._process.wait()
            os.close(self._fd)
