"""Requests through the bridge to a real Emacs and back."""

import hashlib
import json

from efrit.protocol import RequestReason, RequestState, ResponseStatus
from tests.support.bridge_instance import Instance, until


def test_an_eval_is_answered_with_its_printed_value(shared: Instance) -> None:
    response = shared.eval("sum", '(progn (message "hello") (princ "out") (list (+ 40 2) "ä"))')
    assert response.status is ResponseStatus.SUCCESS
    assert response.result == '(42 "ä")'
    assert (response.output, response.messages.strip()) == ("out", "hello")
    assert response.sha256 == hashlib.sha256(response.result.encode()).hexdigest()
    assert response.result_bytes == len(response.result.encode())
    assert response.attempt == 1


def test_status_is_answered_with_figures(shared: Instance) -> None:
    shared.put("status", "", type="status")
    response = shared.answer("status")
    assert response.reason is RequestReason.SUCCEEDED
    assert isinstance(json.loads(response.result or ""), dict)


def test_a_request_is_followed_acknowledged_and_archived(shared: Instance) -> None:
    shared.eval("ack", "1")
    assert shared.client.delete("/v1/requests/ack").status_code == 204
    assert shared.view("ack").state is RequestState.ACKNOWLEDGED
    until(lambda: (shared.queue / "archive/req_ack.json").exists())
    assert (shared.queue / "archive/resp_ack.json").exists()
    assert shared.put("ack", "1").status_code == 200
    assert shared.put("ack", "2").status_code == 409


def test_a_result_too_large_to_carry_is_left_in_the_workspace(shared: Instance) -> None:
    response = shared.eval("huge", "(make-string 900000 ?x)")
    path = shared.workspace / ".efrit/results/huge.txt"
    assert response.result_path == str(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == response.sha256
    assert response.result_bytes == 900002


def test_a_request_a_foreign_client_drops_is_run_and_shown(shared: Instance) -> None:
    part = shared.place / "dropped.json"
    part.write_text('{"id":"dropped","type":"eval","content":"(* 6 7)"}')
    part.rename(shared.queue / "requests/some-name.json")
    answer = shared.queue / "responses/resp_dropped.json"
    until(answer.exists)
    assert json.loads(answer.read_text())["result"] == "42"
    until(lambda: shared.client.get("/v1/requests/dropped").status_code == 200)
    assert shared.answer("dropped").result == "42"


def test_a_foreign_file_that_is_not_json_ends_as_an_error(shared: Instance) -> None:
    (shared.queue / "requests/req_broken.json").write_text('{"id":"broken","type":')
    until(lambda: shared.client.get("/v1/requests/broken").status_code == 200)
    assert shared.answer("broken").reason is RequestReason.REJECTED
    until(lambda: not (shared.queue / "requests/req_broken.json").exists())
