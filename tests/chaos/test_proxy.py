"""The proxy itself: what passes unharmed, what each fault does to the caller, and what the API server made of it."""

from __future__ import annotations

import json
import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, Queue

import httpx
import pytest

from efrit import resources
from efrit.errors import ApiError
from tests.cluster.control_plane import ControlPlane
from tests.support.chart import token
from tests.support.faults.api_proxy.proxy import FOR_EVER, Effect, Fault, Proxy
from tests.support.kube import Json, Kube, until
from tests.support.timeout import TIMEOUT

FOR_GOOD_SECONDS = 600.0
"""Longer than any wait: what is held so long is let go when the proxy is healed."""
RBAC = resources.CLUSTER_ROLE_BINDINGS.path()


@dataclass
class Caller:
    """A client of the API server whose every byte goes through the proxy."""

    proxy: Proxy
    kube: Kube
    client: httpx.Client
    namespace: str
    killed: threading.Event

    def write(self, name: str) -> httpx.Response:
        """Create a Secret."""
        body = resources.SECRETS.manifest({"name": name})
        return self.client.post(f"{Kube.path('secrets', self.namespace)}?fieldManager=me", json=body)

    def there(self, name: str) -> bool:
        """Whether the API server has it."""
        return self.kube.find("secrets", self.namespace, name) is not None

    @contextmanager
    def watching(self, **query: str) -> Iterator[Queue[Json | Exception | None]]:
        """Follow the Secrets from now on: events, None at a clean end, or what broke the connection."""
        path = Kube.path("secrets", self.namespace)
        now = self.kube.call("GET", path)["metadata"]["resourceVersion"]
        events: Queue[Json | Exception | None] = Queue()
        opened = threading.Event()

        def listen() -> None:
            try:
                params = {"watch": "true", "resourceVersion": now, "timeoutSeconds": str(int(TIMEOUT)), **query}
                with self.client.stream("GET", path, params=params, timeout=TIMEOUT) as response:
                    opened.set()
                    if response.status_code != 200:
                        events.put(ApiError("", status=response.status_code))
                        return
                    for line in response.iter_lines():
                        events.put(json.loads(line))
                events.put(None)
            except (httpx.TransportError, ValueError) as error:
                events.put(error)
            finally:
                opened.set()

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        assert opened.wait(TIMEOUT)
        yield events


@pytest.fixture
def caller(plane: ControlPlane, kube: Kube) -> Iterator[Caller]:
    name = f"proxy-{secrets.token_hex(4)}"
    kube.call("POST", resources.NAMESPACES.path(), {"metadata": {"name": name}})
    kube.create("serviceaccounts", name, {"metadata": {"name": "caller"}})
    subject = {"kind": "ServiceAccount", "name": "caller", "namespace": name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    kube.call("POST", RBAC, {"metadata": {"name": name}, "subjects": [subject], "roleRef": role})
    killed = threading.Event()
    context = ssl.create_default_context(cafile=str(plane.authority.ca))
    headers = {"Authorization": f"Bearer {token(kube, name, 'caller')}"}
    with Proxy(plane) as proxy:
        proxy.kill_controller = killed.set
        with httpx.Client(
            base_url=proxy.url, verify=context, headers=headers, trust_env=False, timeout=TIMEOUT
        ) as client:
            made = Caller(proxy, kube, client, name, killed)
            until(lambda: client.get(Kube.path("secrets", name)).status_code == 200, "the rights do not arrive")
            yield made


def _name(event: Json | Exception | None) -> str:
    assert isinstance(event, dict), event
    name: str = event["object"]["metadata"]["name"]
    return name


def test_what_is_not_armed_passes_and_is_noted(caller: Caller) -> None:
    answer = caller.write("plain")
    assert (answer.status_code, answer.json()["metadata"]["name"]) == (201, "plain")
    call = next(call for call in caller.proxy.calls if call.target.writes)
    assert (str(call.target), call.target.namespace) == ("create secrets", caller.namespace)
    assert (call.manager, call.status, call.effect) == ("me", 201, "")
    assert call.body is not None
    assert call.body["metadata"] == {"name": "plain"}
    assert call.ended is not None
    assert call.time <= call.ended


@pytest.mark.parametrize(
    ("effect", "committed", "killed"),
    [
        (Effect.KILL_BEFORE_SEND, False, True),
        (Effect.KILL_AFTER_COMMIT, True, True),
        (Effect.LOST_REPLY, True, False),
        (Effect.RESET, False, False),
    ],
)
def test_a_broken_connection_reports_nothing_of_what_was_committed(
    caller: Caller, effect: Effect, committed: bool, killed: bool
) -> None:
    armed = caller.proxy.arm(Fault(effect, "create", "secrets"))
    with pytest.raises(httpx.TransportError):
        caller.write("broken")
    assert (armed.hits, caller.there("broken"), caller.killed.is_set()) == (1, committed, killed)
    assert caller.write("after").status_code == 201


def test_a_victim_may_die_with_the_answer_in_its_hands(caller: Caller) -> None:
    caller.proxy.arm(Fault(Effect.KILL_AFTER_REPLY, "create"))
    assert caller.write("answered").status_code == 201
    assert caller.killed.wait(TIMEOUT)
    assert caller.there("answered")


@pytest.mark.parametrize(
    ("effect", "status"),
    [(Effect.CONFLICT_409, 409), (Effect.TOO_MANY_429, 429), (Effect.ERROR_500, 500), (Effect.GONE_410, 410)],
)
def test_a_refusal_looks_like_the_api_servers_and_changes_nothing(
    caller: Caller, effect: Effect, status: int
) -> None:
    caller.proxy.arm(Fault(effect, "create", "secrets", seconds=3))
    answer = caller.write("refused")
    assert (answer.status_code, answer.json()["kind"], answer.json()["code"]) == (status, "Status", status)
    assert answer.headers.get("Retry-After") == ("3" if status == 429 else None)
    assert not caller.there("refused")


def test_a_delayed_call_arrives_when_the_proxy_is_healed(caller: Caller) -> None:
    armed = caller.proxy.arm(Fault(Effect.DELAYED, "create", "secrets", seconds=FOR_GOOD_SECONDS))
    writing = threading.Thread(target=caller.write, args=("late",))
    writing.start()
    assert armed.injected.wait(TIMEOUT)
    assert not caller.there("late")
    caller.proxy.heal()
    writing.join(TIMEOUT)
    assert caller.there("late")


def test_a_fault_strikes_only_what_it_matches_and_as_often_as_requested(caller: Caller) -> None:
    armed = caller.proxy.arm(
        Fault(
            Effect.ERROR_500, "create", "secrets", when=lambda body: body["metadata"]["name"] != "c", skip=1, times=2
        )
    )
    assert [caller.write(name).status_code for name in "abcdef"] == [201, 500, 201, 500, 201, 201]
    assert (armed.hits, armed.spent) == (2, True)
    for_ever = caller.proxy.arm(Fault(Effect.ERROR_500, "create", times=FOR_EVER))
    assert [caller.write(name).status_code for name in "ghi"] == [500] * 3
    caller.proxy.heal()
    assert (caller.write("g").status_code, for_ever.hits) == (201, 3)


def test_a_list_may_show_an_older_world(caller: Caller) -> None:
    path = Kube.path("secrets", caller.namespace)
    before = caller.client.get(path).json()["metadata"]["resourceVersion"]
    caller.write("new")
    caller.proxy.arm(Fault(Effect.STALE_LIST, "list", "secrets", value=before))
    assert caller.client.get(path).json()["items"] == []
    assert len(caller.client.get(path).json()["items"]) == 1


def test_an_event_can_be_lost_or_come_twice(caller: Caller) -> None:
    caller.proxy.arm(Fault(Effect.EVENT_DROPPED, resource="secrets", name="a"))
    caller.proxy.arm(Fault(Effect.EVENT_DUPLICATED, resource="secrets", type="ADDED", name="b"))
    with caller.watching() as events:
        for name in "abc":
            caller.write(name)
        assert [_name(events.get(timeout=TIMEOUT)) for _ in range(3)] == ["b", "b", "c"]


def test_an_event_can_come_after_anothers(caller: Caller) -> None:
    caller.proxy.arm(Fault(Effect.EVENT_REORDERED, resource="secrets", name="a", seconds=FOR_GOOD_SECONDS))
    with caller.watching() as events:
        for name in "ab":
            caller.write(name)
        assert [_name(events.get(timeout=TIMEOUT)) for _ in range(2)] == ["b", "a"]


@pytest.mark.parametrize("effect", [Effect.EVENT_DELAYED, Effect.STREAM_SILENT])
def test_a_silent_stream_says_all_it_owes_once_healed(caller: Caller, effect: Effect) -> None:
    armed = caller.proxy.arm(Fault(effect, resource="secrets", name="a", seconds=FOR_GOOD_SECONDS))
    with caller.watching() as events:
        caller.write("a")
        caller.write("b")
        assert armed.injected.wait(TIMEOUT)
        with pytest.raises(Empty):
            events.get_nowait()
        caller.proxy.heal()
        assert [_name(events.get(timeout=TIMEOUT)) for _ in range(2)] == ["a", "b"]


def test_a_committed_write_can_be_late_on_the_watch(caller: Caller) -> None:
    caller.proxy.arm(Fault(Effect.STALE_AFTER_COMMIT, "create", "secrets", seconds=FOR_GOOD_SECONDS))
    with caller.watching() as events:
        assert caller.write("a").status_code == 201
        assert caller.write("b").status_code == 201
        until(lambda: any(fault.injected.is_set() for fault in caller.proxy.armed), "the watch does not lag")
        assert events.empty()
        caller.proxy.heal()
        assert [_name(events.get(timeout=TIMEOUT)) for _ in range(2)] == ["a", "b"]


def test_an_expired_stream_says_so_and_ends(caller: Caller) -> None:
    caller.proxy.arm(Fault(Effect.STREAM_EXPIRED, resource="secrets", name="a"))
    with caller.watching() as events:
        caller.write("a")
        error = events.get(timeout=TIMEOUT)
        assert isinstance(error, dict)
        assert (error["type"], error["object"]["code"]) == ("ERROR", 410)
        assert events.get(timeout=TIMEOUT) is None


def test_a_stream_can_end_and_can_be_cut_amid_a_line(caller: Caller) -> None:
    caller.proxy.arm(Fault(Effect.STREAM_ENDED, resource="secrets", name="a"))
    with caller.watching() as events:
        caller.write("a")
        assert events.get(timeout=TIMEOUT) is None
    caller.proxy.arm(Fault(Effect.STREAM_CUT, resource="secrets", name="b"))
    with caller.watching() as events:
        caller.write("b")
        assert isinstance(events.get(timeout=TIMEOUT), Exception)


def test_a_stream_can_be_struck_without_an_event(caller: Caller) -> None:
    with caller.watching() as events:
        until(lambda: caller.proxy.watching("secrets"), "the watch is not open")
        armed = caller.proxy.arm(Fault(Effect.STREAM_EXPIRED, resource="secrets", now=True))
        error = events.get(timeout=TIMEOUT)
        assert isinstance(error, dict)
        assert error["object"]["reason"] == "Expired"
        assert armed.hits == 1
