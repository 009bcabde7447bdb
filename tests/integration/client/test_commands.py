"""What every command does, the same in both places."""

from __future__ import annotations

import os
import signal

import pytest
import yaml

from tests.support.efrit_program import Program, Terminal
from tests.support.kube import until
from tests.support.timeout import TIMEOUT


def counted(efrit: Program, name: str) -> int:
    path = efrit.workspace("one") / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def counting(name: str) -> str:
    return f'(write-region "x\\n" nil "{name}" t 0)'


def test_eval_prints_the_value_of_the_last_form(efrit: Program) -> None:
    done = efrit.run("eval", "(setq a 1)", "(+ a 2)")
    assert (done.code, done.out, done.err) == (0, "3\n", "")


def test_eval_reads_a_pipe_and_prints_a_string_raw(efrit: Program) -> None:
    assert efrit.ok("eval", "-", "--raw", stdin='(concat "one\\n" "two ä")') == "one\ntwo ä\n"
    assert efrit.ok("eval", stdin='(concat "quo" "ted")') == '"quoted"\n'


def test_what_work_prints_does_not_mix_with_its_result(efrit: Program) -> None:
    done = efrit.run("eval", '(progn (princ "noise") 7)')
    assert (done.code, done.out, done.err) == (0, "7\n", "noise\n")


def test_a_lisp_error_is_reported_on_standard_error_with_exit_code_1(efrit: Program) -> None:
    done = efrit.run("eval", '(error "Nothing works")')
    assert (done.code, done.out) == (1, "")
    assert "EvalError" in done.err
    assert "Nothing works" in done.err


def test_work_past_its_time_is_stopped_with_exit_code_5(efrit: Program) -> None:
    done = efrit.run("eval", "--timeout", "1", "(while t)")
    assert (done.code, done.out) == (5, "")
    assert "TimedOut" in done.err
    assert efrit.ok("eval", "1") == "1\n"


def test_submitted_work_can_be_waited_for_from_another_process(efrit: Program) -> None:
    name = efrit.ok("submit", "(* 6 7)").strip()
    assert efrit.ok("wait", name) == "42\n"
    assert efrit.ok("wait", name) == "42\n"
    assert efrit.ok("result", name) == "42\n"
    state = efrit.state(name)
    assert (state["name"], state["instance"], state["phase"], state["outcome"]) == (
        name,
        "one",
        "Succeeded",
        "Success",
    )
    assert (state["type"], state["content"], state["attempt"]) == ("eval", "(* 6 7)", 1)
    assert name in efrit.ok("requests", "-o", "name").split()


def test_the_same_key_is_the_same_request(efrit: Program) -> None:
    names = {efrit.ok("submit", "--key", "nightly", counting("keyed")).strip() for _ in range(3)}
    assert len(names) == 1
    efrit.ok("wait", *names)
    assert efrit.ok("submit", "--key", "nightly", counting("keyed")).strip() in names
    efrit.ok("wait", *names)
    assert counted(efrit, "keyed") == 1


def test_a_key_that_was_used_for_other_work_is_refused_with_exit_code_2(efrit: Program) -> None:
    efrit.ok("eval", "--key", "taken", "1")
    done = efrit.run("eval", "--key", "taken", "2")
    assert (done.code, done.out) == (2, "")
    assert "choose another key" in done.err


def test_running_work_is_cancelled_with_exit_code_6(efrit: Program) -> None:
    name = efrit.ok("submit", "--timeout", "10m", f"(progn {counting('begun')} (sleep-for 600))").strip()
    until(lambda: counted(efrit, "begun"), "it does not begin")
    efrit.ok("cancel", name)
    assert efrit.run("wait", name).code == 6
    assert efrit.state(name)["reason"] == "Cancelled"


def test_waiting_no_longer_than_wanted_ends_with_exit_code_9_and_leaves_the_work(efrit: Program) -> None:
    form = '(progn (while (not (file-exists-p "go-on")) (sleep-for 0.05)) \'waited)'
    name = efrit.ok("submit", "--timeout", "10m", form).strip()
    assert efrit.run("wait", "--for", "0.2", name).code == 9
    (efrit.workspace("one") / "go-on").touch()
    assert efrit.ok("wait", name) == "waited\n"


def test_ctrl_c_in_a_pipe_leaves_the_work_and_says_how_to_come_back(efrit: Program) -> None:
    wait = '(while (not (file-exists-p "leave")) (sleep-for 0.05))'
    process = efrit.begin("eval", "--timeout", "10m", f"(progn {counting('left')} {wait} 'over)")
    until(lambda: counted(efrit, "left"), "it does not begin")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out) == (130, "")
    name = err.rpartition(" wait ")[2].strip().rstrip("`")
    (efrit.workspace("one") / "leave").touch()
    assert efrit.ok("wait", name) == "over\n"


def test_ctrl_c_at_a_terminal_asks_whether_to_cancel(efrit: Program) -> None:
    with Terminal(efrit, "eval", "--timeout", "10m", f"(progn {counting('asked')} (sleep-for 600))") as terminal:
        until(lambda: counted(efrit, "asked"), "it does not begin")
        terminal.expect("Running")
        terminal.type("\x03")
        terminal.expect("[c]ancel")
        terminal.type("c\n")
        terminal.expect("Cancelled")
        assert terminal.end() == 6


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_at_the_question_after_ctrl_c_leaves_the_work(efrit: Program, number: int, code: int) -> None:
    with Terminal(efrit, "eval", "--timeout", "10m", f"(progn {counting('again')} (sleep-for 600))") as terminal:
        until(lambda: counted(efrit, "again"), "it does not begin")
        terminal.expect("Running")
        terminal.type("\x03")
        terminal.expect("[c]ancel")
        os.kill(terminal.pid, number)
        terminal.expect("wait for it with")
        assert terminal.end() == code
    (name,) = efrit.ok("requests", "-L", "1", "-o", "name").split()
    assert efrit.ok("cancel", name)


def test_instances_and_their_figures_are_reported_in_every_format(efrit: Program) -> None:
    efrit.ok("eval", "1")
    assert efrit.ok("instances", "-o", "name") == "one\n"
    (instance,) = efrit.run("instances", "-o", "json").json
    assert (instance["id"], instance["status"], instance["reason"]) == ("one", "active", "Ready")
    assert yaml.safe_load(efrit.ok("instances", "one", "-o", "yaml"))["emacs_version"] == instance["emacs_version"]
    head, row = efrit.ok("instances").splitlines()
    assert head.split()[:2] == ["NAME", "STATUS"]
    assert row.split()[:3] == ["one", "active", "Ready"]

    def figures() -> dict[str, float] | None:
        stats = efrit.run("stats", "one", "-o", "json").json
        return stats if stats["processed"] and stats["processed"] == stats["succeeded"] + stats["failed"] else None

    instance = until(figures, "the figures do not come")
    assert instance["uptime_seconds"] > 0


def test_what_is_not_there_is_reported_with_exit_code_8(efrit: Program) -> None:
    for words in (("wait", "nothing"), ("cancel", "nothing"), ("result", "nothing"), ("logs", "nothing")):
        done = efrit.run(*words)
        assert (done.code, done.out) == (8, ""), words
        assert "there is no request nothing" in done.err
    for command in ("eval -i nobody 1", "stop nobody", "stats nobody"):
        done = efrit.run(*command.split())
        assert (done.code, done.out) == (8, ""), command
        assert "nobody" in done.err


def test_empty_work_is_refused_with_exit_code_2(efrit: Program) -> None:
    assert efrit.run("eval", "-", stdin=" \n").code == 2
    assert efrit.run("eval", "--budget").code == 2


def test_a_stopped_instance_takes_work_again_once_it_is_started(efrit: Program) -> None:
    efrit.ok("eval", "(setq remembered 1)")
    assert "one" in efrit.ok("stop", "one")
    assert efrit.run("instances", "one", "-o", "json").json["status"] == "inactive"
    assert efrit.run("stop", "one").code == 0
    assert efrit.run("start", "one", "-o", "json").json["status"] == "started"
    assert efrit.run("start", "one", "-o", "json").json["status"] == "already_running"
    assert efrit.ok("eval", "(boundp 'remembered)") == "nil\n"


def test_top_shows_what_runs_first(efrit: Program) -> None:
    name = efrit.ok("submit", "--timeout", "10m", "(sleep-for 600)").strip()
    until(lambda: efrit.state(name)["phase"] == "Running", "it does not run")
    lines = efrit.ok("top", "--once").splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("NAME") and "WHAT" in line)
    assert lines[at + 1].split()[0] == name
    assert "1 running" in lines[1]
    efrit.ok("cancel", name)
    assert efrit.run("wait", name).code == 6


def test_a_chat_streams_or_prints_its_answer_once(efrit: Program) -> None:
    output = efrit.ok("chat", "Good day, who are you? (scenario=chat)")
    assert output == "Hello. I am a model that reads from a script.\n"


def test_a_question_of_the_model_ends_a_pipe_with_exit_code_4_and_is_answered_by_going_on(efrit: Program) -> None:
    done = efrit.run("command", "-o", "json", "Write my favourite colour to colour.txt. (scenario=question)")
    assert done.code == 4
    session = done.json["session"]
    assert session["question"] == "Which colour is your favourite?"
    assert efrit.ok("command", "--session", session["id"], "Blue") == "Wrote Blue.\n"
    assert (efrit.workspace("one") / "colour.txt").read_text() == "Blue"


def test_a_question_of_the_model_is_answered_in_place_at_a_terminal(efrit: Program) -> None:
    with Terminal(efrit, "command", "Write my favourite colour to colour.txt. (scenario=question)") as terminal:
        terminal.expect("Which colour is your favourite?")
        terminal.type("Blue\n")
        terminal.expect("Wrote Blue.")
        assert terminal.end() == 0


def test_a_conversation_goes_on_in_its_session_until_the_person_leaves(efrit: Program) -> None:
    with Terminal(efrit, "chat") as terminal:
        terminal.expect("efrit> ")
        terminal.type("Good day, who are you? (scenario=chat)\n")
        terminal.expect("Hello. I am a model that reads from a script.")
        terminal.expect("efrit> ")
        terminal.type("What did I just learn?\n")
        terminal.expect("You said: What did I just learn?")
        terminal.expect("efrit> ")
        terminal.type("/quit\n")
        assert terminal.end() == 0


def test_top_redraws_a_terminal_until_ctrl_c(efrit: Program) -> None:
    with Terminal(efrit, "top", "--delay", "0.2") as terminal:
        terminal.expect("efrit top")
        terminal.expect("efrit top")
        terminal.type("\x03")
        assert terminal.end() in (0, 130)
