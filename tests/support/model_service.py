"""The model's API that plays scenarios (tests/model), as a pod beside the instances of a test.

The operator's image has the Python it needs; its code and the scenarios come from ConfigMaps. What a test asks of the
server itself goes through the API server's proxy, so no port of the cluster need be open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from efrit.errors import ApiError
from tests.model.__main__ import SCENARIOS
from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl

NAME = "model"
PORT = 8080
SECRET = "model-key"
FIRST_KEY = "test-key"
# Those need more than the standard library, and no pod needs them.
LEFT_OUT = ("record.py", "recording.py", "running.py")
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def server_files() -> dict[str, str]:
    """Return the server's own files; the folder they go to has to be a name for a Python package."""
    return {path.name: path.read_text() for path in SCENARIOS.parent.glob("*.py") if path.name not in LEFT_OUT}


def scenario_files() -> dict[str, str]:
    """Return the scenarios."""
    return {path.name: path.read_text() for path in SCENARIOS.glob("*.toml")}


def server_command(package: str, scenarios: str) -> list[str]:
    """Return how the server is started with its files in PACKAGE and in SCENARIOS."""
    everywhere = "0.0.0.0"  # noqa: S104 - the address of its pod is not known before
    return ["python3", f"{package}/server.py", "--host", everywhere, "--port", str(PORT), "--scenarios", scenarios]


class ModelService:
    """A server in a namespace; it goes with the namespace."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube = kube
        self.namespace = namespace

    @classmethod
    def create(cls, kube: Kube, namespace: str, image: str) -> ModelService:
        """Create the server from the operator's IMAGE, its Service and a Secret with its key; wait for it."""
        kube.create("ConfigMap", namespace, {"metadata": {"name": NAME}, "data": server_files()})
        kube.create("ConfigMap", namespace, {"metadata": {"name": f"{NAME}-scenarios"}, "data": scenario_files()})
        kube.create("Secret", namespace, {"metadata": {"name": SECRET}, "stringData": {"key": FIRST_KEY}})
        kube.create("Deployment", namespace, _deployment(image))
        ports = [{"name": "http", "port": PORT, "targetPort": PORT}]
        spec = {"selector": {"app": NAME}, "ports": ports}
        kube.create("Service", namespace, {"metadata": {"name": NAME}, "spec": spec})
        made = cls(kube, namespace)
        made.wait_serving()
        return made

    @property
    def url(self) -> str:
        """Where instances reach it."""
        return f"http://{NAME}.{self.namespace}.svc:{PORT}"

    def spec(self, **more: object) -> Json:
        """Return `spec.model` of an instance that asks it."""
        reference = {"name": SECRET, "key": "key"}
        return {
            "provider": "anthropic",
            "baseURL": self.url,
            "name": "claude-test",
            "apiKeySecretRef": reference,
        } | more

    def stop(self) -> None:
        """Take it away: whoever asks is refused the connection."""
        self._scale(0)
        until(lambda: not self._pods(), lambda: f"the model's pod stays\n{self.diagnostics()}")

    def start(self) -> None:
        """Bring it back."""
        self._scale(1)
        self.wait_serving()

    def wait_serving(self) -> None:
        """Wait until it answers through its Service."""

        def serving() -> bool:
            try:
                return bool(self._ask("GET", "_health"))
            except ApiError:
                return False

        until(serving, lambda: f"the model does not serve\n{self.diagnostics()}")

    # Beside the API

    def log(self, scenario: str) -> list[Json]:
        """Return the calls it got for SCENARIO, bodies and all."""
        return list(self._ask("GET", "_log", scenario=scenario))

    def accept(self, *keys: str) -> None:
        """Take these keys and no others."""
        self._ask("POST", "_keys", {"accept": keys})

    def reset(self) -> None:
        """Forget every attempt, the log and the prompt cache; the first key counts again."""
        self._ask("POST", "_reset", {})

    def play(self, name: str, toml: str) -> None:
        """Take a scenario written in a test."""
        where = self.kube.path("Service", self.namespace, f"http:{NAME}:{PORT}", f"proxy/_scenarios/{name}")
        self.kube.read("PUT", where, toml.encode(), content_type="application/toml")

    def scenario(self, name: str) -> Json:
        """Return the scenario NAME: its requests, its files, how each has to end."""
        return dict(self._ask("GET", f"_scenarios/{name}"))

    def diagnostics(self) -> str:
        """Return what a person would look at to understand why it does not serve."""
        here = ("-n", self.namespace)
        return "\n".join(
            (
                kubectl("describe", "pods", "-l", f"app={NAME}", *here, check=False)[-3000:],
                kubectl("logs", "-l", f"app={NAME}", "--tail=30", *here, check=False),
            )
        )

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None, **query: str) -> Any:
        where = self.kube.path("Service", self.namespace, f"http:{NAME}:{PORT}", f"proxy/{path}")
        return self.kube.call(method, where, body, **query)

    def _scale(self, replicas: int) -> None:
        self.kube.patch("Deployment", self.namespace, NAME, {"spec": {"replicas": replicas}})

    def _pods(self) -> list[Json]:
        return self.kube.list("Pod", self.namespace, labelSelector=f"app={NAME}")


def _deployment(image: str) -> Json:
    places = {"server": "/opt/model", "scenarios": "/opt/scenarios"}
    container = {
        "name": NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": server_command(places["server"], places["scenarios"]),
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/_health", "port": PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in places.items()],
    }
    pod = {
        "automountServiceAccountToken": False,
        # It ends at once on SIGTERM.
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "volumes": [
            {"name": "server", "configMap": {"name": NAME}},
            {"name": "scenarios", "configMap": {"name": f"{NAME}-scenarios"}},
        ],
    }
    labels = {"app": NAME}
    return {
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
