"""Whose directories a client takes for its queue: where others may write, code would run as us."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from efrit.backend.errors import NotReady
from efrit.backend.local.files import QueueFiles
from efrit.errors import QueueNotTrusted
from efrit.queue.layout import Area
from efrit.queue.trust import check_trusted

US = os.geteuid()


def status(uid: int, mode: int) -> os.stat_result:
    return os.stat_result((0o40000 | mode, 1, 1, 1, uid, 1, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("uid", "mode", "advice"),
    [
        (US, 0o700, None),
        (US, 0o755, None),
        (0, 0o755, None),
        (US + 1, 0o700, "chown"),
        (US, 0o770, "chmod go-w"),
        (US, 0o702, "chmod go-w"),
        (0, 0o1777, "chmod go-w"),
    ],
)
def test_a_directory_is_ours_or_roots_and_nobody_else_writes_there(uid: int, mode: int, advice: str | None) -> None:
    if advice is None:
        check_trusted(Path("/queue"), status(uid, mode))
        return
    with pytest.raises(QueueNotTrusted) as refused:
        check_trusted(Path("/queue"), status(uid, mode))
    assert advice in refused.value.advice


@pytest.mark.parametrize("area", [Area.ROOT, Area.REQUESTS, Area.RESPONSES, Area.CONTROL])
def test_a_client_takes_no_queue_into_which_others_may_write(tmp_path: Path, area: Area) -> None:
    root = tmp_path / "queue"
    QueueFiles(root).disk.close()
    (root / area).chmod(0o777)
    with pytest.raises(NotReady, match="others may write") as refused:
        _ = QueueFiles(root).disk
    assert refused.value.advice == f"chmod go-w {root / area}"
    (root / area).chmod(0o755)
    QueueFiles(root).disk.close()


def test_a_client_takes_no_queue_behind_a_symbolic_link(tmp_path: Path) -> None:
    QueueFiles(tmp_path / "queue").disk.close()
    (tmp_path / "link").symlink_to(tmp_path / "queue")
    with pytest.raises(NotReady, match="is a symbolic link") as refused:
        _ = QueueFiles(tmp_path / "link").disk
    assert str(tmp_path / "queue") in refused.value.advice
    # Above it, links are the user's own affair.
    (tmp_path / "home").symlink_to(tmp_path)
    QueueFiles(tmp_path / "home" / "queue").disk.close()
