"""The claim journal: torn lines, growth, and a new one begun while Emacs appends."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.protocol import RequestState
from efrit.queue.durable import Disk
from efrit.queue.journal import COMPACT_ABOVE_BYTES, MAX_LINE_BYTES, Claim, ClaimJournal, parse_claims
from efrit.queue.observe import IndexedRequest
from tests.support.file_modes import modes_hold
from tests.support.queue_fakes import TestDisk, rid


@pytest.fixture
def disk(root: Path) -> Disk:
    made = Disk(root)
    made.open()
    return made


@pytest.fixture
def journal(disk: Disk) -> ClaimJournal:
    made = ClaimJournal(disk)
    made.open()
    return made


def append(root: Path, text: str) -> None:
    with (root / "claims.log").open("a") as file:
        file.write(text)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_claims_or_passed_over(data: bytes) -> None:
    assert all(isinstance(claim, Claim) for claim in parse_claims(data))


def test_torn_and_foreign_lines_are_passed_over() -> None:
    data = b"a 1 boot\nnonsense\n../x 1 boot\nb two boot\nb 2 boot\nc 1 bo"
    assert [(claim.id, claim.attempt) for claim in parse_claims(data)] == [("a", 1), ("b", 2)]


def test_only_new_lines_are_read_and_a_line_being_written_waits(journal: ClaimJournal, root: Path) -> None:
    append(root, "a 1 x\nb 1")
    journal.read_new()
    assert (journal.attempt(rid("a")), journal.attempt(rid("b"))) == (1, 0)
    append(root, " x\na 2 y\n")
    journal.read_new()
    assert (journal.attempt(rid("a")), journal.attempt(rid("b"))) == (2, 1)


def test_a_compacted_journal_has_the_claims_of_open_requests_and_the_one_before_is_kept(
    journal: ClaimJournal, root: Path
) -> None:
    (root / "requests/req_retried.json").write_text("{}")
    (root / "requests/foreign.json").write_text('{"id": "named-inside"}')
    (root / "processing/req_running.json").write_text("{}")
    before = "done 1 x\nretried 1 x\nrunning 1 x\nnamed-inside 1 x\nretried 2 y\n"
    append(root, before)
    journal.read_new()
    journal.compact({})
    append(root, "new 1 y\n")
    journal.read_new()
    assert (root / "claims.old").read_text() == before
    assert (root / "claims.log").read_text() == "retried 2 y\nrunning 1 x\nnamed-inside 1 x\nnew 1 y\n"
    assert [journal.attempt(rid(name)) for name in ("done", "retried", "running", "new")] == [0, 2, 1, 1]


def test_a_claim_outlives_any_number_of_compactions_while_its_request_is_open(
    journal: ClaimJournal, root: Path
) -> None:
    running = root / "processing/req_running.json"
    running.write_text("{}")
    append(root, "running 1 x\n")
    for number in range(3):
        append(root, f"done-{number} 1 x\n")
        journal.compact({})
    assert (root / "claims.log").read_text() == "running 1 x\n"
    assert (root / "claims.old").read_text() == "running 1 x\ndone-2 1 x\n"
    running.unlink()
    journal.compact({})
    assert (root / "claims.log").read_text() == ""


def test_a_request_that_only_the_index_knows_to_be_open_keeps_its_claim(journal: ClaimJournal, root: Path) -> None:
    """It is on its way from one directory to the other, and missed in both."""
    append(root, "moving 1 x\nanswered 1 x\n")
    states = {"moving": RequestState.RUNNING, "answered": RequestState.ANSWERED}
    journal.compact({rid(name): IndexedRequest(state, f"req_{name}.json") for name, state in states.items()})
    assert (root / "claims.log").read_text() == "moving 1 x\n"


def test_a_claim_appended_to_the_journal_being_replaced_is_not_lost(disk: Disk, root: Path) -> None:
    """Emacs has opened the journal just before it is exchanged, and writes just after."""
    journal = ClaimJournal(disk)
    journal.open()
    with (root / "claims.log").open("a") as late:
        journal.compact({})
        late.write("late 1 x\n")
    again = ClaimJournal(disk)
    again.open()
    assert again.attempt(rid("late")) == 1
    (root / "processing/req_late.json").write_text("{}")
    again.compact({})
    assert (root / "claims.log").read_text() == "late 1 x\n"


def test_permanent_work_with_a_request_always_open_keeps_the_journal_under_its_bound(
    journal: ClaimJournal, disk: Disk, root: Path
) -> None:
    """10,000 requests, each claimed before the one before is done, and one that runs all the time."""
    (root / "processing/req_session.json").write_text("{}")
    append(root, "session 1 0123456789abcdef\n")
    largest = longest = compactions = 0
    before: Path | None = None
    for first in range(0, 10_000, 100):
        names = [f"{number:08}-aaaa-bbbb-cccc-dddddddddddd" for number in range(first, first + 100)]
        append(root, "".join(f"{name} 1 0123456789abcdef\n" for name in names))
        # As upkeep finds it: all but the last one are done.
        running = root / f"processing/req_{names[-1]}.json"
        running.touch()
        if before is not None:
            before.unlink()
        before = running
        journal.read_new()
        if journal.due(2):
            journal.compact({})
            compactions += 1
        largest = max(largest, (root / "claims.log").stat().st_size)
        longest = max(longest, len(journal))
    assert compactions
    # What one round of upkeep may find more than the bound, here 100 claims.
    bound = COMPACT_ABOVE_BYTES + 2 * 2 * MAX_LINE_BYTES + 100 * 60
    assert largest <= bound
    assert (root / "claims.old").stat().st_size <= bound
    assert longest <= bound / 50
    again = ClaimJournal(disk)
    again.open()
    assert again.attempt(rid("session")) == 1


def test_the_journal_is_not_compacted_again_before_it_has_grown(journal: ClaimJournal, root: Path) -> None:
    """With many open requests that all have claims, what is kept alone must not make it due."""
    most = COMPACT_ABOVE_BYTES // MAX_LINE_BYTES + 100
    names = [f"{number:0128}" for number in range(most)]
    for name in names:
        (root / f"requests/req_{name}.json").touch()
    append(root, "".join(f"{name} 123456789 {'b' * 64}\n" for name in names * 4))
    journal.read_new()
    assert journal.due(most)
    journal.compact({})
    assert journal.size == most * MAX_LINE_BYTES > COMPACT_ABOVE_BYTES
    assert not journal.due(most)


class FailingDisk(TestDisk):
    """A disk whose `fail_at`-th step from now, counted from 0, fails."""

    fail_at = -1

    def _step(self, method: str, *args: Any) -> None:
        super()._step(method, *args)
        self.fail_at -= 1
        if self.fail_at == -1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("at", range(11))
def test_a_compaction_cut_short_at_any_step_loses_no_claim_and_is_finished(root: Path, at: int) -> None:
    """`early` has its claim in claims.old alone, `recent` in claims.log, `late` comes after the failure."""
    disk = FailingDisk(root)
    disk.open()
    for name in ("early", "recent", "late"):
        (root / f"processing/req_{name}.json").write_text("{}")
    (root / "claims.old").write_text("early 1 x\n")
    (root / "claims.log").write_text("recent 1 x\n")
    journal = ClaimJournal(disk)
    journal.open()
    disk.fail_at = at
    with pytest.raises(OSError, match="Input/output"):
        journal.compact({})
    append(root, "late 1 x\n")
    files = [root / name for name in ("claims.old", "claims.new", "claims.log")]
    ids = {claim.id for file in files if file.exists() for claim in parse_claims(file.read_bytes())}
    assert ids == {"early", "recent", "late"}
    again = ClaimJournal(disk)
    again.open()
    assert [again.attempt(rid(name)) for name in ("early", "recent", "late")] == [1, 1, 1]
    assert not (root / "claims.new").exists()
    again.compact({})
    assert sorted((root / "claims.log").read_text().split("\n")) == ["", "early 1 x", "late 1 x", "recent 1 x"]
    disk.close()


@pytest.mark.parametrize("name", ["claims.old", "claims.log"])
def test_claims_in_a_journal_that_may_not_be_read_outlive_a_compaction(disk: Disk, root: Path, name: str) -> None:
    (root / "processing/req_a.json").write_text("{}")
    for other in ("claims.old", "claims.log"):
        (root / other).write_text("")
    (root / name).write_text("a 1 x\n")
    journal = ClaimJournal(disk)
    journal.open()
    (root / name).chmod(0)
    with modes_hold(), pytest.raises(PermissionError):
        journal.compact({})
    (root / name).chmod(0o600)
    for _ in range(3):
        journal.compact({})
    assert (root / "claims.log").read_text() == "a 1 x\n"


def test_claims_in_a_journal_whose_exchange_a_crash_has_undone_are_kept(disk: Disk, root: Path) -> None:
    (root / "claims.log").write_text("a 1 x\n")
    (root / "claims.old").hardlink_to(root / "claims.log")
    (root / "claims.new").write_text("b 3 x\n")
    journal = ClaimJournal(disk)
    journal.open()
    assert (journal.attempt(rid("a")), journal.attempt(rid("b"))) == (1, 3)
    assert (root / "claims.log").read_text() == "b 3 x\n"
    assert (root / "claims.old").read_text() == "a 1 x\n"
    assert not (root / "claims.new").exists()


def test_a_journal_that_was_removed_is_made_again(journal: ClaimJournal, root: Path) -> None:
    append(root, "a 1 x\n")
    journal.read_new()
    (root / "claims.log").unlink()
    journal.read_new()
    assert (root / "claims.log").read_text() == ""
    append(root, "b 2 x\n")
    journal.read_new()
    assert (journal.attempt(rid("a")), journal.attempt(rid("b"))) == (1, 2)


def test_the_journal_exists_before_emacs_starts(journal: ClaimJournal, root: Path) -> None:
    assert (root / "claims.log").stat().st_mode & 0o777 == 0o600


def test_a_new_journal_has_its_name_on_the_disk_before_emacs_appends(root: Path) -> None:
    disk = TestDisk(root)
    disk.open()
    disk.steps.clear()
    ClaimJournal(disk).open()
    assert [step.partition(" tmp ")[0] for step in disk.steps] == ["create", "sync_file", "link", "sync_dir ."]
    disk.close()


def test_a_compacted_journal_is_on_the_disk_before_anything_it_replaces_is_dropped(root: Path) -> None:
    disk = TestDisk(root)
    disk.open()
    journal = ClaimJournal(disk)
    journal.open()
    append(root, "old 1 x\n")
    (root / "claims.old").write_text("older 1 x\n")
    disk.steps.clear()
    journal.compact({})
    steps = [step for step in disk.steps if "claims." in step or "sync" in step]
    assert steps == [
        "sync_dir requests",
        "sync_dir processing",
        "sync_dir responses",
        "sync_file",
        next(step for step in steps if step.startswith("link tmp ") and step.endswith(" . claims.new")),
        "sync_dir .",
        "link . claims.log . claims.old",
        "sync_dir .",
        "rename . claims.new . claims.log",
        "sync_dir .",
    ]
    disk.close()
