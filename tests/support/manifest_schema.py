"""Reads the CRDs as data: every node with its path, and objects that reach just that node.

What is generated here follows the definitions by itself: a new field with a bound is tested without a new test.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.cluster.paths import REPOSITORY
from tests.support import yaml_documents
from tests.support.kube import Json

ITEM, VALUE = "[]", "{}"
"""Steps of a path: into the items of a list, into the values of a map."""

Path = tuple[str, ...]

BASES: Mapping[str, Json] = {
    "efritinstances": {"metadata": {"name": "an-instance"}, "spec": {}},
    "efritrequests": {
        "metadata": {"name": "a-request"},
        "spec": {"instanceRef": {"name": "an-instance"}, "type": "eval", "content": "t"},
    },
    "efritplans": {
        "metadata": {"name": "a-plan"},
        "spec": {"instanceRef": {"name": "an-instance"}, "intent": {"description": "t"}},
    },
    "efritpools": {"metadata": {"name": "a-pool"}, "spec": {"replicas": 1}},
    "efritclaims": {"metadata": {"name": "a-claim"}, "spec": {"poolRef": {"name": "a-pool"}}},
}


@dataclass(frozen=True)
class Node:
    """One place in a schema."""

    plural: str
    path: Path
    schema: Json

    @property
    def dotted(self) -> str:
        """The path as the API server prints it, with the first item of a list."""
        return ".".join(self.path).replace(f".{ITEM}", "[0]").replace(f".{VALUE}", ".key")


@functools.cache
def definitions() -> dict[str, Json]:
    """Return plural -> CustomResourceDefinition."""
    crds = [
        yaml_documents.load(path.read_text())
        for path in sorted((REPOSITORY / "charts/efrit-operator/crd-files").glob("*.yaml"))
    ]
    return {crd["spec"]["names"]["plural"]: crd for crd in crds}


def root(definition: Json) -> Json:
    """Return the schema of the only version."""
    schema: Json = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def nodes(part: str) -> Iterator[Node]:
    """Yield every node below `spec` or `status` of every resource, and that node itself."""
    for plural, definition in definitions().items():
        yield from _walk(plural, (part,), root(definition)["properties"][part])


def ours(part: str) -> list[Node]:
    """Return the nodes that we describe: what is in Kubernetes' own objects carries no description of ours."""
    schema_nodes = list(nodes(part))
    described = {(node.plural, node.path) for node in schema_nodes if "description" in node.schema}
    return [node for node in schema_nodes if (node.plural, _named(node.path)) in described]


def judged(part: str) -> list[Node]:
    """Return our nodes, each schema at one place: what a pool's members have is as an instance has it."""
    schema_nodes = ours(part)
    of_instances = {node.path: node.schema for node in schema_nodes if node.plural == "efritinstances"}

    def is_an_instances(node: Node) -> bool:
        depth = len(TEMPLATE)
        return node.path[:depth] == TEMPLATE and of_instances.get(("spec", *node.path[depth:])) == node.schema

    return [node for node in schema_nodes if not is_an_instances(node)]


def _named(path: Path) -> Path:
    while path[-1] in (ITEM, VALUE):
        path = path[:-1]
    return path


def _walk(plural: str, path: Path, schema: Json) -> Iterator[Node]:
    yield Node(plural, path, schema)
    for name, subschema in schema.get("properties", {}).items():
        yield from _walk(plural, (*path, name), subschema)
    if isinstance(schema.get("items"), dict):
        yield from _walk(plural, (*path, ITEM), schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _walk(plural, (*path, VALUE), schema["additionalProperties"])


@dataclass(frozen=True)
class Pattern:
    """How to satisfy a pattern with so many characters, and what does not satisfy it."""

    fitting: Callable[[int], str]
    unfitting: str


def _plain(length: int) -> str:
    return "a" * length


PATTERNS: Mapping[str, Pattern] = {
    r"^[!-~]+$": Pattern(_plain, " a"),
    r"^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$": Pattern(_plain, "-a"),
    r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$": Pattern(_plain, "Upper"),
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": Pattern(_plain, "a.b"),
    r"^[-._a-zA-Z0-9]+$": Pattern(_plain, "a/b"),
    r"^[A-Za-z0-9._-]+$": Pattern(_plain, "a b"),
    r"^[-._a-zA-Z][-._a-zA-Z0-9]*$": Pattern(_plain, "1a"),
    r"^https?://[!\"$-.0->@-~]+(/[!\"$->@-~]*)?$": Pattern(
        lambda length: f"http://{'a' * (length - 7)}", "ftp://host"
    ),
    r"^(https?|socks5h?)://[!\"$-.0->A-~]+/?$": Pattern(
        lambda length: f"http://{'a' * (length - 7)}", "http://me:secret@host"
    ),
    r"^[a-z]([-a-z0-9]*[a-z0-9])?$": Pattern(_plain, "1a"),
    r"^[A-Za-z0-9_]([-A-Za-z0-9._/]*[A-Za-z0-9_])?$": Pattern(_plain, "-a"),
    r"^(https?://|ssh://|git://|file:///|[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:)[!#-&(-~]+$": Pattern(
        lambda length: f"http://{'a' * (length - 7)}", "ext::sh -c true"
    ),
    r"^[A-Za-z0-9_-]+$": Pattern(_plain, "a,b"),
    r"^[A-Za-z0-9][-A-Za-z0-9_+./]*$": Pattern(_plain, "-a"),
    r"^/[^:]*$": Pattern(lambda length: f"/{'a' * (length - 1)}", "relative"),
}


def text(schema: Json, length: int) -> str:
    """Return a fitting string of this length."""
    if schema.get("format") == "date-time":
        return "2026-01-01T00:00:00Z"
    pattern = schema.get("pattern")
    return PATTERNS[pattern].fitting(length) if pattern else _plain(length)


def minimal(schema: Json) -> Any:
    """Return the smallest value that fits."""
    if schema.get("x-kubernetes-int-or-string"):
        return 1 if "maximum" in schema else "1Gi"
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "string":
            length = schema.get("minLength", 1)
            return text(schema, max(length, 8 if "https" in schema.get("pattern", "") else 1))
        case "integer":
            return max(schema.get("minimum", 0), 1)
        case "number":
            return 1.5
        case "boolean":
            return True
        case "array":
            return [minimal(schema["items"])] * schema.get("minItems", 0)
        case _:
            members = {name: minimal(schema["properties"][name]) for name in schema.get("required", ())}
            if schema.get("minProperties"):
                members["key"] = minimal(schema["additionalProperties"])
            return members


def holding(node: Node, value: Any) -> Json:
    """Return a manifest that is valid if `value` is a valid value of `node`."""
    schema = root(definitions()[node.plural])
    manifest = copy.deepcopy(dict(BASES[node.plural]))
    target: Any = manifest
    for index, step in enumerate(node.path):
        schema = _below(schema, step)
        last = index == len(node.path) - 1
        child = value if last else (target.get(step) if isinstance(target, dict) else None) or minimal(schema)
        if step == ITEM:
            target[:] = [child]
        else:
            target["key" if step == VALUE else step] = child
        target = child
    path, spec = node.path, manifest["spec"]
    if path[: len(TEMPLATE)] == TEMPLATE and len(path) > len(TEMPLATE):
        path, spec = ("spec", *path[len(TEMPLATE) :]), spec["template"]["spec"]
    for prefix, adjust in SCAFFOLDS.items():
        if path[: len(prefix)] == prefix:
            adjust(spec, path[len(prefix) :])
    return manifest


def _below(schema: Json, step: str) -> Json:
    if step == ITEM:
        subschema: Json = schema["items"]
    elif step == VALUE:
        subschema = schema["additionalProperties"]
    else:
        subschema = schema["properties"][step]
    return subschema


def _without_instance(spec: Json, rest: Path) -> None:
    spec.pop("instanceRef", None)


def _with_peers(spec: Json, rest: Path) -> None:
    for rule in _objects(spec["network"]["egress"]):
        rule.setdefault("to", [{}])


def _autoscaled(spec: Json, rest: Path) -> None:
    spec.pop("replicas", None)
    autoscaling = spec.setdefault("autoscaling", {"maxReplicas": 1000})
    if isinstance(autoscaling, dict) and rest not in ((), ("maxReplicas",)):
        autoscaling["maxReplicas"] = 1000


def _prefers_session_member(spec: Json, rest: Path) -> None:
    spec["placement"]["sessionAffinity"] = "Preferred"


def _replacing(spec: Json, rest: Path) -> None:
    strategy = spec["updateStrategy"]
    if rest == ("maxSurge",):
        strategy["maxUnavailable"] = 1
    if rest == ("minReadySeconds",):
        strategy["progressDeadlineSeconds"] = 86_400


def _as_command(spec: Json, rest: Path) -> None:
    spec["type"] = "command"


def _with_storage(volume: str) -> Callable[[Json, Path], None]:
    def adjust(spec: Json, rest: Path) -> None:
        chosen = spec[volume]
        if rest == ("sizeLimit",):
            chosen["ephemeral"] = True
        elif rest and not {"storage", "existingClaim"} & chosen.keys() and not chosen.get("ephemeral"):
            chosen["storage"] = {}

    return adjust


SOURCES = {"configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected", "csi", "ephemeral"}


def _with_source(spec: Json, rest: Path) -> None:
    for volume in _objects(spec["podTemplate"]["volumes"]):
        if not SOURCES & volume.keys():
            volume["emptyDir"] = {}


def _objects(value: object) -> list[Json]:
    """Return the objects in what should be a list, and may be wrong on purpose."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _with_volume(spec: Json, rest: Path) -> None:
    mounts = _objects(spec["podTemplate"]["volumeMounts"])
    names = {mount["name"] for mount in mounts if isinstance(mount.get("name"), str)}
    spec["podTemplate"]["volumes"] = [{"name": name, "emptyDir": {}} for name in sorted(names)]


def _with_parent(spec: Json, rest: Path) -> None:
    tasks = _objects(spec["tasks"])
    for number, task in enumerate(tasks):
        if isinstance(parent := task.get("parent"), str):
            task["name"] = "other"
            spec["tasks"].append({"name": parent, "type": "parent", "description": "t"})
        elif len(tasks) > 1:
            task["name"] = f"t{number}"


TEMPLATE = ("spec", "template", "spec")
"""Of a pool: the spec of an instance."""
SCAFFOLDS: Mapping[Path, Callable[[Json, Path], None]] = {
    ("spec", "poolRef"): _without_instance,
    ("spec", "selector"): _without_instance,
    ("spec", "budget"): _as_command,
    ("spec", "session"): _as_command,
    ("spec", "workspace"): _with_storage("workspace"),
    ("spec", "queue"): _with_storage("queue"),
    ("spec", "podTemplate", "volumes"): _with_source,
    ("spec", "tasks"): _with_parent,
    ("spec", "autoscaling"): _autoscaled,
    ("spec", "warm"): _autoscaled,
    ("spec", "placement", "affinityWaitSeconds"): _prefers_session_member,
    ("spec", "updateStrategy"): _replacing,
    ("spec", "network", "egress"): _with_peers,
    ("spec", "podTemplate", "volumeMounts"): _with_volume,
}
"""What CEL wants beside a field, so that an object with it is valid."""
