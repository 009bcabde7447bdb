"""packed_spec.py: what may be large of an instance's spec is kept small, and nothing is lost of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from efrit.api.instance import Network
from efrit.api.pod_template import PodTemplate
from efrit.controller.act.identity import new_identity
from efrit.controller.decide.instances import decide_instance
from efrit.controller.manifests import build
from efrit.controller.model.actions import ApplyChildren, PatchStatus
from efrit.controller.model.names import POOL_LABEL
from efrit.controller.store.packed_spec import MAX_BYTES, MAX_LABELS, pack, unpack
from tests.support.factory import CONFIG, NOW, Json, instance, instance_json
from tests.unit.controller.store.world import World

pytestmark = pytest.mark.virtual_time

IDENTITY = new_identity()


def affinity(terms: int) -> Json:
    expressions = [{"key": f"k{number}", "operator": "In", "values": ["a", "b"]} for number in range(terms)]
    terms_of_nodes = [{"matchExpressions": expressions[first : first + 60]} for first in range(0, terms, 60)]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms_of_nodes}}
    return {"nodeAffinity": required}


def template(terms: int = 500) -> Json:
    return {
        "affinity": affinity(terms),
        "env": [{"name": "A", "value": "b"}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "serviceAccountName": "robot",
        "volumes": [{"name": "cache", "emptyDir": {}}],
        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
    }


def large(terms: int = 500) -> Json:
    peers = [{"to": [{"ipBlock": {"cidr": f"10.0.{number}.0/24"}}]} for number in range(50)]
    requests = {"cpu": 1, "memory": "1Gi", **{f"example.org/device-{number}": 1 for number in range(terms)}}
    emacs = {"image": "emacs:30", "resources": {"requests": requests}}
    spec = {"podTemplate": template(terms), "network": {"egress": peers}, "emacs": emacs}
    return {**spec, "idle": {"suspendAfterSeconds": 60}}


@pytest.mark.parametrize("spec", [{}, {"podTemplate": template(1)}, large()], ids=["none", "small", "large"])
def test_the_children_are_the_same_and_what_is_kept_is_small(spec: Json) -> None:
    whole = instance(spec=spec)
    packed = pack(whole)

    assert build(unpack(packed.small, packed.rest), CONFIG, IDENTITY, 1, NOW) == build(
        whole, CONFIG, IDENTITY, 1, NOW
    )
    size = len(packed.small.model_dump_json(exclude_defaults=True)) + len(packed.rest or b"")
    assert size < 10_000
    assert packed.small.spec.idle == whole.spec.idle
    assert packed.small.spec.pod_template.service_account_name == whole.spec.pod_template.service_account_name


@pytest.mark.parametrize(
    "large",
    [
        {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x" * 100_000}},
        {"ownerReferences": [{"kind": "ConfigMap", "name": "c", "uid": f"{number}"} for number in range(10_000)]},
    ],
    ids=["annotations", "owners"],
)
def test_what_nothing_reads_of_the_metadata_is_not_kept(large: Json) -> None:
    manifest = instance_json()
    manifest["metadata"] |= large

    assert pack(instance().model_validate(manifest)).small == instance()


async def test_of_more_labels_than_are_kept_nothing_is_made_until_some_are_removed(world: World) -> None:
    """Labels change without a new generation."""
    many = {POOL_LABEL: "blue", **{f"l{number}": "" for number in range(MAX_LABELS)}}
    for version, labels in (("11", many), ("12", {POOL_LABEL: "blue"}), ("13", many)):
        is_refused = labels is many
        world.store.instances.observe(instance_json(version=version, labels=labels))
        snapshot = world.store.instances.snapshot(("team", "alpha"), deciding=True)
        assert snapshot is not None
        assert snapshot.instance.metadata.labels == {POOL_LABEL: "blue"}
        assert snapshot.too_large is is_refused
        actions = decide_instance(snapshot, IDENTITY, world.now() + timedelta(seconds=60))
        assert any(isinstance(action, ApplyChildren) for action in actions) is not is_refused
        if is_refused:
            assert f"has {MAX_LABELS + 1} labels; at most {MAX_LABELS} are allowed" in str(snapshot.facts.refused)
        else:
            assert world.store.instances.applied(("team", "alpha"), snapshot.instance.metadata.uid, 1) is False


@pytest.mark.parametrize("peers", [1, 100])
def test_of_a_spec_that_is_too_large_the_network_is_kept_unless_it_is_the_large_part(peers: int) -> None:
    blocks = [{"ipBlock": {"cidr": f"10.0.{number}.0/24"}} for number in range(peers)]
    rules = [{"to": blocks}] * 50
    whole = instance(spec={"podTemplate": template(8000), "network": {"egress": rules}})

    packed = pack(whole)

    assert packed.refusal is not None
    unpacked = unpack(packed.small, packed.rest)
    assert unpacked.spec.network == (whole.spec.network if peers == 1 else Network())
    assert unpacked.spec.pod_template == PodTemplate(service_account_name="robot")
    assert len(packed.small.model_dump_json(exclude_defaults=True)) + len(packed.rest or b"") < 10_000


async def test_nothing_is_made_of_a_spec_that_is_too_large_until_it_is_shortened(world: World) -> None:
    too_large = large(terms=3500)
    for version, later in (("11", 0), ("12", 60)):
        world.store.instances.observe(instance_json(version=version, generation=2, spec=too_large))
        snapshot = world.store.instances.snapshot(("team", "alpha"), deciding=True)
        assert snapshot is not None
        actions = decide_instance(snapshot, IDENTITY, world.now() + timedelta(seconds=later))
        assert not [action for action in actions if isinstance(action, ApplyChildren)]
    (status,) = (action.status for action in actions if isinstance(action, PatchStatus))
    (ready,) = (condition for condition in status["conditions"] if condition["type"] == "Ready")
    assert ready["reason"] == "ChildRefused"
    assert f"at most {MAX_BYTES >> 10} KiB are allowed: shorten them." in ready["message"]
    assert await world.due_keys(60) == {("Instance", "alpha")}

    world.store.instances.observe(instance_json(version="13", generation=3, spec=large()))
    snapshot = world.store.instances.snapshot(("team", "alpha"), deciding=True)
    assert snapshot is not None
    actions = decide_instance(snapshot, IDENTITY, world.now())
    (applied,) = (action for action in actions if isinstance(action, ApplyChildren))
    (statefulset,) = (manifest for manifest in applied.manifests if manifest["kind"] == "StatefulSet")
    assert statefulset["spec"]["template"]["spec"]["affinity"] == affinity(500)
