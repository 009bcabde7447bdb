"""cli/reference.py: what the reference shows of the command line."""

from __future__ import annotations

import argparse

import pytest

from efrit.cli.reference import _spelled, reference


@pytest.mark.parametrize(
    ("argument", "options", "spelled"),
    [
        ("--name", {}, "`--name NAME`"),
        ("--name", {"metavar": "TEXT"}, "`--name TEXT`"),
        ("--strategy", {"choices": ("a", "b")}, "`--strategy {a,b}`"),
        ("--now", {"action": "store_true"}, "`--now`"),
        ("name", {"nargs": "*"}, "`[NAME …]`"),
        ("name", {}, "`NAME`"),
    ],
)
def test_an_argument_is_spelled_with_its_value(argument: str, options: dict[str, object], spelled: str) -> None:
    action = argparse.ArgumentParser().add_argument(argument, **options)  # type: ignore[arg-type]
    assert _spelled(action) == spelled


def test_no_value_in_the_reference_is_without_a_name() -> None:
    assert "{}" not in reference()
