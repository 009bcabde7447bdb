"""Chats and commands on the cluster: real pods, the model a server that plays scenarios in a pod of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.conftest import SYSTEM
from tests.e2e.instance import Instance, Request
from tests.e2e.kube import Json, Kube, kubectl, until
from tests.e2e.model import FIRST_KEY, ModelService

pytestmark = pytest.mark.timeout(300)

KEY_FILE = "/etc/efrit/model/api-key"
HELLO = "Good day, who are you? (scenario=chat)"


@pytest.fixture(scope="module")
def model(shared_model: ModelService) -> ModelService:
    return shared_model


@pytest.fixture(scope="module")
def instance(kube: Kube, shared_namespace: str, model: ModelService) -> Instance:
    made = Instance.create(kube, shared_namespace, "thinker", model=model.spec(), limits={"maxToolCalls": 20})
    return made.wait_ready()


@pytest.fixture(autouse=True)
def _a_model_that_knows_nothing(model: ModelService) -> None:
    model.reset()


def ask(instance: Instance, content: str, kind: str = "command", **spec: Any) -> Request:
    return instance.send(content, type=kind, **spec)


def play(instance: Instance, scenario: str, words: str = "Go on.", **spec: Any) -> Json:
    return ask(instance, f"{words} (scenario={scenario})", **spec).wait(120)


def speaks(instance: Instance, request: Request, what: str = '"type":"text"') -> None:
    """Wait until the work log of a request has something in it."""
    uid = request.get()["metadata"]["uid"]
    log = f"/var/lib/efrit/queue/progress/{uid}.ndjson"
    until(
        lambda: instance.shell(f"grep -c '{what}' {log} || true").strip() not in ("", "0"),
        lambda: f"{what} does not come: {request.status()}\n{instance.story()}",
    )


def test_a_chat_is_answered_and_goes_on_where_it_was(instance: Instance) -> None:
    first = ask(instance, HELLO, "chat").wait()
    assert (first["reason"], first["outcome"]) == ("Succeeded", "Success"), first
    assert first["result"] == "Hello. I am a model that reads from a script."
    second = ask(instance, "What did I just learn?", "chat", session={"id": first["session"]["id"]}).wait()
    assert second["result"] == "You said: What did I just learn?", second
    assert second["session"]["id"] == first["session"]["id"]


def test_a_command_of_twelve_steps_is_done_and_tells_how_far_it_is(instance: Instance, model: ModelService) -> None:
    status = play(instance, "twelve-steps")
    assert (status["reason"], status["phase"]) == ("Succeeded", "Succeeded"), status
    assert status["progress"]["toolCalls"] >= 12
    assert status["progress"]["tokens"] > 0
    calls = model.log("twelve-steps")
    assert len(calls) >= 12


def test_a_question_ends_the_request_and_its_answer_goes_on(instance: Instance) -> None:
    asked = play(instance, "question", "Write my favourite colour to colour.txt.")
    assert (asked["reason"], asked["outcome"], asked["phase"]) == ("InputRequired", "Partial", "Failed"), asked
    assert asked["session"]["status"] == "need-input"
    assert asked["session"]["question"] == "Which colour is your favourite?"
    done = ask(instance, "Blue", session={"id": asked["session"]["id"]}).wait()
    assert done["result"] == "Wrote Blue.", done
    assert instance.shell("cat /workspace/colour.txt") == "Blue"


def test_a_budget_that_ends_keeps_what_was_done(instance: Instance) -> None:
    status = play(instance, "many-calls", budget={"maxToolCalls": 5})
    assert (status["reason"], status["outcome"], status["phase"]) == ("BudgetExhausted", "Partial", "Failed"), status
    assert status["progress"]["toolCalls"] == 5


def test_the_same_call_over_and_over_breaks_the_circuit(instance: Instance) -> None:
    status = play(instance, "same-calls", "Look until it has changed.")
    assert (status["reason"], status["outcome"]) == ("CircuitBroken", "Partial"), status


def test_a_cancel_in_the_middle_of_a_stream_keeps_what_was_said(instance: Instance) -> None:
    request = ask(instance, "Speak. (scenario=slow)", "chat")
    speaks(instance, request)
    request.cancel()
    status = request.wait()
    assert (status["reason"], status["outcome"]) == ("Cancelled", "Partial"), status
    assert status["result"]
    assert instance.value("(+ 1 2)") == "3"


@pytest.mark.parametrize("scenario", ["rate-limited", "cut", "overloaded"])
def test_a_model_that_fails_for_a_moment_is_asked_again(instance: Instance, scenario: str) -> None:
    status = play(instance, scenario, kind="chat")
    assert status["reason"] == "Succeeded", status


def test_a_model_that_is_away_is_a_model_error_and_evals_go_on(instance: Instance, model: ModelService) -> None:
    model.stop()
    try:
        request = ask(instance, HELLO, "chat", timeoutSeconds=120)
        assert instance.value("(+ 1 2)") == "3"
        status = request.wait(150)
    finally:
        model.start()
    assert (status["reason"], status["outcome"]) == ("ModelError", "Failure"), status
    assert ask(instance, HELLO, "chat").wait()["reason"] == "Succeeded"


def test_a_key_that_was_replaced_is_used_without_a_restart(
    kube: Kube, shared_namespace: str, model: ModelService
) -> None:
    kube.create("Secret", shared_namespace, {"metadata": {"name": "rotated"}, "stringData": {"key": "old-key"}})
    model.accept("old-key")
    spec = model.spec(apiKeySecretRef={"name": "rotated", "key": "key"})
    instance = Instance.create(kube, shared_namespace, "rotated", model=spec).wait_ready()
    assert ask(instance, HELLO, "chat").wait()["reason"] == "Succeeded"
    uid = instance.pod_uid()
    kube.patch("Secret", shared_namespace, "rotated", {"stringData": {"key": "new-key"}})
    model.accept("new-key")
    assert ask(instance, HELLO, "chat").wait()["reason"] in ("ModelError", "Succeeded")
    # The kubelet brings a changed Secret to the pod within a minute or so.
    until(
        lambda: instance.shell(f"cat {KEY_FILE}").strip() == "new-key" or None,
        "the new key does not reach the pod",
        150,
    )
    assert ask(instance, HELLO, "chat").wait()["reason"] == "Succeeded"
    assert instance.pod_uid() == uid


def test_a_session_whose_emacs_is_killed_ends_interrupted_or_goes_on(instance: Instance) -> None:
    never = ask(instance, "Speak. (scenario=slow)", "chat")
    again = ask(instance, "Wait in Lisp. (scenario=sleeping-eval)", retryPolicy="IfInterrupted", maxAttempts=2)
    speaks(instance, never)
    speaks(instance, again, '"type":"tool".*eval_sexp')
    instance.kill_emacs()
    assert never.wait()["reason"] == "Interrupted"
    status = again.wait(120)
    assert status["attempt"] == 2, status
    assert status["reason"] == "Succeeded", status


def test_three_sessions_at_once_do_not_hold_up_an_eval(instance: Instance) -> None:
    sessions = [ask(instance, f"Number {number}. (scenario=thinking-time)") for number in range(3)]
    for each in sessions:
        speaks(instance, each, '"type":"turn"')
    assert instance.value("(+ 1 2)") == "3"
    open_now = [each for each in sessions if each.status().get("phase") not in ("Succeeded", "Failed")]
    assert open_now, "all sessions had ended before the eval was answered"
    assert [each.wait()["result"] for each in sessions] == ["3", "3", "3"]


def test_the_key_is_nowhere_a_request_or_its_answer_shows_it(
    instance: Instance, kube: Kube, model: ModelService
) -> None:
    """What a request can read by design is the mounted file, as the user Emacs runs as; docs/chat.md says so."""
    key = kube.get("Secret", instance.namespace, "model-key")["data"]["key"]
    assert key
    read = instance.run(f'(with-temp-buffer (insert-file-contents "{KEY_FILE}") (buffer-string))', returnContext=True)
    assert FIRST_KEY not in json.dumps(read), read
    assert "[API key]" in read["result"]
    play(instance, "shell")
    everything = kube.list("EfritRequest", instance.namespace)
    assert FIRST_KEY not in json.dumps(everything)
    for container in ("emacs", "bridge"):
        logs = kubectl("logs", instance.pod_name, "-c", container, "-n", instance.namespace)
        assert FIRST_KEY not in logs
    assert FIRST_KEY not in kubectl(
        "logs", "-l", "app.kubernetes.io/instance=efrit-operator", "-n", SYSTEM, "--tail=-1"
    )
    # Every file of the queue and the workspace, and the environment and command line of every process in the pod.
    found = instance.shell(
        f"grep -rl -- '{FIRST_KEY}' /var/lib/efrit /workspace /tmp 2>/dev/null || true; "
        f"for each in /proc/[0-9]*; do case $each in /proc/$$) continue;; esac; "
        f"if tr '\\0' '\\n' <$each/environ 2>/dev/null | grep -q -- '{FIRST_KEY}'; then echo $each/environ; fi; done"
    )
    assert found.strip() == "", found
