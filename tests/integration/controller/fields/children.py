"""What an instance leaves in the cluster, as flat data: every field of every child under one name, ready to compare.

Left out is what differs between two equal worlds: versions, times, UIDs, the hashes that the controller keeps, and
the policies that are a pod's own, which here outlive it: no garbage collector runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from efrit.resources import resource_named
from tests.support.kube import Json, Kube

PLURALS = ("statefulsets", "networkpolicies", "secrets", "serviceaccounts", "persistentvolumeclaims", "pods")
HASHES = tuple(
    f"efrit.dev/{name}"
    for name in (
        "children-hash",
        "statefulset-hash",
        "template-hash",
        "spec-hash",
        "release-hash",
        "update-started",
        "update-trial",
    )
)
PASSING = {"lastTransitionTime", "observedGeneration"}
LIST_KEYS = ("mountPath", "containerPort", "name", "uid", "type")

Flat = dict[str, Any]


def flat(value: Any, at: str = "") -> Flat:
    """Return path -> leaf; items of a list go by what names them, or by their number."""
    if isinstance(value, Mapping) and value:
        return {path: leaf for key, member in value.items() for path, leaf in flat(member, f"{at}.{key}").items()}
    if isinstance(value, list) and value:
        named = zip(_names(value), value, strict=True)
        return {path: leaf for name, item in named for path, leaf in flat(item, f"{at}[{name}]").items()}
    return {at.removeprefix("."): value}


def _names(items: list[Any]) -> list[object]:
    for key in LIST_KEYS:
        names = [item.get(key) if isinstance(item, dict) else None for item in items]
        if None not in names and len(set(names)) == len(names):
            return names
    return list(range(len(items)))


def differences(before: Flat, after: Flat) -> Flat:
    """Return path -> the later value, None for what is gone, of all that is not as it was."""
    paths = before.keys() | after.keys()
    return {path: after.get(path) for path in sorted(paths) if before.get(path) != after.get(path)}


def children(kube: Kube, namespace: str, instance: str) -> Flat:
    """Return all fields of all children of an instance, pods included."""
    leaves: Flat = {}
    for plural in PLURALS:
        for obj in kube.list(plural, namespace, labelSelector=f"efrit.dev/instance={instance}"):
            if plural == "networkpolicies" and any(owner["kind"] == "Pod" for owner in _owners(obj)):
                continue
            leaves |= flat(_lasting(obj), _title(resource_named(plural).kind, obj["metadata"]["name"], instance))
    return leaves


def _title(kind: str, name: str, instance: str) -> str:
    rest = name.removeprefix(f"efrit-{instance}").removeprefix("-")
    return f"{kind}[{rest}]" if rest else kind


def _lasting(obj: Json) -> Json:
    meta = obj["metadata"]
    annotations = {key: value for key, value in meta.get("annotations", {}).items() if key not in HASHES}
    metadata = {"labels": meta.get("labels", {}), "annotations": annotations, "owners": _owners(obj)}
    # A port of this machine stands in for the container's own, another one with every pod.
    body = {key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")}
    result: Json = {**body, "metadata": metadata}
    if "template" in body.get("spec", {}):
        result["spec"] = _without_hashes(body["spec"])
    if obj.get("kind") == "Pod" or "nodeName" in body.get("spec", {}):
        result["spec"] = _without_ports(body["spec"])
        for owner in metadata["owners"]:
            owner.pop("uid", None)
    return result


def _owners(obj: Json) -> list[Json]:
    owners: list[Json] = obj["metadata"].get("ownerReferences", [])
    return owners


def _without_hashes(spec: Json) -> Json:
    template = spec["template"]
    annotations = {key: value for key, value in template["metadata"]["annotations"].items() if key not in HASHES}
    return {**spec, "template": {**template, "metadata": {**template["metadata"], "annotations": annotations}}}


def _without_ports(spec: Json) -> Json:
    first, *others = spec["initContainers"]
    return {**spec, "initContainers": [{**first, "ports": []}, *others]}


def conditions(obj: Json) -> Flat:
    """Return the conditions of an instance without their times."""
    # The figures of the queue tell of the work, not of the spec.
    conditions = [
        condition for condition in obj.get("status", {}).get("conditions", []) if condition["type"] != "QueueHealthy"
    ]
    return flat([{key: value for key, value in condition.items() if key not in PASSING} for condition in conditions])


def renamed(leaves: Flat, instance: str, uid: str) -> Flat:
    """Return the fields as those of an instance `x`, without what is made from a UID."""
    text = json.dumps({path: leaf for path, leaf in leaves.items() if not path.startswith("Secret[bridge].data")})
    result: Flat = json.loads(text.replace(uid, "uid-of-x").replace(instance, "x"))
    return result
