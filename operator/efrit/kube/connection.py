"""How to reach the API server: by the pod's service account, or by a kubeconfig as kubectl reads it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration
from kubernetes.aio.config.config_exception import ConfigException

from efrit.clear_text import sent_in_the_clear
from efrit.errors import ConfigurationError

__all__ = ["Configuration", "Connection", "behind_proxy", "load_connection"]

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Connection(NamedTuple):
    """How to connect, the namespace to work in, and a description of both for people."""

    configuration: Configuration
    namespace: str
    description: str


async def load_connection(
    kubeconfig: Path | None = None, context: str | None = None, namespace: str | None = None
) -> Connection:
    """Return the connection of the service account inside a cluster, unless a kubeconfig or a context is named.

    Raises ConfigurationError.
    """
    configuration = Configuration()
    in_cluster = os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG")
    try:
        if in_cluster and kubeconfig is None and context is None:
            kube_config.load_incluster_config(client_configuration=configuration)
            namespace = namespace or _own_namespace()
            description = f"this cluster, namespace {namespace}"
        else:
            _check_kubeconfig_exists(kubeconfig)
            loader = await kube_config.load_kube_config(
                None if kubeconfig is None else str(kubeconfig),
                context,
                client_configuration=configuration,
                persist_config=False,
            )
            current = loader.current_context
            namespace = namespace or current["context"].get("namespace") or "default"
            description = f"context {current['name']}, namespace {namespace}"
    except (ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"no usable kubeconfig: {error}") from error
    if sent_in_the_clear(configuration.host) and _has_credentials(configuration):
        raise ConfigurationError(
            f"the API server {configuration.host} is not called: over http anybody on the way reads your "
            "credentials; use https in the kubeconfig"
        )
    if not behind_proxy(configuration.host):
        # Where it may look, aiohttp reads environment and ~/.netrc for each call, each time in a thread.
        configuration.client_session_kwargs = {"trust_env": False}
    return Connection(configuration, namespace, description)


def _check_kubeconfig_exists(kubeconfig: Path | None) -> None:
    """Raise ConfigurationError if there is no file to load: the library logs that, and fails at what files lack."""
    paths = str(kubeconfig) if kubeconfig is not None else kube_config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    if not any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path):
        raise ConfigurationError(f"there is no kubeconfig {paths}")


def _own_namespace() -> str:
    return _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else "default"


def _has_credentials(configuration: Configuration) -> bool:
    return bool(configuration.api_key or configuration.username or configuration.password)


def behind_proxy(url: str) -> bool:
    """Return whether the environment names a proxy for `url`."""
    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.hostname or "")
