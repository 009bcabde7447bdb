"""Prometheus and prometheus-adapter on the cluster, as docs/pools.md has them for a HorizontalPodAutoscaler.

Both are built from their modules (tests/cluster/programs.py); the adapter's rules are those of the sample. They live
in a namespace of their own, which tests/cluster/install has `networkPolicy.metricsFrom` let in. All that is made is
named after it: the cluster may be somebody's, who has a Prometheus.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from efrit import resources
from tests.cluster.certificates import Authority
from tests.cluster.cli import choose
from tests.cluster.node_images import METRICS_ADAPTER_IMAGE, PROMETHEUS_IMAGE, metrics_archives
from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl
from tests.support.timeout import TIMEOUT

NAMESPACE = "efrit-e2e-monitoring"
PROMETHEUS, ADAPTER = "prometheus", "prometheus-adapter"
GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
API_SERVICE = f"{VERSION}.{GROUP}"
PROMETHEUS_PORT, ADAPTER_PORT = 9090, 6443


@contextmanager
def monitoring(kube: Kube, metrics: str, rules: Json, directory: Path) -> Iterator[None]:
    """Have external metrics on the cluster, by these rules of the adapter.

    metrics: host and port of the controller's. The APIService is there for as long as its server serves: without one
    the API server cannot delete namespaces.
    """
    # Of a run that was killed: its adapter has another certificate, and its APIService may have no server any more.
    _remove(kube)
    choose().load(metrics_archives())
    limit = f"--timeout={TIMEOUT:.0f}s"
    try:
        kubectl("apply", "-f", "-", stdin=_listed([*bindings(), *_objects(metrics, rules, directory)]))
        for name in (PROMETHEUS, ADAPTER):
            kubectl("rollout", "status", f"deployment/{name}", "-n", NAMESPACE, limit)
        registration = _registration((directory / "ca.crt").read_bytes())
        kubectl("apply", "-f", "-", stdin=_listed([registration]))
        kubectl("wait", f"apiservice/{API_SERVICE}", "--for=condition=Available", limit)
        yield
    finally:
        _remove(kube)


def served_by(kube: Kube) -> str | None:
    """Return the namespace whose server has the cluster's external metrics; None where nobody has them."""
    registered = kube.find(resources.API_SERVICES.kind, None, API_SERVICE)
    namespace: str | None = registered["spec"].get("service", {}).get("namespace") if registered else None
    return namespace


def _remove(kube: Kube) -> None:
    kubectl("delete", "apiservice", API_SERVICE, "--ignore-not-found")
    kubectl("delete", "-f", "-", "--ignore-not-found", "--wait=false", stdin=_listed(bindings()))
    until(lambda: kube.find("Namespace", None, NAMESPACE) is None, f"the namespace {NAMESPACE} does not go")


def diagnostics() -> str:
    """Return what a person would look at."""
    return "\n".join(
        [
            kubectl("get", "pods", "-n", NAMESPACE, "-o", "wide", check=False),
            kubectl("get", "apiservice", API_SERVICE, "-o", "yaml", check=False),
            *(
                f"--- {name}\n{kubectl('logs', f'deployment/{name}', '-n', NAMESPACE, '--tail=40', check=False)}"
                for name in (PROMETHEUS, ADAPTER)
            ),
        ]
    )


def _listed(items: list[Json]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _objects(metrics: str, rules: Json, directory: Path) -> list[Json]:
    authority, host = Authority(directory), f"{ADAPTER}.{NAMESPACE}.svc"
    authority.create()
    authority.issue(ADAPTER, f"/CN={ADAPTER}", [f"DNS:{host}"])
    scraped: Json = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [{"job_name": "efrit-operator", "static_configs": [{"targets": [metrics]}]}],
    }
    # JSON is YAML.
    files = {"prometheus.yml": json.dumps(scraped), "rules.yaml": json.dumps(rules)}
    pair = {
        "tls.crt": authority.certificate(ADAPTER).read_text(),
        "tls.key": authority.key(ADAPTER).read_text(),
    }
    prometheus = [
        "--config.file=/etc/files/prometheus.yml",
        "--storage.tsdb.path=/tmp",
        f"--web.listen-address=:{PROMETHEUS_PORT}",
    ]
    adapter = [
        "--config=/etc/files/rules.yaml",
        f"--prometheus-url=http://{PROMETHEUS}.{NAMESPACE}.svc:{PROMETHEUS_PORT}",
        "--metrics-relist-interval=5s",
        f"--secure-port={ADAPTER_PORT}",
        "--tls-cert-file=/etc/certificate/tls.crt",
        "--tls-private-key-file=/etc/certificate/tls.key",
    ]
    return [
        resources.SECRETS.manifest(_meta(ADAPTER), stringData=pair),
        resources.CONFIG_MAPS.manifest(_meta("files"), data=files),
        *_served(PROMETHEUS, PROMETHEUS_IMAGE, prometheus, PROMETHEUS_PORT, {"path": "/-/ready"}),
        *_served(ADAPTER, METRICS_ADAPTER_IMAGE, adapter, ADAPTER_PORT, {"path": "/readyz", "scheme": "HTTPS"}),
    ]


def bindings() -> list[Json]:
    """Return the namespace, the adapter's account and what an API server of an APIService may ask the first one."""
    group = resources.ROLES.group
    subjects = [{"kind": resources.SERVICE_ACCOUNTS.kind, "name": ADAPTER, "namespace": NAMESPACE}]
    role = {"kind": resources.ROLES.kind, "name": "extension-apiserver-authentication-reader"}
    cluster_role = {"kind": resources.CLUSTER_ROLES.kind, "name": "system:auth-delegator"}
    in_system = {"name": NAMESPACE, "namespace": "kube-system"}
    return [
        resources.NAMESPACES.manifest({"name": NAMESPACE}),
        resources.SERVICE_ACCOUNTS.manifest(_meta(ADAPTER)),
        resources.ROLE_BINDINGS.manifest(in_system, roleRef={"apiGroup": group, **role}, subjects=subjects),
        resources.CLUSTER_ROLE_BINDINGS.manifest(
            {"name": NAMESPACE}, roleRef={"apiGroup": group, **cluster_role}, subjects=subjects
        ),
    ]


def _meta(name: str) -> Json:
    return {"name": name, "namespace": NAMESPACE}


def _served(name: str, image: str, arguments: list[str], port: int, probe: Json) -> list[Json]:
    labels = {"app": name}
    container = {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "readinessProbe": {"httpGet": {"port": port, **probe}, "periodSeconds": 1},
        "volumeMounts": [
            {"name": "files", "mountPath": "/etc/files"},
            {"name": "certificate", "mountPath": "/etc/certificate"},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
    }
    pod = {
        "serviceAccountName": ADAPTER,
        "containers": [container],
        "volumes": [
            {"name": "files", "configMap": {"name": "files"}},
            {"name": "certificate", "secret": {"secretName": ADAPTER}},
            {"name": "scratch", "emptyDir": {}},
        ],
        "terminationGracePeriodSeconds": 1,
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    return [
        resources.DEPLOYMENTS.manifest(_meta(name), spec={"selector": {"matchLabels": labels}, "template": template}),
        resources.SERVICES.manifest(_meta(name), spec={"selector": labels, "ports": [{"port": port}]}),
    ]


def _registration(authority: bytes) -> Json:
    return resources.API_SERVICES.manifest(
        {"name": API_SERVICE},
        spec={
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": base64.b64encode(authority).decode(),
            "service": {"name": ADAPTER, "namespace": NAMESPACE, "port": ADAPTER_PORT},
        },
    )
