"""What the chart renders for the MCP server: nothing unless asked, and then no right beyond its work."""

from __future__ import annotations

from pathlib import Path

import pytest

from efrit.mcp import settings
from tests.unit.repository.test_chart import Manifest, only, render_all, rules, run_template, values_of

NAME = "efrit-operator-mcp"
ASKED = ("--set", "mcp.enabled=true", "--set", "mcp.tlsSecretName=tls")


def named(manifests: list[Manifest], name: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["metadata"]["name"].startswith(name)]


def words(manifests: list[Manifest], name: str = NAME) -> list[str]:
    container = only(manifests, "Deployment", name)["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["efrit-mcp"]
    return list(container["args"])


def test_nothing_of_it_is_there_unless_asked() -> None:
    assert named(render_all(), NAME) == []


def test_it_is_not_installed_without_a_certificate() -> None:
    done = run_template("--set", "mcp.enabled=true")
    assert done.returncode != 0
    assert "mcp.tlsSecretName" in done.stderr


@pytest.mark.parametrize("calls", [128, 200])
def test_as_many_calls_as_connections_are_refused_with_what_to_change(calls: int) -> None:
    done = run_template(*ASKED, "--set", f"mcp.limits.calls={calls}")
    assert done.returncode != 0
    assert f"mcp.limits.calls ({calls}) must be less than mcp.limits.connections (128)" in done.stderr


@pytest.mark.parametrize(("values", "name"), [("mcp", NAME), ("everything", "efrit-mcp")])
def test_the_program_takes_the_arguments_it_is_given(values: str, name: str) -> None:
    read = settings.read(words(render_all(*values_of(values)), name))
    assert read.http is not None
    assert read.http.authenticated
    assert read.http.certificate == Path("/etc/efrit-mcp/tls/tls.crt")
    assert f"{name}.efrit-system.svc" in read.http.allowed_hosts


def test_what_is_set_reaches_the_program() -> None:
    read = settings.read(words(render_all(*values_of("everything")), "efrit-mcp"))
    assert read.access == "not-destructive"
    assert read.http is not None
    assert read.http.audiences == ("mcp.example.org",)
    assert "mcp.example.org" in read.http.allowed_hosts
    assert read.http.allowed_origins == ("https://chat.example.org",)
    assert read.http.authorization_servers == ("https://login.example.org",)
    assert read.http.limits == settings.Limits(100, 100, 50, 5)
    assert read.http.state_key == Path("/etc/efrit-mcp/state/key")


ALL = ["get", "list", "watch", "create", "patch"]


def on(verbs: list[str]) -> list[str]:
    """Return the verbs in the name of a service account, and of another user."""
    return [f"impersonate-on:{mode}:{verb}" for mode in ("serviceaccount", "user-info") for verb in verbs]


def test_what_it_may_do_it_may_do_in_the_name_of_its_callers_alone() -> None:
    manifests = render_all(*ASKED)
    kinds_of_ours = ["efritinstances", "efritrequests", "efritplans"]
    assert rules(only(manifests, "ClusterRole", NAME)) == [
        (["efrit.dev"], kinds_of_ours, on(ALL)),
        (["efrit.dev"], ["efritpools"], on(["get", "list", "patch"])),
        (["apps"], ["controllerrevisions"], on(["list"])),
        (["efrit.dev"], ["efritclaims"], on(["get", "list", "watch", "create", "patch"])),
        (["efrit.dev"], ["efritpools/scale"], on(["patch"])),
    ]
    who = ["authentication.k8s.io"]
    assert rules(only(manifests, "ClusterRole", f"{NAME}-callers")) == [
        (who, ["tokenreviews"], ["create"]),
        (who, ["serviceaccounts"], ["impersonate:serviceaccount"]),
        (who, ["users", "groups", "uids"], ["impersonate:user-info"]),
    ]
    extras = render_all(*ASKED, "--set", "mcp.userExtras={a.example/b}")
    assert "userextras/a.example/b" in rules(only(extras, "ClusterRole", f"{NAME}-callers"))[2][1]


def test_it_may_do_things_itself_where_kubernetes_has_no_other_way() -> None:
    old = ("--kube-version", "1.35.0")
    refused = run_template(*ASKED, *old)
    assert refused.returncode != 0
    assert "mcp.actAs: server" in refused.stderr
    manifests = render_all(*ASKED, *old, "--set", "mcp.actAs=server")
    assert "--act-as=server" in words(manifests)
    assert rules(only(manifests, "ClusterRole", NAME))[0][2] == ALL
    assert only(manifests, "ClusterRoleBinding", f"{NAME}-reviews")["roleRef"]["name"] == "system:auth-delegator"


def test_read_only_it_may_change_nothing() -> None:
    manifests = render_all(*ASKED, "--set", "mcp.access=read-only")
    assert "--read-only" in words(manifests)
    assert rules(only(manifests, "ClusterRole", NAME)) == [
        (["efrit.dev"], ["efritinstances", "efritrequests", "efritplans"], on(["get", "list", "watch"])),
        (["efrit.dev"], ["efritpools"], on(["get", "list"])),
        (["apps"], ["controllerrevisions"], on(["list"])),
        (["efrit.dev"], ["efritclaims"], on(["list"])),
    ]


def test_without_destructive_tools_it_may_change_no_pool_and_end_no_claim() -> None:
    role = only(render_all(*ASKED, "--set", "mcp.access=not-destructive"), "ClusterRole", NAME)
    assert ["efritpools/scale"] not in [resources for _, resources, _ in rules(role)]
    assert (["efrit.dev"], ["efritpools"], on(["get", "list"])) in rules(role)
    assert (["efrit.dev"], ["efritclaims"], on(["get", "list", "watch", "create"])) in rules(role)


def test_secrets_and_pods_are_out_of_its_reach_unless_long_results_are_asked_for() -> None:
    long = rules(only(render_all(*ASKED, "--set", "mcp.longResults=true"), "ClusterRole", NAME))
    assert long[5:] == [([""], ["secrets"], on(["get"])), ([""], ["pods/exec"], on(["get", "create"]))]


def test_for_named_namespaces_its_role_is_in_these_alone() -> None:
    manifests = named(render_all(*ASKED, "--set", "watchNamespaces={a,b}"), NAME)
    roles = [manifest for manifest in manifests if manifest["kind"] == "Role"]
    assert [role["metadata"]["namespace"] for role in roles] == ["a", "b"]
    (cluster,) = (manifest for manifest in manifests if manifest["kind"] == "ClusterRole")
    # Whose name it may use gives nothing without a right to use it on something.
    assert {group for groups, _, _ in rules(cluster) for group in groups} == {"authentication.k8s.io"}


def test_the_bridges_do_not_take_it_for_the_controller() -> None:
    manifests = render_all(*ASKED)
    pods = {
        name: only(manifests, "Deployment", name)["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
        for name in ("efrit-operator", NAME)
    }
    assert pods == {"efrit-operator": "efrit-operator", NAME: "efrit-mcp"}
    selected = only(manifests, "Service", NAME)["spec"]["selector"]
    assert selected["app.kubernetes.io/name"] == "efrit-mcp"
