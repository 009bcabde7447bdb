"""What only a cluster can be tested for: rights, labels, contexts, and that nobody's answer is another's."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.control_plane import ControlPlane
from tests.model.running import Model
from tests.support.chart import token
from tests.support.custom_resources import new_namespace
from tests.support.efrit_program import Program
from tests.support.kube import Json, Kube, until
from tests.support.model_access import with_model


@pytest.fixture
def namespace_of(in_a_cluster: Program) -> str:
    return in_a_cluster.where[1]


def kubeconfig(plane: ControlPlane, bearer: str, namespace: str, server: str = "") -> str:
    authority = base64.b64encode(plane.authority.ca.read_bytes()).decode()
    cluster = {"server": server or plane.url, "certificate-authority-data": authority}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": bearer}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
        "current-context": "x",
    }
    return json.dumps(document)


@pytest.fixture
def powerless(in_a_cluster: Program, plane: ControlPlane, kube: Kube, tmp_path: Path) -> Iterator[Program]:
    """Yield the program in the hands of an account without any role."""
    namespace = in_a_cluster.where[1]
    name = f"nobody-{tmp_path.name.lower().replace('_', '-')}"[:60].rstrip("-")
    kube.create("serviceaccounts", namespace, {"metadata": {"name": name}})
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig(plane, token(kube, namespace, name), namespace))
    yield Program("cluster", {**in_a_cluster.env, "KUBECONFIG": str(path), "EFRIT_BACKEND": "cluster"})
    kube.delete("serviceaccounts", namespace, name)


def test_an_account_without_rights_is_refused_in_words(powerless: Program) -> None:
    for words in (("eval", "1"), ("instances",), ("requests",), ("stop", "one")):
        done = powerless.run(*words)
        assert (done.code, done.out) == (2, ""), words
        assert "forbidden" in done.err.lower()


def test_doctor_lists_the_rights_that_an_account_lacks(powerless: Program) -> None:
    done = powerless.run("doctor")
    assert done.code == 1
    assert "you may not create efritrequests" in done.out


def test_a_key_that_is_too_short_is_a_condition_that_doctor_repeats_and_evals_go_on(
    in_a_cluster: Program, kube: Kube, namespace_of: str, model: Model
) -> None:
    data = {"k": base64.b64encode(b"sk-1\n").decode()}
    kube.create("secrets", namespace_of, {"metadata": {"name": "short"}, "type": "Opaque", "data": data})
    spec = {"model": with_model(model, "short")}
    kube.create("efritinstances", namespace_of, {"metadata": {"name": "short"}, "spec": spec})

    def refused() -> Json | None:
        status = kube.get("efritinstances", namespace_of, "short").get("status", {})
        condition: Json | None = next(
            (condition for condition in status.get("conditions", ()) if condition["type"] == "ModelReady"), None
        )
        return condition if condition is not None and condition["status"] == "False" else None

    def warnings() -> list[Json]:
        return [event for event in kube.list("events", namespace_of) if event["reason"] == "KeyTooShort"]

    try:
        condition = until(refused, "the condition ModelReady of the instance short is not False")
        assert condition["reason"] == "KeyTooShort"
        assert condition["message"].startswith("The model's key (Secret short, key k) has fewer than 8 characters")
        done = in_a_cluster.run("doctor")
        assert (done.code, condition["message"] in done.out) == (1, True), done
        assert in_a_cluster.ok("eval", "--instance", "short", "(+ 1 2)") == "3\n"
        events = until(warnings, "no Event tells of the key")
        assert {event["type"] for event in events} == {"Warning"}
        assert "sk-1" not in json.dumps([kube.get("efritinstances", namespace_of, "short"), events])
    finally:
        kube.delete("efritinstances", namespace_of, "short")
        kube.delete("secrets", namespace_of, "short")


def test_the_namespace_is_the_contexts_own_unless_another_is_named(
    in_a_cluster: Program, kube: Kube, namespace_of: str, tmp_path: Path
) -> None:
    config = yaml.safe_load(Path(in_a_cluster.env["KUBECONFIG"]).read_text())
    config["contexts"][0]["context"]["namespace"] = namespace_of
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    named = Program("cluster", in_a_cluster.env, ("--kubeconfig", str(tmp_path / "kubeconfig")))
    assert named.ok("instances", "-o", "name") == "one\n"
    assert named.ok("instances", "-n", new_namespace(kube), "-o", "name") == ""


def test_a_request_of_another_namespace_is_not_found(in_a_cluster: Program, kube: Kube) -> None:
    name = in_a_cluster.ok("submit", "1").strip()
    other = Program("cluster", in_a_cluster.env, ("--namespace", new_namespace(kube)))
    assert other.run("wait", name).code == 8
    assert in_a_cluster.ok("wait", name) == "1\n"


def test_labels_choose_who_does_the_work(in_a_cluster: Program, kube: Kube, namespace_of: str) -> None:
    kube.patch("efritinstances", namespace_of, "one", {"metadata": {"labels": {"tier": "quick"}}})
    assert in_a_cluster.run("eval", "-l", "tier=quick", "-o", "json", "1").json["instance"] == "one"
    assert in_a_cluster.run("eval", "-l", "tier", "1").code == 2


def test_what_breaks_a_rule_of_the_api_is_reported_in_its_words(in_a_cluster: Program) -> None:
    done = in_a_cluster.run("eval", "--priority", "5000", "1")
    assert done.code == 2
    assert "spec.priority" in done.err


def test_a_cluster_that_is_not_there_ends_with_exit_code_9(
    in_a_cluster: Program, plane: ControlPlane, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig(plane, "x", "default", server="https://127.0.0.1:1"))
    for words in (("--kubeconfig", str(path)), ("--kubeconfig", str(tmp_path / "nothing"))):
        done = Program("cluster", in_a_cluster.env).run("eval", *words, "1")
        assert (done.code, done.out) == (9, ""), words
    done = Program("cluster", in_a_cluster.env).run("eval", "--kubeconfig", str(path), "--context", "other", "1")
    assert done.code == 9


def test_the_plugin_uses_the_cluster_by_default(in_a_cluster: Program, namespace_of: str) -> None:
    plugin = Program("cluster", in_a_cluster.env, program=in_a_cluster.program.with_name("kubectl-efrit"))
    done = plugin.run("instances", "-o", "name", "--namespace", namespace_of)
    assert (done.code, done.out) == (0, "one\n")
    assert "cluster: context" in plugin.run("doctor").out
