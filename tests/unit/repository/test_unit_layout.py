"""tests/unit mirrors operator/efrit, tests/unit/harness what tests stand on: names are those of what is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.paths import REPOSITORY

UNIT = REPOSITORY / "tests/unit"
FILES = sorted(path.relative_to(UNIT) for path in UNIT.rglob("test_*.py"))
TESTED = {"harness": REPOSITORY / "tests"}
"""What a folder of tests/unit mirrors. All others mirror the folder of their name in the product."""
PRODUCT = REPOSITORY / "operator/efrit"
OF_NO_MODULE = {
    "contracts": "Python, shell, Lisp and the chart spell alike what docs/dev/contracts.toml says",
    "docs": "pages name what there is",
    "repository": "files that are no module: chart, images, samples, checks that read all sources, recipes",
}
"""Folders whose files test more than one module can be named for, and what they test."""


def problem(file: Path) -> str | None:
    """Return what is wrong with the place or the name of a file of tests below tests/unit; None where nothing is."""
    folder_name = file.parts[0]
    if folder_name in OF_NO_MODULE:
        return None
    folder = TESTED[folder_name].joinpath(*file.parent.parts[1:]) if folder_name in TESTED else PRODUCT / file.parent
    where = folder.relative_to(REPOSITORY)
    if not folder.is_dir():
        return f"tests/unit/{file} mirrors {where}, which is not there"
    name = file.stem.removeprefix("test_")
    packages = {path.name for path in folder.iterdir() if path.is_dir()} | {folder.name}
    modules = {path.stem.replace("-", "_") for path in folder.iterdir() if path.is_file()}
    if name in packages | modules or any(name.startswith(f"{module}_") for module in modules):
        return None
    return f"tests/unit/{file}: {where} has no such module; name it test_MODULE.py or test_MODULE_SUBJECT.py"


def test_each_file_is_named_for_a_module_that_is_in_the_folder_it_mirrors() -> None:
    assert [text for file in FILES if (text := problem(file)) is not None] == []


def test_each_file_of_lisp_tests_is_named_for_a_lisp_file() -> None:
    tests = REPOSITORY / "images/emacs/test"
    tested = {path.stem for folder in (tests.with_name("lisp"), tests) for path in folder.glob("*.el")}
    subjects = [path.stem.removesuffix("-test") for path in sorted(tests.glob("*-test.el"))]
    unnamed = [
        subject
        for subject in subjects
        if subject not in tested and not any(subject.startswith(f"{name}-") for name in tested - {"efrit"})
    ]
    assert unnamed == [], "name them FILE-test.el or FILE-SUBJECT-test.el"


def test_each_folder_of_no_module_has_tests_and_no_other_name() -> None:
    for folder_name in OF_NO_MODULE:
        assert any(file.parts[0] == folder_name for file in FILES)
        assert not (PRODUCT / folder_name).exists()


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("queue/test_durable.py", True),
        ("queue/test_durable_hard_links.py", True),
        ("bridge/test_run_emacs.py", True),
        ("controller/manifests/test_manifests.py", True),
        ("controller/test_manifests.py", True),
        ("harness/support/test_figures.py", True),
        ("queue/test_durability.py", False),
        ("queue/test_links.py", False),
        ("model/test_server.py", False),
        ("harness/test_figures.py", False),
        ("test_recipes.py", False),
        ("test_api_writes.py", False),
    ],
)
def test_a_name_is_that_of_a_module_with_a_subject_or_without(file: str, named: bool) -> None:
    assert (problem(Path(file)) is None) is named
