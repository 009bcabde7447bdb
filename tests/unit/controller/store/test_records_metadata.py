"""What users write beside the spec of an object is not kept, however much it is."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tests.support.factory import NAMESPACE, Json, instance_json, plan_json, request_json
from tests.unit.controller.store.test_pools import pool_json
from tests.unit.controller.store.world import World
from tests.unit.controller.virtual_time import on_virtual_time

LARGE = "\N{GRINNING FACE}" * 65_000
"""What the API server takes of annotations in all: 256 KiB."""
KEPT_BYTES = 20_000


def _claim_json() -> Json:
    metadata = {"name": "mine", "namespace": NAMESPACE, "uid": "uid-mine", "resourceVersion": "1", "generation": 1}
    return {"metadata": metadata, "spec": {"poolRef": {"name": "crew"}}}


@pytest.mark.parametrize(
    ("part", "obj"),
    [
        ("instances", instance_json()),
        ("requests", request_json()),
        ("plans", plan_json()),
        ("pools", pool_json()),
        ("claims", _claim_json()),
    ],
)
def test_annotations_of_256_kib_are_not_kept(part: str, obj: Json) -> None:
    annotated = {**obj, "metadata": {**obj["metadata"], "annotations": {"note": LARGE}}}
    owners = [{"kind": "ConfigMap", "name": f"owner-{number}" * 8, "uid": str(number)} for number in range(500)]
    annotated["metadata"]["ownerReferences"] = owners

    @on_virtual_time
    async def observe() -> None:
        world = World()
        objects: Any = getattr(world.store, part)
        objects.observe(annotated)
        (record,) = objects._records.values()
        assert len(pickle.dumps(record)) < KEPT_BYTES

    observe()
