"""What ends, stands still or comes back beside a real Emacs. How each eval ends is in tests/evals."""

import os
import signal

from efrit.protocol import RequestReason
from tests.integration.bridge.conftest import Make
from tests.support.bridge_instance import until
from tests.support.lisp_forms import NEVER_ENDS
from tests.support.timeout import TIMEOUT

# debug-on-event nil takes away what an interrupt works with.
UNSTOPPABLE = "(let ((inhibit-quit t) (debug-on-event nil)) (while t))"
SIGKILL = 'efrit_emacs_interrupts_total{signal="SIGKILL"}'


def test_what_cannot_be_interrupted_is_killed_and_emacs_comes_back(make: Make) -> None:
    one = make(EFRIT_KILL_GRACE_SECONDS="2")
    pid = one.emacs_pid()
    response = one.eval("unstoppable", UNSTOPPABLE, options={"timeout": 3})
    assert response.reason is RequestReason.TIMED_OUT
    assert one.metric(SIGKILL) == 1
    assert one.eval("after", "(emacs-pid)").result != str(pid)
    assert one.metric("efrit_emacs_restarts_total") == 1


def test_a_bridge_killed_while_work_runs_loses_nothing(make: Make) -> None:
    one = make()
    one.put("before", "1")
    one.answer("before")
    events = one.events()
    last = next(event_id for event_id, _, _ in events if event_id)
    events.close()  # type: ignore[attr-defined]
    one.put("during", '(while (not (file-exists-p "go")) (sleep-for 0.01))')
    one.put("waits", "(+ 1 1)")
    one.until_running("during")
    one.kill_bridge()
    (one.workspace / "go").touch()
    until((one.queue / "responses/resp_waits.json").exists)
    one.start_bridge()
    names, answered = [], {}
    for event_id, name, data in one.events(last):
        names.append(name)
        if name == "request":
            answered[data["id"]] = data["state"]
        if event_id:
            break
    assert names[0] == "reset"
    assert answered == {"before": "answered", "during": "answered", "waits": "answered"}
    assert one.put("waits", "(+ 1 1)").status_code == 200
    assert one.stats().processed == 3
    until(one.ready)


def test_a_bridge_started_beside_a_busy_emacs_still_ends_what_overruns(make: Make) -> None:
    one = make()
    one.put("endless", NEVER_ENDS, options={"timeout": 8})
    one.until_running("endless")
    one.kill_bridge()
    one.start_bridge()
    assert one.answer("endless").reason is RequestReason.TIMED_OUT
    assert one.eval("after", "(+ 1 1)").result == "2"


def test_an_emacs_that_ends_beside_its_successor_holds_nothing_back(make: Make) -> None:
    """As when a pod is deleted by force: it is asked to stop when the next one serves the same volume already."""
    one = make()
    one.put("begun", '(while (not (file-exists-p "never")) (sleep-for 0.01))', options={"timeout": 600})
    one.until_running("begun")
    older, pid = one.emacs, one.emacs_pid()
    assert older is not None
    one.spawn_emacs()
    try:
        assert one.answer("begun").reason is RequestReason.INTERRUPTED
        # It keeps its Emacs until nothing is in processing/: for ever, would it wait for its successor's work.
        older.send_signal(signal.SIGTERM)
        until((one.queue / "control/pause_1").exists)
        served = {one.eval(f"after-{number}", "(emacs-pid)").result for number in range(3)}
        assert served == {str(one.emacs_pid())}
        assert served != {str(pid)}
    finally:
        os.killpg(older.pid, signal.SIGKILL)
        older.wait()
    assert one.eval("alone", "(+ 1 1)").result == "2"
    assert not list((one.queue / "processing").iterdir())


def test_a_claim_that_came_after_its_emacs_lost_the_queue_is_settled(make: Make) -> None:
    one = make()
    one.put("late", "(+ 1 1)", options={"timeout": 600})
    one.answer("late")
    journal, request = one.queue / "claims.log", one.queue / "archive/req_late.json"
    text = request.read_text().replace('"late"', '"later"')
    (one.queue / "processing/req_later.json").write_text(text)
    with journal.open("a") as file:
        file.write("later 1 0011223344556677\n")
    until((one.queue / "responses/resp_later.json").exists)
    assert one.answer("later").reason is RequestReason.INTERRUPTED
    until(lambda: not list((one.queue / "processing").iterdir()))


def test_a_frozen_emacs_carries_on_when_it_thaws(make: Make) -> None:
    one = make()
    pid = one.emacs_pid()
    os.kill(pid, signal.SIGSTOP)
    one.put("frozen", "(+ 1 1)")
    until(lambda: not one.stats().emacs.responsive)
    os.kill(pid, signal.SIGCONT)
    assert one.answer("frozen").result == "2"
    assert one.emacs_pid() == pid


def test_the_bridge_ends_of_sigterm_though_nobody_closes_its_streams(make: Make) -> None:
    one = make()
    assert one.bridge is not None
    events = one.events()
    next(events)
    one.bridge.send_signal(signal.SIGTERM)
    assert one.bridge.wait(TIMEOUT) == 0
    events.close()  # type: ignore[attr-defined]
