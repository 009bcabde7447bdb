"""The claim journal: torn lines, growth, and a new one begun while Emacs appends."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.queue.durable import Disk
from efrit.queue.journal import Claim, ClaimJournal, parse_claims
from tests.unit.queue.hands import TestDisk, rid


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


def test_a_new_journal_is_begun_and_the_one_before_is_kept(journal: ClaimJournal, root: Path) -> None:
    append(root, "a 1 x\n")
    assert journal.rotate()
    append(root, "b 2 x\n")
    journal.read_new()
    assert (root / "claims.old").read_text() == "a 1 x\n"
    assert (root / "claims.log").read_text() == "b 2 x\n"
    assert (journal.attempt(rid("a")), journal.attempt(rid("b")), journal.size) == (1, 2, 6)
    assert journal.rotate()
    assert (root / "claims.old").read_text() == "b 2 x\n"


@pytest.mark.parametrize("place", ["requests", "processing"])
def test_no_journal_is_begun_while_a_request_may_need_its_claim(
    journal: ClaimJournal, root: Path, place: str
) -> None:
    append(root, "a 1 x\n")
    (root / place / "req_a.json").write_text("{}")
    assert not journal.rotate()
    assert (root / "claims.log").read_text() == "a 1 x\n"


def test_a_claim_appended_to_the_journal_being_replaced_is_not_lost(disk: Disk, root: Path) -> None:
    """Emacs has opened the journal just before it is exchanged, and writes just after."""
    journal = ClaimJournal(disk)
    journal.open()
    with (root / "claims.log").open("a") as late:
        assert journal.rotate()
        late.write("late 1 x\n")
    again = ClaimJournal(disk)
    again.open()
    assert again.attempt(rid("late")) == 1


def test_a_rotation_cut_short_before_the_exchange_is_undone(disk: Disk, root: Path) -> None:
    (root / "claims.log").write_text("a 1 x\n")
    (root / "claims.new").write_text("")
    journal = ClaimJournal(disk)
    journal.open()
    assert journal.attempt(rid("a")) == 1
    assert not (root / "claims.new").exists()
    assert journal.rotate()


def test_claims_in_a_journal_whose_exchange_a_crash_has_undone_are_kept(disk: Disk, root: Path) -> None:
    (root / "claims.log").write_text("a 1 x\n")
    (root / "claims.old").hardlink_to(root / "claims.log")
    (root / "claims.new").write_text("b 3 x\n")
    journal = ClaimJournal(disk)
    journal.open()
    assert (journal.attempt(rid("a")), journal.attempt(rid("b"))) == (1, 3)
    assert (root / "claims.log").read_text() == "b 3 x\n"
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
    assert [each.partition(" tmp ")[0] for each in disk.steps] == ["create", "sync_file", "link", "sync_dir ."]
    disk.close()


def test_a_new_journal_and_the_old_ones_other_name_are_on_the_disk_before_they_are_exchanged(root: Path) -> None:
    disk = TestDisk(root)
    disk.open()
    journal = ClaimJournal(disk)
    journal.open()
    append(root, "old 1 x\n")
    disk.steps.clear()
    assert journal.rotate()
    steps = [each for each in disk.steps if "claims." in each or "sync" in each]
    assert steps == [
        "sync_dir responses",
        "sync_file",
        next(each for each in steps if each.startswith("link tmp ") and each.endswith(" . claims.new")),
        "link . claims.log . claims.old",
        "sync_dir .",
        "rename . claims.new . claims.log",
        "sync_dir .",
    ]
    disk.close()
