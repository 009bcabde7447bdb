"""Which dump run-emacs has Emacs start from, and what becomes of one that does not fit; programs in Emacs's place."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes import is_running
from tests.support.timeout import TIMEOUT
from tests.unit.bridge.conftest import program, put_whole
from tests.unit.bridge.run_emacs_log import SERVES, Starter, lines, until

DUMPING = """case "$*" in *efrit-fast-start-dump*)
  made=$(echo "$*" | sed 's/.*efrit-fast-start-dump "\\([^"]*\\)".*/\\1/')
  cat {place}/loaded > "$made/files"; cat {place}/searched > "$made/directories"
  {then}
  echo dump > "$made/emacs.pdmp"; exit 0;;
esac
"""


def dumping(place: Path, then: str = ":") -> str:
    """Return the lines of an Emacs whose dump is a line of text; it does THEN while it makes one."""
    return DUMPING.format(place=place, then=then)


def fast_start(place: Path, **other: str) -> dict[str, str]:
    """Return the variables of a fast start from a library in a directory of its own."""
    (place / "shared/lisp/efrit-fast-start.el").touch()
    (place / "site").mkdir(exist_ok=True)
    (place / "site/org.el").touch()
    put_whole(place / "loaded", f"{place}/site/org.el\n")
    put_whole(place / "searched", f"{place}/site\n")
    (place / "tmp").mkdir(exist_ok=True)
    return {
        "EFRIT_FAST_START_LIBRARIES": "org",
        "EFRIT_FAST_START_DIR": str(place / "dumps"),
        "EFRIT_INSTANCE_ID": "team/one",
        "TMPDIR": str(place / "tmp"),
        **other,
    }


def daemons(place: Path) -> list[bool]:
    """Return for each start of a daemon whether it was from a dump."""
    return ["--dump-file=" in line for line in lines(place) if line.startswith("--fg-daemon")]


def makers(place: Path) -> int:
    return sum("efrit-fast-start-dump" in line for line in lines(place))


def entries(place: Path) -> list[str]:
    """Return what there is of dumps, digests left out, the newest first."""
    paths = sorted((place / "dumps").iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    return [re.sub("[0-9a-f]{64}", "#", path.name) for path in paths]


def made(place: Path) -> Path:
    [dump] = (place / "dumps").glob("[0-9a-f]*")
    return dump


def ended(process: subprocess.Popen[str]) -> str:
    """End it; return what it has logged."""
    process.terminate()
    assert process.wait(TIMEOUT) == 0
    assert process.stderr is not None
    return process.stderr.read()


def until_daemons(place: Path, count: int) -> None:
    until(lambda: len(daemons(place)) == count)


def said(log: str) -> list[str]:
    """Return what run-emacs has logged, without the names of dumps."""
    lines = [line.removeprefix("run-emacs: ") for line in log.splitlines() if line.startswith("run-emacs: ")]
    return [line.partition(" the dump ")[0] for line in lines]


def test_the_daemon_starts_from_a_copy_of_the_dump_that_was_made_first(start: Starter, place: Path) -> None:
    process = start(f"{dumping(place)}{SERVES}", **fast_start(place))
    until_daemons(place, 1)
    assert "efrit-fast-start-dump" in lines(place)[0]
    assert f"--dump-file={place}/tmp/efrit-efrit.pdmp" in lines(place)[1]
    assert (place / "tmp/efrit-efrit.pdmp").read_text() == "dump\n"
    assert entries(place) == ["#-#"]
    # What it has logged says why, where its Emacs did not live until then.
    assert said(ended(process)) == ["made", "Emacs starts from"]
    process = start(f"{dumping(place)}{SERVES}", **fast_start(place))
    until_daemons(place, 2)
    assert (daemons(place), makers(place)) == ([True, True], 1), ended(process)


def test_what_becomes_of_a_dump_does_not_matter_to_the_emacs_that_has_started_from_it(
    start: Starter, place: Path
) -> None:
    start(f"{dumping(place)}{SERVES}", **fast_start(place))
    until_daemons(place, 1)
    (made(place) / "emacs.pdmp").write_text("")
    assert (place / "tmp/efrit-efrit.pdmp").read_text() == "dump\n"


def test_a_dump_that_is_gone_is_not_named_to_the_next_emacs(start: Starter, place: Path) -> None:
    start(
        f"{dumping(place)}[ $(grep -c ^--fg-daemon {place}/log) -ge 2 ] && {SERVES}; "
        f"rm {place}/dumps/*/emacs.pdmp; echo a 1 x >> {place}/claims.log; exit 3",
        **fast_start(place),
        EFRIT_QUEUE_DIR=str(place),
    )
    until_daemons(place, 2)
    assert daemons(place) == [True, False]


@pytest.mark.parametrize("damaged", ["Dump\n", "dumb\n", "dump"], ids=["first", "amid", "last"])
def test_a_dump_with_another_digest_is_made_anew(start: Starter, place: Path, damaged: str) -> None:
    ended(start_served(start, place))
    (made(place) / "emacs.pdmp").write_text(damaged)
    process = start(f"{dumping(place)}{SERVES}", **fast_start(place))
    until_daemons(place, 2)
    assert (daemons(place), makers(place), entries(place)) == ([True, True], 2, ["#-#"])
    assert (place / "tmp/efrit-efrit.pdmp").read_text() == "dump\n"
    assert "is damaged" in ended(process)


def start_served(start: Starter, place: Path, **other: str) -> subprocess.Popen[str]:
    """Start an instance, and wait until its daemon runs."""
    before = len(daemons(place))
    process = start(f"{dumping(place)}{SERVES}", **fast_start(place, **other))
    until_daemons(place, before + 1)
    return process


@pytest.mark.parametrize("damaged", ["files", "directories", "sum"])
def test_a_dump_whose_own_lists_are_damaged_is_replaced(start: Starter, place: Path, damaged: str) -> None:
    ended(start_served(start, place))
    (made(place) / damaged).write_text("/no/such/file\n")
    ended(start_served(start, place))
    assert (daemons(place), makers(place), entries(place)) == ([True, True], 2, ["#-#"])
    start_served(start, place)
    assert (daemons(place), makers(place)) == ([True] * 3, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda place: (place / "site/org.el").write_text("newer"),
        lambda place: (place / "site/org.elc").touch(),
        lambda place: (place / "site/calendar.el.gz").touch(),
    ],
    ids=["another text", "a compiled one", "another library"],
)
def test_a_dump_is_made_anew_where_its_files_have_changed(
    start: Starter, place: Path, change: Callable[[Path], object]
) -> None:
    ended(start_served(start, place))
    change(place)
    ended(start_served(start, place))
    assert (daemons(place), makers(place), entries(place)) == ([True, True], 2, ["#-#", "#-#"])


def test_members_of_two_revisions_each_keep_their_dump(start: Starter, place: Path) -> None:
    """The same Emacs and list of libraries, of which one image has another version."""
    for version in ("1", "2", "1", "2"):
        variables = fast_start(place)
        (place / "site/org.el").write_text(version)
        before = len(daemons(place))
        process = start(f"{dumping(place)}{SERVES}", **variables)
        until_daemons(place, before + 1)
        ended(process)
    assert (daemons(place), makers(place)) == ([True] * 4, 2)


@pytest.mark.parametrize(
    "other",
    [{"EFRIT_FAST_START_LIBRARIES": "org ediff"}, {"EMACSLOADPATH": "/opt/site:"}, {"EFRIT_INIT_FILE": "/init.el"}],
    ids=["libraries", "load path", "init file"],
)
def test_a_dump_is_for_one_list_of_libraries_and_one_environment(
    start: Starter, place: Path, other: dict[str, str]
) -> None:
    ended(start_served(start, place))
    ended(start_served(start, place, **other))
    assert (daemons(place), makers(place)) == ([True, True], 2)


def test_a_dump_of_another_emacs_is_not_used(start: Starter, place: Path) -> None:
    ended(start_served(start, place))
    start(f"{dumping(place)}: another build; {SERVES}", **fast_start(place))
    until_daemons(place, 2)
    assert (daemons(place), makers(place)) == ([True, True], 2)


def test_no_more_than_two_dumps_are_kept(start: Starter, place: Path) -> None:
    for libraries in ("org", "ediff", "gnus", "org"):
        ended(start_served(start, place, EFRIT_FAST_START_LIBRARIES=libraries))
    assert entries(place) == ["#-#", "#-#"]
    # The one of org was removed for that of gnus.
    assert (daemons(place), makers(place)) == ([True] * 4, 4)


def test_who_makes_a_dump_sees_no_variables_of_the_instance(start: Starter, place: Path) -> None:
    variables = fast_start(place, TOKEN="secret", EMACSLOADPATH="/a b:")
    start(f"{dumping(place, f'env > {place}/environment')}{SERVES}", **variables)
    until_daemons(place, 1)
    names = {line.partition("=")[0] for line in (place / "environment").read_text().splitlines()}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {
        "PATH",
        "TMPDIR",
        "EMACSLOADPATH",
        "EFRIT_FAST_START_LIBRARIES",
    }
    assert "EMACSLOADPATH=/a b:\n" in (place / "environment").read_text()


def test_of_two_makers_at_once_one_wins_and_both_start_from_a_dump(start: Starter, place: Path) -> None:
    # Half of it is there until both are at it.
    then = (
        f'echo du > "$made/emacs.pdmp"; echo >> {place}/at; '
        f"until [ $(wc -l < {place}/at) -ge 2 ]; do sleep 0.01; done"
    )
    one = start(f"{dumping(place, then)}{SERVES}", **fast_start(place))
    other = start(
        f"{dumping(place, then)}{SERVES}",
        **fast_start(place, EFRIT_INSTANCE_ID="team/two", EFRIT_DAEMON_NAME="two"),
    )
    until_daemons(place, 2)
    assert (daemons(place), makers(place), entries(place)) == ([True, True], 2, ["#-#"])
    assert [(place / f"tmp/efrit-{name}.pdmp").read_text() for name in ("efrit", "two")] == ["dump\n"] * 2
    assert [said(ended(process)) for process in (one, other)] == [["made", "Emacs starts from"]] * 2


def test_a_maker_that_fails_beside_one_that_does_not_starts_from_the_others_dump(start: Starter, place: Path) -> None:
    then = f"if mkdir {place}/first 2>/dev/null; then until [ -e {place}/go ]; do sleep 0.01; done; exit 1; fi"
    start(f"{dumping(place, then)}{SERVES}", **fast_start(place))
    until((place / "first").exists)
    start(
        f"{dumping(place, then)}{SERVES}",
        **fast_start(place, EFRIT_INSTANCE_ID="team/two", EFRIT_DAEMON_NAME="two"),
    )
    until_daemons(place, 1)
    (place / "go").touch()
    until_daemons(place, 2)
    assert (daemons(place), makers(place)) == ([True, True], 2)


def test_a_dump_that_cannot_be_copied_is_not_used_and_not_made_anew(start: Starter, place: Path) -> None:
    ended(start_served(start, place))
    variables = fast_start(place)
    shutil.rmtree(place / "tmp")
    process = start(f"{dumping(place)}{SERVES}", **variables)
    until_daemons(place, 2)
    assert (daemons(place), makers(place), entries(place)) == ([True, False], 1, ["#-#"])
    assert "cannot be copied" in ended(process)


def test_without_a_place_for_dumps_the_libraries_are_loaded(start: Starter, place: Path) -> None:
    (place / "dumps").touch()
    process = start(f"{dumping(place)}{SERVES}", **fast_start(place))
    until_daemons(place, 1)
    assert (daemons(place), makers(place)) == ([False], 0)
    assert "efrit-fast-start-load" in lines(place)[0]
    assert "no dump can be used" in ended(process)


def test_after_an_emacs_that_ends_right_after_its_start_from_a_dump_it_starts_without(
    start: Starter, place: Path
) -> None:
    process = start(f'{dumping(place)}case "$*" in *--dump-file*) exit 3;; esac; {SERVES}', **fast_start(place))
    until_daemons(place, 2)
    assert daemons(place) == [True, False]
    assert process.poll() is None
    assert "its start from the dump" in ended(process)


def test_a_dump_that_emacs_has_ended_with_is_used_by_nobody(start: Starter, place: Path) -> None:
    emacs = f'{dumping(place)}case "$*" in *--dump-file*) exit 3;; esac; {SERVES}'
    ended_after(start(emacs, **fast_start(place)), place, 2)
    ended_after(start(emacs, **fast_start(place)), place, 3)
    assert (daemons(place), makers(place)) == ([True, False, False], 1)


def ended_after(process: subprocess.Popen[str], place: Path, count: int) -> None:
    until_daemons(place, count)
    ended(process)


@pytest.mark.parametrize("has_served", [False, True])
def test_an_emacs_that_ends_later_without_having_served_starts_without_a_dump(
    start: Starter, place: Path, has_served: bool
) -> None:
    # Ten seconds pass whenever somebody looks at the clock.
    program(place, "date", f"echo >> {place}/looks\necho $(( $(wc -l < {place}/looks) * 10 ))")
    serves = f"echo beat >> {place}/heartbeat" if has_served else ":"
    second = f"[ $(grep -c ^--fg-daemon {place}/log) -ge 2 ] && {SERVES}"
    start(f"{dumping(place)}{second}; {serves}; exit 3", **fast_start(place), EFRIT_QUEUE_DIR=str(place))
    until_daemons(place, 2)
    assert daemons(place) == [True, has_served]


def test_where_no_dump_can_be_made_the_daemon_starts_without_and_it_is_not_tried_again(
    start: Starter, place: Path
) -> None:
    failing = f"{dumping(place, 'exit 1')}{SERVES}"
    process = start(failing, **fast_start(place))
    until_daemons(place, 1)
    assert "no dump could be made (status 1)" in ended(process)
    start(failing, **fast_start(place))
    until_daemons(place, 2)
    assert (daemons(place), makers(place), entries(place)) == ([False, False], 1, ["failed-#"])


def test_after_a_day_it_is_tried_again(start: Starter, place: Path) -> None:
    ended(start_failing(start, place))
    [failed] = (place / "dumps").iterdir()
    day_ago = time.time() - 1442 * 60
    os.utime(failed, (day_ago, day_ago))
    start_failing(start, place)
    until_daemons(place, 2)
    assert makers(place) == 2


def start_failing(start: Starter, place: Path) -> subprocess.Popen[str]:
    before = len(daemons(place))
    process = start(f"{dumping(place, 'exit 1')}{SERVES}", **fast_start(place))
    until_daemons(place, before + 1)
    return process


def test_a_dump_that_is_too_large_is_none(start: Starter, place: Path) -> None:
    process = start(f"{dumping(place, 'truncate -s 257M $made/half || exit')}{SERVES}", **fast_start(place))
    until_daemons(place, 1)
    assert (daemons(place), entries(place)) == ([False], ["failed-#"])
    assert "no dump could be made" in ended(process)


def test_where_little_is_free_no_dump_is_made(start: Starter, place: Path) -> None:
    program(place, "df", "echo header; echo /dev/sda 600000 88000 512000 15% /")
    process = start(f"{dumping(place)}{SERVES}", **fast_start(place))
    until_daemons(place, 1)
    assert (daemons(place), makers(place), entries(place)) == ([False], 0, [])
    assert "less than 512 MiB free" in ended(process)


def test_asked_to_stop_while_a_dump_is_made_it_ends_the_maker_and_leaves_nothing(start: Starter, place: Path) -> None:
    process = start(f"{dumping(place, f'echo $$ > {place}/maker; {SERVES}')}{SERVES}", **fast_start(place))
    until(lambda: (place / "maker").exists() and (place / "maker").read_text())
    ended(process)
    assert (daemons(place), entries(place)) == ([], [])
    assert not is_running(int((place / "maker").read_text()))


def test_a_dump_whose_maker_was_killed_is_not_tried_again_at_once(start: Starter, place: Path) -> None:
    """What kills a maker, such as a limit of memory, may kill the next one as well: it would never serve."""
    emacs = f"{dumping(place, f'[ -e {place}/maker ] || {{ echo $PPID > {place}/maker; {SERVES}; }}')}{SERVES}"
    process = start(emacs, **fast_start(place))
    until(lambda: (place / "maker").exists() and (place / "maker").read_text())
    process.kill()
    process.wait()
    os.killpg(int((place / "maker").read_text()), signal.SIGKILL)
    [left] = entries(place)
    assert left.startswith("making-#-")
    second = start(emacs, **fast_start(place))
    until_daemons(place, 1)
    assert (daemons(place), makers(place), entries(place)) == ([False], 1, ["failed-#"])
    assert "was killed" in ended(second)
    # Another instance's attempt goes on meanwhile, and one of its own would be its first.
    next((place / "dumps").iterdir()).unlink()
    start(emacs, **fast_start(place, EFRIT_INSTANCE_ID="team/two"))
    until_daemons(place, 2)
    assert daemons(place) == [False, True]


def test_what_a_killed_maker_has_left_goes_after_an_hour(start: Starter, place: Path) -> None:
    variables = fast_start(place)
    (place / "dumps").mkdir()
    hour_ago = time.time() - 62 * 60
    for name, age in (("making-old", hour_ago), ("making-new", time.time())):
        (place / "dumps" / name).mkdir()
        os.utime(place / "dumps" / name, (age, age))
    start(f"{dumping(place)}{SERVES}", **variables)
    until_daemons(place, 1)
    assert sorted(entries(place)) == ["#-#", "making-new"]
