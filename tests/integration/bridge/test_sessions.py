"""Chats and commands through the bridge: a real Emacs asks a model that plays scenarios over a real socket."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from efrit.protocol import Outcome, Progress, RequestReason, RequestState, SessionStatus
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
