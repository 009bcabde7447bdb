"""Answers that are not what they should be: of a real Emacs whose code meddles, and as the controller takes them."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from efrit.api.request import RequestStatus
from efrit.controller.decide.requests import decide_request
from efrit.controller.model.actions import PatchStatus, StoreResult
from efrit.errors import ProtocolError
from efrit.protocol import RequestReason, RequestState, Response
from efrit.protocol.view import RequestView
from tests.fuzz import documents
from tests.fuzz.litter import Outside
from tests.support.bridge_instance import Instance, until
from tests.support.factory import NOW, of_kind, ready, request, seconds, snapshot


def _answer(**fields: Any) -> str:
    return json.dumps({"id": "@", "status": "success", "result": "1", **fields})


SPOILT = {
    "another's id": _answer(id="other"),
    "no json": "{",
    "empty": "",
    "long": "x" * 50_000,
    "success that failed": _answer(reason="EvalError"),
    "success that was interrupted": _answer(reason="Interrupted", outcome="Success"),
    "an error without a reason to be one": _answer(status="error", reason="Succeeded"),
    "a digest of something else": _answer(sha256="0" * 64),
    "a result outside the workspace": _answer(result_path="/etc/passwd"),
    "a result by way of dots": _answer(result_path="/workspace/.efrit/results/../../../etc/@.txt"),
    "endless time": '{"id":"@","status":"success","result":"1","execution_time":1e999}',
    "no number": '{"id":"@","status":"success","result":"1","execution_time":NaN}',
    "half a pair": '{"id":"@","status":"success","result":"\\ud800"}',
    "a list": "[]",
    "a deep context": '{"id":"@","status":"success","context":{"a":' + "[" * 200 + "]" * 200 + "}}",
    "begun beyond time": _answer(started="9999-12-31T23:59:59-12:00"),
    "no status": '{"id":"@","result":"1"}',
}
TAKEN = {
    "attempts beyond counting": _answer(attempt=2**63),
    "negative attempts": _answer(attempt=-1),
    "negative time": _answer(execution_time=-1),
    "attempt 0": _answer(attempt=0),
    "no outcome": _answer(reason="Succeeded"),
    "begun at the end of time": _answer(started="9999-12-31T23:59:59.999999Z"),
    "begun before time": _answer(started="0001-01-01T00:00:00Z", timestamp="0001-01-01T00:00:00Z"),
}


def _plant(text: str, rid: str) -> str:
    """Code that writes the answer to its own request before Emacs does."""
    data = json.dumps(text.replace("@", rid), ensure_ascii=True)
    answer = f'(concat efrit-queue-directory "responses/resp_{rid}.json")'
    return f'(progn (write-region {data} nil "planted") (rename-file "planted" {answer} t))'


def test_an_answer_that_its_request_spoilt_ends_it_as_interrupted(instance: Instance) -> None:
    for number, (name, text) in enumerate(SPOILT.items()):
        rid = f"spoilt-{number}"
        assert instance.put(rid, _plant(text, rid)).status_code == 201, name
        answer = instance.answer(rid)
        assert answer.reason is RequestReason.INTERRUPTED, name
        assert "not a response" in (answer.error or ""), name
        assert answer.result is None, name
        assert instance.client.delete(f"/v1/requests/{rid}").status_code == 204, name
        until(lambda: instance.view(rid).state is RequestState.ACKNOWLEDGED)  # noqa: B023 - called here
    assert instance.eval("after-spoilt", "(+ 1 1)").result == "2"


def test_an_answer_that_only_looks_odd_is_taken(instance: Instance) -> None:
    for number, (name, text) in enumerate(TAKEN.items()):
        rid = f"odd-{number}"
        instance.put(rid, _plant(text, rid))
        answer = instance.answer(rid)
        assert (answer.reason, answer.result) == (RequestReason.SUCCEEDED, "1"), name


NO_FILES = {
    "symlink": '(make-symbolic-link "@outside/secret" PATH)',
    "dangling symlink": '(make-symbolic-link "nowhere" PATH)',
    "directory": "(make-directory PATH)",
    "pipe": '(call-process "mkfifo" nil nil nil PATH)',
    "file nobody may read": '(progn (write-region "{}" nil PATH) (set-file-modes PATH 0))',
}


@pytest.mark.parametrize("kind", NO_FILES)
def test_an_answer_that_is_no_readable_file_ends_its_request_once(
    instance: Instance, beside: Outside, kind: str
) -> None:
    rid = f"no-file-{abs(hash(kind))}"
    path = f'(concat efrit-queue-directory "responses/resp_{rid}.json")'
    form = NO_FILES[kind].replace("PATH", path).replace("@outside", str(beside.place))
    instance.put(rid, form)
    assert instance.answer(rid).reason is RequestReason.INTERRUPTED
    assert instance.client.delete(f"/v1/requests/{rid}").status_code == 204
    until(lambda: instance.view(rid).state is RequestState.ACKNOWLEDGED)
    assert instance.put(rid, form).status_code == 200
    beside.untouched()


def test_a_large_result_that_cannot_be_kept_whole_is_cut_and_stops_nobody(instance: Instance) -> None:
    form = (
        '(let ((results (concat efrit-workspace-directory ".efrit")))'
        " (when (file-exists-p results) (delete-directory results t))"
        ' (write-region "in the way" nil results) (make-string 900000 ?x))'
    )
    try:
        response = instance.eval("no-room", form)
        assert (response.reason, response.truncated, response.result_path) == (RequestReason.SUCCEEDED, True, None)
        # Of what is kept: efrit-inline-result-bytes.
        assert response.result_bytes == 768 << 10
        assert instance.eval("after-no-room", "(+ 1 1)").result == "2"
    finally:
        (instance.workspace / ".efrit").unlink()


_views = st.builds(
    lambda response, view: b'{"response":' + response.replace(b'"a-1"', b'"uid-work"') + b"," + view.lstrip()[1:],
    documents.objects(documents.RESPONSE),
    documents.objects(
        {**documents.VIEW, "id": '"uid-work"', "state": '"answered"'} | {"response_bytes": "9"},
    ).map(lambda data: data.replace(b'"response":{"id":"a-1","status":"success","result":"2"},', b"")),
)


@given(_views)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_whatever_a_bridge_answers_becomes_one_final_status_the_api_server_takes(data: bytes) -> None:
    try:
        view = RequestView.parse(data)
    except ProtocolError:
        return
    if view.response is None or not view.state.final or view.id != "uid-work":
        return
    actions = decide_request(snapshot(request(), ready(), bridge_view=view), NOW + seconds(5))
    (patch,) = of_kind(actions, PatchStatus)
    status = RequestStatus.model_validate(patch.status)
    assert status.phase is not None
    assert status.phase.final
    assert (status.phase.value == "Succeeded") is (view.response.outcome == "Success")
    assert len(json.dumps(patch.status, allow_nan=False).encode()) < 512 * 1024
    _fits_into_64_bits(patch.status)
    for stored in of_kind(actions, StoreResult):
        assert stored.manifest["metadata"]["namespace"] == "team"


def _fits_into_64_bits(value: Any) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _fits_into_64_bits(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _fits_into_64_bits(item)
    elif isinstance(value, int):
        assert -(2**63) <= value < 2**63


PRINTED = {
    "a circle": "(let ((c (list 1 2))) (setcdr (cdr c) c) c)",
    "a huge list": "(make-list 1000000 'x)",
    "a deep list": "(let (l) (dotimes (_ 100000 l) (setq l (list l))))",
    "raw bytes": '(string-to-multibyte "a\\200b\\377")',
    "unibyte": '"\\200\\377"',
    "surrogates": "(string #xd800 #xdfff)",
    "beyond Unicode": "(string #x110000 #x3fff7f)",
    "properties": "(propertize \"é\" 'face 'bold 'help-echo (current-buffer))",
    "a buffer": "(current-buffer)",
    "a killed buffer": '(let ((b (generate-new-buffer "x"))) (kill-buffer b) b)',
    "a process": '(make-process :name "p" :command \'("true") :noquery t)',
    "a hash table": "(let ((h (make-hash-table))) (puthash h h h) h)",
    "a char table": "(make-char-table 'x 1)",
    "an obarray": "obarray",
    "a function": "(lambda (x) x)",
    "a NUL": "(string 0 1 2 127)",
    "a symbol of any name": '(intern "a b\\n\\0(é")',
    "an uninterned symbol": '(make-symbol "")',
    "no number": "(list 0.0e+NaN -0.0 1.0e+INF)",
    "a bignum": "(expt 7 20000)",
    "multibyte": "(make-string 100000 ?é)",
    "printed circles": '(let ((c (list 1))) (setcdr c c) (print c) (message "%S" c) 1)',
    "printed bytes": '(progn (princ "\\200\\377") (message "%s" "\\200") (princ (make-string 100000 ?🙂)) 1)',
    "an error of any kind": "(signal 'error (list (current-buffer) (string #xd800) (make-string 100000 ?\\200)))",
    "an error that is none": "(signal 'no-such-condition (let ((c (list 1))) (setcdr c c) c))",
    "an error message function": '(let ((command-error-function #\'ignore)) (throw (make-symbol "é") 1))',
}


@pytest.mark.parametrize("limit", [7, 100, 4096])
def test_whatever_code_returns_prints_or_signals_is_reported_whole_or_cut_at_the_limit(
    instance: Instance, limit: int
) -> None:
    pid = instance.emacs_pid()
    for number, (name, form) in enumerate(PRINTED.items()):
        rid = f"printed-{limit}-{number}"
        instance.put(rid, form, options={"max_result_bytes": limit, "timeout": 3600})
        response = instance.answer(rid)
        assert response.reason in (RequestReason.SUCCEEDED, RequestReason.EVAL_ERROR), (name, response)
        failed = response.reason is RequestReason.EVAL_ERROR
        # Cut before it gets too deep, its beginning is what Emacs prints.
        unprintable = name == "a deep list" and limit > 200
        assert failed == (unprintable or name.startswith("an error")), (name, response)
        result = response.result or ""
        assert len(result.encode()) <= limit, name
        # Cut between two characters, at most three bytes before the limit.
        assert not response.truncated or len(result.encode()) > limit - 4, name
        assert len(response.output.encode()) < 9000, name
        assert len(response.messages.encode()) < 9000, name
        assert len((response.error or "").encode()) < 9000, name
    assert instance.emacs_pid() == pid


_symbols = st.sampled_from(("nil", "t", ":key", "a", "\\,", "\\(", "é", "\\1", "a\\ b", "##", "\\?"))
_lisp = st.recursive(
    _symbols
    | st.integers(-(2**70), 2**70).map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    # Without a NUL: the result becomes the content of the request that reads it.
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12).map(
        lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    ),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda parts: "(" + " ".join(parts) + ")")
        | st.lists(inner, max_size=4).map(lambda parts: "[" + " ".join(parts) + "]")
        | st.tuples(inner, inner).map(lambda pair: f"({pair[0]} . {pair[1]})")
        | inner.map(lambda parts: f"'{parts}")
    ),
    max_leaves=12,
)


def test_a_printed_value_reads_back_as_what_it_was(instance: Instance) -> None:
    numbers = iter(range(10_000))

    @given(st.lists(_lisp, min_size=1, max_size=6).map(lambda parts: "(" + " ".join(parts) + ")"))
    @settings(max_examples=20, deadline=None, phases=(Phase.generate,))
    def same(value: str) -> None:
        rid = f"value-{next(numbers)}"
        response = instance.eval(rid, f"(quote {value})")
        assert response.reason is RequestReason.SUCCEEDED, (value, response.error)
        again = instance.eval(f"{rid}-again", f"(equal (quote {value}) (quote {response.result}))")
        assert again.result == "t", (value, response.result, again.error)

    same()


def test_every_answer_in_the_queue_is_one(instance: Instance) -> None:
    """After all of this: what Emacs itself wrote is whole, and names its own request."""
    for path in (instance.queue / "archive").glob("resp_value-*.json"):
        assert path.name == f"resp_{Response.parse(path.read_bytes()).id}.json"
