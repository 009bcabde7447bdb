"""`efrit-mcp` over HTTPS as the chart runs it: real callers of a real API server, the operator behind it."""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
import yaml
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestParams, ElicitResult

from efrit import resources
from efrit.api_group import POOL_LABEL
from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane
from tests.cluster.paths import REPOSITORY
from tests.cluster.ports import free_port
from tests.cluster.progress import run
from tests.integration.mcp.conftest import PROGRAM
from tests.integration.mcp.test_access_review import AUDIENCE, account, allow
from tests.integration.mcp.test_stdio import QUESTION, RENAME
from tests.model.running import Model
from tests.plans.script import Script
from tests.support.chart import token
from tests.support.custom_resources import install_crds, new_namespace
from tests.support.fixtures import AUDIT_POLICY, audited
from tests.support.kube import Kube, until
from tests.support.mcp_results import structured_content
from tests.support.mcp_tasks import Tasks, ask, begin, ended
from tests.support.model_access import secret, with_model
from tests.support.processes import Process
from tests.support.site import Site
from tests.support.timeout import TIMEOUT

VERBS = ["get", "list", "watch", "create", "patch"]
RESOURCES = ["efritinstances", "efritrequests", "efritplans", "efritpools", "efritclaims"]


@dataclass(frozen=True)
class Served:
    """A site, the server in front of it, and the token of somebody who may use it."""

    site: Site
    url: str
    certificate: Path
    ann: str
    own: str
    """The token of the server's own account."""

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    def http(self, bearer: str | None, **headers: str) -> httpx2.AsyncClient:
        authorization = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        return httpx2.AsyncClient(headers={**authorization, **headers}, verify=self.trust, timeout=TIMEOUT)

    @asynccontextmanager
    async def client(self, bearer: str, namespace: str = "", **options: Any) -> AsyncIterator[Client]:
        path = f"/namespaces/{namespace}/mcp" if namespace else "/mcp"
        async with self.http(bearer) as http:
            transport = streamable_http_client(self.url + path, http_client=http)
            async with Client(transport, **options) as client:
                yield client

    def requests(self) -> int:
        """Return how many requests there are beside those that the controller makes for plans, in its own time."""
        made = self.site.kube.list("efritrequests", self.site.namespace)
        return sum("ownerReferences" not in request["metadata"] for request in made)


def give_rights(kube: Kube, namespace: str) -> str:
    """Make the account of the server and its rights, from the chart; return the account's name."""
    values = ["mcp.enabled=true", "mcp.tlsSecretName=tls", f"watchNamespaces={{{namespace}}}", "crds.install=false"]
    values += ["image.repository=i", "emacsImage.repository=i"]
    words = [word for value in values for word in ("--set", value)]
    chart = REPOSITORY / "charts" / "efrit-operator"
    # A release of another name than the controller's, so that the objects of both fit into one namespace.
    text = run([programs.program("helm"), "template", namespace, chart, "-n", namespace, *words])
    made = [
        manifest
        for manifest in yaml.safe_load_all(text)
        if manifest and manifest["metadata"]["labels"].get(PART) == "mcp"
    ]
    for manifest in made:
        kind = manifest["kind"]
        if kind == "ServiceAccount":
            kube.create("serviceaccounts", namespace, manifest)
        elif kind in ("Role", "RoleBinding"):
            kube.call("POST", resources.resource_of(manifest).path(namespace), manifest)
        elif kind in ("ClusterRole", "ClusterRoleBinding"):
            kube.call("POST", resources.resource_of(manifest).path(), manifest)
    return str(next(manifest["metadata"]["name"] for manifest in made if manifest["kind"] == "ServiceAccount"))


MODE = "impersonate-on:serviceaccount:"
"""Beginning of what may be done in the name of a service account, as all callers here are."""
PART = "app.kubernetes.io/component"


def kubeconfig(plane: ControlPlane, namespace: str, bearer: str, path: Path) -> Path:
    """Return a kubeconfig with a token and nothing else."""
    loaded = yaml.safe_load(plane.kubeconfig.read_text())
    loaded["users"] = [{"name": "mcp", "user": {"token": bearer}}]
    loaded["contexts"][0]["context"].update(user="mcp", namespace=namespace)
    path.write_text(yaml.safe_dump(loaded))
    return path


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log of an API server of its own, which also writes down what is read."""
    directory = tmp_path_factory.mktemp("audit")
    kept = {"group": "apps", "resources": ["controllerrevisions"]}
    reads = {"level": "Metadata", "resources": [{"group": "efrit.dev"}, kept]}
    policy = {**AUDIT_POLICY, "rules": [reads, {"level": "None"}]}
    (directory / "policy.json").write_text(json.dumps(policy))
    return directory / "audit.log"


@pytest.fixture(scope="module")
def plane(audit_log: Path) -> Iterator[ControlPlane]:
    with audited(audit_log) as running:
        yield running


@pytest.fixture(scope="module")
def kube(plane: ControlPlane) -> Iterator[Kube]:
    with closing(Kube(plane)) as client:
        install_crds(client)
        yield client


@pytest.fixture(scope="module")
def served(
    plane: ControlPlane,
    kube: Kube,
    audit_log: Path,
    lisp: Path,
    model: Model,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    site = Site(plane, kube, audit_log, lisp)
    place = tmp_path_factory.mktemp("mcp")
    server: Process | None = None
    try:
        site.operator().start()
        secret(kube, site.namespace, "key")
        site.instance("one", model=with_model(model))
        name = give_rights(kube, site.namespace)
        own = token(kube, site.namespace, name)
        config = kubeconfig(plane, site.namespace, own, place / "config")
        plane.authority.issue("mcp", "/CN=efrit-mcp", ["DNS:localhost", "IP:127.0.0.1"])
        port = free_port()
        words = ["--backend", "cluster", "--kubeconfig", str(config), "--transport", "http", "--port", str(port)]
        words += ["--tls-cert", str(plane.authority.certificate("mcp")), "--tls-key", str(plane.authority.key("mcp"))]
        server = Process([PROGRAM, *words], os.environ, place / "log", place)
        ann = account(kube, site.namespace, "ann", audience=AUDIENCE)
        allow(kube, site.namespace, "ann", VERBS, [*RESOURCES, "efritpools/scale", "controllerrevisions"])
        # What is sent to this pool waits.
        kube.create("efritpools", site.namespace, {"metadata": {"name": "nobody"}, "spec": {"replicas": 0}})
        made = Served(site, f"https://localhost:{port}", plane.authority.ca, ann, own)
        until(lambda: _ready(made), "efrit-mcp is not ready")
        yield made
    finally:
        if server is not None:
            server.terminate()
        site.close()


def _ready(served: Served) -> bool:
    try:
        return httpx.get(f"{served.url}/readyz", verify=served.trust).status_code == 200
    except httpx.TransportError:
        return False


async def test_a_session_starts_evals_commands_reads_figures_and_stops(served: Served) -> None:
    workspace = served.site.node.pod("one").workspace
    (workspace / "sub").mkdir()
    (workspace / "one.el").write_text("(defun old-name () 1)\n")
    (workspace / "two.el").write_text("(list (old-name) (old-name))\n")
    (workspace / "sub/three.el").write_text("(defun other () (+ 1 (old-name)))\n")
    (workspace / "sub/four.el").write_text("(defun unrelated () 'older-names)\n")
    messages: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message or "")

    async with served.client(served.ann) as client:
        started = structured_content(await client.call_tool("efrit_start_instance", {"instance_id": "two"}))
        assert started["status"] == "started"
        listed = structured_content(await client.call_tool("efrit_list_instances"))["instances"]
        assert [(instance["id"], instance["status"]) for instance in listed] == [("one", "active"), ("two", "active")]

        work = {"instance_id": "two", "type": "eval", "content": "(+ 1 2)", "return_context": True}
        three = structured_content(await client.call_tool("efrit_execute", work))
        assert (three["status"], three["result"]) == ("success", "3")
        assert three["context"]["emacs_version"]

        command = {"instance_id": "one", "type": "command", "content": RENAME, "timeout": 600}
        renamed = structured_content(await client.call_tool("efrit_execute", command, progress_callback=progress))
        assert (renamed["status"], renamed["result"]) == ("success", "Renamed old-name in 3 files.")
        assert messages

        stats = structured_content(await client.call_tool("efrit_get_queue_stats", {"instance_id": "two"}))
        assert set(stats) >= {"requests_processed", "uptime_seconds"}
        stopped = structured_content(await client.call_tool("efrit_stop_instance", {"instance_id": "two"}))
        assert stopped["status"] == "stopped"
    instance = served.site.kube.get("efritinstances", served.site.namespace, "two")
    assert instance["spec"]["operatingMode"] == "Suspended"


async def test_the_model_asks_and_the_person_answers(served: Served) -> None:
    async def person(_: ClientRequestContext, __: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"answer": "Blue"})

    async with served.client(served.ann, elicitation_callback=person) as client:
        command = {"instance_id": "one", "type": "command", "content": QUESTION, "timeout": 600}
        result = structured_content(await client.call_tool("efrit_execute", command))
    assert (result["status"], result["result"]) == ("success", "Wrote Blue.")


async def test_one_key_is_one_request_in_the_cluster_too(served: Served) -> None:
    work = {"type": "eval", "content": "(+ 2 3)", "instance_id": "one", "idempotency_key": "five"}
    async with served.client(served.ann) as client:
        first = structured_content(await client.call_tool("efrit_submit", work))
    async with served.client(served.ann) as client:
        again = structured_content(await client.call_tool("efrit_submit", work))
        other = await client.call_tool("efrit_submit", work | {"content": "(+ 3 3)"})
        wait = {"request_id": first["request_id"], "timeout": TIMEOUT}
        waited = structured_content(await client.call_tool("efrit_wait", wait))
        assert not (await client.call_tool("efrit_cancel", {"request_id": first["request_id"]})).is_error
    assert again["request_id"] == first["request_id"]
    assert other.is_error
    assert (waited["result"], waited["attempt"]) == ("5", 1)


async def test_who_may_not_is_refused_and_nothing_is_made(served: Served) -> None:
    ben = account(served.site.kube, served.site.namespace, "ben", audience=AUDIENCE)
    allow(served.site.kube, served.site.namespace, "ben", ["get", "list", "watch"], RESOURCES)
    before = served.requests()
    work = {"type": "eval", "content": "1", "instance_id": "one"}
    async with served.client(ben) as client:
        for tool, arguments in (
            ("efrit_submit", work),
            ("efrit_execute", work),
            ("efrit_start_instance", {"instance_id": "three"}),
            ("efrit_stop_instance", {"instance_id": "one"}),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert re.search(r":ben\W+cannot", str(result.content))
        assert not (await client.call_tool("efrit_list_instances")).is_error
    assert served.requests() == before


async def test_long_work_is_a_task_for_whoever_may_get_and_cancel_its_request(served: Served) -> None:
    site = served.site
    looker = account(site.kube, site.namespace, "task-looker", audience=AUDIENCE)
    allow(site.kube, site.namespace, "task-looker", ["get"], RESOURCES)
    async with served.client(served.ann, extensions=[Tasks()]) as client:
        work = {"instance_id": "one", "type": "eval", "content": "(sleep-for 600)", "timeout": 600}
        created = await begin(client, work)
        assert site.kube.get("efritrequests", site.namespace, created.task_id)["spec"]["type"] == "eval"
        async with served.client(looker, extensions=[Tasks()]) as other:
            assert (await ask(other, "tasks/get", created.task_id))["status"] == "working"
            with pytest.raises(MCPError, match="Forbidden"):
                await ask(other, "tasks/cancel", created.task_id)
        await ask(client, "tasks/cancel", created.task_id)
        assert (await ended(client, created.task_id))["status"] == "cancelled"


async def test_another_namespace_is_refused(served: Served) -> None:
    other = new_namespace(served.site.kube)
    stranger = account(served.site.kube, other, "ann", audience=AUDIENCE)
    allow(served.site.kube, other, "ann", VERBS, RESOURCES)
    before = served.requests()
    work = {"type": "eval", "content": "1", "instance_id": "one"}
    async with served.client(stranger) as client:
        assert "cannot" in str((await client.call_tool("efrit_submit", work)).content)
    async with served.client(served.ann, other) as client:
        assert "cannot" in str((await client.call_tool("efrit_submit", work)).content)
    assert served.requests() == before


async def test_an_agent_runs_a_plan_follows_its_steps_and_reads_what_it_left(served: Served, model: Model) -> None:
    script = Script(model, "letter")
    script.act("write", {"plans/letter/environment/greeting.txt": "Good day.\n"})
    script.done("write", "root")
    messages: list[str] = []
    gate = served.site.directory / "letter-may-begin"
    busy = served.site.ask(f'(while (not (file-exists-p "{gate}")) (sleep-for 0.02))')
    served.site.until_status(busy, phase="Running")

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message or "")
        # A step may be over in a moment: the plan begins once somebody follows it.
        gate.touch()

    plan = {
        "intent": script.intent["description"],
        "plan_id": "letter",
        "instance_id": "one",
        "build": ["cat greeting.txt"],
        "tasks": [{"name": "write", "description": "Do write."}],
    }
    named = {"plan_id": "letter"}
    async with served.client(served.ann) as client:
        assert structured_content(await client.call_tool("efrit_run_plan", plan))["plan_id"] == "letter"
        again = structured_content(await client.call_tool("efrit_run_plan", plan))
        assert (again["plan_id"], len(structured_content(await client.call_tool("efrit_list_plans"))["plans"])) == (
            "letter",
            1,
        )
        wait = named | {"timeout": TIMEOUT}
        ended = structured_content(await client.call_tool("efrit_wait_plan", wait, progress_callback=progress))
        assert (ended["final"], ended["outcome"], ended["instance_id"]) == (True, "Success", "one")
        assert {task["id"]: task["state"] for task in ended["tree"]} == {"root": "done", "write": "done"}
        assert any(message.startswith("Act write: Do write.") for message in messages)
        assert any(message.startswith("[write] ACT") for message in messages)
        log = structured_content(await client.call_tool("efrit_get_plan_log", named))
        assert log["complete"]
        assert [commit["kind"] for commit in log["commits"]] == ["begin", "act", "adapt", "adapt"]
        page = (await client.read_resource("efrit://plans/letter/report")).contents[0]
        assert "[write] ACT" in str(getattr(page, "text", ""))
        late = await client.call_tool("efrit_amend_plan", named | {"text": "And sign it."})
        assert late.is_error
        assert "is over" in str(late.content)


async def test_who_may_only_look_sees_plans_and_changes_none(served: Served) -> None:
    kube, namespace = served.site.kube, served.site.namespace
    cat = account(kube, namespace, "cat", audience=AUDIENCE)
    allow(kube, namespace, "cat", ["get", "list", "watch"], RESOURCES)
    async with served.client(served.ann) as client:
        waiting = {"intent": "Wait.", "plan_id": "waiting", "pool": "nobody"}
        structured_content(await client.call_tool("efrit_run_plan", waiting))
    kube.patch("efritplans", namespace, "waiting", {"status": {"instanceName": "one"}}, sub="status")
    before = served.requests()
    named = {"plan_id": "waiting"}
    async with served.client(cat) as client:
        assert structured_content(await client.call_tool("efrit_get_plan", named))["intent"]["description"] == "Wait."
        assert not structured_content(await client.call_tool("efrit_wait_plan", named | {"timeout": 0.1}))["final"]
        log = structured_content(await client.call_tool("efrit_get_plan_log", named))
        assert (log["complete"], ':cat" cannot create' in log["note"]) == (False, True)
        for tool, arguments in (
            ("efrit_run_plan", {"intent": "x", "instance_id": "one"}),
            ("efrit_amend_plan", named | {"text": "x"}),
            ("efrit_change_plan", named | {"change": "cancel"}),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert re.search(r":cat\W+cannot", str(result.content))
    spec = kube.get("efritplans", namespace, "waiting")["spec"]
    assert (spec.get("amendments"), spec.get("cancel")) in ((None, None), (None, False))
    assert served.requests() == before
    async with served.client(served.ann) as client:
        assert structured_content(await client.call_tool("efrit_change_plan", named | {"change": "cancel"}))[
            "cancelled"
        ]


async def test_an_agent_sees_pools_scales_one_and_learns_which_member_does_its_work(served: Served) -> None:
    kube, namespace = served.site.kube, served.site.namespace
    autoscaling = {"autoscaling": {"maxReplicas": 3}}
    kube.create("efritpools", namespace, {"metadata": {"name": "tides"}, "spec": autoscaling})
    kube.create("efritpools", namespace, {"metadata": {"name": "hands"}, "spec": {"replicas": 0}})
    dora = account(kube, namespace, "dora", audience=AUDIENCE)
    allow(kube, namespace, "dora", VERBS, RESOURCES)
    resize = {"pool": "hands", "replicas": 1}
    async with served.client(dora) as client:
        listed = structured_content(await client.call_tool("efrit_list_pools"))["pools"]
        assert {"hands", "nobody", "tides"} == {pool["pool"] for pool in listed}
        result = await client.call_tool("efrit_scale_pool", resize)
        assert result.is_error
        assert re.search(r":dora\W+cannot", str(result.content))
    async with served.client(served.ann) as client:
        own = await client.call_tool("efrit_scale_pool", {"pool": "tides", "replicas": 1})
        assert own.is_error
        assert "either spec.replicas" in str(own.content)
        unknown = await client.call_tool("efrit_submit", {"type": "eval", "content": "1", "pool": "hans"})
        assert unknown.is_error
        assert "hands, nobody, tides" in str(unknown.content)
        work = {"type": "eval", "content": "(* 6 7)", "pool": "hands"}
        request = structured_content(await client.call_tool("efrit_submit", work))
        assert structured_content(await client.call_tool("efrit_scale_pool", resize))["desired"] == 1
        wait = {"request_id": request["request_id"], "timeout": TIMEOUT}
        answer = structured_content(await client.call_tool("efrit_wait", wait))
        assert (answer["result"], answer["instance_id"].startswith("hands-")) == ("42", True)
        # An answer is there before the counts of its pool are.
        until(lambda: kube.get("efritpools", namespace, "hands")["status"].get("replicas"), "no member is counted")
        pool = structured_content(await client.call_tool("efrit_get_pool", {"pool": "hands"}))
        assert (pool["desired"], pool["members"]) == (1, 1)


async def test_an_agent_gives_a_pool_a_former_template_again_with_the_rights_of_its_user(served: Served) -> None:
    kube, namespace = served.site.kube, served.site.namespace
    good, other = ({"spec": {"limits": {"maxToolCalls": calls}}} for calls in (7, 8))
    kube.create("efritpools", namespace, {"metadata": {"name": "turns"}, "spec": {"replicas": 0, "template": good}})
    nora = account(kube, namespace, "nora", audience=AUDIENCE)
    allow(kube, namespace, "nora", VERBS, RESOURCES)
    undo = {"pool": "turns", "revision": 1}

    def revisions() -> list[int]:
        kept = kube.list("controllerrevisions", namespace)
        return sorted(each["revision"] for each in kept if each["metadata"]["labels"][POOL_LABEL] == "turns")

    until(lambda: revisions() == [1], "the first template is not kept")
    kube.patch("efritpools", namespace, "turns", {"spec": {"template": other}})
    until(lambda: revisions() == [1, 2], "the second template is not kept")
    async with served.client(nora) as client:
        for tool, arguments in (("efrit_get_pool_history", {"pool": "turns"}), ("efrit_undo_pool", undo)):
            refused = await client.call_tool(tool, arguments)
            assert refused.is_error
            assert re.search(r":nora\W+cannot list resource\W+controllerrevisions", str(refused.content))
    async with served.client(served.ann) as client:
        history = structured_content(
            await client.call_tool("efrit_get_pool_history", {"pool": "turns", "revision": 1})
        )
        current = {each["revision"]: (each["current"], each["members"]) for each in history["revisions"]}
        assert (current, history["template"]) == ({1: (False, 0), 2: (True, 0)}, good)
        undone = structured_content(await client.call_tool("efrit_undo_pool", undo))
        assert (undone["changed"], undone["fields"]) == (True, ["spec.limits.maxToolCalls"])
        assert kube.get("efritpools", namespace, "turns")["spec"]["template"]["spec"]["limits"]["maxToolCalls"] == 7
        until(lambda: revisions() == [2, 3], "the restored template has no new number")
        again = structured_content(await client.call_tool("efrit_undo_pool", undo))
        assert (again["changed"], again["revision"]) == (False, 3)


async def test_an_agent_has_a_member_to_itself_until_it_gives_it_back(served: Served) -> None:
    kube, namespace = served.site.kube, served.site.namespace
    template = {"spec": {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}}}
    kube.create("efritpools", namespace, {"metadata": {"name": "own"}, "spec": {"replicas": 1, "template": template}})
    eve = account(kube, namespace, "eve", audience=AUDIENCE)
    allow(kube, namespace, "eve", ["get", "list", "watch"], RESOURCES)
    wanted = {"pool": "own", "claim_id": "mine", "ttl": 600, "timeout": TIMEOUT}
    async with served.client(eve) as client:
        refused = await client.call_tool("efrit_claim_member", wanted)
        assert refused.is_error
        assert re.search(r":eve\W+cannot", str(refused.content))
    assert kube.list("efritclaims", namespace) == []
    async with served.client(served.ann) as client:
        empty = structured_content(
            await client.call_tool("efrit_claim_member", {"pool": "nobody", "claim_id": "never", "timeout": 1})
        )
        assert (empty["phase"], "instance_id" in empty) == ("Pending", False)
        claim = structured_content(await client.call_tool("efrit_claim_member", wanted))
        member = claim["instance_id"]
        assert (claim["phase"], member.startswith("own-")) == ("Bound", True)
        again = structured_content(await client.call_tool("efrit_claim_member", wanted))
        assert again["instance_id"] == member
        listed = structured_content(await client.call_tool("efrit_list_claims"))["claims"]
        assert [entry["claim_id"] for entry in listed] == ["mine", "never"]
        work = {"type": "eval", "content": "(* 6 7)", "instance_id": member}
        assert structured_content(await client.call_tool("efrit_execute", work))["result"] == "42"
        for name in ("mine", "never"):
            await client.call_tool("efrit_release_claim", {"claim_id": name})
    until(
        lambda: kube.get("efritclaims", namespace, "mine").get("status", {}).get("phase") == "Released",
        lambda: f"it is not released\n{served.site.logs()}",
        TIMEOUT,
    )
    assert member not in [instance["metadata"]["name"] for instance in kube.list("efritinstances", namespace)]


def lines(file: Path) -> list[str]:
    # A line that is being written is not a line yet.
    return file.read_text().rpartition("\n")[0].splitlines()


async def test_admission_and_the_audit_log_see_the_caller(served: Served, audit_log: Path) -> None:
    kube, namespace = served.site.kube, served.site.namespace
    name = f"system:serviceaccount:{namespace}:ann"
    expression = f"request.userInfo.username != '{name}' || object.metadata.namespace != '{namespace}'"
    rule = {"apiGroups": ["efrit.dev"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["efritplans"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": "plans are closed"}],
    }
    binding = {"policyName": f"callers-{namespace}", "validationActions": ["Deny"]}
    meta = {"name": f"callers-{namespace}"}
    kube.call("POST", resources.VALIDATING_POLICIES.path(), {"metadata": meta, "spec": spec})
    kube.call("POST", resources.VALIDATING_POLICY_BINDINGS.path(), {"metadata": meta, "spec": binding})
    refused = False
    try:
        async with served.client(served.ann) as client:
            with anyio.fail_after(TIMEOUT):
                while not refused:
                    plan = {"intent": "Nothing.", "pool": "nobody"}
                    refused = "plans are closed" in str((await client.call_tool("efrit_run_plan", plan)).content)
    finally:
        kube.call("DELETE", resources.VALIDATING_POLICY_BINDINGS.path(name=meta["name"]))
    events = [event for event in map(json.loads, lines(audit_log)) if event["verb"] not in ("get", "list", "watch")]
    server = f"system:serviceaccount:{namespace}:{namespace}-efrit-operator-mcp"
    names = [(event["user"]["username"], event.get("impersonatedUser", {}).get("username")) for event in events]
    assert (server, name) in names
    assert (server, None) not in names


@pytest.mark.parametrize(
    ("resource", "headers", "cannot"),
    [
        (resources.REQUESTS, {}, "cannot list resource"),
        (resources.REQUESTS, {"Impersonate-User": "bob"}, 'User "bob" cannot list'),
        (
            resources.REQUESTS,
            {"Impersonate-User": "bob", "Impersonate-Group": "system:masters"},
            "system:masters group is not allowed",
        ),
        (resources.REQUESTS, {"Impersonate-User": "system:node:one"}, "cannot impersonate"),
        (resources.PODS, {"Impersonate-User": "{admin}"}, "cannot impersonate"),
        (resources.SECRETS, {"Impersonate-User": "{admin}"}, "cannot impersonate"),
    ],
)
async def test_the_servers_own_account_can_do_nothing_but_what_is_served_in_a_callers_name(
    served: Served, plane: ControlPlane, resource: resources.Resource, headers: dict[str, str], cannot: str
) -> None:
    namespace = served.site.namespace
    named = {key: text.format(admin=f"system:serviceaccount:{namespace}:ann") for key, text in headers.items()}
    trust = ssl.create_default_context(cafile=str(plane.authority.ca))
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {served.own}", **named}, verify=trust) as http:
        answer = await http.get(plane.url + resource.path(namespace))
    assert answer.status_code == 403
    assert cannot in answer.json()["message"]


async def test_a_token_for_the_api_server_is_of_no_use_here_and_one_for_here_is_of_none_there(
    served: Served, plane: ControlPlane
) -> None:
    kube, namespace = served.site.kube, served.site.namespace
    stolen = account(kube, namespace, "dan")
    allow(kube, namespace, "dan", VERBS, RESOURCES)
    async with served.http(stolen) as http:
        answer = await http.post(f"{served.url}/mcp", json={})
        assert answer.status_code == 401
        assert "--audience efrit-mcp" in answer.text
    trust = ssl.create_default_context(cafile=str(plane.authority.ca))
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {served.ann}"}, verify=trust) as http:
        answer = await http.get(plane.url + resources.REQUESTS.path(namespace))
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer nonsense"}, 401),
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
    ],
)
async def test_strangers_do_not_get_through_the_door(served: Served, headers: dict[str, str], status: int) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    async with served.http(None, Accept="application/json, text/event-stream", **headers) as http:
        answer = await http.post(
            f"{served.url}/mcp", content=json.dumps(body), headers={"Content-Type": "application/json"}
        )
    assert answer.status_code == status


async def test_each_verb_that_the_server_uses_in_a_callers_name_is_granted_and_each_granted_is_used(
    served: Served, audit_log: Path
) -> None:
    """Comes last: what the tests above have done is a server's day."""
    namespace = served.site.namespace
    server = f"system:serviceaccount:{namespace}:{namespace}-efrit-operator-mcp"
    used = {
        (event["verb"], "/".join(filter(None, map(event["objectRef"].get, ("resource", "subresource")))))
        for event in map(json.loads, lines(audit_log))
        if event["user"].get("username") == server
        and event.get("annotations", {}).get("authorization.k8s.io/decision") == "allow"
    }
    role = served.site.kube.get("roles", namespace, f"{namespace}-efrit-operator-mcp")
    granted = {
        (verb.removeprefix(MODE), resource)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        if verb.startswith(MODE)
    }
    assert (sorted(used - granted), sorted(granted - used)) == ([], [])
