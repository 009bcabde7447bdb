"""Names of contexts and namespaces, for completion: what kubectl would offer."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from efrit.backend.cluster.api import Api, load_connection
from efrit.resources import NAMESPACES


def contexts(kubeconfig: Path | None) -> list[str]:
    """Return the contexts of the kubeconfig, by name. Raises OSError, ValueError."""
    named = (
        [kubeconfig] if kubeconfig else [Path(part) for part in os.environ.get("KUBECONFIG", "").split(":") if part]
    )
    names = set()
    for path in named or [Path("~/.kube/config").expanduser()]:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
        entries = loaded.get("contexts") if isinstance(loaded, dict) else None
        names |= {str(entry["name"]) for entry in entries or () if isinstance(entry, dict) and "name" in entry}
    return sorted(names)


async def namespaces(kubeconfig: Path | None, context: str | None) -> list[str]:
    """Return the namespaces of the cluster, by name. Raises `ClientError`, `Forbidden` without the right to list."""
    connection = await load_connection(kubeconfig, context, None)
    api = Api(connection.configuration)
    try:
        page = await api.call("GET", NAMESPACES.path(), query={"limit": "500"})
        return sorted(str(item["metadata"]["name"]) for item in page.get("items", ()))
    finally:
        await api.close()
