"""Upstream's Emacs serves a queue that our client writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from efrit.backend.interface import Outcome, RequestReason, RequestState, RequestType, Work
from efrit.backend.local.files import QueueFiles
from efrit.backend.local.request_file import id_of, request_for
from tests.support.kube import until
from tests.support.queue_client import state, submit

ROOMS = ("", "core", "interfaces", "support", "tools")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    # The sockets of Emacs have short names.
    directory = Path(tempfile.mkdtemp(prefix="efrit-upstream-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def files(upstream: Path, home: Path) -> Iterator[QueueFiles]:
    """Yield the queue, as our client opens it, with upstream's Emacs behind it."""
    ready = home / "ready"
    words = ["emacs", "-Q", "--fg-daemon=upstream"]
    words += [word for room in ROOMS for word in ("-L", str(upstream / "lisp" / room))]
    words += ["--eval", f'(setq efrit-remote-queue-directory "{home}/queue")']
    words += ["-l", "efrit-remote-queue", "-f", "efrit-remote-queue-start"]
    words += ["--eval", f'(write-region "" nil "{ready}")']
    env = {**os.environ, "HOME": str(home), "TMPDIR": str(home), "XDG_RUNTIME_DIR": str(home)}
    with (home / "log").open("w") as log, subprocess.Popen(words, env=env, stdout=log, stderr=log) as emacs:
        opened = QueueFiles(home / "queue")
        try:
            until(lambda: ready.exists() or emacs.poll() is not None, "upstream's Emacs to serve")
            assert ready.exists(), (home / "log").read_text()
            yield opened
        finally:
            opened.close()
            emacs.kill()


def answer(files: QueueFiles, rid: str) -> RequestState:
    """Return its final state. It writes in place: what is half written would count as damaged."""
    path = files.root / f"responses/resp_{rid}.json"

    def is_whole() -> bool:
        try:
            return bool(json.loads(path.read_text()))
        except (FileNotFoundError, ValueError):
            return False

    until(is_whole, f"upstream's answer to {rid}")
    return state(files, rid)


def test_it_answers_our_requests(files: QueueFiles) -> None:
    ids = [submit(files, f"(+ 1 {number})", timeout=600.0) for number in range(20)]
    for number, rid in enumerate(ids):
        ended = answer(files, rid)
        # It prints the text of the result once more.
        assert (ended.reason, ended.outcome, ended.result) == (
            RequestReason.SUCCEEDED,
            Outcome.SUCCESS,
            f'"{number + 1}"',
        )
        assert ended.execution_seconds is not None


def test_of_lisp_that_fails_it_says_success_and_the_error_is_the_result(files: QueueFiles) -> None:
    ended = answer(files, submit(files, "(/ 1 0)", timeout=600.0))
    assert ended.outcome is Outcome.SUCCESS
    assert ended.result is not None
    assert ended.result.startswith('"Error evaluating (/ 1 0): Arithmetic error')


def test_its_status_is_json(files: QueueFiles) -> None:
    ended = answer(files, submit(files, "sessions", RequestType.STATUS, timeout=600.0))
    assert ended.result is not None
    assert json.loads(ended.result)["queue_active"] is True


def test_what_it_refuses_is_a_failure(files: QueueFiles) -> None:
    work = Work(RequestType.EVAL, "2")
    rid = id_of(work)
    files.submit(msgspec.structs.replace(request_for(rid, work), version="9.0.0"))
    ended = answer(files, rid)
    assert ended.outcome is Outcome.FAILURE
    assert ended.error is not None
    assert ended.error.message.startswith("Incompatible schema version: 9.0.0")


def test_our_client_reads_the_context_it_returns(files: QueueFiles) -> None:
    ended = answer(files, submit(files, "(+ 1 2)", timeout=600.0, return_context=True))
    assert ended.context is not None
    assert ended.context["emacs"]


def test_its_answer_can_be_read_after_we_acknowledge_it(files: QueueFiles) -> None:
    rid = submit(files, "(+ 1 2)", timeout=600.0)
    answer(files, rid)
    files.acknowledge(rid)
    assert state(files, rid).result == '"3"'
    assert not (files.root / f"processing/req_{rid}.json").exists()


def test_a_request_that_we_take_back_while_another_runs_never_runs(files: QueueFiles) -> None:
    began, go_on, ran = (files.root.parent / name for name in ("began", "go", "ran"))
    # While a program runs, it looks at no other request; while it sleeps, it would begin the next one.
    wait = f'(while (not (file-exists-p "{go_on}")) (call-process "sleep" nil nil nil "0.02"))'
    first = submit(files, f'(progn (write-region "" nil "{began}") {wait} 1)', timeout=600.0)
    until(began.exists, "the request to run")
    second = submit(files, f'(write-region "" nil "{ran}")', timeout=600.0)
    assert files.withdraw(second)
    go_on.touch()
    assert answer(files, first).result == '"1"'
    assert answer(files, submit(files, "2", timeout=600.0)).result == '"2"'
    assert state(files, second).reason is RequestReason.CANCELLED
    assert not ran.exists()
