"""What the chart renders, for the values people set: `helm template` run as a program, its output read as YAML."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from efrit.api.crd import RESOURCES
from efrit.api.pool import AVAILABLE, BACKLOGGED, PROGRESSING, SCALING_ACTIVE, SCALING_LIMITED
from efrit.controller.settings import Settings
from tests.support import yaml_documents

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "efrit-operator"
CRDS = sorted((ROOT / "charts/efrit-operator/crd-files").glob("*.yaml"))
VALUE_SETS = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))

IMAGES = ("--values", str(CHART / "ci" / "default-values.yaml"))
"""What has no default."""

WITH_CRDS = ("--set", "crds.install=true")
"""Without a file of values a test renders no definitions, nine tenths of all text, unless it says this."""

Manifest = dict[str, Any]

OURS = ["efritinstances", "efritrequests", "efritplans", "efritpools", "efritclaims"]
CONTROLLER_RULES = [
    (["efrit.dev"], ["efritinstances"], ["get", "list", "watch", "create", "patch", "delete"]),
    (["efrit.dev"], ["efritplans", "efritclaims"], ["get", "list", "watch", "delete"]),
    (["efrit.dev"], ["efritpools"], ["list", "watch"]),
    (["efrit.dev"], ["efritrequests"], ["get", "list", "watch", "create", "patch", "delete"]),
    (
        ["efrit.dev"],
        [f"{plural}/status" for plural in OURS],
        ["patch"],
    ),
    (["apps"], ["statefulsets"], ["list", "watch", "create", "patch"]),
    (["apps"], ["controllerrevisions"], ["list", "create", "delete"]),
    ([""], ["pods"], ["list", "watch"]),
    ([""], ["persistentvolumeclaims"], ["get", "list", "watch", "create", "patch"]),
    ([""], ["secrets"], ["create", "patch"]),
    ([""], ["serviceaccounts"], ["list", "create", "patch"]),
    (["networking.k8s.io"], ["networkpolicies"], ["list", "create", "patch"]),
    (["policy"], ["poddisruptionbudgets"], ["create", "patch"]),
    ([""], ["events"], ["list", "create", "patch"]),
]


@cache
def helm() -> str:
    """Return the built program, or one on PATH; fail without it, since nothing here can be said then."""
    command = [sys.executable, "-c", "from tests.cluster.programs import directory; print(directory())"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    program = shutil.which("helm", path=os.pathsep.join([built, os.environ.get("PATH", "")]))
    if program is None:
        pytest.fail("there is no helm: run `make tools`.")
    return program


def run_template(*arguments: str) -> subprocess.CompletedProcess[str]:
    crds = () if "--values" in arguments else ("--set", "crds.install=false")
    command = [helm(), "template", "efrit-operator", str(CHART), "--namespace", "efrit-system", *IMAGES, *crds]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)


@cache
def text_of(*arguments: str) -> str:
    done = run_template(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def _json_manifests(*arguments: str) -> str:
    return json.dumps([document for document in yaml_documents.load_all(text_of(*arguments)) if document])


def render_all(*arguments: str) -> list[Manifest]:
    """Return what the chart renders; each caller has objects of its own, though the text is parsed once."""
    manifests: list[Manifest] = json.loads(_json_manifests(*arguments))
    return manifests


def render(*arguments: str) -> list[Manifest]:
    """Without the MCP server's objects, of which test_chart_mcp.py speaks."""
    part = "app.kubernetes.io/component"
    return [
        manifest for manifest in render_all(*arguments) if manifest["metadata"].get("labels", {}).get(part) != "mcp"
    ]


def values_of(name: str) -> tuple[str, str]:
    return "--values", str(CHART / "ci" / f"{name}-values.yaml")


def of_set(name: str) -> list[Manifest]:
    return render(*values_of(name))


def only(manifests: list[Manifest], kind: str, name: str | None = None) -> Manifest:
    matching = [m for m in manifests if m["kind"] == kind and name in (None, m["metadata"]["name"])]
    assert len(matching) == 1, [(m["kind"], m["metadata"]["name"]) for m in manifests]
    return matching[0]


def kinds(manifests: list[Manifest]) -> set[str]:
    return {manifest["kind"] for manifest in manifests}


def rules(role: Manifest) -> list[tuple[list[str], list[str], list[str]]]:
    return [(rule["apiGroups"], rule["resources"], rule["verbs"]) for rule in role["rules"]]


def pod(manifests: list[Manifest]) -> Manifest:
    spec: Manifest = only(manifests, "Deployment")["spec"]["template"]["spec"]
    return spec


def environment(manifests: list[Manifest]) -> dict[str, str]:
    variables = pod(manifests)["containers"][0]["env"]
    return {v["name"]: v.get("value", v.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")) for v in variables}


def test_the_controller_gets_its_whole_configuration_by_environment() -> None:
    version = yaml_documents.load((CHART / "Chart.yaml").read_text())["appVersion"]
    variables = environment(render())
    resources = json.loads(variables.pop("EFRIT_BRIDGE_RESOURCES"))
    emacs = json.loads(variables.pop("EFRIT_EMACS_RESOURCES"))
    assert variables == {
        "EFRIT_OPERATOR_NAMESPACE": "metadata.namespace",
        "EFRIT_POD_NAME": "metadata.name",
        "EFRIT_WATCH_NAMESPACES": "",
        "EFRIT_OPERATOR_IMAGE": f"efrit/operator:{version}",
        "EFRIT_EMACS_IMAGE": f"efrit/emacs:30-{version}",
        "EFRIT_IMAGE_PULL_POLICY": "IfNotPresent",
        "EFRIT_IMAGE_PULL_SECRETS": "",
        "EFRIT_IDENTITY_SECRET": "efrit-operator-identity",
        "EFRIT_LEASE_NAME": "efrit-operator",
        "EFRIT_HTTP_PORT": "8080",
        "EFRIT_METRICS_AUTH": "false",
        "EFRIT_METRICS_PORT": "8443",
        "EFRIT_LOG_LEVEL": "info",
        "EFRIT_LOG_FORMAT": "text",
        "EFRIT_ROLLOUT_MAX_CONCURRENT": "5",
        "EFRIT_ROLLOUT_MAX_CONCURRENT_PER_NAMESPACE": "2",
        "EFRIT_ROLLOUT_MAX_HOLD_SECONDS": "3600",
        "EFRIT_ROLLOUT_PROGRESS_DEADLINE_SECONDS": "600",
        "EFRIT_QUEUE_TIMEOUT_SECONDS": "604800",
        "EFRIT_REQUEST_TTL_SECONDS": "2592000",
        "EFRIT_REQUESTER": "false",
    }
    assert resources == {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
    assert emacs == {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "2Gi"}}


def test_values_reach_the_environment() -> None:
    variables = environment(of_set("everything"))
    digest = "sha256:" + "0123456789abcdef" * 4
    assert variables["EFRIT_WATCH_NAMESPACES"] == "team-a,team-b"
    assert variables["EFRIT_OPERATOR_IMAGE"] == f"registry.example.org/efrit/operator@{digest}"
    assert variables["EFRIT_EMACS_IMAGE"] == "registry.example.org/efrit/emacs:30"
    assert variables["EFRIT_IMAGE_PULL_SECRETS"] == "registry,mirror"
    assert variables["EFRIT_IDENTITY_SECRET"] == "efrit-keys"
    assert variables["EFRIT_LEASE_NAME"] == "efrit"
    assert variables["EFRIT_HTTP_PORT"] == "9090"
    assert (variables["EFRIT_LOG_LEVEL"], variables["EFRIT_LOG_FORMAT"]) == ("debug", "json")
    assert {name: value for name, value in variables.items() if name.startswith("EFRIT_ROLLOUT_")} == {
        "EFRIT_ROLLOUT_MAX_CONCURRENT": "7",
        "EFRIT_ROLLOUT_MAX_CONCURRENT_PER_NAMESPACE": "3",
        "EFRIT_ROLLOUT_MAX_HOLD_SECONDS": "1800",
        "EFRIT_ROLLOUT_PROGRESS_DEADLINE_SECONDS": "300",
    }
    assert variables["HTTPS_PROXY"] == "http://proxy.example.org:3128"


@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_bridge_runs_from_the_image_of_the_controller(name: str) -> None:
    manifests = of_set(name)
    assert environment(manifests)["EFRIT_OPERATOR_IMAGE"] == pod(manifests)["containers"][0]["image"]


@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_pod_meets_the_restricted_pod_security_standard(name: str) -> None:
    spec = pod(of_set(name))
    (container,) = spec["containers"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & spec.keys()
    assert "hostPort" not in container["ports"][0]


def test_a_controller_that_has_ended_is_known_by_what_it_left_in_its_termination_log() -> None:
    (container,) = pod(render())["containers"]
    settings = Settings(operator_image="operator", emacs_image="emacs")
    assert container["terminationMessagePath"] == settings.termination_log
    # Its own words, not the end of its log.
    assert container["terminationMessagePolicy"] == "File"


def test_the_controller_is_probed_where_it_listens() -> None:
    (container,) = pod(of_set("everything"))["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": 9090, "protocol": "TCP"}]
    paths = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
    assert paths["startup"] == paths["liveness"] == {"path": "/healthz", "port": "http"}
    assert paths["readiness"] == {"path": "/readyz", "port": "http"}


def test_a_service_of_an_unlucky_name_cannot_change_the_configuration() -> None:
    assert pod(render())["enableServiceLinks"] is False


def test_the_memory_is_limited_and_the_cpu_is_not() -> None:
    assert pod(render())["containers"][0]["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"memory": "256Mi"},
    }


def test_the_whole_cluster_is_served_with_a_cluster_role_of_exactly_these_rules() -> None:
    manifests = render()
    assert rules(only(manifests, "ClusterRole", "efrit-operator")) == CONTROLLER_RULES
    binding = only(manifests, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == "efrit-operator"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "efrit-operator", "namespace": "efrit-system"}]


def test_named_namespaces_are_served_with_a_role_in_each_and_nothing_cluster_wide() -> None:
    manifests = of_set("everything")
    for namespace in ("team-a", "team-b"):
        there = [m for m in manifests if m["metadata"].get("namespace") == namespace]
        assert kinds(there) == {"Role", "RoleBinding"}
        assert rules(only(there, "Role")) == CONTROLLER_RULES
        assert only(there, "RoleBinding")["subjects"] == [
            {"kind": "ServiceAccount", "name": "efrit-controller", "namespace": "efrit-system"}
        ]
    assert "ClusterRoleBinding" not in kinds(manifests)


def test_a_team_can_install_it_without_any_cluster_wide_object() -> None:
    manifests = of_set("one-namespace")
    assert [m["kind"] for m in manifests if "namespace" not in m["metadata"]] == []


def test_in_its_own_namespace_the_controller_reaches_its_lease_its_identity_and_its_pods_only() -> None:
    manifests = of_set("everything")
    role = only(manifests, "Role", "efrit-own-namespace")
    assert role["metadata"]["namespace"] == "efrit-system"
    assert role["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["efrit"],
            "verbs": ["get", "patch"],
        },
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["efrit-keys"], "verbs": ["get"]},
    ]


def test_the_own_namespace_may_be_served_as_well() -> None:
    manifests = render("--set", "watchNamespaces={efrit-system}")
    names = sorted(m["metadata"]["name"] for m in manifests if m["kind"] == "Role")
    assert names == ["efrit-operator", "efrit-operator-own-namespace"]


@pytest.mark.parametrize("name", ["default", "everything"])
def test_no_role_of_the_controller_reads_secrets_but_its_identity(name: str) -> None:
    roles = [manifest for manifest in of_set(name) if manifest["kind"] in ("Role", "ClusterRole")]
    granted = [
        (verb, rule.get("resourceNames"))
        for role in roles
        if "mcp" not in role["metadata"]["name"]
        for rule in role["rules"]
        for verb in rule["verbs"]
        if "secrets" in rule["resources"] and verb not in ("create", "patch")
    ]
    assert [(verb, len(names or ())) for verb, names in granted] == [("get", 1)]


@pytest.mark.parametrize("value", ["image", "emacsImage"])
def test_no_image_is_pulled_from_where_anybody_may_claim_its_name(value: str) -> None:
    done = run_template("--set", f"{value}.repository=")
    assert done.returncode != 0
    assert f"{value}.repository is required" in done.stderr


def test_viewers_see_instances_and_requests_and_no_secrets() -> None:
    role = only(render(), "ClusterRole", "efrit-operator-view")
    assert rules(role) == [(["efrit.dev"], [*OURS[:-1], "efritpools/scale", OURS[-1]], ["get", "list", "watch"])]
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"


def test_editors_change_instances_and_requests_but_not_their_status() -> None:
    role = only(render(), "ClusterRole", "efrit-operator-edit")
    verbs = ["create", "update", "patch", "delete", "deletecollection"]
    scale = (["efrit.dev"], ["efritpools/scale"], ["update", "patch"])
    assert rules(role) == [(["efrit.dev"], OURS, verbs), scale]
    labels = role["metadata"]["labels"]
    assert labels["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    assert "rbac.authorization.k8s.io/aggregate-to-view" not in labels


@pytest.mark.parametrize("path", CRDS, ids=lambda path: path.stem)
def test_the_chart_ships_the_definitions_byte_by_byte(path: Path) -> None:
    assert path.read_text() in text_of(*WITH_CRDS, "--set", "crds.keep=false")


@pytest.mark.parametrize("path", CRDS, ids=lambda path: path.stem)
def test_a_kept_definition_differs_by_its_annotation_only(path: Path) -> None:
    definition = yaml_documents.load(path.read_text())
    rendered = only(render(*WITH_CRDS), "CustomResourceDefinition", definition["metadata"]["name"])
    assert rendered["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert rendered == definition


def test_no_definition_is_shipped_that_the_models_do_not_make() -> None:
    assert [path.name for path in CRDS] == sorted(f"efrit.dev_{resource.plural}.yaml" for resource in RESOURCES)
    assert "CustomResourceDefinition" not in kinds(of_set("bare"))


def test_the_network_policy_lets_out_dns_the_api_server_and_bridges() -> None:
    policy = only(render(), "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["podSelector"]["matchLabels"].items() <= template_labels(render()).items()
    assert policy["ingress"] == []
    dns, api_server, bridges = policy["egress"]
    assert dns == {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
    assert api_server == {"ports": [{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]}
    instances = {"app.kubernetes.io/name": "efrit-instance", "app.kubernetes.io/managed-by": "efrit-operator"}
    assert bridges == {
        "ports": [{"port": 8443, "protocol": "TCP"}],
        "to": [{"podSelector": {"matchLabels": instances}, "namespaceSelector": {}}],
    }


def test_the_network_policy_narrows_with_the_values() -> None:
    policy = only(of_set("everything"), "NetworkPolicy")["spec"]
    _, api_server, bridges = policy["egress"]
    assert api_server == {
        "ports": [{"port": 6443, "protocol": "TCP"}],
        "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}],
    }
    (named,) = bridges["to"][0]["namespaceSelector"]["matchExpressions"]
    assert (named["key"], named["values"]) == ("kubernetes.io/metadata.name", ["team-a", "team-b"])
    assert policy["ingress"][0]["from"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ]


def template_labels(manifests: list[Manifest]) -> dict[str, str]:
    labels: dict[str, str] = only(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"]
    return labels


def test_instances_recognise_the_controller_by_a_label_no_value_changes() -> None:
    manifests = render("--set", "fullnameOverride=other", "--set-string", r"podLabels.app\.kubernetes\.io/name=mine")
    assert template_labels(manifests)["app.kubernetes.io/name"] == "efrit-operator"


def test_a_single_controller_does_not_keep_its_node_from_being_drained() -> None:
    assert "PodDisruptionBudget" not in kinds(of_set("single"))


def test_several_controllers_spread_and_are_disrupted_one_at_a_time() -> None:
    manifests = render()
    budget = only(manifests, "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= template_labels(manifests).items()
    spec = pod(manifests)
    assert spec["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "ScheduleAnyway"
    assert "preferredDuringSchedulingIgnoredDuringExecution" in spec["affinity"]["podAntiAffinity"]


def test_monitoring_kinds_come_only_when_asked_for() -> None:
    assert not {"ServiceMonitor", "PrometheusRule"} & kinds(render())
    assert {"ServiceMonitor", "PrometheusRule"} <= kinds(of_set("everything"))


def test_metrics_that_take_a_token_are_served_and_scraped_at_the_secure_port_alone() -> None:
    manifests = render(*values_of("metrics-auth"))
    (service,) = [manifest for manifest in manifests if manifest["kind"] == "Service"]
    (policy,) = [manifest for manifest in manifests if manifest["kind"] == "NetworkPolicy"]
    (endpoint,) = next(manifest for manifest in manifests if manifest["kind"] == "ServiceMonitor")["spec"][
        "endpoints"
    ]
    roles = {
        manifest["metadata"]["name"]: manifest["rules"] for manifest in manifests if manifest["kind"] == "ClusterRole"
    }

    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["metrics"]
    assert [port["port"] for port in policy["spec"]["ingress"][0]["ports"]] == ["metrics"]
    assert (endpoint["port"], endpoint["scheme"]) == ("metrics", "https")
    assert roles["efrit-operator-metrics-reader"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert [(rule["resources"], rule["verbs"]) for rule in roles["efrit-operator-metrics-auth"]] == [
        (["tokenreviews"], ["create"]),
        (["subjectaccessreviews"], ["create"]),
    ]


def test_metrics_that_take_a_token_at_the_port_of_the_probes_are_refused_with_what_to_change() -> None:
    same_port = ("--set", "metrics.port=8443")
    done = run_template("--set", "metrics.auth=true", *same_port)
    assert done.returncode != 0
    assert "metrics.auth needs a metrics.securePort of its own" in done.stderr
    assert "are 8443" in done.stderr
    assert run_template(*same_port).returncode == 0


def test_the_alerts_name_the_job_that_the_service_makes() -> None:
    manifests = of_set("everything")
    service = only(manifests, "Service")["metadata"]["name"]
    (group,) = only(manifests, "PrometheusRule")["spec"]["groups"]
    down = next(rule for rule in group["rules"] if rule["alert"] == "EfritOperatorDown")
    assert down["expr"] == f'absent(up{{job="{service}", namespace="efrit-system"}} == 1)'
    assert all(rule["labels"]["team"] == "editors" for rule in group["rules"])


def test_each_metric_of_a_pool_that_an_alert_names_is_one_of_the_controller() -> None:
    (group,) = only(of_set("everything"), "PrometheusRule")["spec"]["groups"]
    rules = {rule["alert"]: rule for rule in group["rules"] if rule["alert"].startswith("EfritPool")}
    served = (ROOT / "operator/efrit/controller/pool_metrics.py").read_text()
    conditions = {AVAILABLE, BACKLOGGED, PROGRESSING, SCALING_ACTIVE, SCALING_LIMITED}

    assert set(rules) == {"EfritPoolBacklogged", "EfritPoolLimited", "EfritPoolRolloutStuck"}
    for rule in rules.values():
        named = set(re.findall(r"efrit_\w+", rule["expr"]))
        assert named
        assert {name for name in named if f'"{name}"' not in served} == set()
        assert set(re.findall(r'condition="(\w+)"', rule["expr"])) <= conditions
        # Each name must be within one job: two releases may serve pools of one name.
        assert rule["expr"].count('job="') == len(re.findall(r"efrit_\w+{", rule["expr"]))
        assert "pool_namespace" in rule["annotations"]["description"]


def test_alerts_without_their_scrapes_are_refused_with_the_reason() -> None:
    done = run_template("--set", "metrics.prometheusRule.enabled=true")
    assert done.returncode != 0
    assert "metrics.prometheusRule.enabled needs metrics.serviceMonitor.enabled" in done.stderr


def test_scrapes_that_the_network_policy_would_stop_are_refused_with_the_reason() -> None:
    done = run_template("--set", "metrics.serviceMonitor.enabled=true")
    assert done.returncode != 0
    assert "needs networkPolicy.metricsFrom" in done.stderr
    assert (
        run_template(
            "--set", "metrics.serviceMonitor.enabled=true", "--set", "networkPolicy.enabled=false"
        ).returncode
        == 0
    )


@pytest.mark.parametrize(
    "setting",
    [
        "replica=2",
        "image.name=x",
        "replicas=two",
        "logging.level=loud",
        "image.digest=sha256:12",
        "metrics.port=80",
        "watchNamespaces={Team}",
        "resources.limit.cpu=1",
        "networkPolicy.apiServer.cidrs={10.0.0.1}",
    ],
)
def test_a_mistyped_value_is_refused_by_name(setting: str) -> None:
    done = run_template("--set", setting)
    assert done.returncode != 0
    assert "don't meet the specifications of the schema" in done.stderr
    assert setting.split("=")[0].split(".")[0] in done.stderr


BELOW = "efrit-operator: {image: {repository: mine}, emacsImage: {repository: mine}}\n"


def test_the_chart_may_be_part_of_another_one(tmp_path: Path) -> None:
    # Helm hands `global` to every chart below; a strict schema must not refuse it.
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: parent\nversion: 0.1.0\n")
    (tmp_path / "values.yaml").write_text("global:\n  anything: goes\n" + BELOW)
    shutil.copytree(CHART, tmp_path / "charts" / "efrit-operator")
    done = subprocess.run([helm(), "template", "parent", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "name: parent-efrit-operator" in done.stdout


def test_the_chart_is_of_the_version_of_the_package() -> None:
    chart = yaml_documents.load((CHART / "Chart.yaml").read_text())
    assert f'version = "{chart["appVersion"]}"' in (ROOT / "pyproject.toml").read_text()


def test_the_emacs_package_is_of_the_version_of_the_package() -> None:
    chart = yaml_documents.load((CHART / "Chart.yaml").read_text())
    assert f";; Version: {chart['appVersion']}\n" in (ROOT / "images/emacs/lisp/efrit.el").read_text()


def test_the_readme_and_the_schema_follow_values_yaml(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run([str(ROOT / "charts" / "document"), str(tmp_path)], check=True, env=environment)
    for name in ("README.md", "values.schema.json"):
        assert (CHART / name).read_text() == (tmp_path / name).read_text(), f"{name}: run `make chart-docs`"


MUTATING = "admissionregistration.k8s.io/{}/MutatingAdmissionPolicy"
BINDING = "MutatingAdmissionPolicyBinding"


def requester(
    *values: str, kubernetes: str = "1.36.3", served: tuple[str, ...] = ("v1", "v1beta1")
) -> list[Manifest]:
    """Render with these values for an API server that serves policies of these versions."""
    versions = [word for version in served for word in ("--api-versions", MUTATING.format(version))]
    return render("--kube-version", kubernetes, *versions, *(word for value in values for word in ("--set", value)))


@pytest.mark.parametrize(
    ("served", "values", "version"),
    [
        (("v1", "v1beta1"), (), "v1"),
        (("v1beta1",), (), "v1beta1"),
        ((), (), None),
        (("v1",), ("pools.requester=true",), "v1"),
        ((), ("pools.requester=true",), "v1"),
        (("v1",), ("pools.requester=false",), None),
        (("v1",), ("watchNamespaces={team-a}",), None),
        (("v1",), ("watchNamespaces={team-a}", "pools.requester=true"), "v1"),
        (("v1",), ("admissionPolicy.enabled=false",), None),
    ],
)
def test_the_controller_believes_a_requester_only_where_a_policy_has_the_api_server_note_it(
    served: tuple[str, ...], values: tuple[str, ...], version: str | None
) -> None:
    manifests = requester(*values, served=served)
    policies = [manifest for manifest in manifests if manifest["kind"].startswith("MutatingAdmissionPolicy")]
    assert [policy["kind"] for policy in policies] == (["MutatingAdmissionPolicy", BINDING] if version else [])
    assert {policy["apiVersion"] for policy in policies} == (
        {f"admissionregistration.k8s.io/{version}"} if version else set()
    )
    assert environment(manifests)["EFRIT_REQUESTER"] == ("true" if version else "false")


def test_a_release_for_some_namespaces_notes_requesters_in_these_alone() -> None:
    spec = only(requester("watchNamespaces={a,b}", "pools.requester=true"), BINDING)["spec"]
    expression = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
    assert spec["matchResources"] == {"namespaceSelector": {"matchExpressions": [expression]}}
    assert "matchResources" not in only(requester(), BINDING)["spec"]


def test_a_requester_that_cannot_be_noted_is_refused_with_what_to_do() -> None:
    done = run_template("--kube-version", "1.35.0", "--set", "pools.requester=true")
    assert done.returncode != 0
    assert "needs MutatingAdmissionPolicies, which Kubernetes v1.35.0 does not serve" in done.stderr
    assert "Leave the value out, or set it to false" in done.stderr
