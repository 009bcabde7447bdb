"""Idle instances and controllers that restart: what has work is neither deleted nor suspended, whoever leads."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.support import plans
from tests.support.kube import Json, until
from tests.support.site import Site

IDLE_SECONDS = 10
"""The least that the API accepts."""
GATE = '(progn (while (not (file-exists-p "go")) (sleep-for 0.02)) \'done)'


def _instance(site: Site, name: str = "one") -> Json | None:
    return site.kube.find("efritinstances", site.namespace, name)


def _uid(site: Site, name: str = "one") -> str:
    uid: str = site.kube.get("efritinstances", site.namespace, name)["metadata"]["uid"]
    return uid


def _end_when_idle(site: Site, **idle: int) -> None:
    """Have the instance end when it is idle. Earlier, a slow test could find it gone before it had work."""
    site.kube.patch("efritinstances", site.namespace, "one", {"spec": {"idle": idle}})


def _until_idle_time_has_passed() -> None:
    """Wait longer than an instance may be idle."""
    began = datetime.now(UTC)
    until(lambda: (datetime.now(UTC) - began).total_seconds() > IDLE_SECONDS + 2, "time stands still")


def _restart(site: Site) -> None:
    site.operators[0].kill()
    site.operators[0].start()


def _running_eval(site: Site, **idle: int) -> str:
    name = site.ask(GATE)
    site.until_status(name, phase="Running")
    _end_when_idle(site, **idle)
    _until_idle_time_has_passed()
    return name


def _until_bridge_is_connected(site: Site) -> None:
    operator = site.operators[0]
    until(lambda: operator.metric("efrit_bridge_connections") == 1.0, lambda: f"not connected:\n{site.logs()}")


def test_running_work_keeps_its_instance_from_idle_deletion_when_the_controller_restarts(site: Site) -> None:
    site.operator().start()
    site.instance()
    uid, name = _uid(site), _running_eval(site, deleteAfterSeconds=IDLE_SECONDS)
    for _ in range(3):
        _restart(site)
        _until_bridge_is_connected(site)
    second = site.ask("'second")
    assert _uid(site) == uid
    (site.node.pod("one").workspace / "go").touch()
    assert (site.answer(name)["reason"], site.answer(name)["result"]) == ("Succeeded", "done")
    assert site.answer(second)["result"] == "second"
    until(lambda: _instance(site) is None, lambda: f"the idle instance stays:\n{site.logs()}")


def test_running_work_is_not_interrupted_by_idle_suspension_when_the_controller_restarts(site: Site) -> None:
    site.operator().start()
    site.instance()
    name, pod = _running_eval(site, suspendAfterSeconds=IDLE_SECONDS), site.node.pod("one")
    for _ in range(3):
        _restart(site)
        _until_bridge_is_connected(site)
    second = site.ask("'second")
    (pod.workspace / "go").touch()
    assert (site.answer(name)["reason"], site.answer(name)["result"]) == ("Succeeded", "done")
    assert site.answer(second)["result"] == "second"
    assert site.status(name)["attempt"] == 1
    site.until_condition("one", "Suspended", reason="SuspendedIdle", status="True")


def test_a_suspended_plan_lets_its_instance_sleep_and_keeps_it_from_being_deleted(site: Site) -> None:
    site.operator().start()
    site.instance()
    uid = _uid(site)
    plans.begin(site, "app", {"description": "Build it."}, suspend=True)
    plans.until_plan(site, "app", phase="Suspended")
    _end_when_idle(site, suspendAfterSeconds=IDLE_SECONDS, deleteAfterSeconds=IDLE_SECONDS + 1)
    site.until_condition("one", "Suspended", reason="SuspendedIdle", status="True")
    _restart(site)
    site.instance("other", ready=False, idle={"deleteAfterSeconds": IDLE_SECONDS})
    until(lambda: _instance(site, "other") is None, lambda: f"the idle instance stays:\n{site.logs()}")
    assert _uid(site) == uid
    plans.change(site, "app", cancel=True)
    plans.end(site, "app")
    until(lambda: _instance(site) is None, lambda: f"the idle instance stays:\n{site.logs()}")
