"""decide/instances.py: each pod of an instance gets a NetworkPolicy of its own, once."""

from __future__ import annotations

from efrit.controller.decide.instances import decide_instance
from efrit.controller.manifests import Identity
from efrit.controller.model.actions import IsolatePod
from tests.support.factory import NOW, POD_UID, of_kind, pod, ready, the


def test_a_pod_gets_a_policy_that_it_owns_and_the_next_pod_another(identity: Identity) -> None:
    action = the(decide_instance(ready(), identity, NOW), IsolatePod)
    assert action.pod_uid == POD_UID
    assert action.manifest["metadata"]["ownerReferences"][0]["uid"] == POD_UID
    assert of_kind(decide_instance(ready(isolated_pod=POD_UID), identity, NOW), IsolatePod) == []
    replaced = ready(isolated_pod=POD_UID, pod=pod("another"))
    assert the(decide_instance(replaced, identity, NOW), IsolatePod).pod_uid == "another"
    assert of_kind(decide_instance(ready(pod=None), identity, NOW), IsolatePod) == []
