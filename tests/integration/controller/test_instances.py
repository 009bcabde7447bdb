"""What becomes of an instance: ready, suspended, idle, refused, changed; and which one gets a request."""

from __future__ import annotations

from pathlib import Path

from tests.support.kube import Json, until
from tests.support.site import Site

LONG = "(sleep-for 600)"
GATE = '(progn (while (not (file-exists-p "go")) (sleep-for 0.02)) \'done)'
IMPOSSIBLE: Json = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Nearly", "values": ["a"]}]}]
        }
    }
}


def _instance(site: Site, name: str = "one") -> Json:
    return site.kube.get("efritinstances", site.namespace, name)


def _change(site: Site, **spec: object) -> None:
    site.kube.patch("efritinstances", site.namespace, "one", {"spec": spec})


def test_an_instance_becomes_ready_and_says_what_it_runs(shared: Site) -> None:
    instance = _instance(shared)
    status = instance["status"]
    assert (status["phase"], status["observedGeneration"]) == ("Ready", instance["metadata"]["generation"])
    assert status["podName"] == "efrit-one-0"
    assert status["emacsVersion"].startswith("28.")
    assert status["image"].startswith("efrit/emacs:")
    for kind, reason in {"Ready": "Ready", "EmacsResponsive": "Responding", "Suspended": "Running"}.items():
        assert shared.condition("one", kind)["reason"] == reason

    def ready_events() -> list[tuple[str, str]]:
        events = shared.kube.list("events", shared.namespace, fieldSelector="involvedObject.name=one")
        return [(event["type"], event["reason"]) for event in events if event["reason"] == "Ready"]

    # The event is posted after the status.
    assert until(ready_events, "no event tells of it") == [("Normal", "Ready")]


def test_the_figures_of_the_queue_reach_the_instance(shared: Site) -> None:
    before = _instance(shared)["status"].get("queue", {}).get("processed", 0)
    for content in ("1", "2", '(error "no")'):
        shared.answer(shared.ask(content))

    def counted() -> Json | None:
        queue: Json = _instance(shared)["status"].get("queue", {})
        return queue if queue.get("processed", 0) >= before + 3 else None

    queue = until(counted, "the figures are not written")
    assert queue["failed"] >= 1
    assert queue["succeeded"] + queue["failed"] == queue["processed"]
    assert "processed" in shared.condition("one", "QueueHealthy")["message"]


def test_the_controller_reports_on_itself(shared: Site) -> None:
    operator = shared.operators[0]
    shared.answer(shared.ask("1"))
    assert operator.fetch("/healthz").status_code == 200
    assert operator.fetch("/readyz").text == "leading\n"
    assert operator.metric("efrit_leader") == 1.0
    # It counts a write once it knows that it was made.
    for line in (
        'efrit_requests_finished_total{reason="Succeeded"}',
        'efrit_status_writes_total{kind="EfritRequest"}',
    ):
        until(lambda: operator.metric(line) >= 1, f"{line} is not counted")  # noqa: B023
    until(lambda: operator.metric("efrit_instances") == 1.0, "the instance is not counted")
    until(lambda: operator.metric("efrit_bridge_connections") == 1.0, "its connection is not counted")


def test_the_users_spec_is_never_written(shared: Site) -> None:
    shared.answer(shared.ask("1"))
    managers = {entry["manager"]: entry for entry in _instance(shared)["metadata"]["managedFields"]}
    ours = [entry for name, entry in managers.items() if name == "efrit-operator"]
    assert [entry["subresource"] for entry in ours] == ["status"]


def test_a_suspended_instance_holds_its_requests_until_it_is_resumed(site: Site) -> None:
    site.operator().start()
    site.instance()
    _change(site, operatingMode="Suspended")
    suspended = site.until_condition("one", "Suspended", status="True")
    assert suspended["reason"] == "Suspended"
    until(lambda: site.node.gone("one"), "the pod is still there")
    assert _instance(site)["status"]["phase"] == "Suspended"
    names = [site.ask(site.count(f"held{number}")) for number in range(3)]
    impatient = site.ask(site.count("impatient"), queueTimeoutSeconds=1)
    assert site.until_status(names[0], reason="InstanceSuspended")["phase"] == "Pending"
    assert site.answer(impatient)["reason"] == "TimedOut"
    _change(site, operatingMode="Running")
    assert {site.answer(name)["phase"] for name in names} == {"Succeeded"}
    assert sorted(site.counted()) == ["held0", "held1", "held2"]


def test_idle_instances_sleep_or_go_and_work_wakes_the_sleeper(site: Site) -> None:
    site.operator().start()
    site.instance("sleepy", ready=False, idle={"suspendAfterSeconds": 10}, labels={"kind": "sleepy"})
    site.instance("mayfly", ready=False, idle={"deleteAfterSeconds": 10})
    site.until_condition("sleepy", "Suspended", reason="SuspendedIdle", status="True")
    assert _instance(site, "sleepy")["spec"]["operatingMode"] == "Running"
    until(lambda: site.kube.find("efritinstances", site.namespace, "mayfly") is None, "the idle instance stays")
    # While it has work it cannot fall asleep again.
    woken = site.ask(GATE, to="sleepy")
    site.until_condition("sleepy", "Suspended", status="False")
    site.until_status(woken, phase="Running")
    (site.node.pod("sleepy").workspace / "go").touch()
    assert site.answer(woken)["result"] == "done"


def test_a_selector_finds_a_ready_instance_with_its_labels(site: Site) -> None:
    site.operator().start()
    chosen: Json = {"selector": {"matchLabels": {"team": "a"}}}
    early = site.ask("'early", to=None, **chosen)
    site.until_status(early, reason="InstanceNotReady")
    site.instance("a1", labels={"team": "a"})
    site.instance("b1", labels={"team": "b"})
    status = site.answer(early)
    assert (status["result"], status["instanceName"]) == ("early", "a1")
    # While a1 is busy, the idle one of the team gets the work.
    blocker = site.ask(LONG, to="a1")
    site.until_status(blocker, phase="Running")
    site.instance("a2", labels={"team": "a"})
    assert site.answer(site.ask("'spread", to=None, **chosen))["instanceName"] == "a2"
    site.cancel(blocker)
    site.answer(blocker)


def test_a_full_queue_holds_work_back_in_the_cluster(site: Site) -> None:
    site.operator().start()
    site.instance(queue={"storage": {}, "maxPending": 3})
    blocker = site.ask(LONG)
    site.until_status(blocker, phase="Running")
    names = [site.ask(site.count(f"n{number}"), f"n{number}") for number in range(6)]

    def backpressured() -> list[Json] | None:
        statuses = [status for status in map(site.status, names) if status.get("reason") == "Backpressure"]
        return statuses if len(statuses) == 4 else None

    pending = until(
        backpressured, lambda: f"not held back: {[site.status(name).get('reason') for name in names]}\n{site.logs()}"
    )
    assert {status["phase"] for status in pending} == {"Pending"}
    assert "maxPending" in pending[0]["conditions"][0]["message"]
    queue = site.node.pod("one").queue
    # Those that are handed over may be under way yet.
    until(lambda: _files(queue / "requests") == 2, lambda: f"not handed over\n{site.logs()}")
    assert _files(queue / "processing") == 1
    site.cancel(blocker)
    statuses = site.answers()
    assert {statuses[name]["phase"] for name in names} == {"Succeeded"}
    assert sorted(site.counted()) == names


def _files(directory: Path) -> int:
    return len(list(directory.iterdir()))


def test_a_refused_child_is_reported_in_the_api_servers_words_until_it_is_mended(site: Site) -> None:
    site.operator().start()
    site.instance(ready=False, podTemplate={"affinity": IMPOSSIBLE})
    refused = site.until_condition("one", "Ready", reason="ChildRefused")
    assert "not a valid selector operator" in refused["message"]
    assert "Nearly" in refused["message"]
    waiting = site.ask("'mended")
    _change(site, podTemplate=None)
    assert site.answer(waiting)["result"] == "mended"
    events = site.kube.list("events", site.namespace, fieldSelector="involvedObject.name=one")
    assert ("Warning", "ChildRefused") in {(event["type"], event["reason"]) for event in events}


def test_a_claim_against_the_namespaces_limits_is_reported(site: Site) -> None:
    limit = {"type": "PersistentVolumeClaim", "max": {"storage": "512Mi"}}
    site.kube.create("limitranges", site.namespace, {"metadata": {"name": "small"}, "spec": {"limits": [limit]}})
    site.operator().start()
    site.instance(ready=False)
    refused = site.until_condition("one", "Ready", reason="ChildRefused")
    assert "maximum storage usage per PersistentVolumeClaim is 512Mi" in refused["message"]


def test_a_request_waits_for_an_instance_that_comes_a_little_later(site: Site) -> None:
    site.operator().start(EFRIT_TARGET_GRACE_SECONDS="60")
    name = site.ask("'patient")
    assert site.until_status(name, reason="InstanceNotReady")["phase"] == "Pending"
    site.instance()
    assert site.answer(name)["result"] == "patient"


def test_a_changed_pod_waits_for_the_running_work(site: Site) -> None:
    site.operator().start()
    site.instance()
    gate = '(progn (while (not (file-exists-p "go")) (sleep-for 0.02)) (daemonp))'
    running = site.ask(gate)
    site.until_status(running, phase="Running")
    pod = site.node.pod("one")
    _change(site, emacs={"daemonName": "renamed"})

    site.until_condition("one", "Updated", reason="UpdateHeld")
    assert site.node.pod("one") is pod
    (pod.workspace / "go").touch()
    assert site.answer(running)["result"] == '"efrit"'
    until(lambda: site.node.pod("one") is not pod, "the pod is not replaced")
    assert site.answer(site.ask("(daemonp)"))["result"] == '"renamed"'
