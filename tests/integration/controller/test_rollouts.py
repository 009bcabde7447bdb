"""Changed pod templates: held while work runs, rolled a few at a time, stopped when the first ones fail."""

from __future__ import annotations

from tests.support.kube import Json, until
from tests.support.operator import Operator
from tests.support.pod import Pod
from tests.support.site import Site

GATE = '(progn (while (not (file-exists-p "go")) (sleep-for 0.02)) \'done)'
NEW = "efrit/operator:next"
BROKEN = "efrit/operator:broken"


def _updated(instance: Json) -> tuple[str, str]:
    """Status and reason of the condition Updated, empty while there is none."""
    conditions = instance.get("status", {}).get("conditions", ())
    return next(
        ((condition["status"], condition["reason"]) for condition in conditions if condition["type"] == "Updated"),
        ("", ""),
    )


def _until_updated_with(site: Site, image: str, *names: str) -> None:
    def all_done() -> bool:
        pods = [site.node.find(name) for name in names]
        has_image = all(pod is not None and image in pod.images for pod in pods)
        return has_image and all(site.condition(name, "Updated").get("status") == "True" for name in names)

    def complaint() -> str:
        return f"not updated: {[site.condition(name, 'Updated') for name in names]}\n{site.logs()}"

    until(all_done, complaint)


def _killed_while_an_eval_runs(site: Site) -> tuple[Operator, str, Pod]:
    """Return a controller that was killed, an eval that waits for its gate, and the pod in which it runs."""
    operator = site.operator()
    operator.start()
    site.instance()
    running = site.ask(GATE)
    site.until_status(running, phase="Running")
    operator.kill()
    return operator, running, site.node.pod("one")


def test_a_controller_that_restarts_with_another_bridge_image_does_not_interrupt_a_running_eval(site: Site) -> None:
    operator, running, pod = _killed_while_an_eval_runs(site)
    operator.start(EFRIT_OPERATOR_IMAGE=NEW)
    site.until_condition("one", "Updated", reason="UpdateHeld")
    assert site.node.find("one") is pod
    (pod.workspace / "go").touch()
    assert site.answer(running)["result"] == "done"
    _until_updated_with(site, NEW, "one")
    assert site.node.find("one") is not pod
    assert site.answer(site.ask("'after"))["result"] == "after"


def test_a_change_that_was_held_too_long_holds_new_requests_back_and_interrupts_nothing(site: Site) -> None:
    operator, running, pod = _killed_while_an_eval_runs(site)
    operator.start(EFRIT_OPERATOR_IMAGE=NEW, EFRIT_ROLLOUT_MAX_HOLD_SECONDS="1")
    site.until_condition("one", "Updated", status="Unknown", reason="UpdateDraining")
    name = site.ask("'held")
    site.until_status(name, reason="InstanceUpdating")
    # Another leader goes by the status.
    operator.kill()
    operator.start()
    assert site.status(running)["phase"] == "Running"
    assert site.node.find("one") is pod
    (pod.workspace / "go").touch()
    assert site.answer(running)["result"] == "done"
    assert site.answer(name)["result"] == "held"
    _until_updated_with(site, NEW, "one")


def test_a_release_reaches_few_instances_at_a_time(site: Site) -> None:
    operator = site.operator()
    operator.start()
    names = [f"i{number}" for number in range(6)]
    for name in names:
        site.instance(name, ready=False, workspace={"ephemeral": True})
    for name in names:
        site.until_condition(name, "Ready", status="True")
    operator.kill()
    updates: dict[str, tuple[str, str]] = {}
    most = 0
    with site.kube.watch("efritinstances", site.namespace) as events:
        operator.start(EFRIT_OPERATOR_IMAGE=NEW, EFRIT_ROLLOUT_MAX_CONCURRENT="2")
        updated: set[str] = set()
        for event in events:
            name = event["object"]["metadata"]["name"]
            before, updates[name] = updates.get(name), _updated(event["object"])
            most = max(most, sum(1 for status, _ in updates.values() if status == "Unknown"))
            if before is not None and before[0] == "Unknown" and updates[name][0] == "True":
                updated.add(name)
            if updated == set(names):
                break
    assert updated == set(names), site.logs()
    assert most == 2
    _until_updated_with(site, NEW, *names)


def test_a_release_that_its_first_instance_does_not_survive_is_not_rolled_out_further(site: Site) -> None:
    operator = site.operator()
    operator.start()
    names = ["a", "b", "c"]
    for name in names:
        site.instance(name, ready=False)
    for name in names:
        site.until_condition(name, "Ready", status="True")
    operator.kill()
    site.node.broken_images.add(BROKEN)
    operator.start(EFRIT_OPERATOR_IMAGE=BROKEN, EFRIT_ROLLOUT_PROGRESS_DEADLINE_SECONDS="3")

    def reasons() -> list[str]:
        return sorted(site.condition(name, "Updated").get("reason", "") for name in names)

    settled = ["UpdateFailed", "UpdateStopped", "UpdateStopped"]
    until(lambda: reasons() == settled, lambda: f"{reasons()}\n{site.logs()}")
    (failed,) = (name for name in names if site.condition(name, "Updated")["reason"] == "UpdateFailed")
    others = [name for name in names if name != failed]
    # A restart forgets nothing of it, and the others serve on.
    operator.kill()
    operator.start()
    for name in others:
        assert site.answer(site.ask("'serves", to=name))["result"] == "serves"
        pod = site.node.find(name)
        assert pod is not None
        assert BROKEN not in pod.images
        assert failed in site.condition(name, "Updated")["message"]
    assert site.condition(failed, "Ready")["reason"] == "ImagePullFailed"
    operator.kill()
    operator.start(EFRIT_OPERATOR_IMAGE=NEW)
    _until_updated_with(site, NEW, *names)


ADDED = {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}


def test_everything_but_the_pod_template_is_changed_while_work_runs(site: Site) -> None:
    site.operator().start()
    site.instance()
    running = site.ask(GATE)
    site.until_status(running, phase="Running")
    pod = site.node.pod("one")
    change = {"network": {"egress": [ADDED]}, "emacs": {"daemonName": "renamed"}}
    site.kube.patch("efritinstances", site.namespace, "one", {"spec": change})

    def egress() -> bool:
        policy = site.kube.get("networkpolicies", site.namespace, "efrit-one")
        return ADDED in policy["spec"]["egress"]

    until(egress, lambda: f"the policy is not changed\n{site.logs()}")
    site.until_condition("one", "Updated", reason="UpdateHeld")
    assert site.node.find("one") is pod
    (pod.workspace / "go").touch()
    assert site.answer(running)["result"] == "done"
