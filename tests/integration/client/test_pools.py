"""Pools at a real API server, through the program and the library: what a status says, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from efrit.client import PoolNotFound, Refused, connect
from tests.cluster.control_plane import ControlPlane
from tests.support.custom_resources import new_namespace
from tests.support.efrit_program import Program
from tests.support.kube import Kube

STATUS = {
    "desiredReplicas": 3,
    "replicas": 2,
    "ready": 1,
    "busy": 1,
    "pending": 4,
    "flows": [{"name": "blue", "running": 1, "pending": 4}],
    "lastScale": {"from": 2, "to": 3, "reason": "5 open requests", "time": "2026-01-31T09:30:00Z"},
    "conditions": [
        {
            "type": "Backlogged",
            "status": "True",
            "reason": "RequestsWaiting",
            "message": "Requests wait for a member.",
            "lastTransitionTime": "2026-01-31T09:30:00Z",
        }
    ],
}


@pytest.fixture
def team(kube: Kube) -> str:
    """Return a namespace without an operator, with a pool of a size, one that scales itself, and one by a label."""
    namespace = new_namespace(kube)
    kube.create("efritpools", namespace, {"metadata": {"name": "crew"}, "spec": {"replicas": 3}})
    kube.create("efritpools", namespace, {"metadata": {"name": "tides"}, "spec": {"autoscaling": {"maxReplicas": 9}}})
    kube.patch("efritpools", namespace, "crew", {"status": STATUS}, sub="status")
    labels = {"efrit.dev/pool": "hand"}
    kube.create("efritinstances", namespace, {"metadata": {"name": "first", "labels": labels}, "spec": {}})
    return namespace


@pytest.fixture
def program(team: str, plane: ControlPlane, tmp_path: Path) -> Program:
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "KUBECONFIG": str(plane.kubeconfig)}
    return Program("cluster", env, ("--namespace", team))


def test_the_pools_and_one_pool_are_shown(program: Program) -> None:
    rows = [line.split() for line in program.ok("pools").splitlines()]
    assert [row[0] for row in rows] == ["NAME", "crew", "tides"]
    assert rows[1][1:5] == ["3", "2", "1", "1"]
    text = program.ok("pools", "crew")
    assert "Requests wait for a member." in text
    assert "last scaled from 2 to 3" in text
    assert ["crew", "blue", "1", "4"] in [line.split() for line in text.splitlines()]
    assert program.run("pools", "tides", "-o", "json").json["autoscaled"]
    assert program.ok("pools", "-o", "name") == "crew\ntides\n"
    missing = program.run("pools", "crwe")
    assert (missing.code, "there is no pool 'crwe'" in missing.err) == (8, True), missing


def test_top_has_the_pools_and_their_flows(program: Program) -> None:
    text = program.ok("top", "--once")
    assert "POOL   FLOW   RUNNING   PENDING" in text
    assert "tides" in text


def test_a_pool_is_scaled_and_nothing_else_of_its_spec_is_written(program: Program, kube: Kube, team: str) -> None:
    before = kube.get("efritpools", team, "crew")["spec"]
    assert program.ok("scale", "crew", "5") == "crew is set to 5 members; it has 2\n"
    assert kube.get("efritpools", team, "crew")["spec"] == {**before, "replicas": 5}
    missing = program.run("scale", "crwe", "5")
    assert (missing.code, "there is no pool 'crwe'" in missing.err) == (8, True), missing


def test_a_pool_that_scales_itself_refuses_in_the_api_servers_words(program: Program, kube: Kube, team: str) -> None:
    before = kube.get("efritpools", team, "tides")["spec"]
    refused = program.run("scale", "tides", "5")
    assert (refused.code, refused.out) == (2, "")
    assert "either spec.replicas (for kubectl scale and other autoscalers) or spec.autoscaling" in refused.err
    assert kube.get("efritpools", team, "tides")["spec"] == before


def test_work_for_a_pool_that_is_not_there_is_refused_and_the_pools_are_named(
    program: Program, kube: Kube, team: str
) -> None:
    for words in (("eval", "--pool", "crwe", "1"), ("plan", "run", "Greet.", "--pool", "crwe", "--detach")):
        refused = program.run(*words)
        assert (refused.code, refused.out) == (8, ""), refused
        assert "no pool 'crwe'" in refused.err
        assert "crew, hand, tides" in refused.err
    assert kube.list("efritrequests", team) == kube.list("efritplans", team) == []


@pytest.mark.parametrize("pool", ["crew", "hand"])
def test_work_for_a_pool_or_for_instances_with_its_label_is_created(
    program: Program, kube: Kube, team: str, pool: str
) -> None:
    name = program.ok("submit", "--pool", pool, "1").strip()
    assert kube.get("efritrequests", team, name)["spec"]["poolRef"] == {"name": pool}


def test_a_program_in_python_sees_and_scales_them(plane: ControlPlane, kube: Kube, team: str) -> None:
    with connect(kubeconfig=plane.kubeconfig, namespace=team) as client:
        crew, tides = client.pools()
        assert (crew.name, crew.desired, crew.flows[0].pending, tides.autoscaled) == ("crew", 3, 4, True)
        assert client.pool("crew") == crew
        assert client.scale_pool("crew", 2).desired == 2
        with pytest.raises(Refused, match=r"either spec\.replicas"):
            client.scale_pool("tides", 2)
        with pytest.raises(PoolNotFound, match="crwe"):
            client.submit("1", pool="crwe")
    assert kube.get("efritpools", team, "crew")["spec"]["replicas"] == 2
