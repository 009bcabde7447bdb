"""Every bound of every field, from both sides, on a dry run: what the schema says is what the API server does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.api.bounds import Bound, bounds
from tests.support.kube import Json, Kube, Refused
from tests.support.manifest_schema import BASES, holding


@pytest.fixture(scope="module")
def existing(kube: Kube) -> Json:
    """One object of each kind whose status the dry runs would write."""
    return {plural: kube.create(plural, "default", dict(base)) for plural, base in BASES.items()}


@pytest.mark.parametrize("bound", bounds("spec"), ids=str)
def test_a_bound_of_spec_holds_on_both_sides(kube: Kube, bound: Bound) -> None:
    manifest = holding(bound.node, bound.value)
    manifest["metadata"] = {"name": "bounds"}

    def write() -> None:
        kube.create(bound.node.plural, "default", manifest, dryRun="All", fieldValidation="Strict")

    _expect(bound, write)


@pytest.mark.parametrize("bound", bounds("status"), ids=str)
def test_a_bound_of_status_holds_on_both_sides(kube: Kube, existing: Json, bound: Bound) -> None:
    status = holding(bound.node, bound.value)["status"]
    manifest = {**existing[bound.node.plural], "status": status}

    def write() -> None:
        kube.replace(bound.node.plural, "default", manifest, "status", dryRun="All", fieldValidation="Strict")

    _expect(bound, write)


def _expect(bound: Bound, write: Callable[[], None]) -> None:
    if bound.refused is None:
        write()
        return
    with pytest.raises(Refused) as refusal:
        write()
    assert bound.refused in refusal.value.message
    assert bound.node.dotted in refusal.value.message
