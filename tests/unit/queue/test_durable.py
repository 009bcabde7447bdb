"""The disk: nothing half-written, nothing replaced, no symlink followed."""

import os
from pathlib import Path

import pytest

from efrit.errors import NoSpace, QueueBroken, QueueNotReady, StorageError
from efrit.queue.durable import Disk, publish, replace, storage_error
from efrit.queue.layout import Area
from tests.support.queue_fakes import Fault, TestDisk, tree


@pytest.fixture
def disk(root: Path) -> TestDisk:
    made = TestDisk(root)
    made.open()
    made.steps.clear()
    return made


def test_directories_are_private_and_files_too(disk: TestDisk, root: Path) -> None:
    publish(disk, Area.REQUESTS, "a.json", b"{}")
    assert all((root / area).stat().st_mode & 0o777 == 0o700 for area in Area)
    assert (root / "requests/a.json").stat().st_mode & 0o777 == 0o600


def test_publishing_syncs_the_data_before_the_name_appears(disk: TestDisk) -> None:
    publish(disk, Area.REQUESTS, "a.json", b"{}")
    assert [step.split()[0] for step in disk.steps] == ["create", "sync_file", "link"]


def test_publishing_never_replaces(disk: TestDisk, root: Path) -> None:
    publish(disk, Area.REQUESTS, "a.json", b"first")
    with pytest.raises(FileExistsError):
        publish(disk, Area.REQUESTS, "a.json", b"second")
    assert (root / "requests/a.json").read_bytes() == b"first"
    assert tree(root) == {"requests/a.json"}


@pytest.mark.parametrize("method", ["create", "sync_file", "link"])
def test_a_failure_while_publishing_leaves_nothing(disk: TestDisk, root: Path, method: str) -> None:
    disk.faults.append(Fault(method))
    with pytest.raises(OSError, match="No space"):
        publish(disk, Area.REQUESTS, "a.json", b"{}")
    assert tree(root) == set()


def test_a_failure_while_replacing_keeps_the_old_content(disk: TestDisk, root: Path) -> None:
    replace(disk, "totals", b"old")
    disk.faults.append(Fault("rename"))
    with pytest.raises(OSError, match="No space"):
        replace(disk, "totals", b"new")
    assert (root / "totals").read_bytes() == b"old"
    assert list((root / "tmp").iterdir()) == []


def test_symlinks_and_pipes_are_not_read(disk: TestDisk, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("token")
    (root / "responses/resp_a.json").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "responses/resp_b.json")
    (root / "responses/resp_c.json").mkdir()
    for name in ("resp_a.json", "resp_b.json", "resp_c.json", "resp_d.json"):
        assert disk.stat(Area.RESPONSES, name) is None
        assert disk.read(Area.RESPONSES, name, limit=100) is None


def test_a_new_file_does_not_follow_a_planted_symlink(disk: TestDisk, root: Path, tmp_path: Path) -> None:
    (root / "tmp/planted").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        disk.create(Area.TMP, "planted", b"x")
    assert not (tmp_path / "elsewhere").exists()


def test_an_area_that_is_a_symlink_is_refused(root: Path, tmp_path: Path) -> None:
    root.mkdir()
    (root / "responses").symlink_to(tmp_path)
    with pytest.raises(StorageError):
        Disk(root).open()


def test_reading_stops_at_the_limit(disk: TestDisk, root: Path) -> None:
    (root / "requests/a").write_bytes(b"x" * 5000)
    assert disk.read(Area.REQUESTS, "a", limit=100) == b"x" * 100
    assert disk.read(Area.REQUESTS, "a", limit=100, start=4990) == b"x" * 10


def test_a_second_bridge_is_kept_out_until_the_first_is_gone(disk: TestDisk, root: Path) -> None:
    second = Disk(root)
    with pytest.raises(QueueNotReady, match="another bridge"):
        second.open()
    disk.close()
    second.open()
    second.close()


def test_a_replaced_directory_is_noticed(disk: TestDisk, root: Path) -> None:
    disk.check_alive()
    (root / "requests").rename(root / "gone")
    (root / "requests").mkdir()
    with pytest.raises(QueueBroken, match="requests"):
        disk.check_alive()


def test_full_and_broken_volumes_have_names() -> None:
    assert type(storage_error(OSError(28, "No space left on device"), "x")) is NoSpace
    assert type(storage_error(OSError(122, "Disk quota exceeded"), "x")) is NoSpace
    assert type(storage_error(OSError(5, "I/O error"), "x")) is StorageError


def test_a_closed_disk_says_so(disk: TestDisk) -> None:
    disk.close()
    with pytest.raises(QueueNotReady):
        disk.names(Area.REQUESTS)


def test_syncing_reaches_the_file_and_the_directory_themselves(root: Path) -> None:
    synced: list[str] = []

    def note(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        os.fsync(fd)

    disk = Disk(root, fsync=note)
    disk.open()
    assert synced == [root.parent.name, root.name]
    synced.clear()
    publish(disk, Area.RESPONSES, "a.json", b"{}")
    disk.sync_dir(Area.RESPONSES)
    assert [name.split("_")[0] for name in synced] == ["bridge", "responses"]
    disk.append(Area.RESPONSES, "a.json", b"{}")
    assert synced[-1] == "a.json"
    disk.close()
