"""What a person does every day, the same in both places; and what only a cluster does."""

from __future__ import annotations

import json
import signal
import time

from tests.support.efrit_program import Program, Terminal
from tests.support.kube import Kube, until
from tests.support.timeout import TIMEOUT


def test_the_log_of_an_eval_has_what_it_printed_and_where_its_error_came_from(efrit: Program) -> None:
    done = efrit.run("eval", "-o", "json", '(princ "noise")\n  (car 7)')
    assert done.code == 1
    assert done.json["error"]["message"].endswith("(in the form at line 2, column 3)")
    entries = [json.loads(line) for line in efrit.ok("logs", done.json["name"]).splitlines()]
    assert [entry["type"] for entry in entries] == ["output", "messages", "error", "end"]
    assert entries[0]["text"] == "noise"
    assert entries[1]["text"].startswith("Backtrace (in the form at line 2, column 3):\n  car(7)\n")
    assert entries[3]["reason"] == "EvalError"


def test_the_log_of_an_eval_is_followed_to_its_end(efrit: Program) -> None:
    form = '(progn (princ "x") (while (not (file-exists-p "log-on")) (sleep-for 0.05)))'
    name = efrit.ok("submit", "--timeout", "10m", form).strip()
    process = efrit.begin("logs", "--follow", name)
    (efrit.workspace("one") / "log-on").touch()
    out, _ = process.communicate(timeout=TIMEOUT)
    assert [json.loads(line)["type"] for line in out.splitlines()] == ["output", "end"]


def test_stop_now_cancels_what_runs_and_keeps_what_waits(efrit: Program) -> None:
    marker = efrit.workspace("one") / "stop-now"
    form = '(progn (write-region "" nil "stop-now") (sleep-for 600))'
    running = efrit.ok("submit", "--timeout", "15m", form).strip()
    until(marker.exists, "it does not begin")
    until(lambda: efrit.state(running)["phase"] == "Running", "it is not Running")
    waiting = efrit.ok("submit", "(+ 1 2)").strip()
    efrit.ok("stop", "--now", "one")
    assert efrit.state(running)["reason"] == "Cancelled"
    efrit.ok("start", "one")
    assert efrit.ok("wait", waiting) == "3\n"


def test_the_newest_requests_come_first(efrit: Program) -> None:
    names = [efrit.ok("submit", "1").strip()]
    # A cluster's times are whole seconds; those made in the same one come in the order of their names.
    second = int(time.time())
    until(lambda: int(time.time()) > second, "the clock stands still")
    names.append(efrit.ok("submit", "2").strip())
    efrit.ok("wait", *names)
    assert efrit.ok("requests", "--limit", "1", "-o", "name").split() != names[:1]
    listed = efrit.ok("requests", "-o", "name").split()
    assert listed.index(names[1]) < listed.index(names[0])


def test_q_leaves_top_and_its_tables_have_colours(efrit: Program) -> None:
    efrit.ok("eval", "1")
    with Terminal(efrit, "top", "--delay", "200ms") as terminal:
        terminal.expect("\x1b[32mReady\x1b[0m")
        terminal.expect("q quit")
        terminal.type("p")
        terminal.expect("paused")
        terminal.type("q")
        assert terminal.end() == 0


def test_completion_knows_the_values_there_are(efrit: Program) -> None:
    done = Program(efrit.kind, {**efrit.env, "EFRIT_COMPLETION_SECONDS": f"{TIMEOUT:.0f}"}).run(
        "__complete", *efrit.where, "stop", ""
    )
    assert "one" in done.out.split(), done


def test_work_that_no_instance_matches_says_why(in_a_cluster: Program, kube: Kube) -> None:
    (namespace,) = in_a_cluster.where[1:]
    spec = {"type": "eval", "content": "1", "poolRef": {"name": "nothing"}}
    kube.create("efritrequests", namespace, {"metadata": {"name": "for-nothing"}, "spec": spec})
    labelled = in_a_cluster.ok("submit", "-l", "tier=none", "1").strip()
    pooled = in_a_cluster.ok("submit", "--pool", "nobody", "1").strip()
    for name, reason, why in (
        (labelled, "InstanceNotReady", "No EfritInstance has the labels of spec.selector"),
        (pooled, "Backpressure", "EfritPool nobody has no member with room"),
        ("for-nothing", "InstanceNotReady", "There is no EfritInstance of the pool nothing"),
    ):
        until(lambda: why in in_a_cluster.state(name)["message"], "it does not say why")  # noqa: B023
        process = in_a_cluster.begin("wait", name)
        assert process.stderr is not None
        line = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
        assert f"{name} waits ({reason}): {why}" in line
        in_a_cluster.ok("cancel", name)


def test_work_that_no_instance_matches_ends_by_its_queue_timeout(in_a_cluster: Program) -> None:
    for words in (("-l", "tier=none"), ("--pool", "nobody")):
        done = in_a_cluster.run("eval", *words, "--queue-timeout", "1s", "1")
        assert (done.code, done.out) == (5, ""), done
        assert "queueTimeoutSeconds (1 s) and never ran" in done.err


def test_rm_deletes_an_instance_of_a_cluster(in_a_cluster: Program, kube: Kube) -> None:
    (namespace,) = in_a_cluster.where[1:]
    kube.create("efritinstances", namespace, {"metadata": {"name": "gone"}, "spec": {}})
    refused = in_a_cluster.run("rm", "gone", "--files")
    assert (refused.code, "leave --files out" in refused.err) == (2, True), refused
    assert in_a_cluster.ok("rm", "gone") == "gone is deleted\n"
    until(lambda: "gone" not in in_a_cluster.ok("instances", "-o", "name").split(), "it is still there")
    missing = in_a_cluster.run("rm", "gone")
    assert (missing.code, "there is no instance 'gone'" in missing.err) == (8, True), missing
