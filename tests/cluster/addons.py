"""What a bare cluster runs in itself: CoreDNS and the default StorageClass `standard`, as kind has them.

Written as Python objects and applied as JSON, so that addresses and names are said once.
"""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.node import DNS_IP
from tests.cluster.node_images import BUSYBOX_IMAGE, COREDNS_IMAGE, PROVISIONER_IMAGE
from tests.cluster.paths import Layout

Document = dict[str, Any]

# Deployments that must be available before the cluster counts as up.
DEPLOYMENTS = (("kube-system", "coredns"), ("local-path-storage", "local-path-provisioner"))

# Two blocks because `template` comes before `kubernetes` within one, whatever the order written.
COREFILE = """\
cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {
  errors
  health
  ready
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    pods insecure
    ttl 5
  }
  reload
}
# Nothing outside the cluster can be reached: say so at once instead of letting clients time out.
.:53 {
  errors
  template ANY ANY {
    rcode NXDOMAIN
  }
}
"""


def manifests(layout: Layout) -> str:
    """Everything as one JSON List for `kubectl apply -f -`."""
    items = [*_dns(), *_storage(layout)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _dns() -> list[Document]:
    space, labels = "kube-system", {"k8s-app": "kube-dns"}
    rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    container = {
        "name": "coredns",
        "image": COREDNS_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
        "securityContext": {"runAsUser": 0, "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}},
    }
    pod = {
        "serviceAccountName": "coredns",
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    return [
        *_account("coredns", space, "system:coredns", rules),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _meta("coredns", space),
            "data": {"Corefile": COREFILE},
        },
        _deployment("coredns", space, labels, pod),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _meta("kube-dns", space),
            "spec": {"clusterIP": DNS_IP, "selector": labels, "ports": ports},
        },
    ]


def _storage(layout: Layout) -> list[Document]:
    space, name = "local-path-storage", "local-path-provisioner"
    rules = [
        {
            "apiGroups": [""],
            "resources": ["nodes", "persistentvolumeclaims", "configmaps", "pods", "pods/log"],
            "verbs": ["get", "list", "watch"],
        },
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]},
        {
            "apiGroups": [""],
            "resources": ["persistentvolumes"],
            "verbs": ["get", "list", "watch", "create", "patch", "update", "delete"],
        },
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["get", "list", "watch"]},
    ]
    settings = {
        "config.json": json.dumps(
            {"nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [str(layout.volumes)]}]}
        ),
        # 0777: pods of any user and group must be able to write, as on kind.
        "setup": '#!/bin/sh\nset -eu\nmkdir -m 0777 -p "$VOL_DIR"\n',
        "teardown": '#!/bin/sh\nset -eu\nrm -rf "$VOL_DIR"\n',
        "helperPod.yaml": json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "helper-pod"},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [
                        {
                            "name": "helper-pod",
                            "image": BUSYBOX_IMAGE,
                            "imagePullPolicy": "IfNotPresent",
                            "securityContext": {"runAsUser": 0},
                        }
                    ],
                },
            }
        ),
    }
    container = {
        "name": name,
        "image": PROVISIONER_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": ["start", "--config", "/etc/config/config.json"],
        "env": [{"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}],
    }
    pod = {
        "serviceAccountName": f"{name}-service-account",
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "local-path-config"}}],
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}},
        *_account(f"{name}-service-account", space, name, rules),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta("local-path-config", space), "data": settings},
        _deployment(name, space, {"app": name}, pod),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": "standard",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "rancher.io/local-path",
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        },
    ]


def _meta(name: str, space: str) -> Document:
    return {"name": name, "namespace": space}


def _account(account: str, space: str, role: str, rules: list[Document]) -> list[Document]:
    """Return a service account bound to a cluster role with these rules."""
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(account, space)},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": space}],
        },
    ]


def _deployment(name: str, space: str, labels: Document, pod: Document) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**_meta(name, space), "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
