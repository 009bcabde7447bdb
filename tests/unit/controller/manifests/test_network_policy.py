"""manifests/network_policy.py: nothing in but the operator, nothing out but DNS and the model."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from efrit.controller.manifests.network_policy import build_network_policy
from tests.support.factory import CONFIG, Json, instance

BY_NAMESPACE = "kubernetes.io/metadata.name"


def policy(spec: Json | None = None) -> Any:
    return build_network_policy(instance(spec=spec), CONFIG)["spec"]


def egress(url: str, **fields: str) -> Any:
    model = {"name": "m", "baseURL": url, "apiKeySecretRef": {"name": "key", "key": "token"}, **fields}
    return policy({"model": model})["egress"]


def model_rule(url: str, **fields: str) -> Any:
    _dns, rule = egress(url, **fields)
    return rule


def test_the_policy_selects_the_pod_of_the_instance_and_lets_in_the_operator_alone_at_the_bridge() -> None:
    made = policy()

    assert made["policyTypes"] == ["Ingress", "Egress"]
    assert made["podSelector"]["matchLabels"] == {
        "app.kubernetes.io/name": "efrit-instance",
        "app.kubernetes.io/managed-by": "efrit-operator",
        "efrit.dev/instance": "alpha",
    }
    operator = {
        "namespaceSelector": {"matchLabels": {BY_NAMESPACE: "efrit-system"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "efrit-operator"}},
    }
    assert made["ingress"] == [{"from": [operator], "ports": [{"protocol": "TCP", "port": 8443}]}]


def test_without_a_model_only_dns_may_go_out() -> None:
    (dns,) = policy()["egress"]

    assert {(port["protocol"], port["port"]) for port in dns["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert {"ipBlock": {"cidr": "169.254.20.10/32"}} in dns["to"]


@pytest.mark.parametrize(
    ("url", "namespace"),
    [
        ("http://llm.models.svc.cluster.local:8080/v1", "models"),
        ("http://llm.models.svc", "models"),
        ("http://llm.models.svc.cluster.local.:8080", "models"),
        ("https://llm", "team"),
    ],
)
def test_a_model_in_the_cluster_is_allowed_by_its_namespace(url: str, namespace: str) -> None:
    assert model_rule(url) == {"to": [{"namespaceSelector": {"matchLabels": {BY_NAMESPACE: namespace}}}]}


@pytest.mark.parametrize(("url", "port"), [("http://llm.models", 80), ("http://llm.models:8080/v1", 8080)])
def test_a_host_of_two_labels_may_be_a_service_in_that_namespace_or_a_public_one(url: str, port: int) -> None:
    _dns, service, public = egress(url)

    assert service == {"to": [{"namespaceSelector": {"matchLabels": {BY_NAMESPACE: "models"}}}]}
    assert public["ports"] == [{"protocol": "TCP", "port": port}]
    assert [peer["ipBlock"]["cidr"] for peer in public["to"]] == ["0.0.0.0/0", "::/0"]


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("https://example.com.", 443),
        ("https://example.a_b", 443),
        ("https://api.example.com", 443),
        ("http://api.example.com", 80),
        ("https://api.example.com:8443/x", 8443),
        ("https://user:word@api.example.com:9000", 9000),
    ],
)
def test_a_model_outside_is_allowed_by_its_port_on_public_addresses(url: str, port: int) -> None:
    rule = model_rule(url)

    assert rule["ports"] == [{"protocol": "TCP", "port": port}]
    assert [peer["ipBlock"]["cidr"] for peer in rule["to"]] == ["0.0.0.0/0", "::/0"]


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.31.255.255",
        "192.168.1.1",
        "::1",
        "fd00::1",
        "fe80::1",
    ],
)
def test_a_model_outside_opens_no_private_address(address: str) -> None:
    blocks = [peer["ipBlock"] for peer in model_rule("https://api.example.com")["to"]]
    ip = ipaddress.ip_address(address)

    allowed = [
        block
        for block in blocks
        if ip in ipaddress.ip_network(block["cidr"])
        and not any(ip in ipaddress.ip_network(hole) for hole in block["except"])
    ]

    assert allowed == []


@pytest.mark.parametrize(
    ("url", "cidr", "port"),
    [
        ("http://10.1.2.3:8000", "10.1.2.3/32", 8000),
        ("https://203.0.113.9", "203.0.113.9/32", 443),
        ("https://[fd00::7]:8443/v1", "fd00::7/128", 8443),
    ],
)
def test_a_model_at_an_address_is_allowed_by_it(url: str, cidr: str, port: int) -> None:
    assert model_rule(url) == {"to": [{"ipBlock": {"cidr": cidr}}], "ports": [{"protocol": "TCP", "port": port}]}


@pytest.mark.parametrize(
    ("proxy", "port"),
    [
        ("http://198.51.100.7:3128", 3128),
        ("http://198.51.100.7", 1080),
        ("https://198.51.100.7", 443),
        ("socks5h://198.51.100.7", 1080),
    ],
)
def test_with_a_proxy_only_that_may_be_reached(proxy: str, port: int) -> None:
    assert model_rule("https://api.example.com", proxyURL=proxy) == {
        "to": [{"ipBlock": {"cidr": "198.51.100.7/32"}}],
        "ports": [{"protocol": "TCP", "port": port}],
    }


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com:99999",
        "https://api.example.com:x",
        "https://[fd00::7",
        "http://169.254.169.254:80",
        "http://[fe80::1]:80",
        "http://[fd00:ec2::254]:80",
        "http://[::ffff:169.254.169.254]:80",
        "http://m.kube-system.svc:80",
        "http://[::FFFF:a9fe:a9fe]:80",
    ],
)
def test_a_url_that_makes_no_sense_or_names_a_metadata_service_opens_nothing_and_keeps_nothing_down(url: str) -> None:
    assert egress(url) == policy()["egress"], "an instance may be older than the definition that refuses it"


def test_rules_of_the_user_are_added_as_they_are() -> None:
    rule = {"to": [{"ipBlock": {"cidr": "198.51.100.0/24"}}]}
    peer = {"podSelector": {"matchLabels": {"app": "viewer"}}}

    made = policy({"network": {"egress": [rule], "allowIngressFrom": [peer]}})

    assert made["egress"][-1] == rule
    assert made["ingress"][-1] == {"from": [peer]}
    assert len(made["ingress"]) == 2
