"""Names of contexts and namespaces, for completion: what kubectl would offer."""

from __future__ import annotations

import os
from pathlib import Path

from efrit.client.cluster.api import Api, configuration


def contexts(kubeconfig: Path | None) -> list[str]:
    """Return the contexts of the kubeconfig, by name. Raises OSError, ValueError."""
    import yaml

    named = (
        [kubeconfig] if kubeconfig else [Path(part) for part in os.environ.get("KUBECONFIG", "").split(":") if part]
    )
    found = set()
    for path in named or [Path("~/.kube/config").expanduser()]:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
        entries = loaded.get("contexts") if isinstance(loaded, dict) else None
        found |= {str(each["name"]) for each in entries or () if isinstance(each, dict) and "name" in each}
    return sorted(found)


async def namespaces(kubeconfig: Path | None, context: str | None) -> list[str]:
    """Return the namespaces of the cluster, by name. Raises `ClientError`, `Forbidden` without the right to list."""
    connection, _, _ = await configuration(kubeconfig, context, None)
    api = Api(connection)
    try:
        found = await api.call("GET", "/api/v1/namespaces", query={"limit": "500"})
        return sorted(str(each["metadata"]["name"]) for each in found.get("items", ()))
    finally:
        await api.close()
