"""The mutation gate's own data: a mutant has a marker in the product and tests that exist, a marker a mutant."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.cluster.paths import REPOSITORY
from tests.mutation.__main__ import PAGE, with_table
from tests.mutation.copy import ERT, replace_text
from tests.mutation.mutant import Mutant, Step
from tests.mutation.mutants import MUTANTS
from tests.mutation.operation import Misplaced, Never
from tests.mutation.sources import python
from tests.mutation.sources.markers import marker_of, markers
from tests.mutation.warm_pytest import product_of, to_import_anew

LISP_TESTS = "".join(path.read_text() for path in (REPOSITORY / "images/emacs/test").glob("*-test.el"))


@cache
def text_of(path: str) -> str:
    return (REPOSITORY / path).read_text()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.gate)
def test_a_mutant_changes_what_its_marker_marks(mutant: Mutant) -> None:
    marker = marker_of(mutant.gate)
    text = text_of(marker.file)
    changed = marker.mutate(text, mutant.operation)
    if marker.file.endswith(".py"):
        assert not python.is_the_same(text, changed, marker.line)
        unknown = python.unknown_names(text, mutant.operation)
        assert not unknown, f"the mutant of {marker.file}:{marker.line} would fail for a name that is not there"
    assert changed != text


def test_a_marker_has_a_mutant() -> None:
    gates = {mutant.gate for mutant in MUTANTS}
    assert [
        f"{marker.file}:{marker.line}: gate {marker.name}" for marker in markers() if marker.name not in gates
    ] == []


def test_a_mutant_whose_marker_is_gone_is_reported_by_its_name() -> None:
    with pytest.raises(Misplaced, match=r"the marker `gate: no-such-step` is wanted once .* and is nowhere"):
        marker_of("no-such-step")


@pytest.mark.parametrize("test", sorted({test for mutant in MUTANTS for test in mutant.tests}))
def test_a_test_that_guards_a_step_exists(test: str) -> None:
    if test.startswith(ERT):
        assert f"(ert-deftest {test.removeprefix(ERT)} " in LISP_TESTS
        return
    path, _, name = test.partition("::")
    source = text_of(path)
    assert re.search(rf"^(async )?def {name.partition('[')[0] or 'test_'}", source, re.MULTILINE)


def test_a_test_of_a_mutant_is_named_by_its_function_where_one_file_alone_has_it() -> None:
    step = Step("a step", "a-gate", Never(), silent=True)
    here = "tests/unit/harness/mutation/test_mutants.py"
    own = "test_a_marker_has_a_mutant"

    made = step.found_by(own, f"{own}[id]", here, "ert:some-test")

    assert made == Mutant(
        "a step", "a-gate", Never(), (f"{here}::{own}", f"{here}::{own}[id]", here, "ert:some-test"), silent=True
    )
    with pytest.raises(Misplaced, match="has test_that_is_nowhere: name the test by its file, too"):
        step.found_by("test_that_is_nowhere")


def test_the_page_about_fault_tests_has_the_table_of_today() -> None:
    page = PAGE.read_text()
    assert with_table(page) == page, "write it anew: python -m tests.mutation --table"


def test_no_two_mutants_take_out_the_same_step() -> None:
    assert len({mutant.step for mutant in MUTANTS}) == len(MUTANTS)


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


def test_what_changed_is_imported_anew_with_all_that_leads_to_it_and_nothing_else() -> None:
    sources = {
        "p": "",
        "p.api": "from p.api.spec import Spec",
        "p.api.spec": "import p.words as words",
        "p.api.plan": "",
        "p.words": "",
        "p.act": "def later():\n    from p import api",
        "p.apart": "from p.act2 import x",
    }
    anew = {
        "p.apart": {"p.apart"},
        "p.act": {"p.act"},
        "p.words": {"p.words", "p.api", "p.api.spec", "p.api.plan", "p.act"},
        "p": set(sources),
    }
    for changed, expected in anew.items():
        assert to_import_anew(product_of(sources), [changed]) == expected
