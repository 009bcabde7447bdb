"""A copy of the repository to break: its own sources, the installed libraries of the original."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Lock

from tests.cluster.paths import REPOSITORY
from tests.mutation.mutant import Mutant
from tests.mutation.sources.markers import marker_of
from tests.scratch import owned_for_a_while, remove_left_behind

ERT = "ert:"
CRDS = "charts/efrit-operator/crd-files"
LISP_TESTS = "images/emacs/test/run"
TIMEOUT_SECONDS = 900
# What a mutant keeps from happening is not waited for as long as what a busy machine keeps waiting.
MUTANT_TIMEOUT = 30


_COMPILING = Lock()


def copy_repository(root: Path) -> None:
    """Copy what is in the repository, with a virtual environment whose `efrit` is that."""
    listed = ["git", "-C", str(REPOSITORY), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, check=True, capture_output=True).stdout.decode().split("\0"):
        source = REPOSITORY / name
        if name and source.is_file():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    _make_environment(root)


def _make_environment(root: Path) -> None:
    """Make a virtual environment whose `efrit` is the copy's and whose libraries are the original's."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / ".venv"], check=True)
    libraries = sysconfig.get_path("purelib")
    own = root / ".venv" / Path(libraries).relative_to(sys.prefix)
    # Named before the libraries, so that the editable install among them does not win.
    (own / "copy.pth").write_text(f"{root / 'operator'}\n{libraries}\n")
    for script in Path(sys.executable).parent.glob("efrit-*"):
        text = re.sub(r"\A#!.*", f"#!{python_of(root)}", script.read_text())
        made = python_of(root).with_name(script.name)
        made.write_text(text)
        made.chmod(0o755)


def python_of(root: Path) -> Path:
    """Return the interpreter of a copy."""
    return root / ".venv" / "bin" / "python"


class WarmPytest:
    """What runs pytest in each copy; at first use it imports all it keeps, from a copy at `whole` that stays so."""

    def __init__(self, whole: Path) -> None:
        self._whole = whole
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket, self._its_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def serving(self, root: Path) -> socket.socket:
        """Return a connection to what runs pytest in the copy at `root`."""
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            if self._process is None:
                copy_repository(self._whole)
                descriptor = self._its_socket.fileno()
                module = "tests.mutation.warm_pytest"
                command = [str(python_of(self._whole)), "-m", module, str(TIMEOUT_SECONDS), str(descriptor)]
                self._process = subprocess.Popen(command, cwd=self._whole, pass_fds=[descriptor])
                self._its_socket.close()
            socket.send_fds(self._socket, [str(root).encode()], [theirs.fileno()])
        return ours

    def close(self) -> None:
        """End it; all connections are closed by now."""
        self._socket.close()
        self._its_socket.close()
        if self._process is not None:
            self._process.wait()


class Copy:
    """One copy; `lisp` is an empty directory, and `warm` what runs pytest, that all of them share.

    Programs started in it, and by what runs in it, see its sources and not the original's.
    """

    def __init__(self, root: Path, lisp: Path, warm: WarmPytest) -> None:
        self.root = root
        self._lisp = lisp
        self._compiled: list[str] = []
        self._warm = warm
        self._pytest_here: socket.socket | None = None
        copy_repository(root)

    @property
    def python(self) -> Path:
        return python_of(self.root)

    @contextmanager
    def without(self, mutant: Mutant) -> Iterator[None]:
        """Yield the copy without that step, whole again afterwards."""
        if any(test.startswith(ERT) for test in mutant.tests):
            self._compiled = ["--compiled", str(self._compile_lisp())]
        marker = marker_of(mutant.gate)
        path = self.root / marker.file
        whole = path.read_text()
        replace_text(path, marker.mutate(whole, mutant.operation))
        generated = {file: file.read_text() for file in (self.root / CRDS).iterdir()} if mutant.generates else {}
        try:
            if mutant.generates:
                command = [str(self.python), "-m", "efrit.api.crd", CRDS]
                subprocess.run(command, cwd=self.root, check=True, capture_output=True)
            yield
        finally:
            replace_text(path, whole)
            for file, text in generated.items():
                file.write_text(text)

    def failures(self, tests: tuple[str, ...], *, untouched: bool = False) -> tuple[str, ...]:
        """Run tests and return those that failed; RuntimeError with the output where they could not be run.

        untouched: all that they wait for comes, and may take as long as it does in every other run.
        """
        time_limit = {} if untouched else {"EFRIT_TEST_TIMEOUT": str(MUTANT_TIMEOUT)}
        failed: list[str] = []
        python = tuple(test for test in tests if not test.startswith(ERT))
        if python:
            failed += self._pytest(python, time_limit)
        ert = tuple(test.removeprefix(ERT) for test in tests if test.startswith(ERT))
        if ert:
            failed += self._ert(ert, time_limit)
        return tuple(failed)

    def _compile_lisp(self) -> Path:
        """Return where the untouched Lisp is compiled, once for all copies: a mutant compiles what it may reach."""
        with _COMPILING:
            if not any(self._lisp.iterdir()):
                self._run([LISP_TESTS, "--compile", str(self._lisp)], {}).check_returncode()
        return self._lisp

    def _pytest(self, tests: tuple[str, ...], environment: dict[str, str]) -> list[str]:
        flags = ["-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-rfE"]
        arguments = [*flags, f"--basetemp={self.root / '.venv' / 'tmp'}", *tests]
        code, output = self._warm_pytest(arguments, environment)
        failures = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        if code not in (0, 1) or (code == 1) != bool(failures):
            raise RuntimeError(f"pytest {' '.join(tests)} ended with {code}:\n{output}")
        return failures

    def _connect_pytest(self) -> socket.socket:
        if self._pytest_here is None:
            self._pytest_here = self._warm.serving(self.root)
        return self._pytest_here

    def _warm_pytest(self, arguments: list[str], environment: dict[str, str]) -> tuple[int, str]:
        connection = self._connect_pytest()
        connection.sendall(f"{json.dumps({'arguments': arguments, 'environment': environment})}\n".encode())
        with connection.makefile("r") as answers:
            line = answers.readline()
        if not line:
            raise RuntimeError("what runs pytest ended")
        answer = json.loads(line)
        return answer["code"], answer["output"]

    def close(self) -> None:
        """End what runs pytest here."""
        if self._pytest_here is not None:
            self._pytest_here.close()

    def _ert(self, tests: tuple[str, ...], environment: dict[str, str]) -> list[str]:
        selector = f"(member {' '.join(tests)})"
        done = self._run([LISP_TESTS, *self._compiled, "--", selector], environment)
        failures = re.findall(r"^   FAILED +\d+/\d+ +(\S+)", done.stdout + done.stderr, re.MULTILINE)
        if "Ran 0 tests" in done.stdout + done.stderr or (done.returncode != 0) != bool(failures):
            raise RuntimeError(f"ert {selector} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return list(dict.fromkeys(failures))

    def _run(self, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        whole = {**os.environ, **environment}
        return subprocess.run(
            command, cwd=self.root, env=whole, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )


def replace_text(path: Path, text: str) -> None:
    """Write `text` and give the file a modification time that it never had.

    Bytecode is matched to its source by size and second of modification: a mutant may have both of the original's.
    """
    second = int(path.stat().st_mtime) + 1
    path.write_text(text)
    os.utime(path, (second, second))


@contextmanager
def some_copies(number: int) -> Iterator[list[Copy]]:
    """Yield copies that are gone afterwards."""
    remove_left_behind()
    with owned_for_a_while("mutant") as directory, ExitStack() as stack:
        lisp = directory / "lisp"
        lisp.mkdir()
        warm = stack.enter_context(closing(WarmPytest(directory / "whole")))
        roots = [directory / str(index) for index in range(number)]
        yield [stack.enter_context(closing(Copy(root, lisp, warm))) for root in roots]
