"""The recorder, between a client and a server: what passes is the same, and what it writes plays the same again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.model.record import Recorder
from tests.model.stream import put_together
from tests.support.kube import until
from tests.support.plain_http import NO_TLS
from tests.support.timeout import TIMEOUT
from tests.unit.harness.model.conftest import Client, body, conversation, named_events, tool

Json = dict[str, Any]
TOOLS = [tool("todo_add", content="string")]
SCENARIO = """
[[turn]]
[[turn.fault]]
status = 429
retry_after = 7
[[turn.fault]]
cut_after_events = 4
[[turn.fault]]
error_event = "overloaded_error"
after_events = 3
[[turn.reply]]
thinking = "Hmm."
[[turn.reply]]
text = "I plan, with \\"quotes\\", \\\\ and 🦊."
[[turn.reply]]
tool = "todo_add"
input.content = "braces {{ and a test-key"

[[turn]]
stop_reason = "max_tokens"
[[turn.reply]]
text = "Second"
"""


@pytest.fixture
def recorded(client: Client, tmp_path: Path) -> Iterator[Client]:
    with Recorder(("127.0.0.1", 0), client.model.url, "recorded", tmp_path) as recorder:
        thread = threading.Thread(target=recorder.serve_forever, args=(0.02,))
        thread.start()
        with httpx.Client(
            base_url=f"http://127.0.0.1:{recorder.server_address[1]}", timeout=TIMEOUT, verify=NO_TLS
        ) as http:
            yield Client(client.model, http)
        recorder.shutdown()
        thread.join()
        recorder.upstream.close()


def talk(client: Client, name: str) -> list[Json]:
    """Have two turns with the scenario NAME, attempts that fail included; return each answer."""
    messages = conversation(f"Plan. (scenario={name})")
    answers: list[Json] = []
    while len(messages) < 5:
        assert len(answers) < 9, describe_answers(answers)
        try:
            answer = client.post(body(messages, stream=True, tools=TOOLS))
        except httpx.HTTPError:
            answers.append({"cut": True})
            continue
        if answer.status_code != 200:
            answers.append(
                {"status": answer.status_code, "retry": answer.headers.get("retry-after")} | answer.json()["error"]
            )
            continue
        events = named_events(answer.text)
        if events[-1]["type"] != "message_stop":
            answers.append({"event": events[-1]})
            continue
        message = put_together(events)
        answers.append({name: message[name] for name in ("content", "stop_reason", "usage")})
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "ok"} for call in calls]
        messages += [{"role": "assistant", "content": message["content"]}]
        messages += [{"role": "user", "content": results or "on"}]
    return answers


def describe_answers(answers: list[Json]) -> str:
    """Return the answers as text, less what is made anew each time: ids and signatures."""
    plain = json.loads(json.dumps(answers))
    for answer in plain:
        for block in answer.get("content", []):
            block.pop("id", None)
            block.pop("signature", None)
    return json.dumps(plain, indent=1, ensure_ascii=False)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def written(folder: Path) -> str:
    """Return what was recorded, once both turns of the scenario are in it: the client has its answer before."""
    path = folder / "recorded.toml"
    until(lambda: path.exists() and path.read_text().count("[[turn]]") == 2, "the second turn is not written")
    return path.read_text()


def test_what_was_recorded_plays_the_same_again(recorded: Client, tmp_path: Path) -> None:
    recorded.model.play("original", SCENARIO)
    first = describe_answers(talk(recorded, "original"))
    toml = written(tmp_path)
    recorded.model.play("recorded", toml)
    direct = httpx.Client(base_url=recorded.model.url, timeout=TIMEOUT, verify=NO_TLS)
    with direct:
        again = describe_answers(talk(Client(recorded.model, direct), "recorded"))
    assert again == first.replace("test-key", "[API key]")
    assert '"status": 429' in first
    assert '"retry": "7"' in first
    assert '"cut": true' in first
    assert "overloaded_error" in first


def test_no_key_is_in_what_was_recorded(recorded: Client, tmp_path: Path) -> None:
    recorded.model.play("original", SCENARIO)
    talk(recorded, "original")
    assert "test-key" not in written(tmp_path)
    assert names(tmp_path) == ["recorded.toml"]
