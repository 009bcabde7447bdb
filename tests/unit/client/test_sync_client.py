"""The Python library over a backend that does what a test tells it: sync, async, sessions, errors, plans."""

from __future__ import annotations

import asyncio
import inspect
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import efrit.client
from efrit.backend.interface import Backend, Budget, Outcome, RequestReason, RequestType, Session, SessionStatus, Work
from efrit.backend.outcomes import _BY_REASON
from efrit.backend.plans import Intent
from efrit.client import (
    AsyncClient,
    Client,
    Handle,
    InputRequired,
    LispError,
    PartlyDone,
    Refused,
    RequestCancelled,
    RequestNotFound,
    ResultTruncated,
    WaitTimeout,
    WrongSettings,
    connect,
    connect_async,
)
from efrit.client.async_client import AsyncSession
from efrit.client.async_plans import AsyncPlans, new_plan
from efrit.client.sync_client import Plans
from efrit.client.sync_client import Session as SyncSession
from tests.unit.mcp.scripted import ScriptedBackend, broken, evaluated, needs_input

LONG = 60.0


@pytest.fixture
def backend() -> ScriptedBackend:
    made = ScriptedBackend({"(+ 1 2)": evaluated("3")})
    made.add("default")
    return made


def test_the_newest_requests_are_listed_and_a_limit_below_one_is_refused(
    client: Client, backend: ScriptedBackend
) -> None:
    names = [client.submit("(+ 1 2)").id for _ in range(3)]
    assert [state.handle.id for state in client.requests(limit=2)] == names[1:]
    with pytest.raises(Refused, match="limit is 0"):
        client.requests(limit=0)


def test_content_that_is_no_text_an_empty_directory_and_an_unknown_budget_are_refused(client: Client) -> None:
    with pytest.raises(Refused, match="the directory is empty"):
        client.submit("1", directory="")
    with pytest.raises(Refused, match="the content is of type int"):
        client.submit(3)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="a budget has no max_tokns") as refused:
        client.submit("x", type="command", budget={"max_tokns": 5})
    assert refused.value.advice == "use max_tool_calls, max_iterations, max_tokens, iteration_timeout"


@pytest.mark.parametrize("option", ["instance", "pool", "session", "key"])
def test_an_empty_option_of_work_is_refused_before_anything_is_submitted(
    client: Client, backend: ScriptedBackend, option: str
) -> None:
    with pytest.raises(WrongSettings, match=f"{option}: the value is empty") as refused:
        client.submit("(+ 1 2)", **{option: ""})  # type: ignore[arg-type]
    assert refused.value.advice == "give one, or leave it out"
    assert client.requests() == []


@pytest.mark.parametrize("option", ["backend", "config", "kubeconfig", "context", "namespace"])
def test_an_empty_option_of_a_place_is_refused_at_once(option: str) -> None:
    with pytest.raises(WrongSettings, match=f"{option}: the value is empty"):
        connect_async(**{option: ""})  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["name", "key", "instance", "pool", "git_url"])
def test_an_empty_option_of_a_plan_is_refused(option: str) -> None:
    with pytest.raises(WrongSettings, match=f"{option}: the value is empty"):
        new_plan("tidy up", {option: ""})


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda client: client.get(""), "request"),
        (lambda client: client.wait(""), "request"),
        (lambda client: client.cancel(Handle("")), "request"),
        (lambda client: client.result(""), "request"),
        (lambda client: list(client.log("")), "request"),
        (lambda client: client.instance(""), "instance"),
        (lambda client: client.start(""), "instance"),
        (lambda client: client.stop(""), "instance"),
        (lambda client: client.remove(""), "instance"),
        (lambda client: client.stats(""), "instance"),
        (lambda client: client.pool(""), "pool"),
        (lambda client: client.scale_pool("", 1), "pool"),
        (lambda client: client.pool_history(""), "pool"),
        (lambda client: client.undo_pool(""), "pool"),
        (lambda client: client.claim_member(""), "pool"),
        (lambda client: client.claim(""), "claim"),
        (lambda client: client.release_claim(""), "claim"),
        (lambda client: client.plans.get(""), "plan"),
        (lambda client: client.plans.wait(""), "plan"),
        (lambda client: client.plans.cancel(""), "plan"),
    ],
)
def test_an_empty_name_is_refused(client: Client, call: Callable[[Client], object], what: str) -> None:
    with pytest.raises(WrongSettings, match=f"the name of the {what} is empty") as refused:
        call(client)
    assert refused.value.advice == "give the name"


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.session(""),
        lambda client: client.requests(""),
        lambda client: client.claim_member("crew", name=""),
    ],
)
def test_an_empty_optional_name_is_refused(client: Client, call: Callable[[Client], object]) -> None:
    with pytest.raises(WrongSettings, match="the value is empty"):
        call(client)


def async_client(backend: ScriptedBackend) -> AsyncClient:
    async def opened() -> Backend:
        return backend

    return AsyncClient(opened)


@pytest.fixture
def client(backend: ScriptedBackend) -> Iterator[Client]:
    with Client(async_client(backend)) as made:
        yield made


def test_an_eval_returns_how_it_ended(client: Client) -> None:
    state = client.eval("(+ 1 2)")
    assert (state.result, state.outcome, state.phase == "Succeeded") == ("3", "Success", True)


async def test_the_same_with_await(backend: ScriptedBackend) -> None:
    async with async_client(backend) as client:
        assert (await client.eval("(+ 1 2)")).result == "3"


async def test_the_client_without_asyncio_works_where_a_loop_runs(backend: ScriptedBackend) -> None:
    """As in a notebook."""
    with Client(async_client(backend)) as client:
        assert client.eval("(+ 1 2)").result == "3"


def test_several_threads_share_a_client(client: Client) -> None:
    results: list[str | None] = []
    threads = [threading.Thread(target=lambda: results.append(client.eval("(+ 1 2)").result)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert results == ["3"] * 8


def test_the_text_of_a_lisp_string_has_no_quotes(client: Client, backend: ScriptedBackend) -> None:
    backend.answers["s"] = evaluated('"a \\"b\\""')
    state = client.eval("s")
    assert (state.result, state.text) == ('"a \\"b\\""', 'a "b"')


@pytest.mark.parametrize(
    ("reason", "outcome", "error"),
    [
        (RequestReason.PARTIAL, Outcome.PARTIAL, PartlyDone),
        (RequestReason.CANCELLED, Outcome.FAILURE, RequestCancelled),
    ],
)
def test_an_end_that_is_no_success_is_an_error_of_its_own(
    client: Client, backend: ScriptedBackend, reason: RequestReason, outcome: Outcome, error: type[Exception]
) -> None:
    backend.answers["x"] = {"reason": reason, "outcome": outcome}
    with pytest.raises(error):
        client.command("x")
    assert client.command("x", check=False).reason == reason


def test_every_reason_of_a_failure_has_an_error_of_its_own() -> None:
    assert set(_BY_REASON) == {
        reason for reason in RequestReason if reason.final and reason is not RequestReason.SUCCEEDED
    }


def test_an_error_in_lisp_carries_its_code_and_message(client: Client, backend: ScriptedBackend) -> None:
    backend.answers["(car 1)"] = broken("wrong-type-argument", "Wrong type argument: listp, 1")
    with pytest.raises(LispError, match="ended EvalError: Wrong type argument") as caught:
        client.eval("(car 1)")
    assert caught.value.state.error is not None
    assert caught.value.state.error.code == "wrong-type-argument"


def test_what_the_model_asks_is_in_the_error(client: Client, backend: ScriptedBackend) -> None:
    backend.answers["deploy"] = needs_input("Where?")
    with pytest.raises(InputRequired) as caught:
        client.command("deploy")
    assert caught.value.question == "Where?"


def test_work_handed_over_is_waited_for_by_its_name(client: Client) -> None:
    handle = client.submit("(+ 1 2)")
    assert client.wait(handle.id).result == "3"
    assert client.wait(handle).result == "3"
    assert client.get(handle.id).final
    assert client.result(handle.id) == "3"


def test_a_wait_that_is_over_says_so_and_leaves_the_work(client: Client, backend: ScriptedBackend) -> None:
    handle = client.submit("(never)")
    with pytest.raises(WaitTimeout, match="it is Running"):
        client.wait(handle, timeout=0.01)
    assert not client.get(handle).final


def test_an_unknown_name_is_not_found(client: Client) -> None:
    with pytest.raises(RequestNotFound):
        client.wait("nobody")


@pytest.mark.parametrize("kind", ["eval", RequestType.EVAL])
def test_a_type_is_taken_as_a_string_too(client: Client, backend: ScriptedBackend, kind: RequestType | str) -> None:
    client.submit("1", type=kind)
    assert backend.submitted[-1].type is RequestType.EVAL


def test_a_type_that_is_none_is_refused_in_words(client: Client) -> None:
    with pytest.raises(Refused, match="no type of request 'evil'"):
        client.submit("1", type="evil")


def test_work_takes_its_type_as_a_string() -> None:
    assert Work("command", "x").type is RequestType.COMMAND  # type: ignore[arg-type]


def test_options_reach_the_work(client: Client, backend: ScriptedBackend, tmp_path: Path) -> None:
    client.submit("x", type="command", budget={"max_tokens": 5}, timeout=9, directory=tmp_path, instance="default")
    work = backend.submitted[-1]
    assert (work.budget, work.timeout, work.directory) == (Budget(max_tokens=5), 9, str(tmp_path))


def test_on_this_machine_work_begins_in_the_current_directory(
    client: Client, backend: ScriptedBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    client.eval("(+ 1 2)")
    assert backend.submitted[-1].directory == str(tmp_path)


def test_in_a_cluster_work_begins_in_the_workspace(client: Client, backend: ScriptedBackend) -> None:
    backend.kind = "cluster"
    client.eval("(+ 1 2)")
    assert backend.submitted[-1].directory is None


def test_a_long_result_is_whole(client: Client, backend: ScriptedBackend) -> None:
    backend.answers["long"] = {"result": "begin", "truncated": True}
    handle = client.submit("long")
    backend.whole[handle.id] = "begin and end"
    state = client.wait(handle)
    assert (state.result, state.truncated) == ("begin and end", False)


def test_a_result_of_which_only_the_beginning_exists_is_an_error(client: Client, backend: ScriptedBackend) -> None:
    backend.answers["long"] = {"result": "begin", "truncated": True}
    backend.result_beginning = "begin and more"
    with pytest.raises(ResultTruncated) as caught:
        client.eval("long")
    assert caught.value.kept == "begin and more"
    state = client.eval("long", check=False)
    assert (state.result, state.truncated) == ("begin and more", True)


def test_a_session_goes_on_where_it_was(client: Client, backend: ScriptedBackend) -> None:
    backend.answers["hello"] = {"result": "hi", "session": Session("s1", SessionStatus.COMPLETE)}
    backend.answers["more"] = {"result": "yes", "session": Session("s1", SessionStatus.COMPLETE)}
    session = client.session(timeout=30)
    assert session.id is None
    assert session.chat("hello").result == "hi"
    assert session.id == "s1"
    assert session.chat("more").result == "yes"
    assert [(work.session, work.instance, work.timeout) for work in backend.submitted] == [
        (None, None, 30),
        ("s1", "default", 30),
    ]


def test_a_question_of_the_model_is_answered_in_its_session(client: Client, backend: ScriptedBackend) -> None:
    backend.answers["deploy"] = needs_input("Where?", "s1")
    backend.answers["there"] = {"result": "done", "session": Session("s1", SessionStatus.COMPLETE)}
    session = client.session()
    session.command("deploy")
    assert session.question == "Where?"
    assert session.answer("there").result == "done"
    assert session.question is None
    assert backend.submitted[-1].type is RequestType.COMMAND
    with pytest.raises(Refused, match="asked nothing"):
        session.answer("what?")


def test_a_turn_that_fails_raises_and_keeps_the_session(client: Client, backend: ScriptedBackend) -> None:
    backend.answers["x"] = {"reason": RequestReason.PARTIAL, "outcome": Outcome.PARTIAL, "session": Session("s1")}
    session = client.session()
    with pytest.raises(PartlyDone):
        session.command("x")
    assert session.id == "s1"


def test_what_happens_is_followed(client: Client, backend: ScriptedBackend) -> None:
    handle = client.submit("(+ 1 2)")
    backend.texts[handle.id] = ["a", "b"]
    updates = list(client.watch(handle))
    assert "".join(update.text for update in updates) == "ab"
    assert updates[-1].state is not None
    assert updates[-1].state.final


def test_a_follower_that_leaves_early_holds_nothing_up(client: Client) -> None:
    for update in client.watch(client.submit("(never)")):
        assert update.state is not None
        break
    client.close()


def test_an_error_while_following_reaches_the_caller(client: Client) -> None:
    with pytest.raises(RequestNotFound):
        list(client.watch("nobody"))
    with pytest.raises(RequestNotFound):
        list(client.log("nobody"))


def test_the_log_is_read_line_by_line(client: Client, backend: ScriptedBackend) -> None:
    handle = client.submit("(+ 1 2)")
    backend.logs[handle.id] = [f"{number}" for number in range(100)]
    assert list(client.log(handle)) == backend.logs[handle.id]


def test_a_closed_client_says_so(backend: ScriptedBackend) -> None:
    client = Client(async_client(backend))
    client.close()
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.eval("(+ 1 2)")


async def test_a_closed_async_client_says_so(backend: ScriptedBackend) -> None:
    client = async_client(backend)
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        await client.eval("(+ 1 2)")


def test_a_client_that_cannot_be_opened_leaves_no_thread() -> None:
    with pytest.raises(Refused, match="no backend 'cloud'"):
        connect(backend="cloud")
    assert "efrit-client" not in [thread.name for thread in threading.enumerate()]


def test_a_program_that_closes_nothing_ends(tmp_path: Path) -> None:
    script = "from efrit.client import connect; client = connect(backend='local'); print(client.instances()[0].id)"
    env = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(efrit.client.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=LONG)
    assert (done.returncode, done.stdout, done.stderr) == (0, "default\n", "")


async def test_cancelling_who_waits_leaves_the_work(backend: ScriptedBackend) -> None:
    async with async_client(backend) as client:
        handle = await client.submit("(never)")
        waiting = asyncio.create_task(client.wait(handle))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not (await client.get(handle)).final


@pytest.mark.parametrize(
    ("one", "other"),
    [(Client, AsyncClient), (SyncSession, AsyncSession), (Plans, AsyncPlans), (connect, connect_async)],
)
def test_both_clients_have_the_same_methods_with_the_same_arguments(one: object, other: object) -> None:
    def surface(of: object) -> dict[str, list[tuple[str, object, object]]]:
        members = [("", of)] if inspect.isfunction(of) else inspect.getmembers(of, inspect.isfunction)
        return {
            name: [
                (parameter.name, parameter.default, parameter.annotation)
                for parameter in inspect.signature(member).parameters.values()
            ]
            for name, member in members
            if not name.startswith("_") and name != "backend"
        }

    assert surface(one) == surface(other)


def test_one_command_stands_for_a_list_of_one() -> None:
    new = new_plan("Build it", {"build": "make test", "acceptance_criteria": ["a", "b"], "max_steps": 3})
    assert new.intent == Intent("Build it", ("a", "b"))
    assert (new.build, new.max_steps) == (("make test",), 3)


def test_everything_that_is_exported_is_there() -> None:
    assert all(getattr(efrit.client, name) is not None for name in efrit.client.__all__)
    assert {"connect", "connect_async"} <= set(efrit.client.__all__)
    assert efrit.client.Handle is Handle


WAITING = """
import sys
sys.path.insert(0, sys.argv[1])
from efrit.client import Client
from tests.unit.client.test_sync_client import async_client
from tests.unit.mcp.scripted import ScriptedBackend

backend = ScriptedBackend()
backend.add("default")
with Client(async_client(backend)) as client:
    handle = client.submit("(never)")
    try:
        for update in client.watch(handle):
            print("waiting", flush=True)
    except KeyboardInterrupt:
        print(client.get(handle).reason, flush=True)
"""


def test_ctrl_c_ends_the_waiting_and_not_the_work() -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", WAITING, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "Running\n"
        assert process.wait(LONG) == 0
