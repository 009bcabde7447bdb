"""How to reach the cluster of KUBECONFIG, whatever its way to log in: as the product's own client reads it."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from efrit.kube.connection import load_connection


class Kubeconfig:
    """The current context of a kubeconfig; of KUBECONFIG as it was when the process began if none is named."""

    def __init__(self, path: Path | None = None) -> None:
        self.url, self._access = asyncio.run(_read(path))

    def administrator(self) -> tuple[ssl.SSLContext, dict[str, str]]:
        """Return the TLS context of a client, and headers of each call."""
        return self._access


async def _read(path: Path | None) -> tuple[str, tuple[ssl.SSLContext, dict[str, str]]]:
    configuration = (await load_connection(path)).configuration
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    token = await configuration.get_api_key_with_prefix("BearerToken")
    return str(configuration.host), (context, {"Authorization": token} if token else {})
