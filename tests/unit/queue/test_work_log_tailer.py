"""Work logs: how far a request has come, line by line, and what becomes of the log."""

import itertools
import json
import os
import time
from pathlib import Path

import pytest

from efrit.protocol import Progress, RequestState
from efrit.protocol.view import RequestView
from efrit.queue.archive import Sessions, sweep
from efrit.queue.limits import QueueLimits
from efrit.queue.watch import Watcher
from efrit.queue.work_log import MAX_MESSAGE_CHARS, last_progress, progress_in, read_lines, resume_offset
from tests.support.queue_fakes import ScriptedEmacs, TestDisk, rid
from tests.unit.queue.conftest import Running, Start

A = rid("a")


@pytest.fixture
def disk(root: Path) -> TestDisk:
    made = TestDisk(root)
    made.open()
    return made


@pytest.fixture
def emacs(disk: TestDisk, root: Path) -> ScriptedEmacs:
    return ScriptedEmacs(root)


async def begin(running: Running, name: str = "a", **options: object) -> None:
    await running.begin(name, type="command", options=options)


def progresses(views: list[RequestView]) -> list[Progress]:
    return [view.progress for view in views if view.progress is not None]


# Telling how far it has come


async def test_a_running_command_is_reported_again_with_its_last_progress(running: Running) -> None:
    await begin(running)
    running.emacs.append_work_log("a", "turn", step=1)
    running.emacs.append_work_log("a", "progress", step=1, message="reading", tool_calls=2, tokens=300, session="s-1")
    running.emacs.append_work_log("a", "text", text="progress")
    await running.until(lambda: bool(progresses(running.views)))
    view = running.views[-1]
    assert view.state is RequestState.RUNNING
    assert view.progress == Progress(step=1, message="reading", tool_calls=2, tokens=300, session="s-1")
    assert (await running.queue.view(A)).progress == view.progress


async def test_however_fast_a_log_grows_its_request_is_reported_once_in_a_while(running: Running) -> None:
    await begin(running)
    began = time.monotonic()
    steps = itertools.count(1)

    def grown_and_reported_three_times() -> bool:
        step = next(steps)
        running.emacs.append_work_log("a", "progress", step=step)
        return step > 10 and len(progresses(running.views)) >= 3

    await running.until(grown_and_reported_three_times)
    assert time.monotonic() - began >= (len(progresses(running.views)) - 1) * running.queue.work_logs.report_seconds


async def test_the_last_progress_is_reported_though_nothing_follows_it(running: Running) -> None:
    await begin(running)
    for step in range(1, 6):
        running.emacs.append_work_log("a", "progress", step=step)
    await running.until(lambda: progresses(running.views)[-1:] == [Progress(step=5)])


async def test_without_inotify_progress_is_found_all_the_same(start: Start, root: Path) -> None:
    class Blind(Watcher):
        def open(self) -> None:
            pass

    running = await start(watcher=Blind(root))
    await begin(running)
    running.emacs.append_work_log("a", "progress", step=7)
    await running.until(lambda: progresses(running.views) == [Progress(step=7)])


async def test_a_bridge_that_starts_in_the_middle_learns_how_far_a_request_has_come(start: Start) -> None:
    first = await start()
    await begin(first)
    first.emacs.append_work_log("a", "progress", step=3)
    await first.until(lambda: bool(progresses(first.views)))
    await first.stop()
    second = await start()
    await second.until(lambda: progresses(second.views) == [Progress(step=3)])


async def test_after_the_answer_nothing_is_reported_any_more_and_the_figures_stay(running: Running) -> None:
    await begin(running)
    running.emacs.append_work_log("a", "progress", step=1)
    await running.until(lambda: bool(progresses(running.views)))
    running.emacs.answer("a")
    answered = await running.until_state("a", RequestState.ANSWERED)
    assert answered.progress == Progress(step=1)
    running.emacs.append_work_log("a", "progress", step=2)
    await begin(running, "b")
    running.emacs.append_work_log("b", "progress", step=1)
    await running.until(lambda: progresses(running.views)[-1].step == 1 and running.views[-1].id == "b")
    assert Progress(step=2) not in progresses(running.views)
    assert (await running.queue.view(A)).progress == Progress(step=1)
    assert [view for view in running.views if view.id == "a"][-1].state is RequestState.ANSWERED


async def test_logs_of_no_request_are_not_remembered(running: Running) -> None:
    await begin(running)
    for name in ("stranger", "b", "..", "c"):
        running.emacs.append_work_log(name, "progress", step=1)
    running.emacs.append_work_log("a", "progress", step=1)
    await running.until(lambda: bool(progresses(running.views)))
    assert {view.id for view in running.views} == {"a"}


async def test_nothing_is_remembered_of_who_reads_the_log_of_a_finished_request(running: Running) -> None:
    await begin(running)
    work_logs = running.queue.work_logs
    changed = work_logs.change_event(A)
    assert work_logs.change_event(A) is changed
    running.emacs.answer("a")
    await running.until_state("a", RequestState.ANSWERED)
    await running.until(changed.is_set)
    assert work_logs.change_event(A) is not work_logs.change_event(A)
    await running.queue.acknowledge(A)
    assert work_logs.change_event(A) is not work_logs.change_event(A)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"progress",
        b'"progress"',
        b'{"type":"progress"',
        b'{"type":"text","text":"\\"progress\\""}',
        b'{"type":"progress","step":-1}',
        b'{"type":"progress","tokens":"many"}',
        b'{"type":"progress","session":"a/b"}',
        b'{"type":"progress","x":' + b"[" * 100_000,
    ],
)
def test_what_is_no_progress_is_passed_over(line: bytes) -> None:
    assert progress_in(line) is None


def test_a_long_message_is_cut_and_a_session_may_be_reported_whole() -> None:
    line = {"type": "progress", "message": "x" * 5000, "session": {"id": "s", "status": "continue"}}
    progress = progress_in(json.dumps(line).encode())
    assert progress == Progress(message="x" * MAX_MESSAGE_CHARS, session="s")


def test_of_a_long_log_only_the_end_is_read_and_a_line_that_is_not_whole_comes_later(
    disk: TestDisk, emacs: ScriptedEmacs, root: Path
) -> None:
    emacs.append_work_log("a", "progress", step=1)
    for _ in range(40):
        emacs.append_work_log("a", "text", text="x" * 10_000)
    size = emacs.append_work_log("a", "progress", step=2)
    with (root / "progress/a.ndjson").open("a") as log:
        log.write('{"type":"progress","step":3')
    assert last_progress(disk, A, 0) == (Progress(step=2), size)
    with (root / "progress/a.ndjson").open("a") as log:
        log.write("}\n")
    progress, behind = last_progress(disk, A, size)
    assert progress == Progress(step=3)
    assert last_progress(disk, A, behind) == (None, behind)


# Line by line


def test_lines_are_read_whole_and_from_where_the_last_ended(disk: TestDisk, emacs: ScriptedEmacs, root: Path) -> None:
    first = emacs.append_work_log("a", "turn", step=1)
    second = emacs.append_work_log("a", "text", text="ä")
    with (root / "progress/a.ndjson").open("a") as log:
        log.write('{"half')
    lines, behind = read_lines(disk, A, 0)
    assert [line.end for line in lines] == [first, second]
    assert json.loads(lines[1].text)["text"] == "ä"
    assert behind == second
    assert read_lines(disk, A, second) == ([], second)
    assert [line.end for line in read_lines(disk, A, first)[0]] == [second]


def test_a_line_of_any_length_up_to_a_megabyte_is_reported_and_a_longer_one_passed_over(
    disk: TestDisk, emacs: ScriptedEmacs
) -> None:
    long = emacs.append_work_log("a", "text", text="x" * 900_000)
    endless = emacs.append_work_log("a", "text", text="x" * 3_000_000)
    last = emacs.append_work_log("a", "end")
    lines, behind = read_lines(disk, A, 0)
    assert ([line.end for line in lines], behind) == ([long], long)
    assert read_lines(disk, A, long) == ([], endless)
    assert [line.end for line in read_lines(disk, A, endless)[0]] == [last]


def test_a_reader_goes_on_where_a_line_begins_and_nowhere_else(disk: TestDisk, emacs: ScriptedEmacs) -> None:
    first = emacs.append_work_log("a", "turn")
    second = emacs.append_work_log("a", "turn")
    assert [resume_offset(disk, A, offset) for offset in (0, first, second)] == [0, first, second]
    assert [resume_offset(disk, A, offset) for offset in (1, first - 1, second + 1, -1, 10**17)] == [0] * 5
    assert resume_offset(disk, rid("none"), 5) == 0


def test_a_log_that_was_begun_anew_is_read_anew(disk: TestDisk, emacs: ScriptedEmacs, root: Path) -> None:
    size = emacs.append_work_log("a", "text", text="long enough")
    (root / "progress/a.ndjson").unlink()
    emacs.append_work_log("a", "end")
    assert read_lines(disk, A, size) == ([], 0)


# What becomes of it


async def test_with_its_answer_the_log_goes_to_the_archive(running: Running, root: Path) -> None:
    await begin(running)
    size = running.emacs.append_work_log("a", "turn", step=1)
    running.emacs.answer("a")
    running.emacs.archive("a")
    await running.until_state("a", RequestState.ANSWERED)
    await running.queue.acknowledge(A)
    assert not list((root / "progress").iterdir())
    assert (root / "archive/log_a.ndjson").stat().st_size == size
    assert (await running.queue.work_logs.lines(A, 0))[1] == size


async def test_what_is_no_file_is_not_archived_as_a_log(running: Running, root: Path) -> None:
    await begin(running)
    (root / "progress/a.ndjson").symlink_to("/etc/passwd")
    running.emacs.answer("a")
    await running.until_state("a", RequestState.ANSWERED)
    await running.queue.acknowledge(A)
    assert not list((root / "progress").iterdir())
    assert not (root / "archive/log_a.ndjson").is_symlink()


async def test_a_log_leaves_the_archive_with_its_request(start: Start, root: Path) -> None:
    running = await start(QueueLimits(archive_seconds=0.5))
    await begin(running)
    running.emacs.append_work_log("a", "turn", step=1)
    running.emacs.answer("a")
    running.emacs.archive("a")
    await running.until_state("a", RequestState.ANSWERED)
    await running.queue.acknowledge(A)
    await running.until(lambda: not list((root / "archive").iterdir()))


def old(path: Path, text: str = "{}\n") -> Path:
    path.write_text(text)
    os.utime(path, (1e9, 1e9))
    return path


def test_logs_that_a_crash_left_are_swept_and_those_of_open_requests_stay(disk: TestDisk, root: Path) -> None:
    lost, live = old(root / "progress/lost.ndjson"), old(root / "progress/live.ndjson")
    later = time.time() + 1
    sweep(disk, before=later, is_live=lambda request_id: request_id == "live")
    assert (lost.exists(), live.exists()) == (False, True)


def test_sessions_left_alone_are_swept_but_for_those_that_open_requests_continue(disk: TestDisk, root: Path) -> None:
    abandoned, continued = old(root / "sessions/left.ndjson"), old(root / "sessions/continued.ndjson")
    later = time.time() + 1
    sweep(disk, before=time.time() - 60, is_live=lambda request_id: False)
    assert abandoned.exists(), "its time is not over"
    sweep(disk, before=later, is_live=lambda request_id: False, sessions=Sessions(frozenset({"continued"})))
    assert (abandoned.exists(), continued.exists()) == (False, True)


def test_no_session_is_swept_that_was_touched_since_the_first_command_under_way_came(
    disk: TestDisk, root: Path
) -> None:
    """A new session's id is Emacs's to choose: which request it belongs to, its file does not say."""
    young = old(root / "sessions/young.ndjson")
    changed = young.stat().st_ctime
    later = time.time() + 1
    sweep(disk, before=later, is_live=lambda request_id: False, sessions=Sessions(since=changed - 1))
    assert young.exists()
    sweep(disk, before=later, is_live=lambda request_id: False, sessions=Sessions(since=changed + 1))
    assert not young.exists()


async def test_the_session_of_an_open_request_stays_until_that_is_over(start: Start, root: Path) -> None:
    running = await start(QueueLimits(archive_seconds=0.5))
    work_log = old(root / "sessions/kept.ndjson")
    await begin(running, session={"id": "kept"})
    other = old(root / "sessions/other.ndjson")
    lost = old(root / "progress/lost.ndjson")
    # The same sweep that takes this one leaves the session.
    await running.until(lambda: not lost.exists())
    assert work_log.exists()
    running.emacs.answer("a")
    await running.until(lambda: not work_log.exists() and not other.exists())
