"""Chats and commands as a user sees them: a real Emacs per instance, and a model that plays scenarios."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.model.running import Model
from tests.support.kube import Json, Kube, until
from tests.support.model_access import secret, with_model
from tests.support.site import FINAL, Site

SELECTED: Json = {"to": None, "selector": {"matchLabels": {"role": "talker"}}}


@pytest.fixture(scope="module")
def talking(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path, model: Model) -> Iterator[Site]:
    """Yield a namespace with a controller and two instances that have a model."""
    made = Site(plane, kube, audit_log, lisp)
    try:
        made.operator().start()
        secret(kube, made.namespace, "key")
        for name in ("one", "two"):
            made.instance(name, labels={"role": "talker"}, model=with_model(model), ready=False)
        for name in ("one", "two"):
            made.until_condition(name, "Ready", status="True")
        yield made
    finally:
        made.close()


def chat(site: Site, content: str, **spec: Any) -> str:
    return site.ask(content, type="chat", **spec)


def command(site: Site, content: str, **spec: Any) -> str:
    return site.ask(content, type="command", **spec)


def until_third_step(site: Site, name: str) -> Json:
    """Wait until a command of the scenario slow-command has called its tools and begins to speak."""

    def reached() -> Json | None:
        status = site.status(name)
        progress = status.get("progress", {})
        return status if (progress.get("step"), progress.get("toolCalls")) == (3, 3) else None

    return until(reached, lambda: f"{name} has not come so far: {site.status(name)}\n{site.logs()}")


def test_a_chat_is_answered_and_its_session_goes_on_where_it_began(talking: Site) -> None:
    first = talking.answer(chat(talking, "Good day, who are you? (scenario=chat)", **SELECTED))
    assert (first["phase"], first["outcome"]) == ("Succeeded", "Success")
    assert first["result"] == "Hello. I am a model that reads from a script."
    session = first["session"]
    assert session["status"] == "complete"
    assert first["usage"]["modelCalls"] == 1
    assert first["usage"]["outputTokens"] > 0
    # Another instance would be as good for anything else: this one has the session.
    other = next(name for name in ("one", "two") if name != first["instanceName"])
    busy = [talking.ask("(sleep-for 2)", to=first["instanceName"]) for _ in range(2)]
    second = talking.answer(chat(talking, "What did I just learn?", session={"id": session["id"]}, **SELECTED))
    assert second["result"] == "You said: What did I just learn?"
    assert second["instanceName"] == first["instanceName"] != other
    for name in busy:
        assert talking.answer(name)["phase"] == "Succeeded"


def test_a_session_of_a_member_that_is_gone_begins_anew_on_another_where_the_pool_prefers_that(
    talking: Site, model: Model
) -> None:
    member = {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}, "model": with_model(model)}
    spec = {"replicas": 1, "template": {"spec": member}, "placement": {"sessionAffinity": "Preferred"}}
    talking.kube.create("efritpools", talking.namespace, {"metadata": {"name": "crew"}, "spec": spec})
    in_pool: Json = {"to": None, "poolRef": {"name": "crew"}}
    first = talking.answer(chat(talking, "Good day. (scenario=chat)", **in_pool))
    first_member, session = first["instanceName"], first["session"]["id"]

    talking.kube.delete("efritinstances", talking.namespace, first_member)

    def is_gone() -> bool:
        instances = talking.kube.list("efritinstances", talking.namespace)
        return first_member not in {instance["metadata"]["name"] for instance in instances}

    until(is_gone, "the member is still there")
    second = talking.answer(chat(talking, "Good day again. (scenario=chat)", session={"id": session}, **in_pool))
    assert (second["phase"], second["sessionLeft"]) == ("Succeeded", session)
    assert second["instanceName"] != first_member
    assert second["session"]["id"] != session

    third = talking.answer(chat(talking, "And now?", session={"id": second["session"]["id"]}, **in_pool))
    assert (third["instanceName"], third.get("sessionLeft")) == (second["instanceName"], None)
    talking.kube.delete("efritpools", talking.namespace, "crew")


def test_a_command_that_makes_room_for_urgent_work_begins_again_in_a_session_of_its_own(
    talking: Site, model: Model
) -> None:
    member = {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}, "model": with_model(model)}
    placement = {"maxLoadPerInstance": 1}
    spec = {"replicas": 1, "template": {"spec": member}, "placement": placement, "preemption": "LowerPriority"}
    talking.kube.create("efritpools", talking.namespace, {"metadata": {"name": "team"}, "spec": spec})
    in_pool: Json = {"to": None, "poolRef": {"name": "team"}}
    slow = "Act, then speak slowly. (scenario=slow-command)"
    name = command(talking, slow, retryPolicy="IfInterrupted", **in_pool)
    first = until_third_step(talking, name)["session"]["id"]

    urgent = talking.answer(talking.ask('"urgent"', priority=5, **in_pool))
    assert urgent["result"] == '"urgent"'
    again = until_third_step(talking, name)
    assert again["preemption"]["count"] == 1
    assert again["session"]["id"] != first
    talking.cancel(name)
    answer = talking.answer(name)
    assert (answer["reason"], answer["attempt"], answer["session"]["id"]) == ("Cancelled", 1, again["session"]["id"])
    acted = talking.node.pod(urgent["instanceName"]).workspace / "acted.txt"
    assert acted.read_text().split() == ["acted", "acted"]
    talking.kube.delete("efritpools", talking.namespace, "team")


def test_a_session_that_nobody_has_is_rejected(talking: Site) -> None:
    status = talking.answer(chat(talking, "Go on. (scenario=chat)", session={"id": "never-was"}, **SELECTED))
    assert status["reason"] == "Rejected"
    assert "never-was" in status["error"]["message"]


def test_a_running_command_says_how_far_it_has_come_and_costs_a_write_a_second_at_most(talking: Site) -> None:
    began = time.monotonic()
    name = command(talking, "Do twelve steps. (scenario=twelve-steps)")
    slow = command(talking, "Act, then speak slowly. (scenario=slow-command)")
    third_step = until_third_step(talking, slow)
    assert third_step["session"] == {"id": third_step["session"]["id"], "status": "continue"}
    status = talking.answer(name)
    assert status["result"] == '"twelve steps done"'
    assert status["progress"]["toolCalls"] == 13
    talking.cancel(slow)
    cancelled = talking.answer(slow)
    took = time.monotonic() - began
    assert (cancelled["reason"], cancelled["outcome"], cancelled["phase"]) == ("Cancelled", "Partial", "Failed")
    assert "word" in cancelled["result"], "what was done is kept"
    for request in (name, slow):
        progress = [write for write in talking.writes(request) if write == ("patch", "efritrequests/status")]
        # The final status and the first that it runs are none of them.
        assert len(progress) <= took + 2
    assert cancelled["progress"]["toolCalls"] == 3


def test_a_question_ends_the_request_and_the_next_one_answers_it(talking: Site) -> None:
    answer = talking.answer(command(talking, "Write my favourite colour to colour.txt. (scenario=question)"))
    assert (answer["phase"], answer["reason"], answer["outcome"]) == ("Failed", "InputRequired", "Partial")
    question = "Which colour is your favourite?"
    assert (answer["session"]["status"], answer["session"]["question"]) == ("need-input", question)
    assert answer["error"]["message"] == question
    done = talking.answer(command(talking, "Blue", session={"id": answer["session"]["id"]}))
    assert (done["phase"], done["result"], done["session"]["status"]) == ("Succeeded", "Wrote Blue.", "complete")
    assert (talking.node.pod("one").workspace / "colour.txt").read_text() == "Blue"


def test_a_budget_that_ends_keeps_what_was_done_and_is_no_success(talking: Site) -> None:
    name = command(talking, "Count as far as you can. (scenario=many-calls)", budget={"maxToolCalls": 3})
    status = talking.answer(name)
    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", "BudgetExhausted", "Partial")
    assert status["progress"]["toolCalls"] == 3


def test_evals_cost_two_writes_while_sessions_wait_for_their_model(talking: Site) -> None:
    waits = chat(talking, "Speak slowly. (scenario=slow)")
    talking.until_status(waits, phase="Running")
    name = talking.ask("(* 6 7)")
    assert talking.answer(name)["result"] == "42"
    assert talking.prompt_writes(name) == [("create", "efritrequests"), ("patch", "efritrequests/status")]
    assert talking.status(waits).get("phase") not in FINAL
    talking.cancel(waits)
    assert talking.answer(waits)["reason"] == "Cancelled"


def test_an_instance_whose_key_is_missing_says_so_and_answers_once_it_is_there(talking: Site, model: Model) -> None:
    talking.instance("keyless", model=with_model(model, "later"), ready=False)
    condition = talking.until_condition("keyless", "Ready", reason="ConfigMissing")
    assert 'secret "later" not found' in condition["message"]
    name = chat(talking, "Good day, who are you? (scenario=chat)", to="keyless")
    secret(talking.kube, talking.namespace, "later")
    talking.until_condition("keyless", "Ready", status="True")
    assert talking.answer(name)["phase"] == "Succeeded"


def test_the_last_words_of_a_command_whose_emacs_died_stay(talking: Site) -> None:
    name = command(talking, "Act, then speak slowly. (scenario=slow-command)", to="two")
    third_step = until_third_step(talking, name)
    pid = talking.node.pod("two").emacs_pid()
    talking.node.pod("two").kill_emacs()
    status = talking.answer(name)
    assert (status["reason"], status["phase"]) == ("Interrupted", "Failed")
    assert (status["progress"], status["session"]["id"]) == (third_step["progress"], third_step["session"]["id"])
    until(lambda: talking.node.pod("two").emacs_pid() != pid, "no other Emacs started")
