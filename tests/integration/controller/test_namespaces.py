"""One namespace that is missing, forbidden or deleted disturbs no other, and is served again by itself."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from efrit import resources
from tests.cluster.control_plane import ControlPlane
from tests.integration.controller.test_deletion import NO_CLAIMS, collectors_of
from tests.support import chart
from tests.support.custom_resources import new_namespace
from tests.support.kube import Kube, until
from tests.support.operator import Operator
from tests.support.processes import Process
from tests.support.site import Site


@pytest.fixture(scope="module")
def collectors(plane: ControlPlane, kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with collectors_of(plane, tmp_path_factory.mktemp("collectors")) as process:
        yield process


def start(site: Site, *others: str) -> Operator:
    """Start a controller that serves the site's namespace and others."""
    operator = site.operator()
    operator.start(EFRIT_WATCH_NAMESPACES=",".join((site.namespace, *others)), EFRIT_SWEEP_SECONDS="1")
    return operator


def until_served(operator: Operator, namespace: str, served: bool) -> None:
    line = f'efrit_namespace_served{{watched_namespace="{namespace}"}}'
    until(lambda: operator.metric(line) == float(served), lambda: f"{line} is not {served}\n{operator.diagnostics()}")


def until_applied(kube: Kube, namespace: str, name: str, operator: Operator) -> None:
    """Wait for what the controller makes of an instance."""
    until(lambda: kube.find("statefulsets", namespace, f"efrit-{name}"), operator.diagnostics)


def make_instance(kube: Kube, namespace: str, name: str) -> None:
    kube.create("efritinstances", namespace, {"metadata": {"name": name}, "spec": NO_CLAIMS})


def log_lines(operator: Operator, word: str) -> list[str]:
    return [line for line in operator.process.log.read_text().splitlines() if word in line]


def test_a_namespace_that_does_not_exist_stops_nobody_and_is_served_once_it_is_there(site: Site) -> None:
    late = f"late-{secrets.token_hex(4)}"
    operator = start(site, late)
    site.instance()
    assert site.answer(site.ask("(+ 1 1)"))["result"] == "2"
    until_served(operator, late, False)
    site.kube.call("POST", resources.NAMESPACES.path(), resources.NAMESPACES.manifest({"name": late}))
    make_instance(site.kube, late, "two")
    chart.serve(site.kube, site.namespace, late)
    until_served(operator, late, True)
    until_applied(site.kube, late, "two", operator)
    assert len(log_lines(operator, f"namespace {late} is ")) == 2, "one line for each change, none for each attempt"


def test_rights_that_are_taken_away_stop_nobody_else_and_work_goes_on_when_they_are_given_back(site: Site) -> None:
    other = new_namespace(site.kube)
    chart.serve(site.kube, site.namespace, other)
    operator = start(site, other)
    site.instance()
    make_instance(site.kube, other, "kept")
    make_instance(site.kube, other, "deleted")
    until_applied(site.kube, other, "kept", operator)
    until_applied(site.kube, other, "deleted", operator)
    chart.refuse(site.kube, other)
    until_served(operator, other, False)
    # What happens meanwhile is reported by no watch.
    site.kube.delete("efritinstances", other, "deleted")
    make_instance(site.kube, other, "new")
    assert site.answer(site.ask("(+ 1 1)"))["result"] == "2"
    chart.serve(site.kube, site.namespace, other)
    until_served(operator, other, True)
    until_applied(site.kube, other, "new", operator)
    until(lambda: operator.metric("efrit_instances") == 3, operator.diagnostics)
    assert not log_lines(operator, "Traceback")
    assert len(log_lines(operator, "is not served")) == 1


def test_a_namespace_that_is_deleted_and_made_again_is_served_again(site: Site, collectors: Process) -> None:
    other = new_namespace(site.kube)
    chart.serve(site.kube, site.namespace, other)
    operator = start(site, other)
    site.instance()
    make_instance(site.kube, other, "two")
    until_applied(site.kube, other, "two", operator)
    site.kube.call("DELETE", resources.NAMESPACES.path(name=other))
    until_served(operator, other, False)
    query = {"fieldSelector": f"metadata.name={other}"}
    until(lambda: not site.kube.call("GET", resources.NAMESPACES.path(), **query)["items"], "the namespace stays")
    assert site.answer(site.ask("(+ 1 1)"))["result"] == "2"
    site.kube.call("POST", resources.NAMESPACES.path(), resources.NAMESPACES.manifest({"name": other}))
    chart.serve(site.kube, site.namespace, other)
    make_instance(site.kube, other, "two")
    until_served(operator, other, True)
    until_applied(site.kube, other, "two", operator)
