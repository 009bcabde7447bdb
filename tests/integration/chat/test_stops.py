"""Sessions that are stopped, that take turns with others, and whose key is changed meanwhile."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil
import pytest

from efrit.protocol import RequestState
from tests.integration.chat.conftest import begin, clear
from tests.integration.chat.test_scenarios import TO_BE_STOPPED
from tests.model.__main__ import SCENARIOS
from tests.model.running import KEY, Model
from tests.model.scenario import read_folder
from tests.support.bridge_instance import Instance, until

EVERY = read_folder(SCENARIOS)


@pytest.mark.parametrize("name", TO_BE_STOPPED)
def test_what_would_take_minutes_is_cancelled_at_once(
    name: str, instances: dict[str, Instance], model: Model
) -> None:
    instance = instances["tools"]
    clear(instance.workspace)
    model.reset()
    before = instance.emacs_pid()
    rid = f"{name}-cancelled"
    request = EVERY[name].request[0]
    begin(instance, rid, request.type, request.content)
    until(lambda: under_way(instance, model, name))
    assert instance.client.post(f"/v1/requests/{rid}/cancel").status_code == 202
    response = instance.answer(rid)
    assert response.reason == "Cancelled"
    assert response.outcome == "Partial"
    until(lambda: model.log(name)[-1]["ended"] in ("client-gone", "complete"))
    assert len(model.log(name)) == len({entry["turn"] for entry in model.log(name)}), "a turn was asked for again"
    until(lambda: not sleepers(instance))
    assert instance.eval(f"{rid}-after", "(+ 1 2)").result == "3"
    assert instance.emacs_pid() == before


@pytest.mark.parametrize("name", TO_BE_STOPPED)
def test_what_would_take_minutes_ends_with_its_time(name: str, instances: dict[str, Instance], model: Model) -> None:
    instance = instances["tools"]
    clear(instance.workspace)
    model.reset()
    before = instance.emacs_pid()
    rid = f"{name}-late"
    request = EVERY[name].request[0]
    begin(instance, rid, request.type, request.content, timeout=4)
    response = instance.answer(rid)
    assert response.reason == "TimedOut"
    until(lambda: not sleepers(instance))
    assert instance.eval(f"{rid}-after", "(+ 1 2)").result == "3"
    assert instance.emacs_pid() == before


def test_an_eval_is_answered_while_three_sessions_listen_to_the_model(
    instances: dict[str, Instance], model: Model
) -> None:
    instance = instances["tools"]
    model.reset()
    rids = [f"together-{number}" for number in range(3)]
    for rid in rids:
        begin(instance, rid, "chat", f"Speak slowly, {rid}. (scenario=slow)")
    until(lambda: sum(entry.get("events", 0) > 3 for entry in model.log("slow")) == len(rids))
    assert instance.eval("in-between", "(+ 1 2)").result == "3"
    assert [instance.view(rid).state for rid in rids] == [RequestState.RUNNING] * len(rids)
    for rid in rids:
        instance.client.post(f"/v1/requests/{rid}/cancel")
    assert {instance.answer(rid).reason for rid in rids} == {"Cancelled"}


def test_sessions_that_take_turns_do_not_mix_up_what_was_said(instances: dict[str, Instance], model: Model) -> None:
    instance = instances["tools"]
    model.reset()
    rids = [f"turns-{number}" for number in range(3)]
    for rid in rids:
        begin(instance, rid, "command", f"Take your time, {rid}. (scenario=thinking-time)")
    for rid in rids:
        response = instance.answer(rid)
        assert (response.reason, response.result) == ("Succeeded", "3")
        assert response.session is not None
        assert response.session.id == rid
    # A machine that stands still for seconds has a turn asked for again; none is asked for in another's stead.
    turns = sorted(entry["turn"] for entry in model.log("thinking-time") if entry["attempt"] == 1)
    assert turns == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_a_key_that_was_changed_is_read_anew(instances: dict[str, Instance], model: Model) -> None:
    instance = instances["tools"]
    model.reset()
    file = Path(instance.env["EFRIT_MODEL_API_KEY_FILE"])
    try:
        file.write_text("second-key\n")
        model.accept("second-key")
        begin(instance, "rotated", "chat", "Good day, once more. (scenario=chat)")
        assert instance.answer("rotated").reason == "Succeeded"
        model.accept("third-key")
        begin(instance, "refused", "chat", "Good day, in vain. (scenario=chat)")
        response = instance.answer("refused")
        assert response.reason == "ModelError"
        assert "invalid x-api-key" in (response.error or "")
        assert "second-key" not in response.to_json()
    finally:
        file.write_text(f"{KEY}\n")
        model.reset()


def under_way(instance: Instance, model: Model, name: str) -> bool:
    """Whether what takes minutes has begun: the sleep of a call, or the stream of an answer."""
    if name.startswith("sleeping"):
        return (instance.workspace / "begun.txt").exists() and (name == "sleeping-eval" or bool(sleepers(instance)))
    last = model.log(name)[-1:]
    return bool(last) and last[0]["ended"] is None and last[0].get("events", 0) > 5


def sleepers(instance: Instance) -> list[psutil.Process]:
    """Return the processes of the scenario's shell command, wherever they hang."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cmdline() == ["sleep", "600"] and process.cwd() == str(instance.workspace):
                processes.append(process)
    return processes
