"""Chats and commands through the bridge: a real Emacs asks a model that plays scenarios over a real socket."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from efrit.protocol import Outcome, Progress, RequestReason, RequestState, SessionStatus
from efrit.protocol.view import ModelKey
from tests.model.running import KEY, Model
from tests.support.bridge_instance import Instance, until


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory, lisp: Path, model: Model) -> Iterator[Instance]:
    """One instance with a model, for all tests here."""
    place = tmp_path_factory.mktemp("talking")
    key = place / "api-key"
    key.write_text(KEY)
    env = {"EFRIT_MODEL_NAME": "m", "EFRIT_MODEL_BASE_URL": model.url, "EFRIT_MODEL_API_KEY_FILE": str(key)}
    with Instance(place / "instance", lisp, env) as instance:
        yield instance


def ask(instance: Instance, rid: str, content: str, kind: str = "command", **options: Any) -> None:
    stored = instance.put(rid, content, type=kind, options={"timeout": 600, **options})
    assert stored.status_code == 201, stored.text


def test_a_chat_is_answered_and_continued_and_what_it_cost_is_counted(talking: Instance) -> None:
    ask(talking, "hello", "Good day, who are you? (scenario=chat)", "chat")
    first = talking.answer("hello")
    assert (first.reason, first.outcome) == (RequestReason.SUCCEEDED, Outcome.SUCCESS)
    assert first.session is not None
    assert first.session.status is SessionStatus.COMPLETE
    ask(talking, "again", "What did I just learn?", "chat", session={"id": first.session.id})
    second = talking.answer("again")
    assert second.result == "You said: What did I just learn?"
    assert second.session is not None
    assert second.session.id == first.session.id
    assert first.usage is not None
    assert second.usage is not None
    assert talking.metric("efrit_model_calls_total") == first.usage.model_calls + second.usage.model_calls == 2
    spent = first.usage.output_tokens + second.usage.output_tokens
    assert talking.metric('efrit_model_tokens_total{direction="output"}') == spent > 0


def test_a_chat_is_answered_after_an_eval_has_made_every_buffer_read_only(talking: Instance) -> None:
    form = "(mapc (lambda (b) (with-current-buffer b (setq buffer-read-only t))) (buffer-list))"
    assert talking.eval("read-only", form).reason is RequestReason.SUCCEEDED
    ask(talking, "after", "Good day, who are you? (scenario=chat)", "chat")
    assert talking.answer("after").reason is RequestReason.SUCCEEDED


def test_streamed_text_reaches_whoever_follows_the_work_log_before_the_answer_is_whole(talking: Instance) -> None:
    ask(talking, "slow", "Speak slowly. (scenario=slow)", "chat")
    texts, last_id = [], ""
    for at, name, line in talking.work_log("slow"):
        last_id = at
        if name == "message" and line["type"] == "text":
            texts.append(line["text"])
            if len(texts) == 5:
                break
    assert talking.view("slow").state is RequestState.RUNNING
    talking.client.post("/v1/requests/slow/cancel")
    rest = list(talking.work_log("slow", last_id))
    assert rest[-1][1:] == ("end", {"id": "slow", "reason": "Cancelled", "outcome": "Partial"})
    answer = talking.answer("slow")
    texts += [line["text"] for _, name, line in rest if name == "message" and line["type"] == "text"]
    assert (answer.result or "").strip() == "".join(texts).strip()
    assert [line["type"] for _, name, line in rest if name == "message"][-1] == "end"


def test_a_command_reports_how_far_it_has_come_and_its_log_is_kept_with_it(talking: Instance) -> None:
    ask(talking, "twelve", "Do twelve steps. (scenario=twelve-steps)")
    reports: list[Progress] = []
    for _, name, view in talking.events():
        if name == "request" and view["id"] == "twelve":
            reports += [Progress.from_dict(view["progress"])] if view["progress"] else []
            if view["state"] == "answered":
                break
    answer = talking.answer("twelve")
    assert answer.result == '"twelve steps done"'
    assert answer.progress is not None
    assert answer.progress.tool_calls == 13
    assert [report.step or 0 for report in reports] == sorted(report.step or 0 for report in reports)
    assert {report.session for report in reports} <= {"twelve"}
    whole = list(talking.work_log("twelve"))
    assert talking.client.delete("/v1/requests/twelve").status_code == 204
    assert list(talking.work_log("twelve")) == whole
    assert (talking.queue / "archive/log_twelve.ndjson").exists()
    assert not (talking.queue / "progress/twelve.ndjson").exists()


def test_evals_are_answered_while_sessions_wait_for_their_model(talking: Instance) -> None:
    for rid in ("s1", "s2", "s3"):
        ask(talking, rid, f"Speak slowly, {rid}. (scenario=slow)", "chat")
    for rid in ("s1", "s2", "s3"):
        talking.until_running(rid)
    until(lambda: talking.stats().emacs.sessions == 3)
    for number in range(5):
        assert talking.eval(f"between{number}", f"(+ 1 {number})").result == str(number + 1)
    assert {talking.view(rid).state for rid in ("s1", "s2", "s3")} == {RequestState.RUNNING}
    for rid in ("s1", "s2", "s3"):
        talking.client.post(f"/v1/requests/{rid}/cancel")
    assert {talking.answer(rid).reason for rid in ("s1", "s2", "s3")} == {RequestReason.CANCELLED}


def test_a_session_that_is_cancelled_while_an_eval_occupies_emacs_stops_after_it_and_emacs_lives(
    talking: Instance,
) -> None:
    pid = talking.emacs_pid()
    ask(talking, "waits", "Speak slowly, please. (scenario=slow)", "chat")
    talking.until_running("waits")
    go = talking.workspace / "long-may-end"
    talking.put("long", f'(progn (while (not (file-exists-p "{go}"))) "whole")')
    talking.until_running("long")
    talking.client.post("/v1/requests/waits/cancel")
    until((talking.queue / "control/cancel_waits").exists)
    assert talking.view("waits").state is RequestState.RUNNING
    go.touch()
    assert talking.answer("long").result == '"whole"'
    assert talking.answer("waits").reason is RequestReason.CANCELLED
    assert talking.emacs_pid() == pid


def test_a_tool_that_hangs_is_stopped_and_an_eval_runs_next(talking: Instance) -> None:
    pid = talking.emacs_pid()
    ask(talking, "hangs", "Wait in Lisp. (scenario=sleeping-eval)")
    until((talking.workspace / "begun.txt").exists)
    talking.client.post("/v1/requests/hangs/cancel")
    assert talking.answer("hangs").reason is RequestReason.CANCELLED
    assert talking.eval("next", "(+ 1 1)").result == "2"
    assert talking.emacs_pid() == pid


def test_a_key_that_is_too_short_is_reported_without_the_key_and_evals_go_on(
    tmp_path: Path, lisp: Path, model: Model
) -> None:
    key = tmp_path / "api-key"
    key.write_text("sk-1\n")
    env = {"EFRIT_MODEL_NAME": "m", "EFRIT_MODEL_BASE_URL": model.url, "EFRIT_MODEL_API_KEY_FILE": str(key)}
    with Instance(tmp_path / "instance", lisp, env) as instance:
        until(lambda: instance.stats().emacs.model_key is ModelKey.TOO_SHORT)
        assert "sk-1" not in instance.client.get("/v1/stats").text
        ask(instance, "refused", "Good day, who are you? (scenario=chat)", "chat")
        refused = instance.answer("refused")
        assert (refused.reason, refused.error_code) == (RequestReason.MODEL_ERROR, "no-key")
        assert "fewer than 8 characters" in (refused.error or "")
        instance.put("eval", '"sk-1"')
        assert instance.answer("eval").result == '"sk-1"'
        key.write_text(KEY)
        until(lambda: instance.stats().emacs.model_key is ModelKey.USABLE)
        ask(instance, "taken", "Good day, who are you? (scenario=chat)", "chat")
        assert instance.answer("taken").reason is RequestReason.SUCCEEDED


FAIL_FOUR_TIMES = """
(cl-progv '(comp-enable-subr-trampolines native-comp-enable-subr-trampolines) '(nil nil)
  (defvar faults 4)
  (advice-add 'write-region :around
              (lambda (write start end path &rest rest)
                (if (not (and (stringp path) (string-match-p "/sessions/" path) (< 0 faults)))
                    (apply write start end path rest)
                  (setq faults (1- faults))
                  (signal 'file-error (list "Writing" "No space left on device" path))))))
"""


def test_a_chat_whose_records_cannot_be_written_at_first_gets_its_own_answer(
    tmp_path: Path, lisp: Path, model: Model
) -> None:
    key = tmp_path / "api-key"
    key.write_text(KEY)
    env = {"EFRIT_MODEL_NAME": "m", "EFRIT_MODEL_BASE_URL": model.url, "EFRIT_MODEL_API_KEY_FILE": str(key)}
    with Instance(tmp_path / "instance", lisp, env) as instance:
        ask(instance, "first", "Good day, who are you? (scenario=chat)", "chat")
        first = instance.answer("first")
        assert first.session is not None
        assert instance.eval("inject", FAIL_FOUR_TIMES).reason is RequestReason.SUCCEEDED
        ask(instance, "second", "What did I just learn?", "chat", session={"id": first.session.id})
        assert instance.eval("meanwhile", "(+ 1 2)").result == "3"
        second = instance.answer("second")
        assert (second.reason, second.result) == (RequestReason.SUCCEEDED, "You said: What did I just learn?")
        assert instance.eval("left", "faults").result == "0"
