"""Which writes of the API a controller makes: what distinguishes them, and how a test causes each.

A scenario makes the controller do one kind of write. test_api_writes.py runs every scenario under every fault, and
fails when a tour through everything the controller can do shows a write that has no scenario.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from efrit.errors import ApiError
from tests.chaos.proxied_cluster import CLAIMLESS, EPHEMERAL, ONE, SUSPENDED, ProxiedCluster, never_ran
from tests.support.faults.api_proxy.calls import OPERATIONS, Call, Json
from tests.support.faults.api_proxy.proxy import ArmedFault, Effect, Fault
from tests.support.faults.api_proxy.rules import FINAL, WRITE_EFFECTS
from tests.support.faults.history import Digest, ExpectedEnd


class Write(NamedTuple):
    """One kind of write: verb and resource in the terms of RBAC, and what matters of it to the protocol."""

    verb: str
    resource: str
    facet: str = ""

    def fault(self, effect: Effect, *, seconds: float) -> Fault:
        """Return a fault for this kind of write, whichever object it is about."""
        resource, _, sub = self.resource.partition("/")

        def is_it(body: Json) -> bool:
            return facet_of(self.verb, self.resource, body) == self.facet

        return Fault(effect, self.verb, resource, sub, when=is_it, seconds=seconds)


def kind_of(call: Call) -> Write:
    """Return which kind of write a call was."""
    what = call.target
    name = f"{what.resource}/{what.sub}" if what.sub else what.resource
    return Write(what.verb, name, facet_of(what.verb, name, call.body or {}))


def _of_request(body: Json) -> str:
    status = body.get("status", {})
    if status.get("phase") in FINAL:
        return "final" if status.get("startTime") else "never ran"
    phase = status.get("phase")
    if phase is None and status.get("instanceName"):
        return "bound"
    if phase == "Pending":
        return "bound" if status.get("reason") == "Pending" else "waiting"
    return str(phase)


def _of_instance(body: Json) -> str:
    return str(body.get("status", {}).get("phase"))


def _of_secret(body: Json) -> str:
    if body.get("type") == "efrit.dev/result":
        return "result"
    return CHILD if _owner_of(body) == "EfritInstance" else "identity"


def _of_network_policy(body: Json) -> str:
    return "pod" if _owner_of(body) == "Pod" else CHILD


def _owner_of(body: Json) -> str:
    owners = body.get("metadata", {}).get("ownerReferences") or [{}]
    return str(owners[0].get("kind", ""))


def _of_json_patch(body: Json) -> str:
    return ASKED if all(operation["op"] == "test" for operation in body.get(OPERATIONS, ())) else RECORDED


def _of_lease(body: Json) -> str:
    holder = body.get("spec", {}).get("holderIdentity")
    return "held" if holder else "given back"


CHILDREN = {
    "serviceaccounts": "efrit-{}",
    "secrets": "efrit-{}-bridge",
    "networkpolicies": "efrit-{}",
    "persistentvolumeclaims": "efrit-{}-queue",
    "statefulsets": "efrit-{}",
}
CHILD = "child"
ASKED = "asked"
"""A JSON patch that only tests whether a child is there and its instance's: it changes nothing."""
RECORDED = "recorded"
"""A JSON patch by which a child that was created counts as applied."""


def facet_of(verb: str, resource: str, body: Json) -> str:
    """Return what distinguishes this write from others of its verb and resource; empty without a difference."""
    facet = FACETS.get((verb, resource))
    return facet(body) if facet is not None else ""


FACETS: Mapping[tuple[str, str], Callable[[Json], str]] = {
    ("patch", "efritrequests/status"): _of_request,
    ("patch", "efritinstances/status"): _of_instance,
    ("create", "secrets"): _of_secret,
    ("create", "networkpolicies"): _of_network_policy,
    ("patch", "leases"): _of_lease,
    **{("patch", plural): _of_json_patch for plural in CHILDREN},
}


@dataclass(frozen=True)
class WriteScenario:
    """How to cause a write, and to check that it has the effect it should.

    `vital` marks what the promises rest on: it is tested under every fault each time. The others share their code
    with similar ones: each gets the faults that leave open what was committed, and one more in turn.
    """

    write: Write
    run: Callable[[ProxiedCluster, str, Callable[[Fault], ArmedFault], Fault], None]
    """Gets the cluster, a name of its own, what arms, and the fault for its write."""
    vital: bool = False
    effects: tuple[Effect, ...] = ()
    """Those to test it under each time, where it is neither vital nor like the others."""


Arm = Callable[[Fault], ArmedFault]


def _named(fault: Fault, name: str) -> Fault:
    return replace(fault, name=name)


def _answered(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, name))
    request = cluster.submit(name)
    cluster.wait_injected(armed)
    assert cluster.wait_final(request)["phase"] == "Succeeded"


def _failed(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, name))
    request = cluster.submit(name, type="chat", ends=(never_ran("ModelNotConfigured"),))
    cluster.wait_injected(armed)
    assert cluster.wait_final(request)["phase"] == "Failed"


def _bound(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, name))
    request = cluster.submit(name, to=None, selector={"matchLabels": {"team": "a"}})
    cluster.wait_injected(armed)
    assert cluster.wait_final(request)["instanceName"] == ONE


def _queued(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, name))
    request = cluster.submit(name, to=EPHEMERAL)
    cluster.wait_injected(armed)
    assert cluster.wait_final(request)["queueID"]


def _running(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, name))
    request = cluster.submit(name, cluster.gated_form(name))
    cluster.until_running(name)
    cluster.wait_injected(armed)
    cluster.open_gate(name)
    cluster.wait_final(request)


def _waiting(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, name))
    request = cluster.submit(name, to=SUSPENDED, ends=(never_ran("Cancelled"),))
    cluster.wait_injected(armed)
    cluster.until(lambda: cluster.status(request).get("reason") == "InstanceSuspended", f"{name} does not wait")
    cluster.site.cancel(name)
    cluster.wait_final(request)


LARGE = 50_000


def _result(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
    content = f"(progn {cluster.site.count(name)} (make-string {LARGE} ?x))"
    get = '"' + "x" * LARGE + '"'
    armed = arm(fault)
    request = cluster.submit(name, content, ends=(ExpectedEnd("Succeeded", Digest.of(get)),))
    cluster.wait_injected(armed)
    reference = cluster.wait_final(request)["resultRef"]
    secret = cluster.kube.get("secrets", cluster.namespace, reference["secretName"])
    assert base64.b64decode(secret["data"]["result"]).decode() == get


def _expired(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, name))
    cluster.submit(name, ttlSecondsAfterFinished=0, deleted=True)
    cluster.wait_injected(armed)
    cluster.until(lambda: cluster.kube.find("efritrequests", cluster.namespace, name) is None, f"{name} stays")


def _child(plural: str, *, later: bool = False) -> Callable[[ProxiedCluster, str, Arm, Fault], None]:
    """Return what makes the children of an instance, spoils them all, and has them applied once more.

    The fault is for the child of this kind: of its first write, or with `later` of that of the child that is there.
    """

    def run(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
        fault = _named(fault, CHILDREN[plural].format(name))
        armed = None if later else arm(fault)
        cluster.site.instance(name, ready=False, operatingMode="Suspended", network={"egress": [ANYWHERE]})
        if armed is not None:
            cluster.wait_injected(armed)
        cluster.until(
            lambda: cluster.site.condition(name, "Suspended").get("status") == "True", f"{name} is not suspended"
        )
        cluster.until(
            lambda: len(_children(cluster, name)) == len(CHILDREN), lambda: f"only {_children(cluster, name)}"
        )
        for child_plural, child in _children(cluster, name):
            cluster.kube.patch(child_plural, cluster.namespace, child, {"metadata": {"labels": {SPOILT: "somebody"}}})
        if later:
            armed = arm(fault)
        cluster.kube.patch("efritinstances", cluster.namespace, name, {"spec": {"network": {"egress": []}}})
        if later and armed is not None:
            cluster.wait_injected(armed)
        cluster.until(lambda: not _outdated(cluster, name), lambda: f"not as applied: {_outdated(cluster, name)}")
        remove(cluster, name)

    return run


SPOILT = "app.kubernetes.io/name"
ANYWHERE: Json = {"to": [{"ipBlock": {"cidr": "198.51.100.7/32"}}]}


def _outdated(cluster: ProxiedCluster, name: str) -> list[str]:
    """Return which children are not as applied last: a field is foreign or left over, or would be left over."""
    lines = []
    for plural, pattern in CHILDREN.items():
        obj = cluster.kube.get(plural, cluster.namespace, pattern.format(name))
        meta = obj["metadata"]
        ours = [
            entry["operation"]
            for entry in meta["managedFields"]
            if entry["manager"] == "efrit-operator" and not entry.get("subresource")
        ]
        left_over = plural == "networkpolicies" and ANYWHERE in obj["spec"]["egress"]
        if meta["labels"].get(SPOILT) != "efrit-instance" or ours != ["Apply"] or left_over:
            lines.append(f"{plural}: {meta['labels']}, {ours}{', left over' if left_over else ''}")
    return lines


def _isolated(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
    """Start a pod: it gets a NetworkPolicy of its own."""

    def is_it(body: Json) -> bool:
        its_name = str(body["metadata"]["name"])
        return its_name.startswith(f"efrit-{name}-0-") and (fault.when is None or fault.when(body))

    armed = arm(replace(fault, when=is_it))
    cluster.site.instance(name, ready=False, **CLAIMLESS)
    cluster.wait_injected(armed)
    cluster.until(lambda: phase_of(cluster, name) == "Ready", f"{name} is not ready")
    pod = cluster.site.node.pod(name)
    policy = f"{pod.name}-{pod.uid}"
    isolation = cluster.until(
        lambda: cluster.kube.find("networkpolicies", cluster.namespace, policy),
        f"{pod.name} has no policy of its own",
    )
    assert [owner["uid"] for owner in isolation["metadata"]["ownerReferences"]] == [pod.uid]
    remove(cluster, name)
    cluster.kube.delete("networkpolicies", cluster.namespace, policy)


def remove(cluster: ProxiedCluster, name: str) -> None:
    """Delete an instance and, as no garbage collector runs here, its children."""
    cluster.kube.delete("efritinstances", cluster.namespace, name)

    def gone() -> bool:
        # A controller that has not received the deletion creates a child anew.
        for plural, child in _children(cluster, name):
            with suppress(ApiError):
                cluster.kube.delete(plural, cluster.namespace, child)
        return cluster.site.node.gone(name) and not _children(cluster, name)

    cluster.until(gone, lambda: f"of {name} stay {_children(cluster, name)}")


def _children(cluster: ProxiedCluster, name: str) -> list[tuple[str, str]]:
    names = [(plural, pattern.format(name)) for plural, pattern in CHILDREN.items()]
    children = [(key, cluster.kube.find(key[0], cluster.namespace, key[1])) for key in names]
    # The finalizers of claims are lifted by a controller that does not run here.
    return [key for key, obj in children if obj is not None and "deletionTimestamp" not in obj["metadata"]]


def _of_phase(phase: str) -> Callable[[ProxiedCluster, str, Arm, Fault], None]:
    def run(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
        armed = arm(_named(fault, name))
        spec = dict(CLAIMLESS)
        if phase == "NotReady":
            spec["podTemplate"] = {"affinity": IMPOSSIBLE}
        if phase == "Suspended":
            spec["operatingMode"] = "Suspended"
        cluster.site.instance(name, ready=False, **spec)
        cluster.wait_injected(armed)
        end = "Ready" if phase == "Pending" else phase
        cluster.until(
            lambda: phase_of(cluster, name) == end, lambda: f"{name} is {phase_of(cluster, name)}, not {end}"
        )
        remove(cluster, name)

    return run


IMPOSSIBLE: Json = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Nearly", "values": ["a"]}]}]
        }
    }
}


def phase_of(cluster: ProxiedCluster, name: str) -> str:
    """Return the phase of an instance."""
    return str(cluster.kube.get("efritinstances", cluster.namespace, name).get("status", {}).get("phase"))


def _reported(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
    armed = arm(fault)
    cluster.site.instance(name, ready=False, operatingMode="Suspended", **CLAIMLESS)
    cluster.wait_injected(armed)
    cluster.until(lambda: phase_of(cluster, name) == "Suspended", f"{name} is not suspended")
    remove(cluster, name)


def _reported_again(cluster: ProxiedCluster, name: str, arm: Arm, fault: Fault) -> None:
    """Suspend an instance twice; a third time if the controller was restarted after the first."""
    armed = arm(fault)
    cluster.site.instance(name, ready=False, operatingMode="Suspended", **CLAIMLESS)
    for _ in range(3):
        cluster.until(lambda: phase_of(cluster, name) == "Suspended", f"{name} is not suspended")
        if armed.injected.is_set():
            break
        _switch(cluster, name, "Running")
        cluster.until(lambda: phase_of(cluster, name) != "Suspended", f"{name} is not resumed")
        _switch(cluster, name, "Suspended")
    cluster.wait_injected(armed)
    remove(cluster, name)


def _switch(cluster: ProxiedCluster, name: str, mode: str) -> None:
    cluster.kube.patch("efritinstances", cluster.namespace, name, {"spec": {"operatingMode": mode}})


UNCERTAIN = (Effect.KILL_AFTER_COMMIT, Effect.LOST_REPLY, Effect.CONFLICT_409)
DISTINCT = tuple(effect for effect in WRITE_EFFECTS if effect is not Effect.KILL_AFTER_REPLY)
"""To be killed after the reply leaves what being killed after the commit leaves: a write that took effect."""
ONE_EACH = (*UNCERTAIN, Effect.KILL_BEFORE_SEND, Effect.ERROR_500)


def _short(plural: str) -> str:
    """Return a kind's name that leaves room for an effect in the name of an instance."""
    return plural.removeprefix("persistentvolume")


def _of_each_child(
    step: str, verb: str, facet: str, effects: tuple[Effect, ...], *, later: bool = False
) -> dict[str, WriteScenario]:
    """Return a scenario for each kind of child, among which the effects are dealt out: they share their code."""
    return {
        f"{_short(plural)}-{step}": WriteScenario(
            Write(verb, plural, facet), _child(plural, later=later), effects=effects[number :: len(CHILDREN)]
        )
        for number, plural in enumerate(CHILDREN)
    }


STATUS = "efritrequests/status"
SCENARIOS: Mapping[str, WriteScenario] = {
    "bound": WriteScenario(Write("patch", STATUS, "bound"), _bound, vital=True),
    "waiting": WriteScenario(Write("patch", STATUS, "waiting"), _waiting),
    "queued": WriteScenario(Write("patch", STATUS, "Queued"), _queued, vital=True),
    "running": WriteScenario(Write("patch", STATUS, "Running"), _running, vital=True),
    "final": WriteScenario(Write("patch", STATUS, "final"), _answered, vital=True),
    "never-ran": WriteScenario(Write("patch", STATUS, "never ran"), _failed, vital=True),
    "result": WriteScenario(Write("create", "secrets", "result"), _result, vital=True),
    "expired": WriteScenario(Write("delete", "efritrequests"), _expired, vital=True),
    **{
        f"{_short(plural)}-created": WriteScenario(
            Write("create", plural, CHILD if plural in ("secrets", "networkpolicies") else ""), _child(plural)
        )
        for plural in CHILDREN
    },
    **_of_each_child("asked", "patch", ASKED, ONE_EACH),
    **_of_each_child("recorded", "patch", RECORDED, ONE_EACH),
    **_of_each_child("applied", "apply", "", DISTINCT, later=True),
    "pod-isolated": WriteScenario(Write("create", "networkpolicies", "pod"), _isolated),
    **{
        f"instance-{phase.lower()}": WriteScenario(Write("patch", "efritinstances/status", phase), _of_phase(phase))
        for phase in ("Pending", "Ready", "Suspended", "NotReady")
    },
    "event": WriteScenario(Write("create", "events"), _reported),
    "event-again": WriteScenario(Write("patch", "events"), _reported_again),
}

AT_STARTUP: Mapping[str, Write] = {
    "lease-created": Write("create", "leases"),
    "identity": Write("create", "secrets", "identity"),
}
"""Tested by test_startup_writes.py, as are those below."""
ELSEWHERE = {
    Write("patch", "leases", "held"),
    Write("patch", "leases", "given back"),
    Write("delete", "efritinstances"),
}
PLANNED = {*(scenario.write for scenario in SCENARIOS.values()), *AT_STARTUP.values(), *ELSEWHERE}
"""Every kind of write; a tour through all that a controller does must show these, and no others."""


def chosen(everything: bool) -> list[tuple[str, Effect]]:
    """Return which scenario runs under which fault."""
    others = [effect for effect in DISTINCT if effect not in UNCERTAIN]
    faults = []
    for number, (name, scenario) in enumerate(SCENARIOS.items()):
        some = scenario.effects or (*UNCERTAIN, others[number % len(others)])
        faults += [
            (name, effect) for effect in (WRITE_EFFECTS if everything else DISTINCT if scenario.vital else some)
        ]
    return faults
