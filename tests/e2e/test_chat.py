"""Chats and commands on the cluster: real pods, the model a server that plays scenarios in a pod of its own.

How each scenario ends is in tests/integration/chat, and its status in tests/integration/controller/test_sessions.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.instance import QUEUE_VOLUME, Instance, Request
from tests.support.kube import Kube, until
from tests.support.model_service import ModelService

HELLO = "Good day, who are you? (scenario=chat)"


@pytest.fixture(scope="module")
def model(shared_model: ModelService) -> ModelService:
    return shared_model


@pytest.fixture(scope="module")
def instance(kube: Kube, shared_namespace: str, model: ModelService) -> Instance:
    spec = {"model": model.spec(), "limits": {"maxToolCalls": 20}, **QUEUE_VOLUME}
    return Instance.create(kube, shared_namespace, "thinker", **spec).wait_ready()


@pytest.fixture(autouse=True)
def _a_model_that_knows_nothing(model: ModelService) -> None:
    model.reset()


def ask(instance: Instance, content: str, kind: str = "command", **spec: Any) -> Request:
    return instance.send(content, type=kind, **spec)


def speaks(instance: Instance, request: Request, what: str = '"type":"text"') -> None:
    """Wait until the work log of a request has something in it."""
    uid = request.get()["metadata"]["uid"]
    log = f"/var/lib/efrit/queue/progress/{uid}.ndjson"
    until(
        lambda: instance.shell(f"grep -c '{what}' {log} || true").strip() not in ("", "0"),
        lambda: f"{what} does not come: {request.status()}\n{instance.diagnostics()}",
    )


def test_a_chat_is_answered_and_goes_on_where_it_was(instance: Instance) -> None:
    first = ask(instance, HELLO, "chat").wait()
    assert (first["reason"], first["outcome"]) == ("Succeeded", "Success"), first
    assert first["result"] == "Hello. I am a model that reads from a script."
    second = ask(instance, "What did I just learn?", "chat", session={"id": first["session"]["id"]}).wait()
    assert second["result"] == "You said: What did I just learn?", second
    assert second["session"]["id"] == first["session"]["id"]


def test_a_cancel_in_the_middle_of_a_stream_keeps_what_was_said(instance: Instance) -> None:
    request = ask(instance, "Speak. (scenario=slow)", "chat")
    speaks(instance, request)
    request.cancel()
    status = request.wait()
    assert (status["reason"], status["outcome"]) == ("Cancelled", "Partial"), status
    assert status["result"]
    assert instance.value("(+ 1 2)") == "3"


def test_a_session_whose_emacs_is_killed_ends_interrupted_or_goes_on(instance: Instance) -> None:
    never = ask(instance, "Speak. (scenario=slow)", "chat")
    again = ask(instance, "Wait in Lisp. (scenario=sleeping-eval)", retryPolicy="IfInterrupted", maxAttempts=2)
    speaks(instance, never)
    speaks(instance, again, '"type":"tool".*eval_sexp')
    instance.kill_emacs()
    assert never.wait()["reason"] == "Interrupted"
    status = again.wait()
    assert status["attempt"] == 2, status
    assert status["reason"] == "Succeeded", status


def test_a_person_who_attaches_has_the_same_by_hand(instance: Instance) -> None:
    def lisp(form: str) -> str:
        return instance.shell('emacsclient --socket-name=efrit --eval "$1"', form).strip()

    def shown(text: str) -> None:
        form = f'(with-current-buffer "*efrit*" (and (string-search "{text}" (buffer-string)) t))'
        until(lambda: lisp(form) == "t", lambda: f"{text} is not shown: {lisp('(efrit-status)')}")

    instance.shell("rm -f /workspace/colour.txt")
    lisp('(efrit-do "Write my favourite colour to colour.txt. (scenario=question)")')
    shown("Which colour is your favourite?")
    lisp('(efrit-continue "Blue")')
    shown("[Succeeded]")
    assert instance.shell("cat /workspace/colour.txt") == "Blue"
    lisp('(efrit-chat "Speak. (scenario=slow)")')
    until(lambda: "Efrit: turn 1" in lisp("efrit-do-mode-line"), "the mode line does not tell the turn")
    assert "turn 1" in lisp("(efrit-status)")
    lisp("(efrit-cancel)")
    shown("[Cancelled")
