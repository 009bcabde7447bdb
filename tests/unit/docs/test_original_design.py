"""Each requirement of the original design names a test that exists or a difference, or says what is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROWS = re.findall(
    r"^\| ([A-E]) \| (.+) \| (.+) \|$", (ROOT / "docs/dev/original-design.md").read_text(), re.MULTILINE
)
DIFFERENCE = "[difference](../differences.md)"


@pytest.mark.parametrize(("document", "requirement", "shown_by"), ROWS)
def test_a_requirement_names_a_test_that_exists(document: str, requirement: str, shown_by: str) -> None:
    if shown_by == DIFFERENCE or shown_by.startswith("not shown: "):
        return
    path, _, name = shown_by.partition("::")
    text = (ROOT / path).read_text()
    assert re.search(rf"^(?:async )?def {name}\(|^\(ert-deftest {name} ", text, re.MULTILINE), (
        f"{document}: {requirement}"
    )


def test_every_document_has_requirements_and_differences() -> None:
    page = (ROOT / "docs/differences.md").read_text()
    assert {document for document, _, _ in ROWS} == set("ABCDE")
    assert set(re.findall(r"^\| ([A-E]) \|", page, re.MULTILINE)) == set("ABCDE")
    assert len(ROWS) >= 140
