"""api/docs.py: the page of the resources, written from the models."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from efrit.api.crd import RESOURCES
from efrit.api.docs import main, render
from efrit.api.meta import Resource

page = cache(render)
"""It is written from the models anew each time."""


def test_the_checked_in_page_is_that_of_the_models() -> None:
    assert (Path(__file__).parents[3] / "docs" / "api.md").read_text() == render()


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_top_level_field_has_a_row(resource: type[Resource]) -> None:
    rows = set(re.findall(r"^\| `([A-Za-z]+)` \|", page(), re.MULTILINE))

    for part in ("spec", "status"):
        model = resource.model_fields[part].annotation
        assert model is not None
        fields = {field.alias or name for name, field in model.model_fields.items()}
        assert fields <= rows


def test_no_cell_breaks_its_row() -> None:
    for line in page().splitlines():
        if line.startswith("| `"):
            assert line.endswith(" |")
            assert len(re.findall(r"(?<!\\)\|", line)) in (3, 5), line


def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["docs", str(tmp_path / "api.md")])

    main()

    assert (tmp_path / "api.md").read_text() == render()


def test_the_page_names_no_kind_that_is_not_there() -> None:
    kinds = {resource.kind for resource in RESOURCES}
    assert set(re.findall(r"\bEfrit[A-Z][a-z]+", page())) == kinds
