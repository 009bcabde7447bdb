"""A pool as its user has it: with kubectl applied, scaled, claimed from and rolled out; what names it is answered."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from efrit import resources
from efrit.errors import ApiError
from tests.e2e.instance import Instance, held, send
from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl
from tests.support.timeout import TIMEOUT

POOL = "crew"
MAX_MEMBERS = int(os.environ.get("POOL_MEMBERS", "3"))
REQUESTS = int(os.environ.get("POOL_REQUESTS", "100"))
"""2,000 are for a machine that does nothing else."""
COLUMNS = ["NAME", "WANTED", "MEMBERS", "READY", "BUSY", "PENDING", "AVAILABLE", "AGE"]
EPHEMERAL = {"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}}


def _apply(namespace: str, **spec: object) -> None:
    manifest = resources.POOLS.manifest({"name": POOL}, spec={"template": {"spec": EPHEMERAL}, **spec})
    kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(manifest))


def _diagnostics(namespace: str) -> str:
    return "\n".join(
        (
            kubectl("get", "efp,efi,efr,pods", "-n", namespace, "-o", "wide", check=False),
            kubectl("get", "efp", POOL, "-n", namespace, "-o", "yaml", check=False)[-4000:],
        )
    )


def _until(kube: Kube, namespace: str, **expected: object) -> Json:
    def reached() -> Json | None:
        status: Json = kube.get("EfritPool", namespace, POOL).get("status", {})
        return status if expected.items() <= status.items() else None

    return until(reached, lambda: f"the pool is not {expected}\n{_diagnostics(namespace)}")


def _columns(namespace: str) -> dict[str, str]:
    head, line = kubectl("get", "efp", POOL, "-n", namespace).splitlines()
    assert head.split() == COLUMNS
    return dict(zip(head.split(), line.split(), strict=True))


def _ask(kube: Kube, namespace: str, content: str) -> Json:
    return send(kube, namespace, content, poolRef={"name": POOL}).wait()


def test_a_pool_is_applied_scaled_and_emptied_with_kubectl_and_answers_what_names_it(
    kube: Kube, namespace: str
) -> None:
    _apply(namespace, replicas=1)
    _until(kube, namespace, replicas=1, ready=1)
    status = _ask(kube, namespace, "(+ 40 2)")
    assert (status["phase"], status["result"]) == ("Succeeded", "42")
    assert status["instanceName"].startswith(f"{POOL}-")

    kubectl("scale", "efp", POOL, "--replicas=2", "-n", namespace)
    _until(kube, namespace, replicas=2, ready=2, idle=2, pending=0)
    shown = _columns(namespace)
    assert {name: shown[name] for name in COLUMNS[:-1]} == {
        "NAME": POOL,
        "WANTED": "2",
        "MEMBERS": "2",
        "READY": "2",
        "BUSY": "0",
        "PENDING": "0",
        "AVAILABLE": "True",
    }
    # Neither ends before the other is there.
    go = "/workspace/go"
    pair = [
        send(kube, namespace, held(go, str(number)), timeoutSeconds=600, poolRef={"name": POOL}) for number in (1, 2)
    ]
    until(lambda: all(request.status().get("instanceName") for request in pair), "not both are placed")
    members = {request.status()["instanceName"] for request in pair}
    assert len(members) == 2
    for member in members:
        Instance(kube, namespace, member).touch(go)
    assert [request.wait()["result"] for request in pair] == ["1", "2"]

    kubectl("scale", "efp", POOL, "--replicas=0", "-n", namespace)
    _until(kube, namespace, replicas=0, draining=0, ready=0)
    until(lambda: not kube.list("EfritInstance", namespace), lambda: f"members are left\n{_diagnostics(namespace)}")
    assert _columns(namespace)["AVAILABLE"] == "False"


def _pool_condition(kube: Kube, namespace: str, kind: str) -> Json:
    status = kube.get("EfritPool", namespace, POOL).get("status", {})
    return next((entry for entry in status.get("conditions", ()) if entry["type"] == kind), {})


@contextmanager
def _sizes(kube: Kube, namespace: str) -> Iterator[set[int]]:
    """Yield how many members the pool has wanted since: a watch sees what a poll may miss."""
    sizes, watching = set[int](), threading.Event()

    def follow() -> None:
        with suppress(ApiError):
            for event in events:
                sizes.add(event["object"].get("status", {}).get("desiredReplicas", 0))
                watching.set()

    with kube.events("EfritPool", namespace, seconds=None) as events:
        thread = threading.Thread(target=follow)
        thread.start()
        try:
            assert watching.wait(TIMEOUT), "the watch of the pool does not begin"
            yield sizes
        finally:
            events.end()
            thread.join()


def test_many_requests_to_a_pool_at_zero_are_answered_once_each_and_then_it_is_at_zero_again(
    kube: Kube, namespace: str
) -> None:
    autoscaling = {"maxReplicas": MAX_MEMBERS, "targetLoadPerInstance": 10, "scaleDown": {"stabilizationSeconds": 1}}
    _apply(namespace, autoscaling=autoscaling)
    _until(kube, namespace, desiredReplicas=0, replicas=0)
    assert _pool_condition(kube, namespace, "Available")["status"] == "True"
    with _sizes(kube, namespace) as sizes:
        # None ends before the last is there: how many members they need depends on nobody's speed.
        go = "/workspace/go"
        contents = [held(go, f"(+ 1 {number})") for number in range(REQUESTS)]
        to_pool: Json = {"poolRef": {"name": POOL}, "timeoutSeconds": 600}
        requests = [send(kube, namespace, content, **to_pool) for content in contents]
        until(lambda: MAX_MEMBERS in sizes, lambda: f"the pool wanted {sizes}\n{_diagnostics(namespace)}")
        members = until(
            lambda: made if len(made := kube.list("EfritInstance", namespace)) == MAX_MEMBERS else None,
            lambda: f"not all members are there\n{_diagnostics(namespace)}",
        )
        for member in members:
            Instance(kube, namespace, member["metadata"]["name"]).touch(go)
        answers = [request.wait() for request in requests]
        assert [answer["result"] for answer in answers] == [str(number + 1) for number in range(REQUESTS)]
        assert {answer["attempt"] for answer in answers} == {1}
        _until(kube, namespace, desiredReplicas=0, replicas=0, draining=0, pending=0)
    assert max(sizes) == MAX_MEMBERS
    until(lambda: not kube.list("EfritInstance", namespace), lambda: f"members are left\n{_diagnostics(namespace)}")


def test_a_member_is_claimed_goes_back_is_claimed_again_and_is_deleted_with_the_end_of_its_claim(
    kube: Kube, namespace: str
) -> None:
    _apply(namespace, replicas=1)
    _until(kube, namespace, ready=1, idle=1)

    def claim(name: str, **spec: object) -> str:
        manifest = {"metadata": {"name": name}, "spec": {"poolRef": {"name": POOL}, **spec}}
        kube.create("EfritClaim", namespace, manifest)
        kubectl("wait", f"efc/{name}", "--for=condition=Ready", f"--timeout={TIMEOUT:.0f}s", "-n", namespace)
        return str(kube.get("EfritClaim", namespace, name)["status"]["instanceName"])

    def release(name: str) -> None:
        kubectl("patch", "efc", name, "--type=merge", "-p", '{"spec":{"released":true}}', "-n", namespace)

    member = claim("first", release="Return")
    assert kube.get("EfritInstance", namespace, member)["metadata"]["ownerReferences"][0]["kind"] == "EfritClaim"
    assert send(kube, namespace, "(+ 40 2)", instanceRef={"name": member}).wait()["result"] == "42"
    release("first")
    until(
        lambda: kube.get("EfritClaim", namespace, "first")["status"]["phase"] == "Released",
        lambda: f"it is not released\n{_diagnostics(namespace)}",
    )
    assert kube.get("EfritInstance", namespace, member)["metadata"]["ownerReferences"][0]["kind"] == "EfritPool"

    second = claim("second", ttlSecondsAfterFinished=0)
    release("second")
    until(lambda: kube.find("EfritClaim", namespace, "second") is None, lambda: f"kept\n{_diagnostics(namespace)}")
    until(lambda: kube.find("EfritInstance", namespace, second) is None, lambda: f"kept\n{_diagnostics(namespace)}")


def test_a_template_with_a_broken_image_is_rolled_out_no_further_and_taken_back(kube: Kube, namespace: str) -> None:
    strategy = {"progressDeadlineSeconds": 10}
    _apply(namespace, replicas=1, updateStrategy=strategy)
    before = _until(kube, namespace, ready=1, updated=1)
    broken = {"spec": {**EPHEMERAL, "emacs": {"image": "localhost/efrit/none:0"}}}
    _apply(namespace, replicas=1, updateStrategy=strategy, template=broken)

    def stopped() -> Json | None:
        condition = _pool_condition(kube, namespace, "Progressing")
        # The kubelet of a busy node may say only after the deadline what is wrong with the image.
        has_cause = "localhost/efrit/none:0" in condition.get("message", "")
        return condition if condition.get("reason") == "RevisionFailed" and has_cause else None

    condition = until(stopped, lambda: f"the roll-out is not stopped\n{_diagnostics(namespace)}")
    assert condition["status"] == "False"
    names = {member["metadata"]["name"] for member in kube.list("EfritInstance", namespace)}
    (broken_name,) = (name for name in names if name in condition["message"])
    status = kube.get("EfritPool", namespace, POOL)["status"]
    assert status["revision"] != before["revision"]
    assert {name: status[name] for name in ("replicas", "ready", "updated")} == {
        "replicas": 2,
        "ready": 1,
        "updated": 1,
    }
    shown = _columns(namespace)
    assert (shown["WANTED"], shown["MEMBERS"], shown["READY"], shown["AVAILABLE"]) == ("1", "2", "1", "True")
    # The bridge of the new member is up, its Emacs never will be.
    answer = _ask(kube, namespace, "(+ 40 2)")
    assert answer["result"] == "42"
    assert answer["instanceName"] != broken_name

    _apply(namespace, replicas=1, updateStrategy=strategy)
    _until(kube, namespace, revision=before["revision"], ready=1, updated=1, replicas=1, draining=0)
    assert _pool_condition(kube, namespace, "Progressing")["status"] == "True"


def test_a_member_that_sleeps_is_woken_by_a_request(kube: Kube, namespace: str) -> None:
    _apply(namespace, replicas=1, template={"spec": {**EPHEMERAL, "idle": {"suspendAfterSeconds": 10}}})
    _until(kube, namespace, suspended=1)
    assert _ask(kube, namespace, "(+ 40 2)")["result"] == "42"


def _said_of_dumps(namespace: str, member: str) -> list[tuple[str, str]]:
    """Return what the log of a member's Emacs says of dumps: made or started from, and the name of each."""
    log = kubectl("logs", f"efrit-{member}-0", "-c", "emacs", "-n", namespace)
    return re.findall(r"^run-emacs: (made|Emacs starts from) the dump (\S+)$", log, re.MULTILINE)


def test_members_share_the_dump_of_their_template_on_a_claim_and_another_template_has_its_own(
    kube: Kube, namespace: str
) -> None:
    # The cluster has one node: the claim of several would be ReadWriteMany.
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    kube.create("PersistentVolumeClaim", namespace, {"metadata": {"name": "dumps"}, "spec": claim})

    def template(*libraries: str) -> Json:
        return {"spec": {**EPHEMERAL, "emacs": {"fastStart": {"libraries": libraries, "existingClaim": "dumps"}}}}

    def members() -> set[str]:
        return {member["metadata"]["name"] for member in kube.list("EfritInstance", namespace)}

    _apply(namespace, replicas=1, template=template("json"))
    before = _until(kube, namespace, ready=1, updated=1)
    (first,) = members()
    (made, dump), *starts = _said_of_dumps(namespace, first)
    assert (made, starts) == ("made", [("Emacs starts from", dump)])

    kubectl("scale", "efp", POOL, "--replicas=2", "-n", namespace)
    _until(kube, namespace, ready=2, replicas=2)
    (second,) = members() - {first}
    assert _said_of_dumps(namespace, second) == [("Emacs starts from", dump)]
    to_second = {"name": second}
    assert send(kube, namespace, "(featurep 'json)", instanceRef=to_second).wait()["result"] == "t"

    _apply(namespace, replicas=1, template=template("json", "timer-list"))
    after = _until(kube, namespace, ready=1, updated=1, replicas=1, draining=0)
    assert after["revision"] != before["revision"]
    until(lambda: len(members()) == 1, lambda: f"members are left\n{_diagnostics(namespace)}")
    (third,) = members()
    (made, other), *starts = _said_of_dumps(namespace, third)
    assert (made, starts) == ("made", [("Emacs starts from", other)])
    assert other != dump
