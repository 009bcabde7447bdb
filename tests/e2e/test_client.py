"""`efrit` against the cluster: what only real pods can show, above all what it reads and shows from inside them."""

from __future__ import annotations

import json
import os

import pytest

from tests.e2e.instance import Instance
from tests.support.efrit_program import Program, Terminal
from tests.support.kube import Kube, until
from tests.support.model_service import ModelService

WORLD = ("PATH", "LANG", "HOME", "KUBECONFIG", "XDG_CACHE_HOME")
LISTENERS = "grep -l '^tail' /proc/[0-9]*/comm 2>/dev/null | wc -l"


@pytest.fixture(scope="module")
def instance(kube: Kube, shared_namespace: str, shared_model: ModelService) -> Instance:
    return Instance.create(kube, shared_namespace, "one", model=shared_model.spec()).wait_ready()


@pytest.fixture(scope="module")
def efrit(instance: Instance, tmp_path_factory: pytest.TempPathFactory) -> Program:
    env = {name: os.environ[name] for name in WORLD if name in os.environ}
    # Of what a person has typed.
    env["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    return Program("cluster", env, ("--namespace", instance.namespace))


def test_an_instance_is_made_used_and_stopped_without_a_line_of_yaml(efrit: Program, kube: Kube) -> None:
    assert efrit.run("start", "made", "-o", "json").json["status"] == "started"
    assert efrit.ok("eval", "-i", "made", "(+ 1 2)") == "3\n"
    until(lambda: efrit.run("stats", "made", "-o", "json").json["pending"] == 0, "its queue is not empty")
    assert "suspended" in efrit.ok("stop", "made")
    assert efrit.run("instances", "made", "-o", "json").json["status"] == "inactive"
    kube.discard("EfritInstance", efrit.where[1], "made")


def test_a_result_too_long_for_the_api_server_is_fetched_from_the_pod(efrit: Program) -> None:
    output = efrit.ok("eval", "--raw", "(make-string 900000 ?x)")
    assert output == "x" * 900_000 + "\n"


def test_words_of_a_model_are_shown_as_they_are_said(efrit: Program, instance: Instance) -> None:
    with Terminal(efrit, "chat", "Speak slowly. (scenario=slow)") as terminal:
        terminal.expect("word word word ")
        (name,) = [
            request["name"] for request in efrit.run("requests", "-o", "json").json if not request["completed"]
        ]
        # The words come from the pod, and may be there before the status.
        until(lambda: efrit.state(name)["phase"] == "Running", "it is not Running")
        efrit.ok("cancel", name)
        assert terminal.end() == 6
    until(lambda: int(instance.shell(LISTENERS)) == 0, lambda: f"listeners are left: {instance.shell('ps ax')}")


def test_an_answer_that_was_streamed_is_there_once(efrit: Program) -> None:
    output = efrit.ok("chat", "Good day, who are you? (scenario=chat)")
    assert output == "Hello. I am a model that reads from a script.\n"


def test_the_work_log_of_a_command_is_followed_to_its_end(efrit: Program) -> None:
    name = efrit.ok("submit", "--type", "command", "Go on. (scenario=twelve-steps)").strip()
    lines = [json.loads(line) for line in efrit.ok("logs", "--follow", name).splitlines()]
    assert efrit.state(name)["phase"] == "Succeeded"
    assert lines[-1]["type"] == "end"
    assert sum(line["type"] == "tool" for line in lines) >= 12
    assert [json.loads(line) for line in efrit.ok("logs", name).splitlines()] == lines


def test_a_terminal_shows_the_emacs_of_a_pod(efrit: Program) -> None:
    with Terminal(efrit, "attach", "one") as terminal:
        # The mode line of its first buffer.
        terminal.expect("*scratch*")
        terminal.type("\x18\x03")
        assert terminal.end() == 0


def test_top_shows_what_runs_in_a_terminal(efrit: Program) -> None:
    name = efrit.ok("submit", "--timeout", "10m", "(sleep-for 500)").strip()
    until(lambda: efrit.state(name)["phase"] == "Running", "it does not run")
    with Terminal(efrit, "top", "--delay", "0.2") as terminal:
        terminal.expect("1 of 1 instances active, 1 running")
        terminal.expect(name)
        terminal.expect("(sleep-for 500)")
        terminal.type("\x03")
        assert terminal.end() in (0, 130)
    efrit.ok("cancel", name)
    assert efrit.run("wait", name).code == 6


def test_doctor_finds_nothing_wrong(efrit: Program) -> None:
    done = efrit.run("doctor")
    assert (done.code, "BAD" in done.out) == (0, False), done
    assert "instance one" in done.out
