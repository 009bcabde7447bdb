"""One eval from `kubectl create` to its answer, on the default Emacs and on the oldest that is supported."""

from __future__ import annotations

import base64
import hashlib

import pytest

from tests.e2e.instance import QUEUE_VOLUME, Instance
from tests.support.kube import Kube, until

OLDEST = "localhost/efrit/emacs:28-dev"


@pytest.fixture(scope="module", params=[None, OLDEST], ids=["default", "emacs-28"])
def instance(kube: Kube, shared_namespace: str, request: pytest.FixtureRequest) -> Instance:
    """Return a ready instance, with the default image or the oldest Emacs."""
    image = {"emacs": {"image": request.param}} if request.param else {}
    name = "oldest" if request.param else "default"
    return Instance.create(kube, shared_namespace, name, **image, **QUEUE_VOLUME).wait_ready()


def test_an_instance_becomes_ready_and_says_which_emacs_it_runs(instance: Instance) -> None:
    status = instance.get()["status"]
    assert status["phase"] == "Ready"
    assert status["podName"] == instance.pod_name
    assert status["emacsVersion"].startswith("28." if instance.name == "oldest" else "30.")
    until(lambda: instance.condition("EmacsResponsive")["status"] == "True", instance.diagnostics)
    assert instance.condition("QueueHealthy")["status"] == "True"
    assert instance.condition("Suspended")["status"] == "False"


def test_an_eval_is_answered_with_the_printed_value_of_its_last_form(instance: Instance) -> None:
    status = instance.run('(setq e2e-x "a") (list e2e-x (+ 1 2) \'sym)')
    assert status["result"] == '("a" 3 sym)'
    assert (status["phase"], status["reason"], status["outcome"]) == ("Succeeded", "Succeeded", "Success")
    assert {condition["type"]: condition["status"] for condition in status["conditions"]} == {
        "Complete": "True",
        "Succeeded": "True",
    }
    assert status["attempt"] == 1
    assert status["instanceName"] == instance.name
    assert status["podUID"] == instance.pod_uid()
    assert status["truncated"] is False
    assert status["executionSeconds"] >= 0
    assert status["startTime"] <= status["completionTime"]


def test_state_stays_in_the_daemon_from_one_eval_to_the_next(instance: Instance) -> None:
    instance.value("(defvar e2e-kept 41)")
    assert instance.value("(1+ e2e-kept)") == "42"


def test_lisp_that_the_image_has_compressed_loads_without_a_word(instance: Instance) -> None:
    status = instance.run(
        """(progn (require 'calc) (require 'gnus-util) (set-input-method "japanese")
                  (list (calc-eval "2^10") current-input-method (substring (documentation 'calc-eval) 0 22)))"""
    )
    assert status["result"] == '("1024" "japanese" "Do a quick calculation")'
    assert "compress" not in status.get("messages", "").replace(".elc.gz", "")


def test_a_lisp_error_is_failed_and_never_success(instance: Instance) -> None:
    status = instance.run('(progn (princ "before") (error "No %s" "luck"))')
    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", "EvalError", "Failure")
    assert {condition["type"]: condition["status"] for condition in status["conditions"]} == {
        "Complete": "True",
        "Succeeded": "False",
    }
    assert status["error"]["code"] == "error"
    assert "No luck" in status["error"]["message"]
    assert status["output"] == "before"
    assert "result" not in status


@pytest.mark.parametrize(
    ("content", "code"),
    [("(car 1)", "wrong-type-argument"), ("(e2e-not-there)", "void-function"), ("(+ 1", "end-of-file")],
)
def test_the_error_symbol_is_the_code_of_the_error(instance: Instance, content: str, code: str) -> None:
    status = instance.run(content)
    assert (status["reason"], status["error"]["code"]) == ("EvalError", code)


def test_an_endless_loop_times_out_and_the_same_emacs_goes_on(instance: Instance) -> None:
    before = instance.value("(progn (defvar e2e-survives 7) (emacs-pid))")
    status = instance.run("(while t)", timeoutSeconds=1)
    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", "TimedOut", "Failure")
    assert instance.value("(emacs-pid)") == before
    assert instance.value("e2e-survives") == "7"


def test_a_running_eval_is_cancelled_and_the_same_emacs_goes_on(instance: Instance) -> None:
    before = instance.value("(emacs-pid)")
    request = instance.send("(while t (sleep-for 60))", timeoutSeconds=600)
    request.wait_reason("Running")
    request.cancel()
    status = request.wait()
    assert (status["phase"], status["reason"]) == ("Failed", "Cancelled")
    assert instance.value("(emacs-pid)") == before


def test_an_eval_cancelled_before_it_ran_never_runs(instance: Instance) -> None:
    busy = instance.send("(sleep-for 500)", timeoutSeconds=600)
    busy.wait_reason("Running")
    request = instance.send('(write-region "ran" nil "/workspace/cancelled")')
    request.cancel()
    status = request.wait()
    assert (status["phase"], status["reason"]) == ("Failed", "Cancelled")
    assert "startTime" not in status
    assert not busy.status().get("completionTime"), "the one that ran was not the one to be cancelled"
    busy.cancel()
    assert busy.wait()["reason"] == "Cancelled"
    assert instance.value('(file-exists-p "/workspace/cancelled")') == "nil"


def test_context_is_returned_where_it_is_asked_for(instance: Instance) -> None:
    content = '(with-current-buffer (get-buffer-create "e2e") (erase-buffer) (insert "abc") (set-buffer "e2e"))'
    assert "context" not in instance.run(content)
    context = instance.run(content + ' (switch-to-buffer "e2e")', returnContext=True)["context"]
    assert context["currentBuffer"] == "e2e"
    assert "e2e" in context["buffers"]
    assert context["bufferCount"] >= len(context["buffers"])
    assert context["cursorPosition"] == 4
    assert context["majorMode"] == "fundamental-mode"


def test_output_and_messages_are_kept_apart_from_the_value(instance: Instance) -> None:
    status = instance.run('(progn (princ "printed") (message "said %d" 5) \'value)')
    assert (status["result"], status["output"], status["messages"].strip()) == ("value", "printed", "said 5")


def test_a_circular_value_is_printed(instance: Instance) -> None:
    status = instance.run("(let ((ring (list 1 2))) (setcdr (cdr ring) ring) ring)")
    assert (status["phase"], status["result"]) == ("Succeeded", "#1=(1 2 . #1#)")


def test_a_value_beyond_every_limit_is_cut_and_says_so(instance: Instance) -> None:
    status = instance.run("(make-list 3000000 'abcdef)", timeoutSeconds=600)
    assert status["phase"] == "Succeeded"
    assert status["truncated"] is True
    assert status["result"].startswith("(abcdef abcdef ")
    assert instance.value("(+ 1 1)") == "2"


def test_a_large_result_lies_whole_in_a_secret_that_goes_with_its_request(instance: Instance, kube: Kube) -> None:
    request = instance.send("(make-string 100000 ?é)")
    status = request.wait()
    assert (status["phase"], status["truncated"]) == ("Succeeded", True)
    reference = status["resultRef"]
    secret = kube.get("Secret", instance.namespace, reference["secretName"])
    whole = base64.b64decode(secret["data"][reference["key"]])
    assert whole.decode() == '"' + "é" * 100_000 + '"'
    assert (reference["bytes"], reference["sha256"]) == (len(whole), hashlib.sha256(whole).hexdigest())
    assert whole.decode().startswith(status["result"])
    owner = secret["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("EfritRequest", request.get()["metadata"]["uid"])
    kube.discard("EfritRequest", instance.namespace, request.name)
    until(
        lambda: kube.find("Secret", instance.namespace, reference["secretName"]) is None,
        "the Secret stays after its request",
    )


def test_a_result_too_large_for_a_secret_lies_on_the_workspace(instance: Instance) -> None:
    status = instance.run("(make-string 900000 ?x)")
    reference = status["resultRef"]
    assert (status["phase"], reference["bytes"]) == ("Succeeded", 900_002)
    assert instance.shell('sha256sum <"$1"', reference["workspacePath"]).split()[0] == reference["sha256"]


def test_an_eval_that_ends_emacs_is_interrupted_and_emacs_comes_back(instance: Instance) -> None:
    before = instance.value("(emacs-pid)")
    status = instance.run("(kill-emacs)")
    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", "Interrupted", "Failure")
    assert instance.value("(emacs-pid)") != before


def test_a_chat_without_a_model_is_refused_with_what_to_change(instance: Instance) -> None:
    status = instance.run("hello", type="chat")
    assert (status["phase"], status["reason"]) == ("Failed", "ModelNotConfigured")
    assert "spec.model" in status["error"]["message"]
