"""Emacs starts from a dump of the libraries that its instance names, and without one where none fits."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tests.integration.bridge.conftest import Make
from tests.support.bridge_instance import Instance, until

LOADED = "(list (featurep 'org) (featurep 'ediff) (and (pdumper-stats) (cdr (assq 'dump-file-name (pdumper-stats)))))"


def variables(dumps: Path, libraries: str = "org ediff") -> dict[str, str]:
    return {"EFRIT_FAST_START_LIBRARIES": libraries, "EFRIT_FAST_START_DIR": str(dumps)}


def complete(dumps: Path) -> list[Path]:
    return sorted(path for path in dumps.iterdir() if re.fullmatch("[0-9a-f]{64}", path.name))


def log(instance: Instance) -> str:
    return (instance.place / "emacs.log").read_text()


def test_the_first_start_makes_a_dump_and_another_instance_starts_from_it(make: Make, tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    first = make(**variables(dumps))
    [dump] = complete(dumps)
    value = f't t "{dump}/emacs.pdmp"'
    assert first.eval("one", LOADED).result == f"({value})"
    second = make(**variables(dumps))
    assert second.eval("one", LOADED).result == f"({value})"
    assert complete(dumps) == [dump]
    assert [log(instance).count("Dump complete") for instance in (first, second)] == [1, 0]
    assert second.eval("two", "(list noninteractive (null after-init-time))").result == "(nil nil)"


def test_a_dump_that_is_damaged_is_made_anew(make: Make, tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    make(**variables(dumps))
    [dump] = complete(dumps)
    # A file of its own: a running Emacs has the other one mapped.
    (dump / "half").write_bytes((dump / "emacs.pdmp").read_bytes()[:100_000])
    (dump / "half").replace(dump / "emacs.pdmp")
    instance = make(**variables(dumps))
    assert instance.eval("one", LOADED).result == f'(t t "{dump}/emacs.pdmp")', log(instance)
    assert "is damaged" in log(instance)


def test_a_dump_that_emacs_does_not_take_is_left_for_a_usual_start(make: Make, tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    make(**variables(dumps))
    [dump] = complete(dumps)
    (dump / "other").write_bytes(b"of another Emacs")
    (dump / "other").replace(dump / "emacs.pdmp")
    # Its list is right, so only Emacs finds out.
    digest = hashlib.sha256(b"of another Emacs").hexdigest()
    (dump / "sums").write_text(f"{digest}  emacs.pdmp\n")
    instance = make(**variables(dumps))
    assert str(dump) not in (instance.eval("one", LOADED).result or "")
    assert instance.eval("two", "(featurep 'org)").result == "t"
    assert "starts without one" in log(instance)
    assert (dumps / f"failed-{dump.name}").exists()


def test_a_library_that_is_missing_keeps_no_instance_from_serving(make: Make, tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    instance = make(**variables(dumps, "org no-such-library"))
    assert instance.eval("one", "(featurep 'org)").result == "t"
    assert "no dump could be made" in log(instance)
    assert complete(dumps) == []


def test_an_emacs_that_ends_starts_from_the_dump_again(make: Make, tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    instance = make(**variables(dumps))
    pid = instance.emacs_pid()
    instance.put("ends", "(kill-emacs)")
    until(lambda: instance.ready() and instance.stats().emacs.pid != pid)
    assert str(dumps) in (instance.eval("one", LOADED).result or "")
