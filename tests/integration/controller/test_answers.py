"""What becomes of a request: each kind of end, with what its status then says."""

from __future__ import annotations

import base64
import hashlib
from functools import partial
from pathlib import Path

import pytest

from tests.support.kube import Json, until
from tests.support.site import Site

LONG = "(sleep-for 600)"
TWO_WRITES = [("create", "efritrequests"), ("patch", "efritrequests/status")]


def _condition(status: Json, kind: str) -> Json:
    return next(condition for condition in status["conditions"] if condition["type"] == kind)


def test_an_eval_is_answered_with_its_value_and_where_it_ran(shared: Site) -> None:
    status = shared.answer(shared.ask("(progn (sleep-for 0.6) (+ 1 2))"))
    assert (status["phase"], status["reason"], status["outcome"]) == ("Succeeded", "Succeeded", "Success")
    assert (status["result"], status["truncated"], status["attempt"]) == ("3", False, 1)
    assert status["instanceName"] == "one"
    assert status["podUID"] == shared.node.pod("one").uid
    assert status["queuedTime"] <= status["startTime"] <= status["completionTime"]
    assert status["executionSeconds"] > 0.5
    for kind in ("Complete", "Succeeded"):
        condition = _condition(status, kind)
        assert (condition["status"], condition["reason"], condition["observedGeneration"]) == ("True", "Succeeded", 1)
    assert not {"error", "output", "messages", "context", "resultRef", "progress"} & status.keys()


def test_an_eval_costs_the_api_server_two_writes(shared: Site) -> None:
    for _ in range(5):
        name = shared.ask("(* 6 7)")
        assert shared.answer(name)["result"] == "42"
        responses = shared.node.pod("one").queue / "responses"
        # Acknowledged: nothing is left to do that could still write.
        until(lambda: not list(responses.iterdir()), "the answer is not acknowledged")  # noqa: B023
        assert shared.prompt_writes(name) == TWO_WRITES


def test_an_error_is_reported_with_its_symbol_and_sentence(shared: Site) -> None:
    status = shared.answer(shared.ask("(car 'no-list)"))
    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", "EvalError", "Failure")
    assert status["error"]["code"] == "wrong-type-argument"
    assert "listp" in status["error"]["message"]
    assert "result" not in status
    assert _condition(status, "Complete")["status"] == "True"
    assert _condition(status, "Succeeded")["status"] == "False"


def test_content_that_is_no_lisp_is_an_error_and_not_a_hang(shared: Site) -> None:
    status = shared.answer(shared.ask("(unclosed"))
    assert (status["reason"], status["error"]["code"]) == ("EvalError", "end-of-file")


def test_the_context_comes_back_when_asked_for(shared: Site) -> None:
    name = shared.ask('(progn (switch-to-buffer "notes") (insert "abc") (text-mode))', returnContext=True)
    context = shared.answer(name)["context"]
    assert (context["currentBuffer"], context["majorMode"]) == ("notes", "text-mode")
    assert context["cursorPosition"] == 4
    assert "notes" in context["buffers"]
    assert context["bufferCount"] >= len(context["buffers"])
    assert Path(context["defaultDirectory"]) == shared.node.pod("one").workspace
    assert context["emacsVersion"].startswith("28.")


def test_what_was_printed_and_said_is_kept_apart_from_the_value(shared: Site) -> None:
    status = shared.answer(shared.ask('(progn (princ "printed") (message "said %d" 1) "value")'))
    assert status["result"] == '"value"'
    assert status["output"].strip() == "printed"
    assert status["messages"].strip() == "said 1"


def test_text_beyond_ascii_survives_the_whole_way(shared: Site) -> None:
    assert shared.answer(shared.ask('"grüße, 世界 🎉"'))["result"] == '"grüße, 世界 🎉"'


def test_an_endless_loop_ends_at_its_timeout_and_the_next_eval_runs(shared: Site) -> None:
    status = shared.answer(shared.ask("(while t)", timeoutSeconds=1))
    assert (status["phase"], status["reason"], status["error"]["code"]) == ("Failed", "TimedOut", "TimedOut")
    # The limit counts from the claim, this from the first form, however much later that is.
    assert status["executionSeconds"] >= 0
    assert shared.answer(shared.ask("'alive"))["result"] == "alive"


def test_running_work_is_shown_and_can_be_cancelled(shared: Site) -> None:
    name = shared.ask(LONG)
    running = shared.until_status(name, phase="Running")
    assert running["reason"] == "Running"
    assert _condition(running, "Complete")["status"] == "False"
    assert _condition(running, "Succeeded")["status"] == "Unknown"
    shared.cancel(name)
    status = shared.answer(name)
    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", "Cancelled", "Failure")


def test_waiting_work_that_is_cancelled_never_runs(shared: Site) -> None:
    blocker = shared.ask(LONG)
    shared.until_status(blocker, phase="Running")
    waiting = shared.ask(shared.count("cancelled"))
    shared.until_status(waiting, phase="Queued")
    shared.cancel(waiting)
    status = shared.answer(waiting)
    assert (status["reason"], status["attempt"]) == ("Cancelled", 0)
    assert "startTime" not in status
    shared.cancel(blocker)
    shared.answer(blocker)
    assert "cancelled" not in shared.counted()


def test_work_created_as_cancelled_never_runs(shared: Site) -> None:
    name = shared.ask(shared.count("stillborn"), cancel=True)
    assert shared.answer(name)["reason"] == "Cancelled"
    assert shared.answer(shared.ask("'after"))["result"] == "after"
    assert "stillborn" not in shared.counted()


def test_work_that_waits_too_long_times_out_without_having_run(shared: Site) -> None:
    blocker = shared.ask(LONG)
    shared.until_status(blocker, phase="Running")
    late = shared.ask(shared.count("late"), queueTimeoutSeconds=1)
    status = shared.answer(late)
    assert (status["reason"], status["outcome"]) == ("TimedOut", "Failure")
    assert "queueTimeoutSeconds (1 s)" in status["error"]["message"]
    assert "startTime" not in status
    shared.cancel(blocker)
    shared.answer(blocker)
    assert "late" not in shared.counted()


def test_a_result_too_large_for_a_status_lies_whole_in_a_secret(shared: Site) -> None:
    name = shared.ask("(make-string 100000 ?x)")
    status = shared.answer(name)
    assert (status["phase"], status["truncated"]) == ("Succeeded", True)
    assert len(status["result"]) == 32768
    reference = status["resultRef"]
    secret = shared.kube.get("secrets", shared.namespace, reference["secretName"])
    whole = base64.b64decode(secret["data"][reference["key"]])
    assert whole == b'"' + b"x" * 100000 + b'"'
    assert (reference["bytes"], reference["sha256"]) == (len(whole), hashlib.sha256(whole).hexdigest())
    (owner,) = secret["metadata"]["ownerReferences"]
    uid = shared.kube.get("efritrequests", shared.namespace, name)["metadata"]["uid"]
    assert (owner["kind"], owner["uid"]) == ("EfritRequest", uid)


def test_a_result_too_large_for_a_secret_lies_on_the_workspace(shared: Site) -> None:
    status = shared.answer(shared.ask("(make-string 900000 ?y)"))
    assert (status["phase"], status["truncated"]) == ("Succeeded", True)
    reference = status["resultRef"]
    whole = Path(reference["workspacePath"]).read_bytes()
    assert whole == b'"' + b"y" * 900000 + b'"'
    assert (reference["bytes"], reference["sha256"]) == (len(whole), hashlib.sha256(whole).hexdigest())


def test_content_over_the_limit_is_rejected_with_what_to_do(shared: Site) -> None:
    status = shared.answer(shared.ask(f'"{"ü" * 40000}"'))
    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", "Rejected", "Failure")
    assert "80002 bytes" in status["error"]["message"]
    assert "maxRequestBytes" in status["error"]["message"]


@pytest.mark.parametrize("kind", ["chat", "command"])
def test_what_needs_a_model_is_refused_without_one(shared: Site, kind: str) -> None:
    status = shared.answer(shared.ask("hello", type=kind))
    assert (status["reason"], status["error"]["code"]) == ("ModelNotConfigured", "ModelNotConfigured")
    assert "spec.model" in status["error"]["message"]


def test_a_request_for_an_instance_that_never_comes_is_rejected(shared: Site) -> None:
    status = shared.answer(shared.ask("1", to="nobody"))
    assert (status["phase"], status["reason"]) == ("Failed", "Rejected")
    assert "There is no EfritInstance nobody" in status["error"]["message"]


def test_higher_priority_runs_first_and_equal_ones_in_order(shared: Site) -> None:
    blocker = shared.ask(LONG)
    shared.until_status(blocker, phase="Running")
    requests = [("p-low", -5), ("p-first", 0), ("p-second", 0), ("p-high", 5)]
    for name, priority in requests:
        shared.ask(shared.count(name), name, priority=priority)
        until(partial(_queued, shared, name), f"{name} is not on the queue")
    shared.cancel(blocker)
    for name, _ in requests:
        shared.answer(name)
    ran = [name for name in shared.counted() if name.startswith("p-")]
    assert ran == ["p-high", "p-first", "p-second", "p-low"]


def _queued(site: Site, name: str) -> bool:
    uid = site.kube.get("efritrequests", site.namespace, name)["metadata"]["uid"]
    return (site.node.pod("one").queue / "requests" / f"req_{uid}.json").exists()


def test_deleting_a_running_request_stops_its_work(shared: Site) -> None:
    name = shared.ask(LONG)
    shared.until_status(name, phase="Running")
    shared.kube.delete("efritrequests", shared.namespace, name)
    assert shared.kube.find("efritrequests", shared.namespace, name) is None
    assert shared.answer(shared.ask("'free"))["result"] == "free"


def test_a_finished_request_is_deleted_when_its_time_to_live_is_over(shared: Site) -> None:
    name = shared.ask("1", ttlSecondsAfterFinished=1)
    shared.answer(name)
    until(lambda: shared.kube.find("efritrequests", shared.namespace, name) is None, f"{name} is still there")


def test_a_request_created_anew_under_the_same_name_is_new_work(shared: Site) -> None:
    for number in ("1", "2"):
        assert shared.answer(shared.ask(number, "again"))["result"] == number
        shared.kube.delete("efritrequests", shared.namespace, "again")


def test_nothing_of_ours_carries_a_finalizer_or_an_annotation_of_kopf(shared: Site) -> None:
    name = shared.ask("1")
    shared.answer(name)
    owned = ("statefulsets", "secrets", "persistentvolumeclaims", "serviceaccounts", "networkpolicies")
    objects = [shared.kube.get("efritrequests", shared.namespace, name)]
    objects += [item for plural in ("efritinstances", *owned) for item in shared.kube.list(plural, shared.namespace)]
    for obj in objects:
        # The API server's own mark on a claim in use is the only finalizer there may be.
        finalizers = set(obj["metadata"].get("finalizers", ())) - {"kubernetes.io/pvc-protection"}
        assert not finalizers, obj["metadata"]
        assert not any("kopf" in key for key in obj["metadata"].get("annotations", {})), obj["metadata"]


def test_no_answer_of_requests_that_were_deleted_stays_on_the_bridge(site: Site) -> None:
    operator = site.operator()
    operator.start()
    site.instance()
    for number in range(9):
        site.ask(site.count(f"n{number}"), "again")
        # At each stage: not handed over yet, bound to the instance, answered.
        if number % 3 == 1:
            site.until_status("again", instanceName="one")
        elif number % 3 == 2:
            site.answer("again")
        site.kube.delete("efritrequests", site.namespace, "again")

    queue = site.node.pod("one").queue
    areas = [queue / area for area in ("requests", "processing", "responses")]
    until(
        lambda: not any(path.is_file() for area in areas for path in area.iterdir()),
        lambda: f"left: {[list(area.iterdir()) for area in areas]}\n{site.logs()}",
    )
