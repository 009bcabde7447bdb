"""Emacs starts from a dump of the libraries that its instance names, and without one where none fits.

A dump takes 4 s of a processor to make: where a test wants one that is there, it gets a copy of the first.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.bridge.trixie import ROOT, fetch
from tests.support.bridge_instance import Instance, until

LIBRARIES = "ediff calendar"
LOADED = (
    "(list (featurep 'ediff) (featurep 'calendar) (and (pdumper-stats) (cdr (assq 'dump-file-name (pdumper-stats)))))"
)
SECRET = "a-secret-of-the-first"

LISP = Path(__file__).parents[3] / "images/emacs/lisp"

Member = Callable[..., Instance]


@dataclass
class Pool:
    """Starts instances that have the same environment, as the members of a pool, each with a name of its own."""

    place: Path
    lisp: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        for name in ("home", "tmp"):
            (self.place / name).mkdir()

    @contextmanager
    def members(self, dumps: Path) -> Iterator[Member]:
        started: list[Instance] = []

        def start(libraries: str = LIBRARIES, *, is_ready: bool = True, **env: str) -> Instance:
            name = f"m{next(self.numbers)}"
            variables = {
                "EFRIT_FAST_START_LIBRARIES": libraries,
                "EFRIT_FAST_START_DIR": str(dumps),
                "EFRIT_INSTANCE_ID": f"test/{name}",
                "EFRIT_DAEMON_NAME": name,
                "HOME": str(self.place / "home"),
                **env,
            }
            instance = Instance(self.place / name, self.lisp, variables, temporary=self.place / "tmp")
            started.append(instance)
            instance.start_bridge()
            instance.spawn_emacs()
            if is_ready:
                until(instance.ready)
            return instance

        try:
            yield start
        finally:
            for instance in started:
                instance.stop()


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory, lisp: Path) -> Pool:
    return Pool(tmp_path_factory.mktemp("pool"), lisp)


@pytest.fixture(scope="module")
def first(pool: Pool) -> Iterator[Instance]:
    """Yield the instance that has made the dump that the others have a copy of."""
    with pool.members(pool.place / "dumps") as start:
        yield start(TOKEN=SECRET)


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    """Return a place without a dump."""
    return tmp_path / "dumps"


@pytest.fixture
def dump(first: Instance, dumps: Path) -> Path:
    """Return a copy of the first dump, in the place of this test."""
    shutil.copytree(first.env["EFRIT_FAST_START_DIR"], dumps)
    [copy] = complete(dumps)
    return copy


@pytest.fixture
def member(pool: Pool, dumps: Path) -> Iterator[Member]:
    with pool.members(dumps) as start:
        yield start


def from_dump(instance: Instance) -> str:
    """Return what LOADED prints in an Emacs that has started from a dump."""
    return f'(t t "{instance.temporary}/efrit-{instance.env["EFRIT_DAEMON_NAME"]}.pdmp")'


def complete(dumps: Path) -> list[Path]:
    return sorted(path for path in dumps.iterdir() if re.fullmatch("[0-9a-f]{64}-[0-9a-f]{64}", path.name))


def log(instance: Instance) -> str:
    return (instance.place / "emacs.log").read_text()


def test_the_first_start_makes_a_dump_and_another_instance_starts_from_it(
    first: Instance, dump: Path, member: Member
) -> None:
    assert first.eval("one", LOADED).result == from_dump(first)
    second = member()
    assert second.eval("one", LOADED).result == from_dump(second)
    assert complete(dump.parent) == [dump]
    assert [log(instance).count("Dump complete") for instance in (first, second)] == [1, 0]
    assert second.eval("two", "(list noninteractive (null after-init-time))").result == "(nil nil)"


def test_of_members_that_start_at_once_one_wins_and_all_start_from_a_dump(member: Member, dumps: Path) -> None:
    members = [member(is_ready=False) for _ in range(2)]
    for instance in members:
        until(instance.ready)
        assert instance.eval("one", LOADED).result == from_dump(instance), log(instance)
    assert [path.name for path in dumps.iterdir()] == [dump.name for dump in complete(dumps)]
    assert len(complete(dumps)) == 1


def test_a_dump_with_one_bit_flipped_is_made_anew(member: Member, dump: Path) -> None:
    """Wherever it is: the digest is of the whole file (tests/unit/bridge/test_run_emacs_fast_start.py)."""
    text = bytearray((dump / "emacs.pdmp").read_bytes())
    text[-100] ^= 1
    (dump / "emacs.pdmp").write_bytes(text)
    instance = member()
    assert instance.eval("one", LOADED).result == from_dump(instance), log(instance)
    assert "is damaged" in log(instance)


def test_a_dump_that_emacs_does_not_take_is_left_for_a_usual_start(member: Member, dump: Path) -> None:
    (dump / "emacs.pdmp").write_bytes(b"of another Emacs")
    # Its digest is right, so only Emacs finds out.
    (dump / "sum").write_text(hashlib.sha256(b"of another Emacs").hexdigest())
    instance = member()
    assert ".pdmp" not in (instance.eval("one", LOADED).result or "").replace("emacs.pdmp", "")
    assert instance.eval("two", "(featurep 'ediff)").result == "t"
    assert "starts without one" in log(instance)
    assert (dump.parent / f"failed-{dump.name}").exists()


def test_a_library_that_is_missing_keeps_no_instance_from_serving(member: Member, dumps: Path) -> None:
    instance = member("ediff no-such-library")
    assert instance.eval("one", "(featurep 'ediff)").result == "t"
    assert "no dump could be made" in log(instance)
    assert "efrit-fast-start: no-such-library: " in log(instance)
    assert complete(dumps) == []


def test_a_library_that_cannot_be_dumped_is_loaded_at_each_start(member: Member, dumps: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/starts.el").write_text(
        '(make-process :name "one" :command \'("cat") :noquery t)(provide \'starts)'
    )
    instance = member("ediff starts", EMACSLOADPATH=f"{tmp_path}/site:")
    assert instance.eval("one", '(list (featurep \'ediff) (processp (get-process "one")))').result == "(t t)"
    assert "A library has started a process" in log(instance)
    assert "no dump could be made" in log(instance)
    assert complete(dumps) == []


def test_an_instance_gets_none_of_the_variables_of_the_one_that_made_the_dump(
    first: Instance, dump: Path, member: Member
) -> None:
    assert first.eval("token", '(getenv "TOKEN")').result == f'"{SECRET}"'
    assert SECRET.encode() not in (dump / "emacs.pdmp").read_bytes()
    second = member()
    names = '(list (getenv "TOKEN") (getenv "EFRIT_DAEMON_NAME"))'
    assert second.eval("one", names).result == f'(nil "{second.env["EFRIT_DAEMON_NAME"]}")'


def test_a_disk_that_is_full_while_a_dump_is_made_keeps_no_instance_from_serving(
    lisp: Path, dumps: Path, tmp_path: Path
) -> None:
    # Its free space is asked of a program that knows nothing of it.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/df").write_text("#!/bin/sh\necho header\necho none 1 1 9999999\n")
    (tmp_path / "bin/df").chmod(0o755)
    dumps.mkdir()
    small = (
        f"mount -t tmpfs -o size=8m none {shlex.quote(str(dumps))}; PATH={shlex.quote(str(tmp_path / 'bin'))}:$PATH"
    )
    wrap = ("unshare", "--mount", "sh", "-ec", f'{small} exec "$@"', "sh")
    variables = {"EFRIT_FAST_START_LIBRARIES": LIBRARIES, "EFRIT_FAST_START_DIR": str(dumps)}
    with Instance(tmp_path / "instance", lisp, variables, wrap) as instance:
        assert (instance.eval("one", LOADED).result or "").startswith("(t t ")
        assert "no dump could be made" in log(instance)


def test_an_emacs_that_ends_starts_from_the_dump_again(member: Member, dump: Path) -> None:
    assert dump.exists()
    instance = member()
    pid = instance.emacs_pid()
    instance.put("ends", "(kill-emacs)")
    until(lambda: instance.ready() and instance.stats().emacs.pid != pid)
    assert instance.eval("one", LOADED).result == from_dump(instance)


INSIDE = """
case "$*" in *run-emacs*) ;; *) exec "$@" ;; esac
mount --bind /proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root$base"
mount --bind "$base" "$root$base"
exec chroot "$root" "$@"
"""


def test_an_emacs_30_makes_a_dump_and_starts_from_it(tmp_path: Path, dumps: Path) -> None:
    """run-emacs and all it calls are those of Debian trixie: what a dump was made of is there alone."""
    fetch()
    variables = {"EFRIT_FAST_START_LIBRARIES": LIBRARIES, "EFRIT_FAST_START_DIR": str(dumps)}
    names = f"root={shlex.quote(str(ROOT))} base={shlex.quote(str(tmp_path))}; "
    wrap = ("unshare", "--mount", "sh", "-ec", names + INSIDE, "sh")
    with Instance(tmp_path / "i", LISP, variables, wrap) as instance:
        assert instance.eval("version", "emacs-major-version").result == "30"
        [dump] = complete(dumps)
        pid = instance.emacs_pid()
        instance.put("ends", "(kill-emacs)")
        until(lambda: instance.ready() and instance.stats().emacs.pid != pid)
        assert instance.eval("one", LOADED).result == f'(t t "{tmp_path}/i/tmp/efrit-efrit.pdmp")', log(instance)
        assert (log(instance).count("Dump complete"), complete(dumps)) == (1, [dump])
