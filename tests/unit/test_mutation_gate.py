"""The mutation gate's own data: each mutant fits the product as it is now, and names tests that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.paths import REPOSITORY
from tests.mutation.__main__ import PAGE, with_table
from tests.mutation.copy import ERT, replace_text
from tests.mutation.mutant import Misplaced, Mutant
from tests.mutation.mutants import MUTANTS

LISP_TESTS = "".join(path.read_text() for path in (REPOSITORY / "images/emacs/test").glob("*-test.el"))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.step)
def test_a_mutant_changes_its_file(mutant: Mutant) -> None:
    text = (REPOSITORY / mutant.file).read_text()
    assert mutant.apply(text) != text


@pytest.mark.parametrize("test", sorted({test for mutant in MUTANTS for test in mutant.tests}))
def test_a_test_that_guards_a_step_exists(test: str) -> None:
    if test.startswith(ERT):
        assert f"(ert-deftest {test.removeprefix(ERT)} " in LISP_TESTS
        return
    path, _, name = test.partition("::")
    source = (REPOSITORY / path).read_text()
    assert re.search(rf"^(async )?def {name.partition('[')[0] or 'test_'}", source, re.MULTILINE)


def test_the_page_about_fault_tests_has_the_table_of_today() -> None:
    page = PAGE.read_text()
    assert with_table(page) == page, "write it anew: python -m tests.mutation --table"


def test_no_two_mutants_take_out_the_same_step() -> None:
    assert len({mutant.step for mutant in MUTANTS}) == len(MUTANTS)


def test_a_step_that_moved_is_told() -> None:
    with pytest.raises(Misplaced, match=r"found 0 times in a\.py"):
        Mutant("a step", "a.py", "old", "new", ("tests",)).apply("something else")


def test_bytecode_of_the_original_is_not_taken_for_the_mutant(tmp_path: Path) -> None:
    module = tmp_path / "step.py"
    module.write_text("TAKEN = 0\n")

    def imported() -> str:
        command = [sys.executable, "-c", "import step; print(step.TAKEN)"]
        env = {"PYTHONPATH": str(tmp_path)}
        return subprocess.run(
            command, check=True, capture_output=True, text=True, env=env, cwd=tmp_path
        ).stdout.strip()

    assert imported() == "0"
    assert list(tmp_path.glob("__pycache__/step.*.pyc"))
    replace_text(module, "TAKEN = 1\n")
    assert imported() == "1"
    replace_text(module, "TAKEN = 0\n")
    assert imported() == "0"
