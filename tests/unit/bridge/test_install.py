"""What the bridge puts into the volume it shares with Emacs."""

from pathlib import Path

import pytest

from efrit.bridge.install import install
from efrit.errors import ConfigurationError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "lisp-source"
    made.mkdir()
    for name in ("efrit-server.el", "efrit-server.elc", "efrit-queue.el", "README", ".dir-locals"):
        (made / name).write_text(f";; {name}\n")
    return made


def test_the_lisp_and_an_executable_script_are_there_afterwards(source: Path, tmp_path: Path) -> None:
    install(source, tmp_path / "shared")
    names = sorted(path.name for path in (tmp_path / "shared/lisp").iterdir())
    assert names == ["efrit-queue.el", "efrit-server.el", "efrit-server.elc"]
    assert (tmp_path / "shared/run-emacs").stat().st_mode & 0o777 == 0o755
    copied = (tmp_path / "shared/lisp/efrit-server.elc").stat().st_mtime_ns
    assert copied == (source / "efrit-server.elc").stat().st_mtime_ns


def test_installing_again_changes_nothing(source: Path, tmp_path: Path) -> None:
    assert install(source, tmp_path / "shared") == 4
    assert install(source, tmp_path / "shared") == 0


def test_a_new_version_replaces_files_and_takes_stale_ones_away(source: Path, tmp_path: Path) -> None:
    install(source, tmp_path / "shared")
    (source / "efrit-server.elc").unlink()
    (source / "efrit-queue.el").write_text(";; new\n")
    assert install(source, tmp_path / "shared") == 2
    assert (tmp_path / "shared/lisp/efrit-queue.el").read_text() == ";; new\n"
    assert not (tmp_path / "shared/lisp/efrit-server.elc").exists()


def test_without_lisp_the_bridge_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        install(tmp_path / "nowhere", tmp_path / "shared")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="efrit-server"):
        install(tmp_path / "empty", tmp_path / "shared")
