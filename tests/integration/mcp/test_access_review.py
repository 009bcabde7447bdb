"""The API server's word on callers: real tokens, real roles, the server's own rights no wider than it needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from efrit.backend.cluster.api import Api, load_connection
from efrit.backend.errors import Forbidden
from efrit.mcp.access_review import ApiServerReviewer, Permission
from efrit.resources import (
    CLUSTER_ROLE_BINDINGS,
    REQUESTS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    TOKEN_REVIEWS,
    resource_named,
)
from tests.cluster.control_plane import ControlPlane
from tests.support.custom_resources import new_namespace
from tests.support.kube import Kube
from tests.support.rights import until_allowed
from tests.support.timeout import TIMEOUT

AUDIENCE = "efrit-mcp"


def account(kube: Kube, namespace: str, name: str, *, audience: str | None = None) -> str:
    """Make a service account; return it, and a token of it."""
    where = SERVICE_ACCOUNTS.path(namespace)
    kube.call("POST", where, SERVICE_ACCOUNTS.manifest({"name": name}))
    spec: dict[str, Any] = {"expirationSeconds": 3600, "audiences": [audience] if audience else []}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str(kube.call("POST", f"{where}/{name}/token", body)["status"]["token"])


def allow(kube: Kube, namespace: str, name: str, verbs: list[str], resources: list[str]) -> None:
    """Let a service account of the namespace do something there; return once the API server knows."""
    rule = {"apiGroups": ["efrit.dev", "", "apps"], "resources": resources, "verbs": verbs}
    meta = {"name": name}
    kube.call("POST", ROLES.path(namespace), {"metadata": meta, "rules": [rule]})
    binding = {
        "metadata": meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    kube.call("POST", ROLE_BINDINGS.path(namespace), binding)
    until_allowed(kube, namespace, name, verbs[0], resource_named(resources[0]), namespace)


@pytest.fixture
async def api(kube: Kube, plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[Api]:
    """Yield a connection with the rights of the MCP server's account and no others."""
    token = account(kube, namespace, "mcp")
    binding = {
        "metadata": {"name": f"mcp-{namespace}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator"},
        "subjects": [{"kind": "ServiceAccount", "name": "mcp", "namespace": namespace}],
    }
    kube.call("POST", CLUSTER_ROLE_BINDINGS.path(), binding)
    until_allowed(kube, namespace, "mcp", "create", TOKEN_REVIEWS, "")
    config, _, _ = await load_connection(plane.kubeconfig, None, None)
    config.cert_file = config.key_file = None
    config.api_key = {"BearerToken": f"Bearer {token}"}
    connection = Api(config)
    yield connection
    await connection.close()


async def test_a_token_is_its_accounts(kube: Kube, api: Api, namespace: str) -> None:
    token = account(kube, namespace, "ann")
    caller = await ApiServerReviewer(api).authenticate(token)
    assert caller is not None
    assert caller.name == f"system:serviceaccount:{namespace}:ann"
    assert f"system:serviceaccounts:{namespace}" in caller.groups


@pytest.mark.parametrize("token", ["", "nonsense", "a.b.c", "x" * 20_000])
async def test_what_is_no_token_is_nobodys(api: Api, token: str) -> None:
    assert await ApiServerReviewer(api).authenticate(token) is None


async def test_a_token_changed_in_one_character_is_nobodys(kube: Kube, api: Api, namespace: str) -> None:
    token = account(kube, namespace, "ann")
    head, body, signature = token.split(".")
    changed = "A" if signature[0] != "A" else "B"
    assert await ApiServerReviewer(api).authenticate(f"{head}.{body}.{changed}{signature[1:]}") is None


async def test_a_token_of_a_deleted_account_is_nobodys(kube: Kube, api: Api, namespace: str) -> None:
    token = account(kube, namespace, "ann")
    kube.call("DELETE", SERVICE_ACCOUNTS.path(namespace, "ann"))
    # The API server learns of it by a watch, and believes for ten seconds what it has found before.
    with anyio.fail_after(TIMEOUT):
        while await ApiServerReviewer(api).authenticate(token) is not None:  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.05)


async def test_a_token_for_others_is_not_for_us(kube: Kube, api: Api, namespace: str) -> None:
    ours, others = account(kube, namespace, "ann", audience=AUDIENCE), account(kube, namespace, "ben")
    reviewer = ApiServerReviewer(api, [AUDIENCE])
    assert await reviewer.authenticate(ours) is not None
    assert await reviewer.authenticate(others) is None
    assert await ApiServerReviewer(api).authenticate(ours) is None


async def test_rights_are_those_of_the_callers_roles_there_and_nowhere_else(
    kube: Kube, api: Api, namespace: str
) -> None:
    other = new_namespace(kube)
    token = account(kube, namespace, "ann")
    allow(kube, namespace, "ann", ["get", "create"], ["efritrequests", "pods/exec"])
    reviewer = ApiServerReviewer(api)
    caller = await reviewer.authenticate(token)
    assert caller is not None

    async def may(verb: str, resource: str, where: str, group: str = "efrit.dev") -> bool:
        return await reviewer.is_allowed(caller, Permission(verb, resource, where, group=group))

    assert await may("create", "efritrequests", namespace)
    assert not await may("patch", "efritrequests", namespace)
    assert not await may("create", "efritinstances", namespace)
    assert not await may("create", "efritrequests", other)
    assert await may("create", "pods/exec", namespace, "")
    assert not await may("create", "pods", namespace, "")


async def test_the_server_itself_can_do_nothing_with_instances_and_requests(api: Api, namespace: str) -> None:
    with pytest.raises(Forbidden):
        await api.list(REQUESTS, namespace)
