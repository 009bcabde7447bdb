"""Which events of a watch have the node of the tests look at the API server again."""

from __future__ import annotations

import json

import pytest

from tests.support.kube import Json
from tests.support.node import tells_something

OWNED: Json = {"ownerReferences": [{"kind": "StatefulSet"}]}


def event(kind: str = "Pod", *, what: str = "MODIFIED", version: str = "7", **metadata: object) -> str:
    return json.dumps({"type": what, "object": {"kind": kind, "metadata": {"resourceVersion": version, **metadata}}})


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(event("StatefulSet"), id="a StatefulSet"),
        pytest.param(event(version="8", **OWNED), id="a pod that somebody else has changed"),
        pytest.param(event(deletionTimestamp="2026-01-01T00:00:00Z", **OWNED), id="its pod, told to end"),
        pytest.param(event(what="DELETED", **OWNED), id="its pod, gone"),
        pytest.param('{"kind": "Status", "code": 500}', id="a refusal"),
        pytest.param("too early", id="no JSON"),
    ],
)
def test_it_looks_again_at(line: str) -> None:
    assert tells_something(line, {"7"})


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(event(**OWNED), id="its pod as it wrote it"),
        pytest.param(event(version="8"), id="a pod of a controller"),
    ],
)
def test_it_does_not_look_again_at(line: str) -> None:
    assert not tells_something(line, {"7"})
