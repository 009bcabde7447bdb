"""The writes of an API server are counted from its metrics."""

from __future__ import annotations

from tests.support.bench import api_writes

LABELS = 'code="{code}",component="apiserver",dry_run="{dry}",group="{group}",resource="{resource}",verb="{verb}"'


def sample(
    verb: str, value: float, *, resource: str = "pods", group: str = "", code: int = 201, dry: str = ""
) -> str:
    labels = LABELS.format(verb=verb, code=code, group=group, resource=resource, dry=dry)
    return f"apiserver_request_total{{{labels}}} {value}\n"


def test_writes_that_succeeded_are_counted_by_resource() -> None:
    text = sample("POST", 2) + sample("PATCH", 3, code=200) + sample("PUT", 1.5e2, resource="leases")
    assert api_writes.of_metrics(f"# TYPE apiserver_request_total counter\n{text}") == {"pods": 5, "leases": 150}


def test_reads_refusals_dry_runs_and_questions_are_no_writes() -> None:
    text = (
        sample("GET", 1)
        + sample("WATCH", 1)
        + sample("POST", 1, code=409)
        + sample("POST", 1, dry="All")
        + sample("POST", 1, resource="tokenreviews", group="authentication.k8s.io")
    )
    assert api_writes.of_metrics(text) == {}


def test_the_writes_for_each_are_what_has_grown_most_first() -> None:
    before, after = {"a": 5.0, "b": 1.0}, {"a": 5.0, "b": 3.0, "c": 20.0}
    assert list(api_writes.between(before, after, 2).items()) == [("c", 10.0), ("b", 1.0)]
