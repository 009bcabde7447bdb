"""The NetworkPolicy of an instance: nothing in but the operator, nothing out but DNS and the model (or its proxy).

A NetworkPolicy knows no host names: a model inside the cluster is allowed by its namespace, one outside by all
public addresses on its port, private, link-local and metadata ranges left out.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any
from urllib.parse import urlsplit

from efrit.api import EfritInstance
from efrit.api.instance_model import METADATA_ADDRESSES
from efrit.controller.model.config import ControllerConfig
from efrit.controller.model.names import BRIDGE_PORT, child_metadata, child_name, selector_labels
from efrit.resources import NETWORK_POLICIES

PRIVATE_V4 = ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
PRIVATE_V6 = ("::1/128", "fc00::/7", "fe80::/10")
NODE_LOCAL_DNS = "169.254.20.10/32"
DEFAULT_PORTS = {"http": 80, "https": 443}
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""A name that a namespace can have."""
# Those of curl, which is what asks the model.
DEFAULT_PROXY_PORTS = {"http": 1080, "https": 443, "socks5": 1080, "socks5h": 1080}


def build_network_policy(instance: EfritInstance, config: ControllerConfig) -> dict[str, Any]:
    """Return the policy of the instance's pod."""
    network = instance.spec.network
    ingress: list[dict[str, Any]] = [operator_ingress(config)]
    if network.allow_ingress_from:
        ingress.append({"from": [dict(peer) for peer in network.allow_ingress_from]})
    egress: list[dict[str, Any]] = [_dns(), *_model(instance)]
    egress += [dict(rule) for rule in network.egress]
    return NETWORK_POLICIES.manifest(
        child_metadata(instance, child_name(instance)),
        spec={
            "podSelector": {"matchLabels": selector_labels(instance)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    )


def operator_ingress(config: ControllerConfig) -> dict[str, Any]:
    """Return the rule that lets the operator reach the bridge."""
    operator = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": config.operator_namespace}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "efrit-operator"}},
    }
    return {"from": [operator], "ports": [{"protocol": "TCP", "port": BRIDGE_PORT}]}


def _dns() -> dict[str, Any]:
    return {
        "to": [
            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}},
            {"ipBlock": {"cidr": NODE_LOCAL_DNS}},
        ],
        "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
    }


def _model(instance: EfritInstance) -> list[dict[str, Any]]:
    model = instance.spec.model
    if model is None:
        return []
    # With a proxy nothing else is talked to.
    model_url, ports_by_scheme = model.base_url, DEFAULT_PORTS
    if model.proxy_url is not None:
        model_url, ports_by_scheme = model.proxy_url, DEFAULT_PROXY_PORTS
    try:
        url = urlsplit(model_url)
        host, port = url.hostname or "", url.port or ports_by_scheme.get(url.scheme, 443)
    except ValueError:
        # An address that makes no sense needs no hole; the model's client says what is wrong with it.
        return []
    ports = [{"protocol": "TCP", "port": port}]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        if _is_metadata(address):
            # Of an instance made before its definition refused that.
            return []
        return [{"to": [{"ipBlock": {"cidr": f"{address}/{address.max_prefixlen}"}}], "ports": ports}]
    namespace, only_there = _cluster_namespace(host, instance.metadata.namespace)
    rules: list[dict[str, Any]] = []
    if namespace is not None and not namespace.startswith("kube-"):
        # The policy sees the pod's port, the URL names the Service's: they may differ.
        peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
        rules.append({"to": [peer]})
    if not only_there:
        public = [
            {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(PRIVATE_V4)}},
            {"ipBlock": {"cidr": "::/0", "except": list(PRIVATE_V6)}},
        ]
        rules.append({"to": public, "ports": ports})
    return rules


def _is_metadata(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_link_local or str(address) in METADATA_ADDRESSES


def _cluster_namespace(host: str, own: str) -> tuple[str | None, bool]:
    """Return the namespace of a Service's host name, None outside the cluster; and whether it can only be there.

    A name of two labels is either: `service.namespace`, or a public domain such as `example.com`.
    """
    parts = host.rstrip(".").split(".")
    if len(parts) == 1:
        return own, True
    if len(parts) == 2:
        # A host that ends in a dot is looked up as it is, not below the cluster's domain.
        either = DNS_LABEL.fullmatch(parts[1]) and not host.endswith(".")
        return (parts[1] if either else None), False
    # What is not a name of a namespace is for the API server to refuse.
    return (parts[1], True) if parts[2] == "svc" else (None, False)
