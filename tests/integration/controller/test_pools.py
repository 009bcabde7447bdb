"""A pool on real parts: members are made, get requests, are replaced and removed, and nothing is lost on the way."""

from __future__ import annotations

from efrit import resources
from tests.support.kube import Json, until
from tests.support.site import FINAL, Site
from tests.support.timeout import TIMEOUT

GATE = '(progn (while (not (file-exists-p "{}")) (sleep-for 0.02)) \'done)'


def _scale(site: Site, replicas: int) -> None:
    path = resources.POOLS.path(site.namespace, "crew", "scale")
    scale = site.kube.call("GET", path)
    site.kube.call("PUT", path, {**scale, "spec": {"replicas": replicas}})


def _members(site: Site) -> list[Json]:
    return site.kube.list("efritinstances", site.namespace)


def _condition(status: Json, kind: str) -> Json:
    return next(condition for condition in status["conditions"] if condition["type"] == kind)


def test_members_are_made_share_the_requests_and_go_when_they_are_too_many(site: Site) -> None:
    site.operator().start()
    site.pool(replicas=2)
    status = site.until_pool(ready=2, idle=2)
    assert _condition(status, "Available")["status"] == "True"
    names = {member["metadata"]["name"] for member in _members(site)}
    assert len(names) == 2
    assert all(name.startswith("crew-") for name in names)

    # Of those that end before the next is there the first member would get each.
    go = site.directory / "go"
    for number in range(6):
        site.ask_pool(f"r{number}", GATE.format(go))

    def taken() -> set[str | None]:
        return {site.status(f"r{number}").get("instanceName") for number in range(6)} - {None}

    until(lambda: taken() == names, lambda: f"they are with {taken()} alone\n{site.logs()}")
    go.touch()
    answers = {f"r{number}": site.answer(f"r{number}") for number in range(6)}
    assert {answer["result"] for answer in answers.values()} == {"done"}
    assert {answer["instanceName"] for answer in answers.values()} == names

    # A member with work stays until it is done; the other one goes at once.
    site.ask_pool("long", GATE.format("/tmp/go-" + site.namespace))
    working = site.until_status("long", phase="Running")["instanceName"]
    _scale(site, 0)
    site.until_pool(replicas=0, draining=1)
    until(lambda: [member["metadata"]["name"] for member in _members(site)] == [working] or None, "both are there")
    site.ask_pool("later")
    site.kube.patch("efritrequests", site.namespace, "long", {"spec": {"cancel": True}})
    assert site.answer("long")["reason"] == "Cancelled"
    until(lambda: not _members(site) or None, "the member that has no work any more is still there")
    assert _condition(site.until_pool(replicas=0, draining=0), "Available")["reason"] == "ScaledToZero"

    _scale(site, 1)
    assert site.answer("later")["result"] == "3"
    assert site.status("later")["phase"] in FINAL


def test_a_changed_template_replaces_members_one_after_the_other_and_loses_no_request(site: Site) -> None:
    site.operator().start()
    site.pool(replicas=2)
    before = site.until_pool(ready=2, updated=2)["revision"]
    old = {member["metadata"]["name"] for member in _members(site)}
    for number in range(4):
        site.ask_pool(f"before{number}")
    site.change_pool(template={"spec": {"limits": {"requestTimeoutSeconds": 77}}})
    for number in range(4):
        site.ask_pool(f"meanwhile{number}")

    def replaced() -> bool | None:
        members = _members(site)
        assert len(members) <= 3
        return old.isdisjoint(member["metadata"]["name"] for member in members) or None

    until(replaced, lambda: f"members of the older template are left: {site.pool_status()}\n{site.logs()}", TIMEOUT)
    status = site.until_pool(ready=2, updated=2, updatedReady=2, draining=0)
    assert status["revision"] != before
    assert status["revisions"] == [{"revision": status["revision"], "replicas": 2, "ready": 2}]
    assert {member["spec"]["limits"]["requestTimeoutSeconds"] for member in _members(site)} == {77}
    for number in range(4):
        assert site.answer(f"before{number}")["result"] == "3"
        assert site.answer(f"meanwhile{number}")["result"] == "3"


def test_one_flow_with_many_requests_does_not_keep_another_waiting_and_no_more_wait_than_may(site: Site) -> None:
    site.operator().start()
    site.pool(
        replicas=1, fairness={"flowLabel": "team", "maxPendingPerFlow": 30}, placement={"maxLoadPerInstance": 1}
    )
    site.until_pool(ready=1)

    def ask(name: str, team: str, content: str = "(+ 1 2)") -> None:
        spec = {"type": "eval", "content": content, "poolRef": {"name": "crew"}, "timeoutSeconds": 600}
        metadata = {"name": name, "labels": {"team": team}}
        site.kube.create("efritrequests", site.namespace, {"metadata": metadata, "spec": spec})

    go = site.directory / "go"
    ask("first", "loud", GATE.format(go))
    site.until_status("first", phase="Running")
    for number in range(29):
        ask(f"loud{number}", "loud", f"(progn {site.count(f'loud{number}')} 1)")
    ask("quiet", "quiet", f"(progn {site.count('quiet')} 2)")
    site.until_pool(pending=30)
    flows = {flow["name"]: flow for flow in site.pool_status()["flows"]}
    assert (flows["loud"], flows["quiet"]) == (
        {"name": "loud", "running": 1, "pending": 29},
        {"name": "quiet", "running": 0, "pending": 1},
    )
    ask("last", "loud")
    ask("late", "loud")
    rejected = site.answer("late")
    assert rejected["reason"] == "Rejected"
    assert "maxPendingPerFlow" in rejected["conditions"][0]["message"]
    go.touch()
    assert site.answer("quiet")["result"] == "2"
    answers = site.answers()
    assert {answer["phase"] for name, answer in answers.items() if name != "late"} == {"Succeeded"}
    (member,) = _members(site)
    order = site.counted(member["metadata"]["name"])
    assert order.index("quiet") <= 1


def test_an_autoscaled_pool_wakes_from_zero_grows_with_the_work_and_sleeps_again(site: Site) -> None:
    site.operator().start()
    autoscaling = {"maxReplicas": 2, "scaleDown": {"stabilizationSeconds": 1}}
    site.pool(autoscaling=autoscaling, placement={"maxLoadPerInstance": 1})
    assert _condition(site.until_pool(desiredReplicas=0), "Available")["status"] == "True"

    go = site.directory / "go"
    for number in range(3):
        site.ask_pool(f"r{number}", GATE.format(go))
    status = site.until_pool(desiredReplicas=2, busy=2)
    assert status["lastScale"]["to"] == 2
    assert _condition(status, "ScalingLimited")["reason"] == "AtMaximum"
    go.touch()
    assert {site.answer(f"r{number}")["result"] for number in range(3)} == {"done"}
    site.until_pool(desiredReplicas=0, replicas=0, draining=0)
    until(lambda: not _members(site) or None, "members are left")
    assert site.pool_status()["lastScale"]["to"] == 0


def test_a_member_that_has_drained_for_as_long_as_it_may_is_deleted_with_its_work(site: Site) -> None:
    site.operator().start()
    site.pool(replicas=1, updateStrategy={"drainSeconds": 1})
    site.until_pool(ready=1)
    site.ask_pool("long", GATE.format(site.directory / "never"))
    site.until_status("long", phase="Running")
    _scale(site, 0)
    until(
        lambda: not _members(site) or None, lambda: f"the member is still there: {site.pool_status()}\n{site.logs()}"
    )
    assert site.answer("long")["reason"] == "Interrupted"


def _guarded(site: Site) -> list[str] | None:
    """Return the members that the pool's PodDisruptionBudget selects, None where there is none."""
    budget = site.kube.find("poddisruptionbudgets", site.namespace, "efrit-crew")
    if budget is None:
        return None
    (pods, *others) = budget["spec"]["selector"]["matchExpressions"]
    if others:
        assert [pods["operator"], others[0]["operator"]] == ["Exists", "DoesNotExist"]
        return []
    return [pod.removeprefix("efrit-").removesuffix("-0") for pod in pods["values"]]


def _until_guarded(site: Site, *members: str) -> None:
    until(
        lambda: _guarded(site) == sorted(members),
        lambda: f"guarded are {_guarded(site)} instead of {members}: {site.pool_status()}\n{site.logs()}",
        TIMEOUT,
    )


def test_evictions_are_to_leave_members_alone_that_have_longer_work_or_are_claimed(site: Site) -> None:
    operator = site.operator()
    operator.start()
    site.pool(replicas=2)
    site.until_pool(ready=2)
    _until_guarded(site)
    owner = site.kube.get("poddisruptionbudgets", site.namespace, "efrit-crew")["metadata"]["ownerReferences"]
    assert [(each["kind"], each["name"]) for each in owner] == [("EfritPool", "crew")]
    site.ask_pool("long", GATE.format("/tmp/go-" + site.namespace))
    working = site.until_status("long", phase="Running")["instanceName"]
    _until_guarded(site, working)
    # Whoever leads next writes it from what there is.
    operator.stop()
    operator.start()
    claim = {"metadata": {"name": "ada"}, "spec": {"poolRef": {"name": "crew"}, "release": "Return"}}
    site.kube.create("efritclaims", site.namespace, claim)
    held = until(
        lambda: site.kube.get("efritclaims", site.namespace, "ada").get("status", {}).get("instanceName"),
        lambda: f"the claim has no member\n{site.logs()}",
        TIMEOUT,
    )
    _until_guarded(site, working, held)
    site.kube.patch("efritclaims", site.namespace, "ada", {"spec": {"released": True}})
    _until_guarded(site, working)
    site.change_pool(disruptionBudget="None")
    _until_guarded(site)
    site.change_pool(disruptionBudget="BusyMembers")
    _until_guarded(site, working)
    site.kube.patch("efritrequests", site.namespace, "long", {"spec": {"cancel": True}})
    assert site.answer("long")["reason"] == "Cancelled"
    _until_guarded(site)
