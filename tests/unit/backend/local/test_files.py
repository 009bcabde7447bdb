"""A queue directory in the hands of a client."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from efrit.backend.errors import ResultTruncated
from efrit.backend.local.files import QueueFiles
from efrit.backend.local.work_log import lines_from
from efrit.queue.layout import Area


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


def test_what_still_uses_the_directory_when_it_is_closed_goes_on_and_the_last_use_gives_the_descriptors_back(
    files: QueueFiles,
) -> None:
    def descriptors() -> int:
        links = (os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir())
        return sum(Path(link).is_relative_to(files.root) for link in links)

    disk = files.disk
    files.close()
    assert disk.names(Area.RESPONSES) == []
    assert descriptors() > 0
    del disk
    assert descriptors() == 0


def log_of(files: QueueFiles, *lines: str) -> list[str]:
    assert files.disk
    (files.root / "progress/r.ndjson").write_text("".join(f"{line}\n" for line in lines))
    read, offset = lines_from(files, "r", 0)
    assert lines_from(files, "r", offset) == ([], offset)
    files.close()
    return read


def test_a_line_of_a_work_log_ends_at_a_newline_alone(files: QueueFiles) -> None:
    line = json.dumps({"type": "text", "text": "one\u2028two\x85three"}, ensure_ascii=False)
    assert log_of(files, line) == [line]


def test_a_line_of_a_work_log_that_is_too_long_is_left_out_and_hides_nothing(files: QueueFiles) -> None:
    assert log_of(files, "before", "x" * (1 << 20), "behind") == ["before", "behind"]


def test_a_long_work_log_is_read_in_parts(files: QueueFiles) -> None:
    assert files.disk
    lines = [f"{number} {'x' * 50_000}" for number in range(50)]
    (files.root / "progress/r.ndjson").write_text("".join(f"{line}\n" for line in lines))
    first, offset = lines_from(files, "r", 0)
    assert 1 << 20 <= sum(map(len, first)) < 2 << 20
    rest, offset = lines_from(files, "r", offset)
    last, _ = lines_from(files, "r", offset)
    assert first + rest + last == lines
    files.close()
