"""Something dies amid the work: every request still gets one answer, and runs once, or as its retry policy allows."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.support.kube import Json, until
from tests.support.operator import GRACE_SECONDS
from tests.support.site import Site

LONG = "(sleep-for 600)"


def _gate(site: Site, word: str) -> str:
    """Return Lisp that counts, then waits for the file `<word>.go` in the workspace."""
    wait = f'(while (not (file-exists-p "{word}.go")) (sleep-for 0.02))'
    return f"(progn {site.count(word)} {wait} '{word})"


def _open_gate(site: Site, word: str) -> None:
    (site.node.pod("one").workspace / f"{word}.go").touch()


def _until_counted(site: Site, word: str, times: int = 1) -> None:
    until(lambda: site.counted().count(word) >= times, lambda: f"{word} did not start {times} times\n{site.logs()}")


def test_a_new_controller_ends_no_request_before_it_knows_the_instance(site: Site) -> None:
    operator = site.operator()
    operator.start()
    site.instance()
    running = site.ask(_gate(site, "old"), timeoutSeconds=600)
    waiting = [site.ask(site.count(f"n{number}")) for number in range(30)]
    _until_counted(site, "old")
    operator.kill()
    until(lambda: _age(site, waiting[-1]) > GRACE_SECONDS + 1, "time stands still")
    operator.start(leading=False)
    _open_gate(site, "old")
    statuses = site.answers()
    assert {name: status["reason"] for name, status in statuses.items()} == dict.fromkeys(
        [running, *waiting], "Succeeded"
    )
    assert len(site.counted()) == 31


def _age(site: Site, name: str) -> float:
    return _since(site.kube.get("efritrequests", site.namespace, name)["metadata"]["creationTimestamp"])


def _since(moment: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()


def test_an_instance_stays_ready_while_controllers_come_and_go(site: Site) -> None:
    operator = site.operator()
    operator.start()
    site.instance()
    before = site.condition("one", "Ready")

    def events() -> list[Json]:
        return site.kube.list("events", site.namespace, fieldSelector="reason=Ready")

    # The event is posted after the status.
    until(events, "no event tells of it")
    until(lambda: _since(before["lastTransitionTime"]) > 1, "time stands still")
    operator.kill()
    operator.start(leading=False)
    assert site.answer(site.ask("'back"))["result"] == "back"
    site.until_condition("one", "Ready", status="True")
    assert site.condition("one", "Ready") == before
    assert len(events()) == 1


def test_answers_given_while_no_controller_runs_are_stored_by_the_next(site: Site) -> None:
    operator = site.operator()
    operator.start()
    site.instance()
    name = site.ask(_gate(site, "alone"))
    _until_counted(site, "alone")
    operator.kill()
    _open_gate(site, "alone")
    responses = site.node.pod("one").queue / "responses"
    until(lambda: list(responses.iterdir()), "Emacs gave no answer")
    # Work created meanwhile is found by the next one, too.
    later = site.ask(site.count("later"))
    operator.start(leading=False)
    assert site.answer(name)["result"] == "alone"
    assert site.answer(later)["result"] == '"later"'
    assert site.counted() == ["alone", "later"]
    until(lambda: not list(responses.iterdir()), "the answers are not acknowledged")


def test_a_request_deleted_while_no_controller_runs_is_stopped_by_the_next(site: Site) -> None:
    operator = site.operator()
    operator.start()
    site.instance()
    name = site.ask(LONG, timeoutSeconds=600)
    site.until_status(name, phase="Running")
    operator.kill()
    site.kube.delete("efritrequests", site.namespace, name)
    operator.start(leading=False)
    assert site.answer(site.ask("'free"))["result"] == "free"


def test_work_is_interrupted_when_emacs_dies_and_the_rest_runs(site: Site) -> None:
    site.operator().start()
    site.instance()
    name = site.ask(_gate(site, "killed"))
    _until_counted(site, "killed")
    after = site.ask(site.count("after"))
    site.node.pod("one").kill_emacs()
    status = site.answer(name)
    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", "Interrupted", "Failure")
    assert "unknown" in status["error"]["message"]
    assert site.answer(after)["result"] == '"after"'
    assert site.counted() == ["killed", "after"]


def test_interrupted_work_runs_again_only_where_the_policy_allows(site: Site) -> None:
    site.operator().start()
    site.instance()
    name = site.ask(_gate(site, "twice"), retryPolicy="IfInterrupted", maxAttempts=2)
    _until_counted(site, "twice")
    site.node.pod("one").kill_emacs()
    _until_counted(site, "twice", 2)
    _open_gate(site, "twice")
    status = site.answer(name)
    assert (status["phase"], status["result"], status["attempt"]) == ("Succeeded", "twice", 2)
    assert site.counted() == ["twice", "twice"]


def test_attempts_are_bounded(site: Site) -> None:
    site.operator().start()
    site.instance()
    name = site.ask(_gate(site, "never"), retryPolicy="IfInterrupted", maxAttempts=2)
    for times in (1, 2):
        _until_counted(site, "never", times)
        site.node.pod("one").kill_emacs()
    status = site.answer(name)
    assert (status["reason"], status["attempt"]) == ("Interrupted", 2)
    assert site.counted() == ["never", "never"]


def test_a_queue_on_a_claim_outlives_its_pod(site: Site) -> None:
    site.operator().start()
    site.instance()
    running = site.ask(_gate(site, "running"))
    _until_counted(site, "running")
    waiting = site.ask(site.count("waiting"))
    until(lambda: _queued(site), "nothing waits on the queue")
    old = site.node.pod("one").uid
    site.kube.delete("pods", site.namespace, "efrit-one-0")
    assert site.answer(running)["reason"] == "Interrupted"
    assert site.answer(waiting)["result"] == '"waiting"'
    assert site.node.pod("one").uid != old
    assert site.counted() == ["running", "waiting"]


def test_what_runs_in_a_pod_that_drains_can_be_cancelled(site: Site) -> None:
    site.operator().start()
    site.node.grace_seconds = 600
    site.instance()
    running = site.ask(_gate(site, "running"))
    site.until_status(running, phase="Running")
    site.kube.delete("pods", site.namespace, "efrit-one-0")
    until(lambda: site.condition("one", "Ready")["status"] == "False", "the pod does not stop")
    site.cancel(running)
    assert site.answer(running)["reason"] == "Cancelled"
    assert site.answer(site.ask("'after"))["result"] == "after"
    assert site.counted() == ["running"]


def _queued(site: Site) -> list[object]:
    return list((site.node.pod("one").queue / "requests").iterdir())


def test_an_ephemeral_queue_that_is_replaced_leaves_an_unknown_end(site: Site) -> None:
    site.operator().start()
    site.instance(queue={"ephemeral": True})
    running = site.ask(_gate(site, "running"))
    _until_counted(site, "running")
    safe = site.ask(site.count("safe"), retryPolicy="IfInterrupted")
    until(lambda: _queued(site), "nothing waits on the queue")
    site.kube.delete("pods", site.namespace, "efrit-one-0")
    status = site.answer(running)
    assert (status["phase"], status["reason"]) == ("Failed", "Interrupted")
    assert "queue" in status["error"]["message"]
    # What may run twice is handed to the new queue instead.
    assert site.answer(safe)["result"] == '"safe"'
    assert site.counted() == ["running", "safe"]
    assert site.answer(site.ask("'new"))["result"] == "new"


def test_one_of_two_controllers_acts_and_the_other_takes_over_before_the_lease_runs_out(site: Site) -> None:
    first, second = site.operator("operator-a"), site.operator("operator-b")
    first.start(EFRIT_LEASE_SECONDS="1200")
    second.start(leading=False, EFRIT_LEASE_SECONDS="1200")
    site.instance()
    assert site.answer(site.ask("1"))["result"] == "1"
    assert (first.role(), second.role()) == ("leading", "standby")
    assert (first.metric("efrit_leader"), second.metric("efrit_leader")) == (1.0, 0.0)
    assert second.metric('efrit_status_writes_total{kind="EfritRequest"}') == 0.0
    assert first.stop() == 0
    # A lease that was not given back would last for longer than this is waited for.
    until(lambda: second.role() == "leading", "the standby does not take over")
    assert site.answer(site.ask("2"))["result"] == "2"


def test_a_former_leader_that_wakes_up_hands_nothing_over(site: Site) -> None:
    first, second = site.operator("operator-a"), site.operator("operator-b")
    first.start(EFRIT_LEASE_SECONDS="15")
    second.start(leading=False, EFRIT_LEASE_SECONDS="15")
    site.instance()
    first.freeze(True)
    # Its connections take all of this in while it sleeps.
    names = [site.ask(site.count(f"c{number}"), f"c{number}") for number in range(10)]
    for name in names:
        site.cancel(name)
    assert {site.answer(name)["reason"] for name in names} == {"Cancelled"}
    first.freeze(False)
    until(lambda: first.process.status is not None, "the former leader goes on")
    assert site.answer(site.ask(site.count("on")))["result"] == '"on"'
    assert site.counted() == ["on"]
