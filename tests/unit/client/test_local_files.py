"""A queue directory in the hands of a client."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from efrit.client.errors import ResultTruncated
from efrit.client.local.files import QueueFiles


@pytest.fixture
def files(tmp_path: Path) -> QueueFiles:
    return QueueFiles(tmp_path)


def answer(files: QueueFiles, **fields: object) -> None:
    assert files.disk
    whole = {"id": "r", "version": "1.0.0", "status": "success", "result": "(1 2", **fields}
    (files.root / "responses/resp_r.json").write_text(json.dumps(whole))


def test_the_beginning_of_a_result_is_not_given_for_the_whole(files: QueueFiles) -> None:
    answer(files, truncated=True)
    with pytest.raises(ResultTruncated, match="Emacs kept the first 4 bytes") as caught:
        files.result("r")
    assert caught.value.kept == "(1 2"
    files.close()


def test_a_whole_result_is_given(files: QueueFiles) -> None:
    answer(files, result="(1 2)", truncated=False)
    assert files.result("r") == "(1 2)"
    files.close()
