"""kube/connection.py: how the API server is found and reached."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from efrit.errors import ConfigurationError
from efrit.kube.client import KubeClient
from efrit.kube.connection import load_connection
from efrit.resources import REQUESTS
from tests.unit.controller.fake_api import FakeApi

WORK = REQUESTS.path("team", "work")


def work() -> dict[str, Any]:
    return REQUESTS.manifest({"name": "work", "namespace": "team"})


async def connected(
    to: str, directory: Path, monkeypatch: pytest.MonkeyPatch, token: str = "", **env: str
) -> KubeClient:
    """Connect by a kubeconfig that names the server `to`, in this environment."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": to}}],
        "users": [{"name": "u", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (directory / "kubeconfig").write_text(json.dumps(config))
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    # The client reads the name of the file when it is imported.
    monkeypatch.setattr(
        "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(directory / "kubeconfig")
    )
    return KubeClient((await load_connection()).configuration, field_manager="efrit-test")


async def test_a_proxy_that_the_environment_names_is_asked(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.put(WORK, work())
    kube = await connected("http://server.invalid", tmp_path, monkeypatch, http_proxy=api.url)
    try:
        assert (await kube.get(REQUESTS, "team", "work"))["metadata"]["name"] == "work"
    finally:
        await kube.close()


@pytest.mark.parametrize("exempt", ["", "127.0.0.1"])
async def test_without_a_proxy_no_call_waits_for_a_thread_that_looks_for_one(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exempt: str
) -> None:
    def looked(*_: object) -> None:
        raise AssertionError("environment and netrc are read for each call")

    monkeypatch.setattr("aiohttp.client.get_env_proxy_for_url", looked)
    monkeypatch.setattr("aiohttp.client.netrc_from_env", looked)
    api.put(WORK, work())
    proxy = {"http_proxy": "http://proxy.invalid", "no_proxy": exempt} if exempt else {}
    kube = await connected(api.url, tmp_path, monkeypatch, **proxy)
    try:
        assert (await kube.get(REQUESTS, "team", "work"))["metadata"]["name"] == "work"
    finally:
        await kube.close()


async def test_a_kubeconfig_that_is_none_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("current-context: nowhere")
    with pytest.raises(ConfigurationError, match="no usable kubeconfig"):
        await load_connection(tmp_path / "kubeconfig")


@pytest.mark.parametrize(
    ("server", "refused"),
    [("http://api.example.org", True), ("https://api.example.org", False), ("http://127.0.0.1:8001", False)],
)
async def test_a_token_is_not_sent_over_http_but_to_a_private_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, refused: bool
) -> None:
    expected = pytest.raises(ConfigurationError, match="use https") if refused else contextlib.nullcontext()
    with expected:
        await (await connected(server, tmp_path, monkeypatch, "t0ken")).close()
