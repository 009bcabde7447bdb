"""Emacs starts from a dump of the libraries that its instance names, and without one where none fits."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.bridge.trixie import ROOT, fetch
from tests.support.bridge_instance import Instance, until

LOADED = "(list (featurep 'org) (featurep 'ediff) (and (pdumper-stats) (cdr (assq 'dump-file-name (pdumper-stats)))))"

LISP = Path(__file__).parents[3] / "images/emacs/lisp"

Member = Callable[..., Instance]


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    return tmp_path / "dumps"


@pytest.fixture
def member(tmp_path: Path, lisp: Path, dumps: Path) -> Iterator[Member]:
    """Instances that share dumps and have the same environment, as the members of a pool."""
    members: list[Instance] = []
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()

    def start(libraries: str = "org ediff", *, is_ready: bool = True, **env: str) -> Instance:
        name = f"m{len(members)}"
        variables = {
            "EFRIT_FAST_START_LIBRARIES": libraries,
            "EFRIT_FAST_START_DIR": str(dumps),
            "EFRIT_INSTANCE_ID": f"test/{name}",
            "EFRIT_DAEMON_NAME": name,
            "HOME": str(tmp_path / "home"),
            **env,
        }
        instance = Instance(tmp_path / name, lisp, variables, temporary=tmp_path / "tmp")
        members.append(instance)
        instance.start_bridge()
        instance.spawn_emacs()
        if is_ready:
            until(instance.ready)
        return instance

    yield start
    for instance in members:
        instance.stop()


def from_dump(instance: Instance) -> str:
    """Return what LOADED prints in an Emacs that has started from a dump."""
    return f'(t t "{instance.temporary}/efrit-{instance.env["EFRIT_DAEMON_NAME"]}.pdmp")'


def complete(dumps: Path) -> list[Path]:
    return sorted(path for path in dumps.iterdir() if re.fullmatch("[0-9a-f]{64}-[0-9a-f]{64}", path.name))


def log(instance: Instance) -> str:
    return (instance.place / "emacs.log").read_text()


def test_the_first_start_makes_a_dump_and_another_instance_starts_from_it(member: Member, dumps: Path) -> None:
    first = member()
    [dump] = complete(dumps)
    assert first.eval("one", LOADED).result == from_dump(first)
    second = member()
    assert second.eval("one", LOADED).result == from_dump(second)
    assert complete(dumps) == [dump]
    assert [log(instance).count("Dump complete") for instance in (first, second)] == [1, 0]
    assert second.eval("two", "(list noninteractive (null after-init-time))").result == "(nil nil)"


def test_of_members_that_start_at_once_one_wins_and_all_start_from_a_dump(member: Member, dumps: Path) -> None:
    members = [member(is_ready=False) for _ in range(3)]
    for instance in members:
        until(instance.ready)
        assert instance.eval("one", LOADED).result == from_dump(instance), log(instance)
    assert [path.name for path in dumps.iterdir()] == [dump.name for dump in complete(dumps)]
    assert len(complete(dumps)) == 1


@pytest.mark.parametrize("place", [100, 100_000, -100])
def test_a_dump_with_one_bit_flipped_is_made_anew(member: Member, dumps: Path, place: int) -> None:
    member()
    [dump] = complete(dumps)
    text = bytearray((dump / "emacs.pdmp").read_bytes())
    text[place] ^= 1
    (dump / "emacs.pdmp").write_bytes(text)
    instance = member()
    assert instance.eval("one", LOADED).result == from_dump(instance), log(instance)
    assert "is damaged" in log(instance)


def test_a_dump_that_emacs_does_not_take_is_left_for_a_usual_start(member: Member, dumps: Path) -> None:
    member()
    [dump] = complete(dumps)
    (dump / "emacs.pdmp").write_bytes(b"of another Emacs")
    # Its digest is right, so only Emacs finds out.
    (dump / "sum").write_text(hashlib.sha256(b"of another Emacs").hexdigest())
    instance = member()
    assert ".pdmp" not in (instance.eval("one", LOADED).result or "").replace("emacs.pdmp", "")
    assert instance.eval("two", "(featurep 'org)").result == "t"
    assert "starts without one" in log(instance)
    assert (dumps / f"failed-{dump.name}").exists()


def test_a_library_that_is_missing_keeps_no_instance_from_serving(member: Member, dumps: Path) -> None:
    instance = member("org no-such-library")
    assert instance.eval("one", "(featurep 'org)").result == "t"
    assert "no dump could be made" in log(instance)
    assert "efrit-fast-start: no-such-library: " in log(instance)
    assert complete(dumps) == []


def test_a_library_that_cannot_be_dumped_is_loaded_at_each_start(member: Member, dumps: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/starts.el").write_text(
        '(make-process :name "one" :command \'("cat") :noquery t)(provide \'starts)'
    )
    instance = member("org starts", EMACSLOADPATH=f"{tmp_path}/site:")
    assert instance.eval("one", '(list (featurep \'org) (processp (get-process "one")))').result == "(t t)"
    assert "A library has started a process" in log(instance)
    assert "no dump could be made" in log(instance)
    assert complete(dumps) == []


def test_an_instance_gets_none_of_the_variables_of_the_one_that_made_the_dump(member: Member, dumps: Path) -> None:
    first = member(TOKEN="a-secret-of-the-first")
    assert first.eval("one", '(getenv "TOKEN")').result == '"a-secret-of-the-first"'
    [dump] = complete(dumps)
    assert b"a-secret-of-the-first" not in (dump / "emacs.pdmp").read_bytes()
    second = member()
    names = '(list (getenv "TOKEN") (getenv "EFRIT_DAEMON_NAME"))'
    assert second.eval("one", names).result == '(nil "m1")'


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
    variables = {"EFRIT_FAST_START_LIBRARIES": "org ediff", "EFRIT_FAST_START_DIR": str(dumps)}
    with Instance(tmp_path / "instance", lisp, variables, wrap) as instance:
        assert (instance.eval("one", LOADED).result or "").startswith("(t t ")
        assert "no dump could be made" in log(instance)


def test_an_emacs_that_ends_starts_from_the_dump_again(member: Member) -> None:
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
    variables = {"EFRIT_FAST_START_LIBRARIES": "org ediff", "EFRIT_FAST_START_DIR": str(dumps)}
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
