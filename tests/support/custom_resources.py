"""What an API server needs before a test: our custom resource definitions, and a namespace for each test."""

from __future__ import annotations

import secrets
from pathlib import Path

from efrit import resources
from efrit.errors import ApiError
from tests.cluster.paths import REPOSITORY
from tests.support import yaml_documents
from tests.support.kube import Kube, until

DEFINITIONS = resources.DEFINITIONS.path()


def remove_crds(client: Kube) -> None:
    """Remove every CRD with its objects; those that are installed next are served from their first request on.

    After an update, the API server goes by the rules of before for a moment that no condition tells.
    """
    for definition in client.call("GET", DEFINITIONS)["items"]:
        client.call("DELETE", f"{DEFINITIONS}/{definition['metadata']['name']}")
    until(lambda: not client.call("GET", DEFINITIONS)["items"], "the CRDs are not removed")


def install_crds(client: Kube) -> None:
    """Install the CRDs and return once they are served."""
    for path in sorted((REPOSITORY / "charts/efrit-operator/crd-files").glob("*.yaml")):
        _install(client, path)


def _install(client: Kube, path: Path) -> None:
    definition = yaml_documents.load(path.read_text())
    client.call("POST", DEFINITIONS, definition, fieldValidation="Strict")
    name = definition["metadata"]["name"]

    def established() -> bool:
        conditions = client.call("GET", f"{DEFINITIONS}/{name}").get("status", {}).get("conditions") or ()
        return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)

    until(established, f"{name} is not established")
    until_served(client, name.partition(".")[0])


def until_served(client: Kube, plural: str) -> None:
    """Wait until objects of a kind can be listed."""

    def served() -> bool:
        try:
            client.list(plural, "default")
        except ApiError:
            return False
        return True

    until(served, f"{plural} are not served")


def new_namespace(client: Kube, prefix: str = "t") -> str:
    """Make a namespace with a name of its own."""
    name = f"{prefix}-{secrets.token_hex(4)}"
    client.call("POST", resources.NAMESPACES.path(), resources.NAMESPACES.manifest({"name": name}))
    return name
