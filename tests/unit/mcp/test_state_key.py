"""The key of the user that seals the state of questions."""

from pathlib import Path

import pytest

from efrit.mcp.state_key import KEY_BYTES, own_key, user_key


def test_it_is_made_once_for_its_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "efrit" / "mcp-state-key"
    key = user_key(file)
    assert key is not None
    assert len(key) == KEY_BYTES
    assert user_key(file) == key
    assert file.stat().st_mode & 0o077 == 0
    assert list(file.parent.iterdir()) == [file]


def test_a_user_without_a_home_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2_000_000_123)
    assert own_key() is None


def test_where_none_can_be_kept_or_the_file_holds_none_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"short")
    assert user_key(tmp_path / "file") is None
    assert user_key(tmp_path / "file" / "key") is None
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
