"""Every bound of every field, from both sides, on a dry run: what the schema says is what the API server does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from efrit.errors import ApiError
from tests.integration.api.bounds import Bound, bounds
from tests.support.kube import Json, Kube
from tests.support.manifest_schema import BASES, holding


@pytest.fixture(scope="module")
def existing(kube: Kube) -> Json:
    """One object of each kind whose status the dry runs would write."""
    return {plural: kube.create(plural, "default", dict(base)) for plural, base in BASES.items()}


# One test for all of them: a thousand tests of a millisecond each would take longer to collect than to run.
def test_a_bound_of_spec_holds_on_both_sides(kube: Kube) -> None:
    def write(bound: Bound) -> None:
        manifest = {**holding(bound.node, bound.value), "metadata": {"name": "bounds"}}
        kube.create(bound.node.plural, "default", manifest, dryRun="All", fieldValidation="Strict")

    assert [wrong for bound in bounds("spec") if (wrong := _wrong(bound, write))] == []


def test_a_bound_of_status_holds_on_both_sides(kube: Kube, existing: Json) -> None:
    def write(bound: Bound) -> None:
        manifest = {**existing[bound.node.plural], "status": holding(bound.node, bound.value)["status"]}
        kube.replace(bound.node.plural, "default", manifest, "status", dryRun="All", fieldValidation="Strict")

    assert [wrong for bound in bounds("status") if (wrong := _wrong(bound, write))] == []


def _wrong(bound: Bound, write: Callable[[Bound], None]) -> str:
    """Return what the API server did where it should have done otherwise."""
    try:
        write(bound)
    except ApiError as refusal:
        expected = bound.refused is not None and bound.refused in refusal.sentence
        return "" if expected and bound.node.dotted in refusal.sentence else f"{bound}: {refusal.sentence}"
    return "" if bound.refused is None else f"{bound}: accepted"
