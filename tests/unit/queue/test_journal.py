"""The claim journal: torn lines, growth, and compaction while Emacs appends."""

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


def test_compacting_keeps_live_claims_only(journal: ClaimJournal, root: Path) -> None:
    append(root, "old 1 x\nlive 1 x\nlive 2 y\n")
    journal.read_new()
    journal.compact(lambda name: name == "live")
    assert (root / "claims.log").read_text() == "live 1 x\nlive 2 y\n"
    assert not (root / "claims.old").exists()
    assert journal.attempt(rid("live")) == 2


def test_a_claim_appended_to_the_file_being_replaced_is_not_lost(disk: Disk, root: Path) -> None:
    """Emacs has opened the journal just before it is exchanged, and writes just after."""

    class Racing(Disk):
        late = open(root / "claims.log", "a")  # noqa: PTH123, SIM115 - held open on purpose

        def sync_dir(self, area: object) -> None:
            if (root / "claims.old").exists() and not self.late.closed:
                self.late.write("late 1 x\n")
                self.late.close()
            super().sync_dir(area)  # type: ignore[arg-type]

    disk.close()
    racing = Racing(root)
    racing.open()
    journal = ClaimJournal(racing)
    journal.open()
    append(root, "old 1 x\n")
    journal.compact(lambda name: name != "old")
    assert (root / "claims.log").read_text() == "late 1 x\n"
    assert journal.attempt(rid("late")) == 1
    racing.close()


def test_a_compaction_cut_short_is_taken_up_at_the_next_start(disk: Disk, root: Path) -> None:
    (root / "claims.log").write_text("a 1 x\n")
    (root / "claims.old").write_text("a 1 x\nb 3 x\n")
    journal = ClaimJournal(disk)
    journal.open()
    assert (journal.attempt(rid("a")), journal.attempt(rid("b"))) == (1, 3)
    assert not (root / "claims.old").exists()


def test_the_journal_exists_before_emacs_starts(journal: ClaimJournal, root: Path) -> None:
    assert (root / "claims.log").stat().st_mode & 0o777 == 0o600


def test_a_new_journal_has_its_name_on_the_disk_before_emacs_appends(root: Path) -> None:
    disk = TestDisk(root)
    disk.open()
    disk.steps.clear()
    ClaimJournal(disk).open()
    assert [each.partition(" tmp ")[0] for each in disk.steps] == ["create", "sync_file", "link", "sync_dir ."]
    disk.close()


def test_a_compacted_journal_is_on_the_disk_before_it_takes_the_place_of_the_old(root: Path) -> None:
    disk = TestDisk(root)
    disk.open()
    journal = ClaimJournal(disk)
    journal.open()
    append(root, "old 1 x\n")
    disk.steps.clear()
    journal.compact(lambda _: False)
    steps = [each for each in disk.steps if "claims.log" in each or "sync" in each]
    exchange = next(step for step in steps if step.startswith("rename tmp "))
    assert steps.index("sync_file") < steps.index(exchange)
    assert "sync_dir ." in steps[steps.index(exchange) :]
    disk.close()
