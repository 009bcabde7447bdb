"""Upstream's TypeScript client: its own tests, and the client itself at a queue that our Emacs serves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.model.running import running
from tests.support.efrit_program import Program
from tests.support.kube import until
from tests.support.laptop import laptop, model_environment
from tests.upstream.source import SECONDS

DRIVE = Path(__file__).with_name("drive.mjs")
OWN_TESTS = 79
NO_TIMEOUT = {"timeout": SECONDS}
"""How long it waits is not to depend on how busy the machine is."""


@pytest.fixture(scope="module")
def efrit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with (
        running() as model,
        laptop({"one": {}}, **model_environment(model, tmp_path_factory.mktemp("model"))) as made,
    ):
        made.ok("start", "one")
        yield made


@pytest.fixture
def queue(efrit: Program) -> Path:
    return Path(efrit.env["HOME"]) / ".local/state/efrit/instances/one/queue"


def begin(client: Path, queue: Path, *calls: list[Any]) -> subprocess.Popen[str]:
    words = ["node", str(DRIVE), str(client / "dist"), str(queue)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write(json.dumps(calls))
    process.stdin.close()
    process.stdin = None
    return process


def ended(process: subprocess.Popen[str]) -> Any:
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    return json.loads(out)


def run(client: Path, queue: Path, *calls: list[Any]) -> Any:
    return ended(begin(client, queue, *calls))


def test_its_own_tests_pass(client: Path) -> None:
    report = client / "report.json"
    words = ["npm", "test", "--", "--ci", "--json", f"--outputFile={report}"]
    done = subprocess.run(words, cwd=client, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert report.exists(), done.stdout + done.stderr
    outcome = json.loads(report.read_text())
    failed = [
        test["fullName"]
        for file in outcome["testResults"]
        for test in file["assertionResults"]
        if test["status"] != "passed"
    ]
    assert (failed, outcome["numPassedTests"], done.returncode) == ([], OWN_TESTS, 0), done.stderr


def test_evals_many_at_once_each_get_their_answer_and_nothing_is_left_behind(client: Path, queue: Path) -> None:
    output = run(client, queue, *(["eval", f"(+ 1 {number})", NO_TIMEOUT] for number in range(20)))
    assert [(end["status"], end["result"]) for end in output["ends"]] == [
        ("success", str(number + 1)) for number in range(20)
    ]
    assert output["healthy"] is True
    areas = [queue / name for name in ("requests", "processing", "responses")]
    until(lambda: not any(list(area.iterdir()) for area in areas), "the queue to be empty")


def test_a_failure_a_context_and_the_status(client: Path, queue: Path) -> None:
    failed, context, status = run(
        client,
        queue,
        ["eval", '(error "No")', NO_TIMEOUT],
        ["eval", "(+ 1 2)", {**NO_TIMEOUT, "return_context": True}],
        ["status", "sessions", NO_TIMEOUT],
    )["ends"]
    assert (failed["status"], failed["error"]) == ("error", "No")
    assert (context["result"], type(context["context"]["current_buffer"])) == ("3", str)
    assert context["execution_time"] >= 0
    assert (status["status"], type(json.loads(status["result"]))) == ("success", dict)


def test_a_chat_and_a_command_reach_the_model(client: Path, queue: Path) -> None:
    chat, command = run(
        client,
        queue,
        ["chat", "Good day, who are you? (scenario=chat)", NO_TIMEOUT],
        ["command", "create a buffer called test.txt with hello world (scenario=hello-buffer)", NO_TIMEOUT],
    )["ends"]
    assert (chat["status"], chat["result"]) == ("success", "Hello. I am a model that reads from a script.")
    assert (command["status"], command["result"]) == ("success", "Buffer 'test.txt' created with content")


def test_what_it_gives_up_while_another_request_runs_never_runs(client: Path, queue: Path) -> None:
    go_on, began, ran = queue / "go", queue / "began", queue / "ran"
    busy = f'(progn (write-region "" nil "{began}") (while (not (file-exists-p "{go_on}")) (sleep-for 0.02)) 1)'
    with begin(client, queue, ["eval", busy, NO_TIMEOUT]) as first:
        until(began.exists, "the first request to run")
        given_up = run(client, queue, ["eval", f'(write-region "" nil "{ran}")', {"timeout": 1}])["ends"][0]
        go_on.touch()
        assert ended(first)["ends"][0]["result"] == "1"
    assert given_up["code"] == "TIMEOUT"
    assert run(client, queue, ["eval", "2", NO_TIMEOUT])["ends"][0]["result"] == "2"
    assert not ran.exists()
