"""Parts of the test files: every file is in exactly one, and they are about as large as each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.paths import REPOSITORY
from tests.parts import shares

UNIT = sorted((REPOSITORY / "tests/unit").rglob("test_*.py"))


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_every_file_is_in_one_part(parts: int) -> None:
    found = shares(UNIT, parts)
    assert sorted(path for part in found for path in part) == UNIT
    sizes = [sum(path.stat().st_size for path in part) for part in found]
    assert max(sizes) - min(sizes) < 0.05 * sum(sizes)


def test_a_run_has_the_tests_of_its_part_and_none_of_another(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text(f"def test_{name}(): pass\n")

    def names(part: str, *words: str) -> str:
        options = ["-q", "-c", os.devnull, "-p", "tests.parts", "--collect-only"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, "--part", part, str(tmp_path), *words],
            cwd=REPOSITORY,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    told = [names("1/2"), names("2/2")]
    assert sorted(sum(f"::test_{name}" in text for text in told) for name in "abc") == [1, 1, 1]
    # It passes although all that was chosen is in the other part.
    without = "2/2" if "::test_a" in told[0] else "1/2"
    assert "no tests collected" in names(without, "-k", "test_a.py")
