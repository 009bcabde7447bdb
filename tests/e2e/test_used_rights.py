"""What the operator's account did in all tests before: by no right but the chart's, and by each right of the chart.

The last of those that are `alone`, which run after all others and in the order of their names. It reads the audit log
of the bare cluster.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster import audit, paths
from tests.e2e.conftest import RELEASE, SYSTEM
from tests.e2e.test_helm import CHART
from tests.support.kube import Json, Kube
from tests.support.kubectl import run

pytestmark = pytest.mark.alone

Right = tuple[str, str]
"""A verb, and a resource with its subresource."""

ALLOWED_BY = re.compile(r'RBAC: allowed by (?:Cluster)?RoleBinding "([^"]+)"')
EVERYBODY = ("system:",)
"""How the names of bindings begin that Kubernetes makes for every account."""
ELSEWHERE = "tests/integration/test_rights.py"
RARE: frozenset[Right] = frozenset(
    {
        ("delete", "efritplans"),
        ("delete", "efritrequests"),
        ("get", "efritclaims"),
        ("get", "efritinstances"),
        ("get", "efritplans"),
        ("get", "persistentvolumeclaims"),
        ("patch", "efritrequests"),
        ("patch", "events"),
        ("create", "leases"),
    }
)
"""Rights for what may not happen in this tier: claims that are lost, times to live, plans that are cancelled,
repeated events, a lease that is there already. ELSEWHERE each right is used.
"""


@pytest.fixture(scope="module")
def events() -> list[Json]:
    """Every call of an account in the operator's namespace."""
    log = audit.log(paths.Layout.of_this_clone())
    if os.environ.get("KUBECONFIG") != str(paths.kubeconfig()) or not log.exists():
        pytest.skip("this cluster keeps no audit log: CLUSTER=bare does")
    # A line that is being written is not a line yet.
    return [json.loads(line) for line in log.read_text().rpartition("\n")[0].splitlines()]


def _account(kube: Kube) -> str:
    pod = kube.get("Deployment", SYSTEM, RELEASE)["spec"]["template"]["spec"]
    return f"system:serviceaccount:{SYSTEM}:{pod['serviceAccountName']}"


def _used(events: list[Json], account: str) -> Iterator[Right]:
    for event in events:
        target = event.get("objectRef", {})
        if event["user"]["username"] == account and "resource" in target:
            sub = target.get("subresource")
            yield event["verb"], f"{target['resource']}/{sub}" if sub else target["resource"]


def _granted(kube: Kube) -> set[Right]:
    whole = kube.get("ClusterRole", None, RELEASE)
    return _rights([whole, kube.get("Role", SYSTEM, f"{RELEASE}-own-namespace")])


def _grants_with_mcp() -> set[Right]:
    """Return what the chart grants anybody where the MCP server is installed, too."""
    values = run("helm", "get", "values", RELEASE, "-n", SYSTEM, "-o", "json")
    mcp = ("--values", "-", "--set", "mcp.enabled=true,mcp.tlsSecretName=any")
    manifests = run("helm", "template", RELEASE, CHART, "-n", SYSTEM, *mcp, stdin=values)
    objects = [manifest for manifest in yaml.safe_load_all(manifests) if manifest]
    return _rights([manifest for manifest in objects if manifest["kind"] in ("Role", "ClusterRole")])


def _rights(roles: Iterable[Json]) -> set[Right]:
    return {
        (verb, resource)
        for role in roles
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


def test_every_call_of_the_operator_and_of_the_mcp_server_was_allowed_by_a_role_of_the_chart(
    kube: Kube, events: list[Json]
) -> None:
    bindings, refused = set(), set()
    for event in events:
        notes = event.get("annotations", {})
        reason = ALLOWED_BY.match(notes.get("authorization.k8s.io/reason", ""))
        if "impersonatedUser" in event:
            continue  # Allowed by the caller's own roles.
        if notes.get("authorization.k8s.io/decision") == "allow" and reason:
            bindings.add(reason.group(1))
        elif notes.get("authorization.k8s.io/decision") == "forbid":
            refused |= set(_used([event], event["user"]["username"]))
    assert {name for name in bindings if not name.startswith((RELEASE, *EVERYBODY))} == set()
    assert RELEASE in bindings
    # Rights go with the release or the server that a test removes, perhaps a moment before the last call.
    assert refused <= _granted(kube) | _grants_with_mcp()


def test_each_right_of_the_operator_was_used(kube: Kube, events: list[Json], request: pytest.FixtureRequest) -> None:
    chosen = request.config.option
    if chosen.markexpr != "alone" or chosen.keyword or any(Path(argument).suffix for argument in request.config.args):
        pytest.skip("only after the whole tier: make test-e2e")
    unused = _granted(kube) - set(_used(events, _account(kube))) - RARE

    assert unused == set(), f"used by no test: take them from the chart, or see {ELSEWHERE}"
