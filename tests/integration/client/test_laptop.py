"""What only this machine can be tested for: a daemon on demand, its deaths, several programs at one queue."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cluster.paths import REPOSITORY
from tests.integration.client.conftest import laptop
from tests.support.efrit_program import Program, Terminal
from tests.support.kube import until
from tests.support.lisp_forms import NEVER_ENDS
from tests.support.local_daemons import serving
from tests.support.timeout import TIMEOUT


def queue(program: Program, name: str = "one") -> Path:
    return Path(program.env["HOME"]) / ".local/state/efrit/instances" / name / "queue"


def heartbeat(program: Program, name: str = "one") -> dict[str, Any]:
    heartbeat: dict[str, Any] = json.loads((queue(program, name) / "heartbeat").read_text())
    return heartbeat


def configure(program: Program, **config: object) -> None:
    Path(program.env["EFRIT_CONFIG"]).write_text(json.dumps(config))


def count(name: str) -> str:
    return f'(write-region "x\\n" nil "{name}" t 0)'


def counted(program: Program, file: str, name: str = "one") -> int:
    path = program.workspace(name) / file
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_the_first_eval_starts_emacs_and_the_next_one_finds_it(fresh: Program) -> None:
    assert fresh.ok("eval", "(setq kept 5)") == "5\n"
    first = heartbeat(fresh)["pid"]
    assert fresh.ok("eval", "kept") == "5\n"
    assert heartbeat(fresh)["pid"] == first


def test_an_emacs_started_from_within_a_pod_knows_nothing_of_the_pods_queue(fresh: Program) -> None:
    fresh.env |= {"EFRIT_BRIDGE": "1", "EFRIT_GENERATION": "7"}
    assert fresh.ok("eval", '(list (getenv "EFRIT_BRIDGE") (getenv "EFRIT_GENERATION"))') == "(nil nil)\n"
    # Its own number, and none that follows the pod's.
    assert (queue(fresh) / "generation").read_text() == "1\n"


def test_without_a_configuration_file_there_is_one_instance_called_default(fresh: Program) -> None:
    Path(fresh.env["EFRIT_CONFIG"]).unlink()
    assert fresh.ok("eval", "(+ 1 2)") == "3\n"
    assert heartbeat(fresh, "default")["pid"]
    assert fresh.ok("instances", "-o", "name") == "default\n"


def test_an_answer_that_was_printed_is_archived(fresh: Program) -> None:
    fresh.ok("eval", "1")
    assert list((queue(fresh) / "responses").iterdir()) == []
    assert len(list((queue(fresh) / "archive").glob("resp_*.json"))) == 1


def test_an_answer_that_nobody_read_waits_for_its_reader(fresh: Program) -> None:
    name = fresh.ok("submit", "(* 6 7)").strip()
    until(lambda: list((queue(fresh) / "responses").iterdir()), "it is not answered")
    assert fresh.ok("wait", name) == "42\n"
    assert list((queue(fresh) / "responses").iterdir()) == []


def test_many_programs_at_one_queue_start_one_emacs_and_run_everything_once(fresh: Program) -> None:
    processes = [fresh.begin("eval", f"(progn {count('ran')} {number})") for number in range(8)]
    answers = [process.communicate(timeout=TIMEOUT) for process in processes]
    assert [out for out, _ in answers] == [f"{number}\n" for number in range(8)], answers
    assert counted(fresh, "ran") == 8
    assert (queue(fresh) / "daemon.log").read_text().count("efrit: serving") == 1


def test_work_whose_emacs_dies_is_interrupted_and_never_run_again(fresh: Program) -> None:
    done = fresh.run("eval", f"(progn {count('ran')} (kill-emacs))")
    assert (done.code, done.out) == (7, "")
    assert "Interrupted" in done.err
    assert counted(fresh, "ran") == 1
    assert fresh.ok("eval", "1") == "1\n"


def test_work_that_may_run_again_does_when_its_emacs_dies(fresh: Program) -> None:
    form = f'(progn {count("ran")} (if (file-exists-p "died") \'twice (write-region "" nil "died") (kill-emacs)))'
    assert fresh.ok("eval", "--retry", form) == "twice\n"
    assert counted(fresh, "ran") == 2


def test_waiting_work_survives_the_death_of_emacs(fresh: Program) -> None:
    busy = fresh.ok("submit", "--timeout", "10m", f"(progn {count('begun')} (sleep-for 600))").strip()
    until(lambda: counted(fresh, "begun"), "it does not begin")
    behind = fresh.ok("submit", "'survived").strip()
    os.kill(heartbeat(fresh)["pid"], signal.SIGKILL)
    assert fresh.ok("wait", behind) == "survived\n"
    assert fresh.run("wait", busy).code == 7


def test_a_form_that_hears_no_signal_is_ended_with_its_emacs(fresh: Program) -> None:
    deaf_form = f"(progn {count('deaf')} (let ((debug-on-event nil) (inhibit-quit t)) (while t)))"
    name = fresh.ok("submit", "--timeout", "10m", deaf_form).strip()
    until(lambda: counted(fresh, "deaf"), "it does not begin")
    deaf = heartbeat(fresh)["pid"]
    fresh.ok("cancel", name)
    assert fresh.run("wait", name).code == 6
    assert fresh.ok("eval", "1") == "1\n"
    assert heartbeat(fresh)["pid"] != deaf


def test_an_instance_that_may_not_be_started_is_reported(fresh: Program) -> None:
    configure(fresh, instances={"one": {"auto_start": False}})
    done = fresh.run("eval", "1")
    assert done.code == 9
    assert "efrit start one" in done.err
    fresh.ok("start", "one")
    assert fresh.ok("eval", "1") == "1\n"


def test_a_queue_on_shared_storage_is_served_by_an_emacs_of_another_machine(fresh: Program) -> None:
    fresh.ok("start", "one")
    configure(fresh, instances={"one": {"auto_start": False}})
    # As another machine's heartbeat looks from here: alive, with a number that is nobody's.
    beat = heartbeat(fresh)
    pid = beat["pid"]
    beat |= {"pid": 2**22 - 1, "server": {**beat["server"], "pid_namespace": "pid:[1]"}}
    os.kill(pid, signal.SIGSTOP)
    (queue(fresh) / "heartbeat").write_text(json.dumps(beat))
    name = fresh.ok("submit", "(* 6 7)").strip()
    os.kill(pid, signal.SIGCONT)
    assert fresh.ok("wait", name) == "42\n"


def test_attaching_shows_the_daemon_in_the_terminal(fresh: Program) -> None:
    fresh.ok("start", "one")
    with Terminal(fresh, "attach", "one") as terminal:
        terminal.expect("*scratch*")
        terminal.type("\x18\x03")
        terminal.end()
    assert fresh.ok("eval", "1") == "1\n"


def test_the_work_log_of_a_chat_is_printed_and_followed_to_its_end(on_this_machine: Program) -> None:
    state = on_this_machine.run("chat", "-o", "json", "Good day, who are you? (scenario=chat)").json
    lines = [json.loads(line) for line in on_this_machine.ok("logs", state["name"]).splitlines()]
    assert {"turn", "text", "end"} <= {line["type"] for line in lines}
    name = on_this_machine.ok(
        "submit", "--type", "command", "Write my favourite colour to colour.txt. (scenario=question)"
    ).strip()
    followed = [json.loads(line) for line in on_this_machine.ok("logs", "--follow", name).splitlines()]
    assert followed[-1]["type"] == "end"
    assert "tool" in {line["type"] for line in followed}


def test_a_chat_at_a_terminal_shows_the_words_as_they_are_said(on_this_machine: Program) -> None:
    with Terminal(on_this_machine, "chat", "Speak slowly. (scenario=slow)") as terminal:
        terminal.expect("word word")
        terminal.type("\x03")
        terminal.expect("[c]ancel")
        terminal.type("c\n")
        terminal.expect("ended Cancelled")
        assert terminal.end() == 6


def test_the_time_an_instance_gives_holds_where_work_names_none(fresh: Program) -> None:
    configure(fresh, instances={"one": {"timeout": 1}})
    assert fresh.run("eval", "(while t)").code == 5


def test_an_instance_started_by_name_is_remembered_with_its_directories(fresh: Program) -> None:
    place = Path(fresh.env["HOME"]) / "elsewhere"
    started = fresh.run(
        "start", "two", "--queue-dir", str(place / "q"), "--workspace-dir", str(place / "w"), "-o", "json"
    )
    assert started.json["queue_dir"] == str(place / "q")
    assert fresh.ok("instances", "-o", "name") == "one\ntwo\n"
    done = fresh.run("start", "two", "--queue-dir", str(place / "other"))
    assert done.code == 2
    fresh.ok("stop", "two")


def test_directories_named_from_where_a_start_is_run_are_the_same_from_elsewhere(fresh: Program) -> None:
    home = Path(fresh.env["HOME"])
    (home / "below").mkdir()
    above, below = (Program("local", fresh.env, cwd=place) for place in (home, home / "below"))
    started = above.run("start", "two", "--queue-dir", "q", "--workspace-dir", "w", "-o", "json")
    assert started.json["queue_dir"] == str(home / "q")
    assert below.ok("eval", "-i", "two", "(+ 1 2)") == "3\n"
    assert not (home / "below/q").exists()
    fresh.ok("stop", "two")


def test_no_more_waits_than_the_configuration_allows(fresh: Program) -> None:
    configure(fresh, instances={"one": {}}, max_concurrent_requests=1)
    busy = fresh.ok("submit", "--timeout", "10m", "(sleep-for 600)").strip()
    done = fresh.run("eval", "1")
    assert done.code == 9
    assert "max_concurrent_requests" in done.err
    fresh.ok("cancel", busy)


def test_what_was_answered_long_ago_is_cleaned_away_once_in_an_interval(fresh: Program) -> None:
    fresh.ok("eval", "1")
    old = time.time() - 3 * 86_400
    for path in [*(queue(fresh) / "archive").iterdir(), queue(fresh) / "swept"]:
        os.utime(path, (old, old))
    # What was put into the archive a moment ago stays, however old it says it is.
    fresh.ok("eval", "2")
    assert len(list((queue(fresh) / "archive").glob("resp_*.json"))) == 2
    assert time.time() - (queue(fresh) / "swept").stat().st_mtime < 600


def test_a_machine_without_emacs_is_reported_with_what_to_install(fresh: Program) -> None:
    fresh.env["EFRIT_EMACS"] = "no-such-emacs"
    done = fresh.run("eval", "1")
    assert done.code == 9
    assert "install Emacs 28 or later" in done.err
    done = fresh.run("doctor")
    assert done.code == 1
    assert "BAD  Emacs" in done.out


def script(program: Program, text: str) -> None:
    """Have `text` be the Emacs that is started."""
    file = Path(program.env["HOME"]) / "editor"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o700)
    program.env["EFRIT_EMACS"] = str(file)


def test_a_program_that_is_no_emacs_is_not_reported_with_the_words_of_an_earlier_one(fresh: Program) -> None:
    fresh.ok("eval", "1")
    fresh.ok("stop", "one")
    script(fresh, "exit 3")
    done = fresh.run("eval", "1")
    assert (done.code, "Emacs ended right after its start: it said nothing" in done.err) == (9, True), done
    script(fresh, "echo no display; exit 3")
    assert "Emacs ended right after its start: no display" in fresh.run("eval", "1").err


def test_a_script_may_run_emacs_in_a_process_of_its_own(fresh: Program) -> None:
    script(fresh, 'emacs "$@"; true')
    assert fresh.ok("eval", "(+ 1 2)") == "3\n"
    fresh.ok("stop", "one")
    home = Path(fresh.env["HOME"])
    until(lambda: not serving([home]), "its Emacs goes on")


@pytest.mark.parametrize("variable", ["TMPDIR", "XDG_RUNTIME_DIR"])
def test_a_path_that_is_too_long_for_a_socket_is_reported_with_what_to_shorten(fresh: Program, variable: str) -> None:
    long = Path(fresh.env["HOME"]) / ("d" * 100)
    long.mkdir()
    fresh.env[variable] = str(long)
    done = fresh.run("eval", "1")
    assert done.code == 9
    assert done.err.splitlines()[0] == "efrit: the path of Emacs' socket is too long"
    assert variable in done.err


def test_a_queue_whose_path_is_not_utf_8_is_refused_before_emacs_is_started(fresh: Program) -> None:
    fresh.env["XDG_STATE_HOME"] = os.fsdecode(os.fsencode(fresh.env["HOME"]) + b"/caf\xe9")
    done = fresh.run("eval", "1")
    assert (done.code, "caf\\xe9/efrit/instances/one/queue is not valid UTF-8" in done.err) == (2, True), done


def test_doctor_says_that_work_waits_for_an_emacs_that_is_gone(fresh: Program) -> None:
    fresh.ok("submit", "--timeout", "10m", f"(progn {count('begun')} (sleep-for 600))")
    until(lambda: counted(fresh, "begun"), "it does not begin")
    os.kill(heartbeat(fresh)["pid"], signal.SIGKILL)
    until(lambda: fresh.run("doctor").code == 1, "it finds nothing wrong")
    assert "efrit start one" in fresh.run("doctor").out


def test_a_machine_of_the_tests_ends_with_its_daemons_whatever_their_heartbeats_say() -> None:
    with laptop({"one": {}}) as machine:
        assert machine.cwd is not None
        machine.ok("start", "one")
        (emacs,) = serving([machine.cwd])
        emacs.suspend()
        (queue(machine) / "heartbeat").unlink()
    assert serving([machine.cwd]) == []


def test_a_heartbeat_of_an_earlier_boot_does_not_pass_for_a_live_emacs(fresh: Program) -> None:
    fresh.ok("eval", "1")
    pid = heartbeat(fresh)["pid"]
    with laptop({"one": {}}) as other:
        other.ok("start", "one")
        theirs = heartbeat(other)["pid"]
        os.kill(pid, signal.SIGKILL)
        # The number is an Emacs again, but a later one than the heartbeat speaks of.
        stale = {**heartbeat(fresh), "pid": theirs, "time": "2020-01-01T00:00:00.000Z"}
        (queue(fresh) / "heartbeat").write_text(json.dumps(stale))
        assert fresh.run("instances", "one", "-o", "json").json["status"] == "inactive"
        assert fresh.ok("eval", "2") == "2\n"
        assert heartbeat(other)["pid"] == theirs
        assert other.ok("eval", "3") == "3\n"


def test_the_wheel_alone_is_enough(fresh: Program, tmp_path: Path) -> None:
    """As `pip install efrit-operator` leaves it: no repository, the Lisp inside."""
    build = [
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(REPOSITORY),
    ]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([sys.executable, "-m", *build], check=True, env=environment, timeout=TIMEOUT)
    (wheel,) = tmp_path.glob("*.whl")
    place = tmp_path / "venv"
    venv.create(place, system_site_packages=False, with_pip=False)
    install = ["pip", "--python", str(place / "bin/python"), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run([sys.executable, "-m", *install], check=True, env=environment, timeout=TIMEOUT)
    fresh.program = place / "bin/efrit"
    # Of the libraries, an eval needs the one of the queue's files.
    (packages,) = place.glob("lib/python*/site-packages")
    shutil.copytree(Path(msgspec.__file__).parent, packages / "msgspec")
    assert fresh.ok("eval", "(+ 1 2)") == "3\n"
    assert str(place) in fresh.ok("doctor")


def test_a_deaf_form_past_its_time_is_ended_by_who_waits_for_it(fresh: Program) -> None:
    done = fresh.run("eval", "--timeout", "1", f"(let ((debug-on-event nil) (inhibit-quit t)) {NEVER_ENDS})")
    assert (done.code, done.out) == (5, "")
    assert fresh.ok("eval", "1") == "1\n"
