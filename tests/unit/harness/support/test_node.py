"""Which events of a watch have the node of the tests look at the API server again."""

from __future__ import annotations

import pytest

from tests.support.kube import Json
from tests.support.node import tells_something

OWNED: Json = {"ownerReferences": [{"kind": "StatefulSet"}]}


def event(kind: str = "Pod", *, what: str = "MODIFIED", version: str = "7", **metadata: object) -> tuple[str, Json]:
    return what, {"kind": kind, "metadata": {"resourceVersion": version, **metadata}}


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(event("StatefulSet"), id="a StatefulSet"),
        pytest.param(event(version="8", **OWNED), id="a pod that somebody else has changed"),
        pytest.param(event(deletionTimestamp="2026-01-01T00:00:00Z", **OWNED), id="its pod, told to end"),
        pytest.param(event(what="DELETED", **OWNED), id="its pod, gone"),
    ],
)
def test_it_looks_again_at(seen: tuple[str, Json]) -> None:
    assert tells_something(*seen, {"7"})


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(event(**OWNED), id="its pod as it wrote it"),
        pytest.param(event(version="8"), id="a pod of a controller"),
    ],
)
def test_it_does_not_look_again_at(seen: tuple[str, Json]) -> None:
    assert not tells_something(*seen, {"7"})
