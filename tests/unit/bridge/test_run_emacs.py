"""run-emacs with a program in Emacs's place."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.timeout import TIMEOUT
from tests.unit.bridge.conftest import program
from tests.unit.bridge.run_emacs_log import SERVES, Starter, lines, until


def test_it_gives_up_when_emacs_ends_at_once_five_times_running(start: Starter, place: Path) -> None:
    process = start("exit 3")
    assert process.wait(TIMEOUT) == 1
    assert len(lines(place)) == 5


def test_an_emacs_that_has_lived_is_started_again(start: Starter, place: Path) -> None:
    lives = f"[ $(( $(wc -l < {place}/log) % 4 )) = 0 ] && echo $(( $(cat {place}/now) + 3 )) > {place}/now"
    start(f"[ $(wc -l < {place}/log) -ge 8 ] && {SERVES}; {lives}")
    until(lambda: len(lines(place)) >= 8)


def test_an_emacs_that_requests_have_ended_is_started_again(start: Starter, place: Path) -> None:
    queue = place / "queue"
    queue.mkdir()
    process = start(
        f"echo a 1 x >> {queue}/claims.log; [ $(wc -l < {place}/log) -ge 8 ] && {SERVES}; exit 3",
        EFRIT_QUEUE_DIR=str(queue),
    )
    until(lambda: process.poll() is not None or len(lines(place)) >= 8)
    assert process.poll() is None


def test_a_signal_is_handed_on_and_ends_it(start: Starter, place: Path) -> None:
    process = start(
        f"trap 'echo got-term >> {place}/log; exit 0' TERM; touch {place}/up; while :; do sleep 0.05; done"
    )
    until((place / "up").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT) == 0
    assert lines(place)[-1] == "got-term"


def test_it_waits_for_emacs_to_end_however_often_it_is_signalled(start: Starter, place: Path) -> None:
    saves = f"until [ -e {place}/go ]; do sleep 0.05; done; echo saved >> {place}/log"
    process = start(f"trap '' TERM; touch {place}/up; {saves}")
    until((place / "up").exists)
    for _ in range(3):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.05)
    assert process.poll() is None
    (place / "go").touch()
    assert process.wait(TIMEOUT) == 0
    assert lines(place)[-1] == "saved"


def test_emacs_gets_the_daemons_name_the_lisp_and_no_init_file(start: Starter, place: Path) -> None:
    start(SERVES, EFRIT_DAEMON_NAME="team")
    until(lambda: lines(place))
    arguments = lines(place)[0]
    assert arguments.startswith("--fg-daemon=team -Q ")
    assert f"-L {place}/shared/lisp --eval (condition-case" in arguments
    assert '(load "efrit-server" nil t)) (efrit-server-start)' in arguments
    assert "native-comp-jit-compilation nil" in arguments


def test_with_an_init_file_the_sites_own_setup_is_loaded(start: Starter, place: Path) -> None:
    start(SERVES, EFRIT_INIT_FILE="/etc/efrit/init.el")
    until(lambda: lines(place))
    assert "-Q" not in lines(place)[0].split()


def test_emacs_knows_that_a_bridge_watches_it(start: Starter, place: Path) -> None:
    start(f'echo "bridge=$EFRIT_BRIDGE cwd=$(pwd)" >> {place}/log; {SERVES}')
    until(lambda: len(lines(place)) == 2)
    assert lines(place)[1] == f"bridge=1 cwd={place}"


def running_request(place: Path) -> tuple[Path, Path]:
    """Make a queue in which a request runs; return both."""
    queue = place / "queue"
    for part in ("control", "processing"):
        (queue / part).mkdir(parents=True)
    running = queue / "processing/req_a.json"
    running.touch()
    return queue, running


def test_asked_to_stop_it_lets_the_running_request_end(start: Starter, place: Path) -> None:
    queue, running = running_request(place)
    process = start(SERVES, EFRIT_QUEUE_DIR=str(queue))
    until(lambda: lines(place))
    process.send_signal(signal.SIGTERM)
    until((queue / "control/pause_1").exists)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    running.unlink()
    assert process.wait(TIMEOUT) == 0


def test_asked_to_stop_while_it_starts_emacs_it_lets_a_request_end_all_the_same(start: Starter, place: Path) -> None:
    queue, running = running_request(place)
    # It looks at the clock right before it starts Emacs.
    program(place, "date", "kill -s TERM $PPID; echo 0")
    process = start(SERVES, EFRIT_QUEUE_DIR=str(queue))
    until((queue / "control/pause_1").exists)
    until(lambda: lines(place))
    assert process.poll() is None
    running.unlink()
    assert process.wait(TIMEOUT) == 0


@pytest.mark.parametrize("is_ephemeral", [True, False])
def test_asked_to_stop_it_lets_requests_begin_that_would_go_with_their_queue_and_no_others(
    start: Starter, place: Path, is_ephemeral: bool
) -> None:
    queue = place / "queue"
    for part in ("control", "processing", "requests"):
        (queue / part).mkdir(parents=True)
    waiting = queue / "requests/req_a.json"
    waiting.touch()
    ephemeral = {"EFRIT_EPHEMERAL_QUEUE": "1"} if is_ephemeral else {}
    process = start(SERVES, EFRIT_QUEUE_DIR=str(queue), **ephemeral)
    until(lambda: lines(place))
    process.send_signal(signal.SIGTERM)
    if is_ephemeral:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        assert not (queue / "control/pause_1").exists()
        waiting.rename(queue / "processing/req_a.json")
        until((queue / "control/pause_1").exists)
        (queue / "processing/req_a.json").unlink()
    assert process.wait(TIMEOUT) == 0


def test_asked_to_stop_it_waits_for_no_emacs_that_has_ended(start: Starter, place: Path) -> None:
    queue = place / "queue"
    (queue / "requests").mkdir(parents=True)
    (queue / "requests/req_a.json").touch()
    ends = f"touch {place}/up; while [ ! -e {place}/end ]; do sleep 0.05; done"
    process = start(ends, EFRIT_QUEUE_DIR=str(queue), EFRIT_EPHEMERAL_QUEUE="1")
    until((place / "up").exists)
    process.send_signal(signal.SIGTERM)
    (place / "end").touch()
    assert process.wait(TIMEOUT) == 0


@pytest.mark.parametrize("broken", ['(error "no")', "(require 'no-such-feature)"])
def test_an_emacs_whose_lisp_does_not_load_ends(place: Path, broken: str) -> None:
    (place / "shared/lisp/efrit-server.el").write_text(f"{broken}\n")
    process = subprocess.Popen(
        ["/bin/sh", str(place / "shared/run-emacs")],
        env={
            "PATH": f"{place}/bin:{os.environ['PATH']}",
            "HOME": str(place),
            "EFRIT_QUEUE_DIR": str(place / "queue"),
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    _, output = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 1
    assert "giving up" in output


@pytest.mark.parametrize("kind", ["file", "directory"])
@pytest.mark.parametrize("name", ["pause", "pause_1", "pause_7"])
def test_a_pause_left_behind_does_not_hold_back_the_next_emacs(
    start: Starter, place: Path, name: str, kind: str
) -> None:
    pause = place / "queue/control" / name
    pause.parent.mkdir(parents=True)
    if kind == "file":
        pause.touch()
    else:
        (pause / "below").mkdir(parents=True)
    start(SERVES, EFRIT_QUEUE_DIR=str(place / "queue"))
    until(lambda: lines(place))
    assert not pause.exists()


@pytest.mark.parametrize(
    ("before", "generation"),
    [(None, 1), ("6\n", 7), ("41", 42), ("", 1), ("x\n", 1), ("09\n", 1), ("-3\n", 1), ("9" * 30, 1), ("5\n6\n", 6)],
)
def test_every_run_has_the_next_number(start: Starter, place: Path, before: str | None, generation: int) -> None:
    queue = place / "queue"
    queue.mkdir()
    if before is not None:
        (queue / "generation").write_text(before)
    start(f'echo "generation=$EFRIT_GENERATION" >> {place}/log; {SERVES}', EFRIT_QUEUE_DIR=str(queue))
    until(lambda: len(lines(place)) == 2)
    assert lines(place)[1] == f"generation={generation}"
    assert (queue / "generation").read_text() == f"{generation}\n"
    assert (queue / "generation").stat().st_mode & 0o777 == (0o600 if before is None else 0o644)


def test_an_emacs_started_again_is_of_the_same_run(start: Starter, place: Path) -> None:
    queue = place / "queue"
    queue.mkdir()
    start(f'echo "generation=$EFRIT_GENERATION" >> {place}/log; exit 3', EFRIT_QUEUE_DIR=str(queue))
    until(lambda: len(lines(place)) >= 6)
    assert {line for line in lines(place) if line.startswith("generation")} == {"generation=1"}


def test_a_run_without_a_place_for_its_number_goes_on(start: Starter, place: Path) -> None:
    queue = place / "queue"
    (queue / "generation").mkdir(parents=True)
    process = start(f'echo "generation=$EFRIT_GENERATION" >> {place}/log; {SERVES}', EFRIT_QUEUE_DIR=str(queue))
    until(lambda: len(lines(place)) == 2)
    assert lines(place)[1] == "generation=1"
    assert process.poll() is None


@pytest.mark.parametrize("name", ["generation", "claims.log", "heartbeat"])
def test_a_pipe_in_the_place_of_a_file_holds_nothing_up(start: Starter, place: Path, name: str) -> None:
    queue = place / "queue"
    queue.mkdir()
    os.mkfifo(queue / name)
    start(f'echo "generation=$EFRIT_GENERATION" >> {place}/log; {SERVES}', EFRIT_QUEUE_DIR=str(queue))
    until(lambda: len(lines(place)) == 2)
    assert lines(place)[1] == "generation=1"


def test_a_run_that_ends_late_does_not_hold_back_the_one_that_took_its_place(start: Starter, place: Path) -> None:
    """A pod that was deleted by force is asked to stop when the next one serves already."""
    queue = place / "queue"
    (queue / "control").mkdir(parents=True)
    older = start(SERVES, EFRIT_QUEUE_DIR=str(queue))
    until(lambda: lines(place))
    start(SERVES, EFRIT_QUEUE_DIR=str(queue))
    until(lambda: len(lines(place)) == 2)
    older.send_signal(signal.SIGTERM)
    assert older.wait(TIMEOUT) == 0
    assert (queue / "generation").read_text() == "2\n"
    assert [path.name for path in (queue / "control").iterdir()] == ["pause_1"]
