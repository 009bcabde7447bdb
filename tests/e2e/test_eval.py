"""One eval from `kubectl create` to its answer, on the default Emacs and on the oldest that is supported.

What an eval may end as is in tests/integration/controller/test_answers.py, by the same programs without a pod.
"""

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


def test_an_endless_loop_is_ended_by_a_signal_from_the_container_of_the_bridge_and_emacs_goes_on(
    instance: Instance,
) -> None:
    """Emacs has no watchdog of its own here: without the process namespace that both share nothing would end it."""
    before = instance.value("(emacs-pid)")
    assert instance.run("(while t)", timeoutSeconds=1)["reason"] == "TimedOut"
    request = instance.send("(while t)", timeoutSeconds=600)
    request.wait_reason("Running")
    request.cancel()
    assert request.wait()["reason"] == "Cancelled"
    assert instance.value("(emacs-pid)") == before


def test_lisp_that_the_image_has_compressed_loads_without_a_word(instance: Instance) -> None:
    status = instance.run(
        """(progn (require 'calc) (require 'gnus-util) (set-input-method "japanese")
                  (list (calc-eval "2^10") current-input-method (substring (documentation 'calc-eval) 0 22)))"""
    )
    assert status["result"] == '("1024" "japanese" "Do a quick calculation")'
    assert "compress" not in status.get("messages", "").replace(".elc.gz", "")


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
