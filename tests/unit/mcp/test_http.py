"""Who may use the HTTP transport, and what they may do behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ElicitResult, InputRequiredResult, InputResponses
from starlette.applications import Starlette
from starlette.types import Message

from efrit.backend.claims import Claim
from efrit.backend.cluster.backend import ClusterBackend
from efrit.backend.errors import NoCluster
from efrit.backend.interface import Backend, RequestType, Work
from efrit.backend.place import Place
from efrit.backend.plans import Intent, NewPlan
from efrit.errors import ConfigurationError
from efrit.kube.output_budget import OutputBudget
from efrit.mcp import endpoint
from efrit.mcp.access import Access
from efrit.mcp.access_review import Caller, Permission
from efrit.mcp.admission import MAX_MESSAGE_BYTES
from efrit.mcp.endpoint import READY_SECONDS, UNREADY_SECONDS, Readiness
from efrit.mcp.http import (
    MAX_NAMESPACES,
    MAX_OUTPUT_BYTES,
    Backends,
    listen,
    make_app,
    open_bounded,
    transport_security,
)
from efrit.mcp.settings import Http
from efrit.protocol.enums import ClaimPhase
from tests.support.mcp_results import structured_content
from tests.support.timeout import TIMEOUT
from tests.unit.mcp.clients import Person, text_of
from tests.unit.mcp.scripted import ScriptedBackend, evaluated, needs_input
from tests.unit.mcp.scripted_plans import COMMIT, ScriptedPlans

HOST = "mcp.example"
URL = f"https://{HOST}/mcp"
TEAM = f"https://{HOST}/namespaces/team/mcp"
SECURITY = TransportSecuritySettings(allowed_hosts=[HOST], allowed_origins=[f"https://{HOST}"])
ALL = frozenset({"get", "list", "watch", "create", "patch"})
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@dataclass
class ScriptedReviewer:
    """Tokens are names; a right is (name, namespace) -> verbs."""

    rights: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    reviews: list[tuple[str, Permission]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    down: bool = False
    audiences: Sequence[str] = ("efrit-mcp",)

    async def authenticate(self, token: str) -> Caller | None:
        if self.down:
            raise NoCluster("the API server does not answer")
        return Caller(token) if token in self.tokens else None

    async def is_allowed(self, caller: Caller, permission: Permission) -> bool:
        self.reviews.append((caller.name, permission))
        return permission.verb in self.rights.get((caller.name, permission.namespace), frozenset())


@dataclass
class Site:
    """Two namespaces, each with an instance, and a server in front of them."""

    reviewer: ScriptedReviewer
    spaces: dict[str | None, ScriptedBackend]
    opened: list[str | None]
    app: Starlette

    def http(self, token: str | None = None, **headers: str) -> httpx2.AsyncClient:
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx2.AsyncClient(
            transport=httpx2.ASGITransport(self.app), headers={**authorization, **headers}, base_url=f"https://{HOST}"
        )

    @asynccontextmanager
    async def client(
        self, token: str, url: str = URL, mode: str = "auto", **options: object
    ) -> AsyncIterator[Client]:
        async with self.http(token) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=mode, **options) as client:  # type: ignore[arg-type]
                yield client


class Closable(ScriptedBackend):
    """A backend that notes when it is closed."""

    closed = False

    async def close(self, *, handed_over: bool = True) -> None:
        self.closed = True


async def test_backends_of_more_namespaces_than_may_stay_open_are_closed_unless_they_are_used() -> None:
    opened: list[tuple[str | None, Closable]] = []

    async def opening(namespace: str | None) -> Backend:
        opened.append((namespace, Closable()))
        return opened[-1][1]

    def open_now() -> list[str | None]:
        return [name for name, backend in opened if not backend.closed]

    backends = Backends(opening)
    names = [f"team-{number}" for number in range(MAX_NAMESPACES)]
    async with backends.use("busy") as busy:
        for name in (*names[:-1], names[0], names[-1]):
            async with backends.use(name):
                pass
        # The busy one is the oldest, and the first of the others has been used since.
        assert open_now() == ["busy", names[0], *names[2:]]
        async with backends.use("busy") as again:
            assert again is busy
    # Used last: others go before it.
    async with backends.use("late"):
        pass
    assert open_now() == ["busy", names[0], *names[3:], "late"]
    async with backends.use(names[1]) as anew:
        assert cast("Closable", anew).closed is False
    await backends.close()
    assert open_now() == []


async def test_backends_that_are_all_used_stay_open_until_the_first_is_left() -> None:
    made: list[Closable] = []

    async def opening(namespace: str | None) -> Backend:
        made.append(Closable())
        return made[-1]

    backends = Backends(opening)
    async with AsyncExitStack() as others:
        for number in range(MAX_NAMESPACES):
            await others.enter_async_context(backends.use(f"team-{number}"))
        async with backends.use("one-more"):
            assert not any(backend.closed for backend in made)
        assert [backend.closed for backend in made] == [*[False] * MAX_NAMESPACES, True]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    ready: asyncio.Future[Site] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    # A task group is left by the task that entered it, and fixtures end in another one than they began.
    async def host() -> None:
        async with served() as made:
            ready.set_result(made)
            await done.wait()

    task = asyncio.create_task(host())
    yield await ready
    done.set()
    await task


@asynccontextmanager
async def served(keys: list[bytes] | None = None, beside: Site | None = None, **options: Any) -> AsyncIterator[Site]:
    reviewer = beside.reviewer if beside else ScriptedReviewer(tokens={"ann", "ben"})
    spaces: dict[str | None, ScriptedBackend] = beside.spaces if beside else {}
    opened: list[str | None] = []

    async def opening(namespace: str | None) -> Backend:
        opened.append(namespace)
        return spaces[namespace]

    if beside is None:
        for name in ("default", "team"):
            spaces[name] = ScriptedBackend()
            spaces[name].add(f"of-{name}")
        reviewer.rights = {("ann", "default"): ALL, ("ben", "team"): ALL}
    app = make_app(
        Backends(opening),
        reviewer,
        SECURITY,
        Access.FULL,
        namespace="default",
        plans=True,
        state_keys=keys,
        **options,
    )
    async with app.router.lifespan_context(app):
        yield Site(reviewer, spaces, opened, app)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize(
    ("whole", "truncated"),
    [("x" * 480_000, False), ("x" * 500_000, True), ("x" * 1_000_000, True), ('\\"' * 90_000, True)],
    ids=["half of what a client takes", "more than half", "all of it", "a text that JSON makes longer"],
)
async def test_an_answer_with_a_result_is_no_larger_than_a_client_of_the_sdk_takes(
    site: Site, whole: str, truncated: bool, mode: str
) -> None:
    space = site.spaces["default"]
    async with site.client("ann", mode=mode) as client:
        handed = await client.call_tool("efrit_submit", {"type": "eval", "content": "1"})
        name = structured_content(handed)["request_id"]
        space.whole[name] = whole
        await space.end(name, result=whole[:9], truncated=True, result_bytes=len(whole))
        done = await client.call_tool("efrit_get_request", {"request_id": name})
    answer = structured_content(done)
    assert (len(answer["result"]), answer["truncated"]) == (9 if truncated else len(whole), truncated)
    assert [content.type for content in done.content] == ["text", *["resource_link"] * truncated]


async def test_a_list_is_no_larger_than_a_client_of_the_sdk_takes(site: Site) -> None:
    space = site.spaces["default"]
    space.add("default")
    space.plans_of = plans = ScriptedPlans(space)
    for number in range(500):
        name = f"c{number:03}"
        space.held[name] = Claim(name, "crew", ClaimPhase.PENDING, message="€" * 1000, holder='"' * 253)
        await plans.create_plan(NewPlan(Intent("€" * 1000), name=name))
        await plans.put(name, current_task="€" * 128)
    plans.replies("c000", {"commits": [{**COMMIT, "subject": "€" * 500}] * 600}, 1000, packed=True)
    async with site.client("ann", mode="auto") as client:
        claims = structured_content(await client.call_tool("efrit_list_claims", {"limit": 500}))
        listed = structured_content(await client.call_tool("efrit_list_plans", {"limit": 500}))
        log = structured_content(await client.call_tool("efrit_get_plan_log", {"plan_id": "c000", "limit": 1000}))
    names = [claim["claim_id"] for claim in claims["claims"]]
    assert (names[0], len(names) + claims["left_out"]) == ("c000", 500)
    assert 100 < len(names) < 500
    names = [plan["plan_id"] for plan in listed["plans"]]
    assert (names[-1], len(names) + listed["left_out"]) == ("c499", 500)
    assert 100 < len(names) < 500
    assert 100 < len(log["commits"]) < 600
    assert log["note"] == f"The answer has room for the last {len(log['commits'])} of 600."


@pytest.mark.parametrize("authorization", [None, "Bearer nobody", "Basic YW5uOg==", "Bearer", "ann"])
async def test_who_has_no_good_token_is_turned_away(site: Site, authorization: str | None) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    async with site.http(**headers) as http:
        answer = await http.post("/mcp", json=INITIALIZE, headers=ACCEPT)
    assert answer.status_code == 401
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    assert f'resource_metadata="https://{HOST}/.well-known/oauth-protected-resource/mcp"' in challenge
    assert ('error="invalid_token"' in challenge) == (authorization == "Bearer nobody")
    assert site.opened == []


@pytest.mark.parametrize(
    ("headers", "down", "status"),
    [
        ({"Origin": f"https://{HOST}"}, False, 200),
        # Before its token is looked at.
        ({"Origin": "https://evil.example"}, True, 403),
        ({"Host": "rebound.example"}, False, 421),
        ({}, True, 503),
    ],
    ids=["our own origin", "another origin", "another host", "nobody can be asked"],
)
async def test_who_comes_in_with_a_good_token(site: Site, headers: dict[str, str], down: bool, status: int) -> None:
    site.reviewer.down = down
    async with site.http("ann", **headers) as http:
        assert (await http.post("/mcp", json=INITIALIZE, headers=ACCEPT)).status_code == status


async def test_a_client_of_the_first_revision_is_answered_in_it(site: Site) -> None:
    old = {**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": "2024-11-05"}}
    async with site.http("ann") as http:
        answer = await http.post("/mcp", json=old, headers=ACCEPT)
    assert '"protocolVersion":"2024-11-05"' in answer.text


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_stream_without_a_call_is_refused_because_nothing_would_ever_come_on_it(
    site: Site, method: str
) -> None:
    with anyio.fail_after(TIMEOUT):
        async with site.http("ann") as http:
            answer = await http.request(method, "/mcp", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_caller_works_in_the_namespace_of_the_path(site: Site, mode: str) -> None:
    for backend in site.spaces.values():
        backend.answers["1"] = evaluated("1")
    work = {"instance_id": "of-team", "type": "eval", "content": "1"}
    async with site.client("ben", TEAM, mode) as client:
        result = await client.call_tool("efrit_execute", work)
    assert structured_content(result)["result"] == "1"
    assert site.opened == ["team"]
    assert {permission.namespace for _, permission in site.reviewer.reviews} == {"team"}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("efrit_execute", {"instance_id": "of-team", "type": "eval", "content": "1"}),
        ("efrit_submit", {"type": "eval", "content": "1"}),
        ("efrit_list_instances", {}),
        ("efrit_get_queue_stats", {"instance_id": "of-team"}),
        ("efrit_get_request", {"request_id": "req"}),
        ("efrit_wait", {"request_id": "req"}),
        ("efrit_cancel", {"request_id": "req"}),
        ("efrit_start_instance", {"instance_id": "of-team"}),
        ("efrit_stop_instance", {"instance_id": "of-team"}),
    ],
)
async def test_in_another_namespace_every_tool_is_refused(site: Site, tool: str, arguments: dict[str, str]) -> None:
    async with site.client("ann", TEAM) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert "ann may not" in text_of(result)
    assert "namespace team" in text_of(result)
    assert site.opened == []
    assert site.spaces["team"].submitted == []


async def test_in_another_namespace_nothing_can_be_read(site: Site) -> None:
    async with site.client("ann", TEAM) as client:
        for uri in ("efrit://instances", "efrit://requests/req", "efrit://requests/req/log"):
            with pytest.raises(Exception, match="ann may not"):
                await client.read_resource(uri)
        with pytest.raises(Exception, match="ann may not"):
            await client.list_resources()
    assert site.opened == []


@pytest.mark.parametrize(
    ("verbs", "refused"),
    [
        (["get", "list", "watch"], ["efrit_submit", "efrit_cancel", "efrit_stop_instance", "efrit_start_instance"]),
        (["get", "list", "watch", "create"], ["efrit_cancel", "efrit_stop_instance", "efrit_start_instance"]),
        (["get", "list", "watch", "patch"], ["efrit_submit", "efrit_start_instance"]),
    ],
)
async def test_a_caller_does_what_their_verbs_allow_and_no_more(
    site: Site, verbs: Sequence[str], refused: Sequence[str]
) -> None:
    backend = site.spaces["default"]
    backend.answers["1"] = evaluated("1")
    name = (await backend.submit(Work(RequestType.EVAL, "1", key="k"))).id
    site.reviewer.rights["ann", "default"] = frozenset(verbs)
    arguments = {
        "efrit_submit": {"type": "eval", "content": "1"},
        "efrit_cancel": {"request_id": name},
        "efrit_stop_instance": {"instance_id": "of-default"},
        "efrit_start_instance": {"instance_id": "of-default"},
        "efrit_get_request": {"request_id": name},
        "efrit_list_instances": {},
    }
    tools = []
    async with site.client("ann") as client:
        for tool, tool_arguments in arguments.items():
            if "may not" in text_of(await client.call_tool(tool, tool_arguments)):
                tools.append(tool)
    assert sorted(tools) == sorted(refused)


async def test_a_right_that_is_taken_away_is_gone_with_the_next_call(site: Site) -> None:
    async with site.client("ann") as client:
        assert not (await client.call_tool("efrit_list_instances", {})).is_error
        site.reviewer.rights.clear()
        assert (await client.call_tool("efrit_list_instances", {})).is_error


async def test_a_token_that_is_taken_away_is_gone_with_the_next_call(site: Site) -> None:
    async with site.http("ann") as http:
        assert (await http.post("/mcp", json=INITIALIZE, headers=ACCEPT)).status_code == 200
        site.reviewer.tokens.clear()
        assert (await http.post("/mcp", json=INITIALIZE, headers=ACCEPT)).status_code == 401


async def test_a_question_asked_by_one_replica_is_answered_at_another() -> None:
    keys = [b"k" * 32]
    async with served(keys) as one, served(keys, beside=one) as other:
        backend = one.spaces["default"]
        backend.answers = {"paint": needs_input("Which colour?"), "Blue.": evaluated("blue")}
        work = {"instance_id": "of-default", "type": "command", "content": "paint"}
        async with one.client("ann", elicitation_callback=Person("Blue.")) as client:
            question = await client.session.call_tool("efrit_execute", work, allow_input_required=True)
        assert question.result_type == "input_required"
        assert isinstance(question, InputRequiredResult)
        state = question.request_state
        answer: InputResponses = {"answer": ElicitResult(action="accept", content={"answer": "Blue."})}
        one.reviewer.rights["ben", "default"] = ALL
        async with other.client("ben") as client:
            with pytest.raises(Exception, match="requestState"):
                await client.session.call_tool("efrit_execute", work, input_responses=answer, request_state=state)
        async with other.client("ann") as client:
            result = await client.session.call_tool(
                "efrit_execute", work, input_responses=answer, request_state=state
            )
    assert structured_content(result)["result"] == "blue"


async def test_it_is_ready_while_it_can_ask_who_calls(site: Site) -> None:
    site.reviewer.down = True
    async with site.http() as http:
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.get("/healthz")).status_code == 200


async def test_readiness_asks_the_api_server_once_in_a_while_however_often_it_is_asked(site: Site) -> None:
    now = [0.0]
    tokens: list[str] = []

    class Counting(ScriptedReviewer):
        async def authenticate(self, token: str) -> Caller | None:
            tokens.append(token)
            return await super().authenticate(token)

    reviewer = Counting()
    readiness = Readiness(reviewer, lambda: now[0])
    await asyncio.gather(*(readiness.problem() for _ in range(100)))
    assert len(tokens) == 1
    reviewer.down = True
    assert await readiness.problem() is None
    now[0] += READY_SECONDS
    assert await readiness.problem() == "the API server does not answer."
    reviewer.down = False
    now[0] += UNREADY_SECONDS
    assert await readiness.problem() is None
    assert len(tokens) == 3


def test_on_loopback_only_its_own_names_are_hosts_and_origins() -> None:
    security = transport_security(Http(port=1234))
    assert set(security.allowed_hosts) == {"127.0.0.1:1234", "localhost:1234", "[::1]:1234"}
    assert "http://localhost:1234" in security.allowed_origins


def test_elsewhere_only_what_was_named() -> None:
    security = transport_security(Http(host="192.0.2.1", allowed_hosts=("mcp.example",)))
    assert security.allowed_hosts == ["mcp.example"]
    assert security.allowed_origins == []


@pytest.mark.parametrize("namespace", ["%2e%2e", "Team", "a" * 64, "-x", "te am"])
async def test_what_is_no_name_of_a_namespace_is_not_asked_about(site: Site, namespace: str) -> None:
    async with site.http("ann") as http:
        url = httpx2.URL(f"https://{HOST}", raw_path=f"/namespaces/{namespace.replace(' ', '%20')}/mcp".encode())
        assert (await http.post(url, json=INITIALIZE, headers=ACCEPT)).status_code == 404
    assert site.reviewer.reviews == []


async def test_each_change_and_each_refusal_is_written_down_with_its_caller(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "efrit.mcp.audit")
    async with site.client("ann") as client:
        await client.call_tool("efrit_list_instances", {})
        await client.call_tool("efrit_submit", {"type": "eval", "content": "1", "instance_id": "of-default"})
    async with site.client("ann", TEAM) as client:
        await client.call_tool("efrit_list_instances", {})
    assert [record.message for record in caplog.records if record.name == "efrit.mcp.audit"] == [
        "ann may create efritrequests.efrit.dev in namespace default",
        "ann may not list efritinstances.efrit.dev in namespace team",
    ]


@pytest.mark.parametrize(
    ("path", "resource"),
    [("", "/mcp"), ("/mcp", "/mcp"), ("/namespaces/team/mcp", "/namespaces/team/mcp")],
)
async def test_the_metadata_of_an_endpoint_say_where_to_get_a_token_and_take_none(path: str, resource: str) -> None:
    issuer = "https://login.example"
    async with served(authorization_servers=[issuer]) as site, site.http() as http:
        answer = await http.get(f"/.well-known/oauth-protected-resource{path}")
        assert answer.json() == {
            "resource": f"https://{HOST}{resource}",
            "resource_name": "Efrit",
            "bearer_methods_supported": ["header"],
            "authorization_servers": [issuer],
        }
        strange = await http.get(f"/.well-known/oauth-protected-resource{path}", headers={"Host": "rebound.example"})
        assert strange.status_code == 421


@pytest.mark.parametrize(
    "caller",
    [
        Caller("root", groups=("system:masters",)),
        Caller("system:node:one"),
        Caller("system:anonymous"),
        Caller("ann\nbob"),
        # In a header it would be without its blank.
        Caller("ann", groups=(" system:masters",)),
        Caller("ann", groups=("system:masters ",)),
        Caller(" system:node:one"),
        Caller("ann", uid="1 "),
        Caller("ann", extra={"scope": (" a",)}),
        Caller("ann", extra={"scope": ("a\r\nImpersonate-User: root",)}),
    ],
)
async def test_a_caller_in_whose_name_nothing_is_done_is_refused_before_the_message_is_read(caller: Caller) -> None:
    class Always(ScriptedReviewer):
        async def authenticate(self, token: str) -> Caller | None:
            return caller

    async with served() as site:
        site.app = make_app(Backends(nowhere), Always(), SECURITY, namespace="default")
        async with site.app.router.lifespan_context(site.app), site.http("token") as http:
            answer = await http.post("/mcp", content=b"{" * 100, headers=ACCEPT)
    assert answer.status_code == 403
    assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


async def nowhere(_: str | None) -> Backend:
    raise AssertionError("no backend is opened")


HEAVY = {
    "objects": b"[" + b"{}," * 10_001 + b"{}]",
    "keys": b"{" + b",".join(b'"k%d":1' % i for i in range(300_000)) + b"}",
    "bytes": b'"' + b"x" * MAX_MESSAGE_BYTES + b'"',
}


@pytest.mark.parametrize("name", HEAVY)
async def test_a_message_too_heavy_for_any_call_is_refused_before_it_is_parsed(site: Site, name: str) -> None:
    async with site.http("ann") as http:
        answer = await http.post("/mcp", content=HEAVY[name], headers=ACCEPT)
    assert answer.status_code == 413
    assert "more than" in answer.text
    assert "file" in answer.text


async def test_a_deeply_nested_message_is_an_error_of_its_caller(site: Site) -> None:
    async with site.http("ann") as http:
        for version in ({}, {"MCP-Protocol-Version": "2026-07-28"}):
            headers = {**ACCEPT, **version, "Content-Type": "application/json"}
            assert (await http.post("/mcp", content=b"[" * 9_000, headers=headers)).status_code == 400


async def test_nothing_of_a_message_is_read_before_its_caller_is_known(site: Site) -> None:
    read = []

    scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "scheme": "https"}
    scope |= {"headers": [(b"host", HOST.encode()), (b"authorization", b"Bearer nobody")], "server": (HOST, 443)}
    sent: list[Message] = []

    async def receive() -> Message:
        read.append(True)
        return {"type": "http.disconnect"}

    async def send(event: Message) -> None:
        sent.append(event)

    await site.app(scope, receive, send)
    assert (sent[0]["status"], read) == (401, [])
    assert (b"connection", b"close") in sent[0]["headers"]


async def test_a_caller_who_takes_nothing_of_an_answer_is_not_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "SEND_SECONDS", 0.05)
    body = json.dumps(INITIALIZE).encode()
    headers = {"host": HOST, "authorization": "Bearer ann", "content-type": "application/json", **ACCEPT}
    scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "scheme": "https"}
    scope |= {"headers": [(k.lower().encode(), v.encode()) for k, v in headers.items()], "server": (HOST, 443)}
    messages: list[Message] = [{"type": "http.request", "body": body}]

    async def receive() -> Message:
        if not messages:
            await anyio.sleep_forever()
        return messages.pop()

    async def send(_: Message) -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(TIMEOUT):
        await site.app(scope, receive, send)


async def test_all_backends_that_callers_share_read_files_of_pods_within_one_budget(tmp_path: Path) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    budget = OutputBudget(2, 1)

    for namespace in ("one", "two"):
        backend = await open_bounded(Place("cluster", kubeconfig=kubeconfig), namespace, budget)
        assert isinstance(backend, ClusterBackend)
        assert (backend.namespace, backend.api.output_budget) == (namespace, budget)
        assert backend.api.max_output_bytes == MAX_OUTPUT_BYTES
        await backend.close()


@pytest.mark.parametrize(
    ("content", "problem"), [(None, "No such file or directory"), ("no certificate", "PEM|NO_START_LINE")]
)
async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path, content: str | None, problem: str) -> None:
    files = (tmp_path / "tls.crt", tmp_path / "tls.key")
    for file in files:
        if content is not None:
            file.write_text(content)
    with pytest.raises(ConfigurationError, match=f"--tls-cert {files[0]} with --tls-key {files[1]}.*({problem})"):
        await listen(Starlette(), Http(certificate=files[0], key=files[1]))
