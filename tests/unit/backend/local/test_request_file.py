"""Work of a client as the request file that Emacs and a bridge read."""

from pathlib import Path

import pytest

from efrit.backend.errors import Refused
from efrit.backend.interface import Budget, RequestType, Work
from efrit.backend.local.files import QueueFiles
from efrit.backend.local.request_file import MAX_REQUEST_FILE_BYTES, check, request_for
from efrit.protocol import Request, RetryPolicy


def test_all_of_a_command_is_written() -> None:
    work = Work(
        RequestType.COMMAND,
        "tidy up",
        timeout=90,
        return_context=True,
        budget=Budget(max_tool_calls=5),
        session="s-1",
        priority=2,
        retry=True,
        directory="/w",
    )
    request = request_for("r", work)
    written = Request.parse(request.to_json())
    assert written == request
    assert (written.id, written.type, written.content) == ("r", RequestType.COMMAND, "tidy up")
    options = written.options
    assert (options.timeout, options.return_context, options.priority) == (90, True, 2)
    assert (options.retry, options.max_attempts, options.directory) == (RetryPolicy.IF_INTERRUPTED, 3, "/w")
    assert options.session is not None
    assert options.session.id == "s-1"
    assert request.to_dict()["options"]["budget"] == {"max_tool_calls": 5}


def test_work_that_may_not_be_run_again_has_one_attempt() -> None:
    request = request_for("r", Work(RequestType.EVAL, "(+ 1 2)", max_attempts=5))
    assert (request.options.retry, request.options.max_attempts) == (RetryPolicy.NEVER, 1)
    assert request.digest() == Request(id="r", type=RequestType.EVAL, content="(+ 1 2)").digest()  # type: ignore[arg-type]


def test_content_that_no_request_takes_is_refused_with_its_size_and_the_limit(tmp_path: Path) -> None:
    check(Work(RequestType.EVAL, "x" * MAX_REQUEST_FILE_BYTES))
    with pytest.raises(Refused) as caught:
        check(Work(RequestType.EVAL, "é" * (MAX_REQUEST_FILE_BYTES // 2 + 1)))
    assert str(caught.value) == "the content has 8388610 bytes; a request on this machine takes at most 8388608"
    assert caught.value.advice == "send less: a file that the work reads can hold the rest"
    # In the file each of these takes two bytes.
    quotes = request_for("r", Work(RequestType.EVAL, '"' * (MAX_REQUEST_FILE_BYTES // 2)))
    files = QueueFiles(tmp_path)
    with pytest.raises(Refused, match=r"has 4194304 bytes, with the rest of the request 83\d+ as JSON; a request on"):
        files.submit(quotes)
    assert not (tmp_path / "requests").exists()


def test_content_that_utf_8_does_not_have_is_refused() -> None:
    with pytest.raises(Refused, match="half of a surrogate pair"):
        check(Work(RequestType.EVAL, '"\ud800"'))
