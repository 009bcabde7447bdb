"""A copy of the repository to break: its own sources, the installed libraries of the original."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster.paths import REPOSITORY
from tests.mutation.mutant import Mutant
from tests.mutation.sources.markers import marker_of

ERT = "ert:"
LISP_TESTS = "images/emacs/test/run"
TIMEOUT_SECONDS = 300
# What a mutant keeps from happening is not waited for as long as what a busy machine keeps waiting.
MUTANT_TIMEOUT = 30


class Copy:
    """One copy. Programs started in it, and by what runs in it, see its sources and not the original's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._compiled: list[str] = []
        listed = ["git", "-C", str(REPOSITORY), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(listed, check=True, capture_output=True).stdout.decode().split("\0"):
            source = REPOSITORY / name
            if name and source.is_file():
                target = root / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        self._make_environment()

    def _make_environment(self) -> None:
        """A virtual environment whose `efrit` is the copy's and whose libraries are the original's."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.root / ".venv"], check=True)
        libraries = sysconfig.get_path("purelib")
        own = self.root / ".venv" / Path(libraries).relative_to(sys.prefix)
        # Named before the libraries, so that the editable install among them does not win.
        (own / "copy.pth").write_text(f"{self.root / 'operator'}\n{libraries}\n")
        for script in Path(sys.executable).parent.glob("efrit-*"):
            text = re.sub(r"\A#!.*", f"#!{self.python}", script.read_text())
            made = self.python.with_name(script.name)
            made.write_text(text)
            made.chmod(0o755)

    @property
    def python(self) -> Path:
        return self.root / ".venv" / "bin" / "python"

    @contextmanager
    def without(self, mutant: Mutant) -> Iterator[None]:
        """The copy without that step, whole again afterwards."""
        if any(test.startswith(ERT) for test in mutant.tests):
            self._compiled = ["--compiled", str(self._compile_lisp())]
        marker = marker_of(mutant.gate)
        path = self.root / marker.file
        whole = path.read_text()
        replace_text(path, marker.mutate(whole, mutant.operation))
        self._generate(mutant)
        try:
            yield
        finally:
            replace_text(path, whole)
            self._generate(mutant)

    def _generate(self, mutant: Mutant) -> None:
        if mutant.generates:
            command = [str(self.python), "-m", "efrit.api.crd", "charts/efrit-operator/crd-files"]
            subprocess.run(command, cwd=self.root, check=True, capture_output=True)

    def failures(self, tests: tuple[str, ...]) -> tuple[str, ...]:
        """Run tests and return those that failed; RuntimeError with the output where they could not be run."""
        failed: list[str] = []
        python = tuple(each for each in tests if not each.startswith(ERT))
        if python:
            failed += self._pytest(python)
        ert = tuple(each.removeprefix(ERT) for each in tests if each.startswith(ERT))
        if ert:
            failed += self._ert(ert)
        return tuple(failed)

    def _compile_lisp(self) -> Path:
        """Return where the untouched Lisp is compiled, once: a mutant then compiles what it may reach."""
        compiled = self.root / ".venv" / "lisp"
        if not compiled.is_dir():
            with TemporaryDirectory() as part:
                self._run([LISP_TESTS, "--compile", part]).check_returncode()
                shutil.copytree(part, compiled)
        return compiled

    def _pytest(self, tests: tuple[str, ...]) -> list[str]:
        flags = ["-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-rfE"]
        done = self._run([str(self.python), "-m", "pytest", *flags, *tests])
        found = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        if done.returncode not in (0, 1) or (done.returncode == 1) != bool(found):
            raise RuntimeError(f"pytest {' '.join(tests)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return found

    def _ert(self, tests: tuple[str, ...]) -> list[str]:
        selector = f"(member {' '.join(tests)})"
        done = self._run([LISP_TESTS, *self._compiled, "--", selector])
        found = re.findall(r"^   FAILED +\d+/\d+ +(\S+)", done.stdout + done.stderr, re.MULTILINE)
        if "Ran 0 tests" in done.stdout + done.stderr or (done.returncode != 0) != bool(found):
            raise RuntimeError(f"ert {selector} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return list(dict.fromkeys(found))

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "EFRIT_TEST_TIMEOUT": str(MUTANT_TIMEOUT)}
        return subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )


def replace_text(path: Path, text: str) -> None:
    """Write `text` and give the file a modification time that it never had.

    Bytecode is matched to its source by size and second of modification: a mutant may have both of the original's.
    """
    second = int(path.stat().st_mtime) + 1
    path.write_text(text)
    os.utime(path, (second, second))


@contextmanager
def a_copy() -> Iterator[Copy]:
    """A copy that is gone afterwards."""
    with TemporaryDirectory(prefix="efrit-mutant-") as directory:
        yield Copy(Path(directory))
