"""The MCP server of the chart, in front of real pods: a session as an agent has it, and strangers at the door."""

from __future__ import annotations

import base64
import json
import re
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextResourceContents

from tests.cluster.certificates import Authority
from tests.e2e.conftest import RELEASE, SYSTEM
from tests.e2e.instance import Instance
from tests.e2e.test_helm import CHART, installed
from tests.support.kube import Kube
from tests.support.kubectl import kubectl, run
from tests.support.mcp_results import structured_content
from tests.support.model_service import ModelService
from tests.support.timeout import TIMEOUT

pytestmark = pytest.mark.alone

__all__ = ["installed"]

SERVER = f"{RELEASE}-mcp"
RIGHTS = {
    "efritinstances.efrit.dev": "get,list,watch,create,patch",
    "efritrequests.efrit.dev": "get,list,watch,create,patch",
    "pods/exec": "get,create",
}


@dataclass(frozen=True)
class Door:
    """Where the server is reached, and in which namespace a caller works."""

    url: str
    namespace: str
    trust: ssl.SSLContext
    token: str

    def http(self, **headers: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers=headers, verify=self.trust, timeout=TIMEOUT)

    @asynccontextmanager
    async def client(self, token: str = "", namespace: str = "") -> AsyncIterator[Client]:
        where = f"{self.url}/namespaces/{namespace or self.namespace}/mcp"
        async with self.http(Authorization=f"Bearer {token or self.token}") as http:
            async with Client(streamable_http_client(where, http_client=http)) as client:
                yield client


def account(namespace: str, name: str, rights: dict[str, str]) -> str:
    """Make a service account that may do this in its namespace; return a token of it."""
    here = ("-n", namespace)
    kubectl("create", "serviceaccount", name, *here)
    for number, (resource, verbs) in enumerate(rights.items()):
        kubectl("create", "role", f"{name}-{number}", f"--resource={resource}", f"--verb={verbs}", *here)
        who = f"--serviceaccount={namespace}:{name}"
        kubectl("create", "rolebinding", f"{name}-{number}", f"--role={name}-{number}", who, *here)
    return kubectl("create", "token", name, "--audience=efrit-mcp", "--duration=1h", *here).strip()


@pytest.fixture(scope="module")
def door(
    kube: Kube,
    shared_namespace: str,
    shared_model: ModelService,
    installed: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Door]:
    """Yield the server as the chart installs it, reached through the API server as from a developer's machine."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    authority.create()
    authority.issue("mcp", "/CN=efrit-mcp", ["DNS:localhost"])
    data = {"tls.crt": authority.certificate("mcp").read_bytes(), "tls.key": authority.key("mcp").read_bytes()}
    encoded = {name: base64.b64encode(text).decode() for name, text in data.items()}
    kube.create("Secret", SYSTEM, {"metadata": {"name": "mcp-tls"}, "type": "kubernetes.io/tls", "data": encoded})
    values = (
        "mcp.enabled=true",
        "mcp.tlsSecretName=mcp-tls",
        "mcp.longResults=true",
        "mcp.allowedHosts={localhost:*}",
    )
    words = [word for value in values for word in ("--set", value)]
    forward: subprocess.Popen[str] | None = None
    try:
        here = ("-n", SYSTEM, "--reuse-values", "--wait", "--timeout", "3m")
        run("helm", "upgrade", RELEASE, CHART, *here, *words)
        forward = subprocess.Popen(
            ["kubectl", "port-forward", f"service/{SERVER}", ":443", "-n", SYSTEM], stdout=subprocess.PIPE, text=True
        )
        assert forward.stdout is not None
        line = forward.stdout.readline()
        port = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert port, f"no port is forwarded: {line!r}"
        trust = ssl.create_default_context(cafile=str(authority.ca))
        ann = account(shared_namespace, "ann", RIGHTS)
        Instance.create(kube, shared_namespace, "thinker", model=shared_model.spec()).wait_ready()
        yield Door(f"https://localhost:{port[1]}", shared_namespace, trust, ann)
    finally:
        if forward is not None:
            forward.terminate()
            forward.communicate(timeout=TIMEOUT)
        kube.discard("Secret", SYSTEM, "mcp-tls")


async def test_a_session_starts_an_instance_works_in_it_and_stops_it(door: Door) -> None:
    messages: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message or "")

    async with door.client() as client:
        started = structured_content(await client.call_tool("efrit_start_instance", {"instance_id": "made"}))
        assert started["status"] == "started", started
        listed = structured_content(await client.call_tool("efrit_list_instances"))["instances"]
        assert [(instance["id"], instance["status"]) for instance in listed] == [
            ("made", "active"),
            ("thinker", "active"),
        ]
        work = {"instance_id": "made", "type": "eval", "content": "(+ 1 2)", "return_context": True}
        three = structured_content(await client.call_tool("efrit_execute", work))
        assert (three["status"], three["result"]) == ("success", "3")
        command = {
            "instance_id": "thinker",
            "type": "command",
            "content": "Go. (scenario=twelve-steps)",
            "timeout": 600,
        }
        done = structured_content(await client.call_tool("efrit_execute", command, progress_callback=progress))
        assert done["status"] == "success", done
        assert any(message.startswith("step") for message in messages), messages
        log = (await client.read_resource(f"efrit://requests/{done['request_id']}/log")).contents[0]
        assert isinstance(log, TextResourceContents)
        assert json.loads(log.text.splitlines()[-1])["type"] == "end"
        stats = structured_content(await client.call_tool("efrit_get_queue_stats", {"instance_id": "thinker"}))
        assert stats["uptime_seconds"] > 0
        stopped = structured_content(await client.call_tool("efrit_stop_instance", {"instance_id": "made"}))
        assert stopped["status"] == "stopped"


async def test_who_may_not_and_who_is_of_another_namespace_is_refused(door: Door, namespace: str) -> None:
    reader = account(door.namespace, "ben", {"efritinstances.efrit.dev": "get,list"})
    stranger = account(namespace, "ann", RIGHTS)
    work = {"type": "eval", "content": "1", "instance_id": "thinker"}
    for token, where in ((reader, door.namespace), (stranger, door.namespace), (door.token, namespace)):
        async with door.client(token, where) as client:
            result = await client.call_tool("efrit_submit", work)
            assert result.is_error
            assert "is forbidden: User" in str(result.content)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer nonsense"}, 401),
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
    ],
)
async def test_strangers_do_not_get_through_the_door(door: Door, headers: dict[str, str], status: int) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    async with door.http(**accept, **headers) as http:
        assert (await http.post(f"{door.url}/mcp", json=body)).status_code == status
