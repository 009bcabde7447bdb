"""What only the cluster can refuse is reported in its own words, harms nobody, and is over when it is taken back."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from efrit import resources
from efrit.errors import ApiError
from efrit.resources import INSTANCES
from tests.integration.controller.fields.changes import SUSPENDED
from tests.integration.controller.fields.children import differences
from tests.integration.controller.fields.mistakes import TYPOS, Mistake, mistakes
from tests.integration.controller.fields.rig import Rig, merged
from tests.support.kube import Json, until
from tests.support.site import Site

STAGES = 5
NOWHERE = {
    "runtimeClassName": 'RuntimeClass "absent" not found',
    "priorityClassName": "no PriorityClass with name absent was found",
}
"""Names of what need not exist when the StatefulSet is applied, and must when its pod is made."""


@pytest.fixture(scope="module")
def stages(shared: Site) -> Iterator[Rig]:
    """Instances in turn: the status of each is written 30 times a minute at most, and a mistake waits for that."""
    return itertools.cycle([Rig(shared, f"mistaken{number}", **SUSPENDED) for number in range(STAGES)])


@pytest.fixture
def rig(stages: Iterator[Rig]) -> Rig:
    return next(stages)


@pytest.fixture(scope="module", autouse=True)
def calm(shared: Site) -> Iterator[None]:
    """All the while the controller lives, complains of nothing, and the other instance is served."""
    yield
    assert shared.operators[0].process.status is None
    assert "Traceback" not in shared.operators[0].process.log.read_text()
    assert shared.answer(shared.ask("'served"))["result"] == "served"


@pytest.mark.parametrize("mistake", mistakes(), ids=str)
def test_a_mistake_is_reported_and_is_over_when_it_is_taken_back(rig: Rig, mistake: Mistake) -> None:
    before = rig.after(SUSPENDED)
    rig.takes(merged(SUSPENDED, mistake.change))
    ready = rig.site.until_condition(rig.name, "Ready", reason="ChildRefused")
    assert [phrase for phrase in mistake.says if phrase not in ready["message"]] == [], ready["message"]
    assert differences(before, rig.after(SUSPENDED)) == {}


@pytest.mark.parametrize(("change", "says"), TYPOS, ids=[says for _, says in TYPOS])
def test_a_typo_in_what_is_kubernetes_own_is_refused_at_once(rig: Rig, change: Json, says: str) -> None:
    with pytest.raises(ApiError, match=re.escape(says)):
        rig.becomes(merged(SUSPENDED, change))


@pytest.mark.parametrize("strict", ["Strict", "Ignore"])
def test_nothing_of_any_depth_gets_in(shared: Site, strict: str) -> None:
    """More levels than a JSON reader goes down would end every controller at its next list, for everyone."""
    deep = '{"a":[' * 4000 + "]}" * 4000
    place = '{"volumes":[{"name":"a","configMap":%s}],"affinity":%s}' % (deep, deep)  # noqa: UP031 - braces
    body = '{"apiVersion":"%s","kind":"%s","metadata":{"name":"deep-%s"},"spec":{%s}}' % (  # noqa: UP031
        INSTANCES.api_version,
        INSTANCES.kind,
        strict.lower(),
        f'"operatingMode":"Suspended","podTemplate":{place},"network":{{"egress":[{{"to":[{{"podSelector":{deep}}}]}}]}}',
    )
    path = INSTANCES.path(shared.namespace)
    if strict == "Strict":
        with pytest.raises(ApiError, match="unknown field"):
            shared.kube.call("POST", path, body.encode(), fieldValidation=strict)
    else:
        made = shared.kube.call("POST", path, body.encode(), fieldValidation=strict)
        assert made["spec"]["podTemplate"]["affinity"] == {}
    assert shared.answer(shared.ask("'alive"))["result"] == "alive"


def test_an_instance_with_a_mistake_goes_on_as_it_was_and_its_pod_stays(shared: Site) -> None:
    pod, rig = shared.node.pod("one"), Rig.of(shared, "one")
    before = rig.observed()
    # The policy is refused after nothing, the StatefulSet after the policy: both leave what runs alone.
    rig.becomes(
        {
            "network": {"egress": [{"to": [{"podSelector": {}}], "ports": [{"port": 99}]}]},
            "podTemplate": {"labels": {"a": "b c"}},
        }
    )
    shared.until_condition("one", "Ready", reason="ChildRefused")
    assert shared.answer(shared.ask("'still"))["result"] == "still"
    rig.becomes({})
    shared.until_condition("one", "Ready", status="True")
    assert differences(before, rig.observed()) == {}
    assert shared.node.pod("one") is pod


def test_a_mistake_is_forgotten_though_its_controller_is(site: Site) -> None:
    site.operator().start()
    site.instance()
    rig = Rig.of(site, "one")
    before = rig.observed()
    rig.becomes(
        {
            "network": {"egress": [{"to": [{"podSelector": {}}], "ports": [{"port": 99}]}]},
            "podTemplate": {"labels": {"a": "b c"}},
        }
    )
    site.until_condition("one", "Ready", reason="ChildRefused")
    assert differences(before, rig.observed())["NetworkPolicy.spec.egress[1].ports[0].port"] == 99
    site.operators[0].kill()
    rig.becomes({})
    site.operators[0].start()
    site.until_condition("one", "Ready", status="True")
    assert differences(before, rig.observed()) == {}


def test_a_growth_that_is_refused_can_be_taken_back(shared: Site) -> None:
    rig = Rig.of(shared, "one")
    before = rig.observed()
    rig.takes({"workspace": {"storage": {"size": "2Gi"}}})
    ready = shared.until_condition("one", "Ready", reason="ChildRefused")
    assert 'persistentvolumeclaims "efrit-one-workspace" is forbidden' in ready["message"]
    assert "can be resized" in ready["message"]
    assert differences(before, rig.after({})) == {}


def test_a_claim_given_up_and_asked_for_anew_with_other_properties_is_refused(shared: Site) -> None:
    made = merged(SUSPENDED, {"queue": {"storage": {"accessModes": ["ReadWriteMany"]}}})
    rig = Rig(shared, "modes", **made)
    before = rig.observed()
    rig.takes(merged(SUSPENDED, {"queue": {"storage": None}}))
    ready = shared.until_condition("modes", "Ready", reason="ChildRefused")
    assert "efrit-modes-queue" in ready["message"]
    assert differences(before, rig.after(made)) == {}


def test_a_pod_that_cannot_be_made_says_why_and_comes_when_the_mistake_is_taken_back(shared: Site) -> None:
    names = {f"no-{key.lower()}": key for key in NOWHERE}
    for name, key in names.items():
        shared.instance(name, ready=False, podTemplate={key: "absent"})

    def refused_conditions() -> dict[str, Json] | None:
        conditions = {name: shared.condition(name, "Ready") for name in names}
        return (
            conditions
            if all(NOWHERE[names[name]] in condition.get("message", "") for name, condition in conditions.items())
            else None
        )

    conditions = until(
        refused_conditions, lambda: f"not refused: {[shared.condition(name, 'Ready') for name in names]}"
    )
    assert {condition["reason"] for condition in conditions.values()} == {"ChildRefused"}
    for name in names:
        Rig.of(shared, name).becomes({})
    for name in names:
        assert shared.answer(shared.ask("'mended", to=name))["result"] == "mended"
        shared.until_condition(name, "Ready", status="True")


def test_a_webhook_that_is_down_is_reported_and_is_over_when_it_is_gone(site: Site) -> None:
    """It is a failure of the server as much as a hiccup is: what tells them apart is that it lasts."""
    site.operator().start()
    site.instance()
    before = Rig.of(site, "one").observed()
    hooks, name = resources.VALIDATING_WEBHOOKS.path(), f"down-{site.namespace}"
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["statefulsets"]}
    hook = {
        "name": "down.example.org",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    site.kube.call("POST", hooks, {"metadata": {"name": name}, "webhooks": [hook]})
    try:
        rig = Rig.of(site, "one")
        # The API server learns of a webhook a moment after it has stored it.
        until(lambda: _refused_dry(site), "the webhook is not asked")
        rig.becomes({"emacs": {"daemonName": "renamed"}})
        ready = site.until_condition("one", "Ready", reason="ChildRefused")
        assert 'failed calling webhook "down.example.org"' in ready["message"]
        assert site.answer(site.ask("(daemonp)"))["result"] == '"efrit"'
    finally:
        site.kube.call("DELETE", f"{hooks}/{name}")
    until(lambda: not _refused_dry(site), "the webhook is still asked")
    rig.becomes({})
    site.until_condition("one", "Ready", status="True")
    assert differences(before, rig.observed()) == {}


def _refused_dry(site: Site) -> bool:
    note = {"metadata": {"annotations": {"note": "a"}}}
    try:
        site.kube.patch("statefulsets", site.namespace, "efrit-one", note, dryRun="All")
    except ApiError as refusal:
        return refusal.status is not None
    return False
