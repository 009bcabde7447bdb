"""A stand-in for prometheus-adapter: external.metrics.k8s.io from the controller's /metrics, behind an APIService.

What stands in is the adapter alone: it speaks the protocol that the HPA controller speaks to the API server, which
passes it on. In place of Prometheus and its rules it sums the samples of `efrit_pool_open_requests` itself.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from prometheus_client.parser import text_string_to_metric_families

from efrit import resources
from tests.cluster.certificates import Authority
from tests.support.kube import Json, Kube

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
METRIC = "efrit_pool_open_requests"
NAME = "metrics-adapter"
METRICS = resources.Resource(f"{GROUP}/{VERSION}", "ExternalMetricValueList", METRIC)
_SERVICES = resources.API_SERVICES.path()


def open_requests(exposition: str, namespace: str, labels: dict[str, str]) -> int | None:
    """Return how many requests of the pools with these labels are open; None where nothing is known of any. Pure."""
    values = [
        sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
        if sample.name == METRIC and {"pool_namespace": namespace, **labels}.items() <= sample.labels.items()
    ]
    return round(sum(values)) if values else None


class MetricsAdapter:
    """Serves on a loopback port and is registered in a namespace of the API server; close it in every case."""

    def __init__(self, kube: Kube, authority: Authority, namespace: str, metrics: Callable[[], str]) -> None:
        self._kube, self._namespace, self._metrics = kube, namespace, metrics
        host = f"{NAME}.{namespace}.svc"
        authority.issue(NAME, f"/CN={NAME}", [f"DNS:{host}"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.certificate(NAME), authority.key(NAME))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._register(self._server.server_address[1], base64.b64encode(authority.ca.read_bytes()).decode())

    def close(self) -> None:
        self._kube.call("DELETE", f"{_SERVICES}/{VERSION}.{GROUP}")
        self._server.shutdown()
        self._server.server_close()

    def available(self) -> bool:
        """Whether the API server reaches it."""
        status = self._kube.call("GET", f"{_SERVICES}/{VERSION}.{GROUP}").get("status", {})
        conditions = status.get("conditions", ())
        return any(entry["type"] == "Available" and entry["status"] == "True" for entry in conditions)

    def diagnostics(self) -> str:
        """Return what the API server says of it."""
        return json.dumps(self._kube.call("GET", f"{_SERVICES}/{VERSION}.{GROUP}").get("status"))

    def _register(self, port: int, authority: str) -> None:
        service = resources.SERVICES.manifest(
            {"name": NAME}, spec={"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        )
        self._kube.call("POST", resources.SERVICES.path(self._namespace), service)
        registration = resources.API_SERVICES.manifest(
            {"name": f"{VERSION}.{GROUP}"},
            spec={
                "group": GROUP,
                "version": VERSION,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": authority,
                "service": {"name": NAME, "namespace": self._namespace, "port": port},
            },
        )
        self._kube.call("POST", _SERVICES, registration)

    def answer(self, url: str) -> Json | None:
        """Return what a GET of this path finds; None where there is nothing."""
        address = urlsplit(url)
        if address.path == METRICS.root:
            resource = {"name": METRIC, "singularName": "", "namespaced": True, "kind": METRICS.kind}
            listed = {"groupVersion": METRICS.api_version, "resources": [{**resource, "verbs": ["get"]}]}
            return {"kind": "APIResourceList", "apiVersion": "v1", **listed}
        words = address.path.removeprefix(f"{METRICS.root}/").split("/")
        if len(words) != 3 or words[0] != "namespaces" or words[2] != METRIC:
            return None
        selector = parse_qs(address.query).get("labelSelector", [""])[0]
        labels = dict(part.split("=", 1) for part in selector.split(",") if part)
        value = open_requests(self._metrics(), words[1], labels)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        item = {"metricName": METRIC, "metricLabels": labels, "timestamp": now, "value": str(value)}
        return METRICS.manifest({}, items=[item] if value is not None else [])

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = answer(self.path)
                body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "code": 404}).encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
                pass

        return Handler
