"""Preemption on real parts: work that may run twice makes room for urgent work, and runs again."""

from __future__ import annotations

from typing import Any

from tests.support.kube import Json, until
from tests.support.pod import Pod
from tests.support.site import Site
from tests.support.timeout import TIMEOUT


def _pool(site: Site, **spec: Any) -> str:
    """Make a pool whose one member has one request at a time, and return the name of that member once it is ready."""
    site.pool(replicas=1, placement={"maxLoadPerInstance": 1}, **spec)
    return until(lambda: _ready(site) or None, lambda: f"no member is ready\n{site.logs()}", TIMEOUT).pop()


def _ready(site: Site) -> set[str]:
    """Return the names of the instances that are ready."""
    names = [one["metadata"]["name"] for one in site.kube.list("efritinstances", site.namespace)]
    return {name for name in names if site.condition(name, "Ready").get("status") == "True"}


def _long(site: Site, name: str) -> str:
    """Return Lisp that counts that it runs and then works until the file of its name is there."""
    go = site.directory / f"go-{name}"
    return f'(progn {site.count(name)} (while (not (file-exists-p "{go}")) (sleep-for 0.02)) \'done)'


def _let_end(site: Site, name: str) -> None:
    (site.directory / f"go-{name}").touch()


def _running(site: Site, member: str, name: str, times: int = 1) -> None:
    """Wait until Emacs has begun a request so often."""
    until(
        lambda: site.counted(member).count(name) == times or None,
        lambda: f"{name} ran {site.counted(member)}: {site.status(name)}\n{site.logs()}",
        TIMEOUT,
    )
    site.until_status(name, phase="Running")


def _events(site: Site, name: str) -> list[Json]:
    events = site.kube.list("events", site.namespace, fieldSelector=f"involvedObject.name={name}")
    return [event for event in events if event["reason"] == "Preempted"]


def test_urgent_work_interrupts_other_work_which_runs_again_and_each_is_answered_once(site: Site) -> None:
    operator = site.operator()
    operator.start()
    member = _pool(site, preemption="LowerPriority")
    site.ask_pool("long", _long(site, "long"), retryPolicy="IfInterrupted", maxAttempts=2)
    _running(site, member, "long")
    site.ask_pool("urgent", site.count("urgent"), priority=10)
    answer = site.answer("urgent")
    assert (answer["result"], answer["instanceName"]) == ('"urgent"', member)
    assert "preemption" not in answer

    # It runs again on the same member, with all the attempts that it had.
    _running(site, member, "long", times=2)
    status = site.status("long")
    uid = site.kube.get("efritrequests", site.namespace, "urgent")["metadata"]["uid"]
    preemption = {**status["preemption"]}
    assert preemption.pop("time")
    assert preemption == {"count": 1, "instanceName": member, "byName": "urgent", "byUID": uid}
    assert status["attempt"] == 1
    # The event is posted after the status.
    (event,) = until(lambda: _events(site, "long"), "no event tells of it")
    assert event["type"] == "Normal"
    assert f"Interrupted on EfritInstance {member} for EfritRequest urgent" in event["message"]

    # Whoever leads next goes on with the second run.
    operator.stop()
    operator.start()
    _let_end(site, "long")
    answer = site.answer("long")
    assert (answer["phase"], answer["result"], answer["attempt"]) == ("Succeeded", "done", 1)
    assert site.counted(member) == ["long", "urgent", "long"]

    def acknowledged() -> bool | None:
        queue = site.node.pod(member).queue
        return not list(queue.glob("responses/*.json")) or None

    until(acknowledged, "an answer is not acknowledged", TIMEOUT)


def test_work_that_may_not_run_twice_and_that_of_flows_within_their_share_is_not_interrupted(site: Site) -> None:
    site.operator().start()
    member = _pool(site, preemption="LowerPriority", fairness={"flowLabel": "team"})
    site.ask_pool("once", _long(site, "once"), labels={"team": "a"})
    _running(site, member, "once")
    site.ask_pool("urgent", site.count("urgent"), labels={"team": "a"}, priority=1000)
    site.until_status("urgent", reason="Backpressure")
    assert "preemption" not in site.status("once")
    _let_end(site, "once")
    assert site.answer("once")["result"] == "done"
    assert site.answer("urgent")["result"] == '"urgent"'

    # However urgent all that another flow asks for is.
    site.ask_pool("again", _long(site, "again"), labels={"team": "a"}, retryPolicy="IfInterrupted")
    _running(site, member, "again")
    for number in range(5):
        site.ask_pool(f"loud{number}", site.count("loud"), labels={"team": "b"}, priority=1000)
    for number in range(5):
        site.until_status(f"loud{number}", reason="Backpressure")
    _let_end(site, "again")
    assert "preemption" not in site.answer("again")
    assert {site.answer(f"loud{number}")["result"] for number in range(5)} == {'"loud"'}
    assert site.counted(member) == ["once", "urgent", "again", *["loud"] * 5]


def test_work_that_is_interrupted_while_its_user_cancels_it_is_cancelled_and_does_not_run_again(site: Site) -> None:
    site.operator().start()
    member = _pool(site, preemption="LowerPriority")
    site.ask_pool("long", _long(site, "long"), retryPolicy="IfInterrupted")
    _running(site, member, "long")
    site.ask_pool("urgent", _long(site, "urgent"), priority=10)
    _running(site, member, "urgent")
    site.until_status("long", reason="Preempted")
    site.cancel("long")
    answer = site.answer("long")
    assert (answer["reason"], answer["preemption"]["count"]) == ("Cancelled", 1)
    _let_end(site, "urgent")
    assert site.answer("urgent")["result"] == "done"
    assert site.counted(member) == ["long", "urgent"]


def _interrupting(site: Site, member: str, urgent: str) -> Pod:
    """Have a request interrupted for another one by a bridge that stands still, and return the pod of that."""
    site.ask_pool("long", _long(site, "long"), retryPolicy="IfInterrupted")
    _running(site, member, "long")
    pod = site.node.pod(member)
    pod.freeze_bridge(True)
    site.ask_pool("urgent", urgent, priority=10)
    # Its reason may be another by then: it is handed over at once, which the bridge does not answer.
    site.until_status("urgent", instanceName=member)
    assert site.status("long")["preemption"]["inProgress"] is True
    return pod


def test_work_that_is_interrupted_on_a_member_that_drains_runs_again_on_another(site: Site) -> None:
    site.operator().start()
    first = _pool(site, preemption="LowerPriority")
    pod = _interrupting(site, first, site.count("urgent"))
    site.change_pool(replicas=0)
    site.until_pool(draining=1)
    pod.freeze_bridge(False)
    # Nobody else has room: the one that drains has it yet.
    assert site.answer("urgent")["instanceName"] == first
    site.until_status("long", reason="Preempted")
    site.until_pool(replicas=0, draining=0)
    assert site.status("long")["reason"] == "Preempted"

    _let_end(site, "long")
    site.change_pool(replicas=1)
    answer = site.answer("long")
    assert (answer["phase"], answer["result"], answer["preemption"]["count"]) == ("Succeeded", "done", 1)
    assert answer["instanceName"] != first
    assert site.counted(answer["instanceName"]) == ["long"]


def test_a_member_that_a_claim_gives_back_takes_work_while_that_is_interrupted_elsewhere(site: Site) -> None:
    site.operator().start()
    lent = _pool(site, preemption="LowerPriority")
    claim = {"metadata": {"name": "ada"}, "spec": {"poolRef": {"name": "crew"}, "release": "Return"}}
    site.kube.create("efritclaims", site.namespace, claim, fieldValidation="Strict")
    until(
        lambda: site.kube.get("efritclaims", site.namespace, "ada").get("status", {}).get("phase") == "Bound" or None,
        lambda: f"the claim is not bound\n{site.logs()}",
        TIMEOUT,
    )
    member = until(
        lambda: _ready(site) - {lent} or None, lambda: f"no other member is ready\n{site.logs()}", TIMEOUT
    ).pop()
    pod = _interrupting(site, member, _long(site, "urgent"))
    # No other member becomes ready.
    site.node.broken_images |= pod.images
    site.change_pool(replicas=2)
    site.kube.patch("efritclaims", site.namespace, "ada", {"spec": {"released": True}})
    site.until_pool(ready=2, replicas=2)
    pod.freeze_bridge(False)
    # It goes on where there is room, beside the urgent one.
    _running(site, lent, "long")
    _running(site, member, "urgent")
    _let_end(site, "urgent")
    assert site.answer("urgent")["instanceName"] == member
    _let_end(site, "long")
    answer = site.answer("long")
    assert (answer["result"], answer["instanceName"], answer["preemption"]["count"]) == ("done", lent, 1)
    assert (site.counted(member), site.counted(lent)) == (["long", "urgent"], ["long"])
