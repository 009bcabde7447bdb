"""Examples of every CEL rule of an EfritPool, as examples.py has them for the other resources.

The rules of a member's spec are those of an EfritInstance: its examples are tried in the template as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.integration.api.examples import INSTANCES, Example, Rule, examples, group
from tests.support.kube import Json

POOLS = "efritpools"
TEMPLATE = "spec.template"


def pool(**spec: Any) -> Json:
    """Return a pool."""
    return {"spec": {"replicas": 1, **spec}}


def autoscaled(**spec: Any) -> Json:
    """Return a pool with an autoscaler of its own."""
    return {"spec": {"autoscaling": {"maxReplicas": 3, **spec.pop("autoscaling", {})}, **spec}}


def of_template(**spec: Any) -> Json:
    """Return a pool whose members have this spec."""
    return pool(template={"spec": spec})


def pool_examples() -> list[Example]:
    """Return all examples."""
    return [*_name(), *_size(), *_placement(), *_template(), *_update(), *_members()]


def _name() -> Iterator[Example]:
    yield from group(
        Rule(POOLS, "", "metadata.name begins the names of the members"),
        {"the longest": {**pool(), "metadata": {"name": "x" * 40}}},
        {
            "a longer one": {**pool(), "metadata": {"name": "x" * 41}},
            "a digit first": {**pool(), "metadata": {"name": "1x"}},
            "a dot": {**pool(), "metadata": {"name": "x.y"}},
        },
    )


def _size() -> Iterator[Example]:
    yield from group(
        Rule(POOLS, "spec", "set the number of members"),
        {"replicas": pool(), "none": pool(replicas=0), "autoscaling": autoscaled()},
        {"neither": {"spec": {}}, "both": autoscaled(replicas=1)},
    )
    yield from group(
        Rule(POOLS, "spec", "spec.warm adds to what spec.autoscaling finds"),
        {"with autoscaling": autoscaled(warm={"spares": 1})},
        {"with replicas": pool(warm={"spares": 1})},
    )
    yield from group(
        Rule(POOLS, "spec.autoscaling", "autoscaling.minReplicas must not be larger"),
        {"as many": autoscaled(autoscaling={"minReplicas": 3})},
        {"one more": autoscaled(autoscaling={"minReplicas": 4})},
    )


def _placement() -> Iterator[Example]:
    yield from group(
        Rule(POOLS, "spec.placement", "placement.affinityWaitSeconds is for placement.sessionAffinity: Preferred"),
        {
            "preferred": pool(placement={"sessionAffinity": "Preferred", "affinityWaitSeconds": 0}),
            "preferred, by default": pool(placement={"sessionAffinity": "Preferred"}),
        },
        {
            "required": pool(placement={"sessionAffinity": "Required", "affinityWaitSeconds": 5}),
            "required, by default": pool(placement={"affinityWaitSeconds": 5}),
        },
    )


def _template() -> Iterator[Example]:
    yield from group(
        Rule(POOLS, TEMPLATE, "template.spec.operatingMode: the members of a pool run"),
        {"Running": of_template(operatingMode="Running"), "nothing said": pool()},
        {"Suspended": of_template(operatingMode="Suspended")},
    )
    yield from group(
        Rule(POOLS, TEMPLATE, "template.spec.idle.deleteAfterSeconds: the pool would create the member anew"),
        {"suspended": of_template(idle={"suspendAfterSeconds": 10})},
        {"deleted": of_template(idle={"deleteAfterSeconds": 10})},
    )
    yield from group(
        Rule(POOLS, TEMPLATE, "template.spec names an existingClaim"),
        {"ephemeral": of_template(queue={"ephemeral": True}), "storage": of_template(workspace={"storage": {}})},
        {volume: of_template(**{volume: {"existingClaim": "mine"}}) for volume in ("queue", "workspace")},
    )
    yield from group(
        Rule(POOLS, f"{TEMPLATE}.metadata", "template.metadata.labels: keys that begin with"),
        {"another prefix": pool(template={"metadata": {"labels": {"example.org/team": "a"}}})},
        {"the operator's": pool(template={"metadata": {"labels": {"efrit.dev/pool": "a"}}})},
    )
    labels: list[Json] = [{"Team_1.x": "Blue-1_a.b"}, {"example.org/team": ""}, {"k" * 63: "v" * 63}]
    wrong: list[Json] = [
        {"a b": "c"},
        {"-a": "c"},
        {"a/b/c": "d"},
        {"A.org/b": "c"},
        {"k" * 64: "v"},
        {"a": "b!"},
        {"a": "-b"},
    ]
    yield from group(
        Rule(POOLS, f"{TEMPLATE}.metadata", "template.metadata.labels: one of them is not a Kubernetes label"),
        {str(label): pool(template={"metadata": {"labels": label}}) for label in labels},
        {str(label): pool(template={"metadata": {"labels": label}}) for label in wrong},
    )
    yield from group(
        Rule(POOLS, "spec.fairness", "fairness.flowLabel is not a valid label key"),
        {key: pool(fairness={"flowLabel": key}) for label in labels for key in label},
        {key: pool(fairness={"flowLabel": key}) for label in wrong for key in label if key != "a"},
    )


def _update() -> Iterator[Example]:
    yield from group(
        Rule(POOLS, "spec.updateStrategy", "updateStrategy.maxSurge and updateStrategy.maxUnavailable are both 0"),
        {
            "surge": pool(updateStrategy={"maxSurge": 1, "maxUnavailable": 0}),
            "absence": pool(updateStrategy={"maxSurge": 0, "maxUnavailable": 1}),
        },
        {"neither": pool(updateStrategy={"maxSurge": 0, "maxUnavailable": 0})},
    )
    yield from group(
        Rule(POOLS, "spec.updateStrategy", "updateStrategy.minReadySeconds must be smaller"),
        {"smaller": pool(updateStrategy={"minReadySeconds": 59, "progressDeadlineSeconds": 60})},
        {"as large": pool(updateStrategy={"minReadySeconds": 60, "progressDeadlineSeconds": 60})},
    )


def _members() -> Iterator[Example]:
    """Yield the examples of an instance's spec, those that no change of an instance is needed for."""
    for example in examples():
        rule = example.rule
        is_of_spec = rule.plural == INSTANCES and rule.where.startswith("spec") and example.old is None
        # What is fine for an instance and not for a member has rules of its own above.
        if not is_of_spec or (example.accepted and any(word in str(example.new) for word in ELSEWHERE)):
            continue
        where = f"{TEMPLATE}.{rule.where}"
        yield Example(
            Rule(POOLS, where, rule.message), example.title, of_template(**example.new["spec"]), example.accepted
        )
    suspended = Rule(POOLS, f"{TEMPLATE}.spec.idle", "idle.suspendAfterSeconds must be smaller")
    yield Example(suspended, "suspended alone", of_template(idle={"suspendAfterSeconds": 10}), accepted=True)


ELSEWHERE = ("existingClaim", "deleteAfterSeconds")
