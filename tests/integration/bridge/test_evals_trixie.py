"""The table of evals behind the bridge, with Debian trixie's Emacs 30."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.bridge.trixie import path_with_emacs_30
from tests.support.bridge_instance import Instance
from tests.support.compiled_lisp import compiled_lisp
from tests.support.eval_player import ending, problems, staying


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return path_with_emacs_30(tmp_path_factory.mktemp("path"), tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def lisp(tmp_path_factory: pytest.TempPathFactory, path: str) -> Path:
    return compiled_lisp(tmp_path_factory.mktemp("lisp") / "compiled", path)


def test_each_eval_ends_as_the_table_says_and_the_next_is_answered_rightly(
    tmp_path: Path, lisp: Path, path: str
) -> None:
    environment = {"PATH": path}
    with Instance(tmp_path / "instance", lisp, environment) as instance:
        assert instance.eval("version", "emacs-major-version").result == "30"
        assert not (wrong := problems(instance, staying())), wrong


def test_each_eval_that_ends_emacs_is_answered_and_another_emacs_answers_the_next(
    tmp_path: Path, lisp: Path, path: str
) -> None:
    environment = {"PATH": path, "EFRIT_KILL_GRACE_SECONDS": "4"}
    with Instance(tmp_path / "instance", lisp, environment) as instance:
        assert not (wrong := problems(instance, ending())), wrong
