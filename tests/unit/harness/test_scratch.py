"""Where temporary directories are made."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.scratch import use_memory


@pytest.mark.parametrize(
    ("own", "place", "enough", "chosen"),
    [
        (None, "memory", 1, "memory"),
        (None, "memory", 1 << 60, None),
        (None, "absent", 1, None),
        ("/mine", "memory", 1, "/mine"),
    ],
    ids=["there", "too small", "absent", "a place of one's own"],
)
def test_temporary_directories_are_in_memory_where_that_is_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str | None, place: str, enough: int, chosen: str | None
) -> None:
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", None)
    # Set first, so that it is put back in every case.
    monkeypatch.setenv("TMPDIR", own or "")
    if own is None:
        monkeypatch.delenv("TMPDIR")
    use_memory(tmp_path / place, enough)
    expected = str(tmp_path / chosen) if chosen == "memory" else chosen
    assert os.environ.get("TMPDIR") == expected
    if chosen == "memory":
        assert tempfile.gettempdir() == expected
