"""support/monitoring.py: what it puts on a cluster is its own, and the operator of the tests lets it in."""

from __future__ import annotations

from tests.cluster.paths import HERE
from tests.support.monitoring import NAMESPACE, bindings


def test_the_installed_operator_lets_its_prometheus_read_the_metrics() -> None:
    assert f"metadata\\.name={NAMESPACE}'" in (HERE / "install").read_text()


def test_outside_of_its_namespace_all_is_named_after_that() -> None:
    places = [(obj["metadata"]["name"], obj["metadata"].get("namespace")) for obj in bindings()]

    assert all(NAMESPACE in place for place in places)
