"""Each field changed and taken back: exactly its effect, then exactly what was before.

The instances are suspended: what a pod would be made of is all there, and no pod has to come and go. test_live.py
does the same with pods.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from efrit import resources
from tests.integration.controller.fields.changes import MODEL, SUSPENDED, Change, changes
from tests.integration.controller.fields.children import Flat, differences
from tests.integration.controller.fields.fixed import NO_CHOICE, NOTHING_WITHOUT_A_MODEL, choices
from tests.integration.controller.fields.rig import Rig, merged
from tests.support.kube import Json
from tests.support.site import Site

CHANGES = changes()
NUMBERS = itertools.count(1)
INSTANCES = 10
EMPTIABLE = {
    *("labels", "annotations", "nodeSelector", "tolerations", "imagePullSecrets", "env", "envFrom", "volumes"),
    *("volumeMounts", "egress", "allowIngressFrom"),
}


def without(spec: Json, change: Json) -> Json:
    """Return `spec` with null for each field of `change` that it lacks."""
    current = {key: spec.get(key) for key in change}
    rest = {
        key: without(current[key] or {}, value) if isinstance(value, dict) and key in PARTS else current[key]
        for key, value in change.items()
    }
    return {**spec, **rest}


PARTS = {"emacs", "queue", "limits", "network", "podTemplate"}
"""Objects that are always there: null is for what is in them."""


def emptied(case: Change) -> Json:
    """Return the spec with the list or map of a case empty; nothing where it changes none, or one that was there."""
    ((part, change),) = case.change.items()
    fields = {key: type(value)() for key, value in change.items() if key in EMPTIABLE and part not in case.base}
    return merged(case.before, {part: fields}) if fields else {}


def changed(before: Flat, effect: Flat) -> Flat:
    """Return what is seen with an effect; None takes away all that is below a path."""
    gone = tuple(path for path, value in effect.items() if value is None)
    remaining = {
        path: leaf
        for path, leaf in before.items()
        if not any(path == prefix or path.startswith(f"{prefix}.") for prefix in gone)
    }
    return remaining | {path: value for path, value in effect.items() if value is not None}


@pytest.fixture(scope="module")
def stages(shared: Site) -> Iterator[Rig]:
    """Instances in turn: the status of each is written 30 times a minute at most, and a change waits for that."""
    return itertools.cycle([Rig(shared, f"changing{number}", **SUSPENDED) for number in range(INSTANCES)])


@pytest.fixture
def rig(stages: Iterator[Rig]) -> Rig:
    return next(stages)


@pytest.fixture(scope="module")
def untouched(shared: Site) -> Flat:
    """Return what a new instance looks like that chose nothing."""
    return Rig(shared, "fieldplain", **SUSPENDED).observed_as_new()


@pytest.fixture(scope="module")
def growing_class(shared: Site) -> str:
    name = f"grows-{shared.namespace}"
    manifest = {"provisioner": "example.org/none", "allowVolumeExpansion": True}
    manifest |= resources.STORAGE_CLASSES.manifest({"name": name})
    shared.kube.call("POST", resources.STORAGE_CLASSES.path(), manifest)
    return name


@pytest.fixture(scope="module", autouse=True)
def calm(shared: Site) -> Iterator[None]:
    """All the while the controller lives, complains of nothing, and the other instance is served."""
    yield
    assert shared.operators[0].process.status is None
    assert "Traceback" not in shared.operators[0].process.log.read_text()
    assert shared.answer(shared.ask("'served"))["result"] == "served"


@pytest.mark.parametrize("case", CHANGES, ids=str)
def test_a_change_has_its_effect_and_no_other_and_null_takes_it_back(rig: Rig, case: Change) -> None:
    before = rig.after(case.before)
    assert differences(before, rig.after(case.after)) == case.effect
    assert differences(before, rig.after(without(case.before, case.change))) == {}


@pytest.mark.parametrize("case", [change for change in CHANGES if emptied(change)], ids=str)
def test_an_empty_list_or_map_is_as_none(rig: Rig, case: Change) -> None:
    before = rig.after(case.before)
    rig.takes(case.after)
    assert differences(before, rig.after(emptied(case))) == {}


@pytest.mark.parametrize("case", [*(change for change in CHANGES if not change.base), *choices()], ids=str)
def test_what_an_instance_is_made_with_has_the_same_effect(shared: Site, untouched: Flat, case: Change) -> None:
    """A change that leaves something behind, or forgets something, ends elsewhere than a new instance."""
    made = Rig(shared, f"madeanew{next(NUMBERS)}", **case.after)
    # The account of an instance that named none at first stays when it names one: without a right, without a token.
    children = {path: leaf for path, leaf in case.effect.items() if not path.startswith("condition[")}
    effect = {**children, **({"ServiceAccount": None} if case.title == "service account" else {})}
    assert differences(changed(untouched, effect), made.observed_as_new()) == {}


@pytest.mark.parametrize("field", [*NO_CHOICE, *NOTHING_WITHOUT_A_MODEL])
def test_a_field_without_a_choice_or_without_the_model_it_is_for_changes_nothing(rig: Rig, field: str) -> None:
    spec = merged(SUSPENDED, MODEL) if ".model." in field else SUSPENDED
    before = rig.after(spec)
    change: Any = (NO_CHOICE | NOTHING_WITHOUT_A_MODEL)[field]
    for step in reversed(field.split(".")[1:]):
        change = {step: change}
    assert differences(before, rig.after(merged(spec, change))) == {}


def test_a_volume_grows_where_its_class_allows(shared: Site, growing_class: str) -> None:
    claim = {"storageClassName": growing_class}
    rig = Rig(shared, "fieldgrows", queue={"storage": claim}, workspace={"storage": claim})
    shared.until_condition("fieldgrows", "Ready", status="True")
    sizes = {"queue": "2Gi", "workspace": "3Gi"}
    before = rig.observed()
    bigger = {name: {"storage": {**claim, "size": size}} for name, size in sizes.items()}
    changes = differences(before, rig.after(bigger))
    of = "PersistentVolumeClaim[{}].spec.resources.requests.storage"
    assert changes == {of.format(name): size for name, size in sizes.items()}
