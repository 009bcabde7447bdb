"""Values that the schema cannot judge and the cluster refuses: what is wrong with them, in the API server's words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.kube import Json

ANYWHERE: Json = {"name": "data", "mountPath": "/data"}
MODEL: Json = {"name": "m", "apiKeySecretRef": {"name": "s", "key": "k"}}


@dataclass(frozen=True)
class Mistake:
    """A change of the spec that admission lets pass, and what the condition must say."""

    title: str
    change: Json
    says: tuple[str, ...]
    base: Json = field(default_factory=dict)

    def __str__(self) -> str:
        return self.title


def mistakes() -> list[Mistake]:
    """Return all of them; most are in the free parts of the pod."""
    return [*_pod_metadata(), *_placement(), *_names(), *_variables(), *_volumes(), *_resources(), *_network()]


def _pod(title: str, *says: str, **fields: Any) -> Mistake:
    return Mistake(title, {"podTemplate": fields}, says)


def _pod_metadata() -> Iterator[Mistake]:
    yield _pod("label value", "labels", "b c", labels={"a": "b c"})
    yield _pod("label key", "labels", "a b", labels={"a b": "c"})
    yield _pod("annotation key", "annotations", "a b", annotations={"a b": "c"})
    yield _pod("a template too large", "spec.podTemplate", "128 KiB are allowed", annotations={"a": "b" * 262_144})


def _placement() -> Iterator[Mistake]:
    yield _pod("node selector value", "nodeSelector", "b c", nodeSelector={"a": "b c"})
    yield _pod(
        "toleration operator", "tolerations[0].operator", "Nearly", tolerations=[{"key": "a", "operator": "Nearly"}]
    )
    yield _pod("toleration effect", "tolerations[0].effect", "Never", tolerations=[{"key": "a", "effect": "Never"}])
    timed = {"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1}
    yield _pod("toleration time", "tolerations[0].effect", "NoExecute", tolerations=[timed])
    required: Json = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    yield _pod("affinity without terms", "nodeSelectorTerms", "at least one", affinity={"nodeAffinity": required})


def _names() -> Iterator[Mistake]:
    for key in ("runtimeClassName", "priorityClassName", "serviceAccountName"):
        yield _pod(key, key, "A B", **{key: "A B"})
    yield _pod("pull secret twice", "imagePullSecrets", "duplicate", imagePullSecrets=[{"name": "a"}, {"name": "a"}])


def _variables() -> Iterator[Mistake]:
    def one(title: str, *says: str, **fields: Any) -> Mistake:
        return _pod(title, *says, env=[{"name": "A", **fields}])

    yield one("variable from nowhere", ".valueFrom", "must specify one of", valueFrom={})
    reference = {"fieldRef": {"fieldPath": "metadata.name"}}
    yield one("variable from two places", "valueFrom", "may not be specified", value="1", valueFrom=reference)
    yield one("variable from no field", "fieldRef.fieldPath", valueFrom={"fieldRef": {"fieldPath": "spec.nothing"}})
    yield _pod("variables from nowhere", "envFrom", "must specify one of", envFrom=[{"prefix": "A_"}])
    both = {"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}
    yield _pod("variables from two places", "envFrom", "may not have more than one", envFrom=[both])


def _volumes() -> Iterator[Mistake]:
    def one(title: str, *says: str, **source: Any) -> Mistake:
        return _pod(title, *says, volumes=[{"name": "data", **source}])

    empty: Json = {"name": "data", "emptyDir": {}}
    yield _pod("volume twice", "volumes", "duplicate", volumes=[empty, empty])
    yield _pod("mount twice", "volumeMounts", "duplicate", volumes=[empty], volumeMounts=[ANYWHERE, ANYWHERE])
    upwards = {**ANYWHERE, "subPath": "../.."}
    yield _pod("mount of a path upwards", "subPath", "..", volumes=[empty], volumeMounts=[upwards])
    yield one("claim without a name", "claimName", persistentVolumeClaim={})
    yield one("CSI without a driver", "driver", csi={})
    yield one("ephemeral without a claim", "volumeClaimTemplate", ephemeral={})
    yield one("size that is none", "quantities must match", emptyDir={"sizeLimit": "lots"})


def _resources() -> Iterator[Mistake]:
    def one(title: str, *says: str, **resources: Any) -> Mistake:
        return Mistake(title, {"emacs": {"resources": resources}}, says)

    yield one("more requested than allowed", "requests", "limit", requests={"cpu": 2}, limits={"cpu": 1})
    yield one("less than nothing", "limits[cpu]", "-1", limits={"cpu": -1})
    yield one("resource that is none", "limits[a b]", limits={"a b": 1})


def _network() -> Iterator[Mistake]:
    def out(title: str, *says: str, **rule: Any) -> Mistake:
        return Mistake(title, {"network": {"egress": [rule]}}, says)

    yield out("egress to no network", "cidr", "everywhere", to=[{"ipBlock": {"cidr": "everywhere"}}])
    yield out("egress to no port", "port", "no port", to=[{"podSelector": {}}], ports=[{"port": "no port"}])
    peers = [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["198.51.100.0/24"]}}]
    yield Mistake("ingress from outside of its network", {"network": {"allowIngressFrom": peers}}, ("except",))
    odd = {"model": {**MODEL, "baseURL": "http://model.(odd).svc"}}
    yield Mistake("model in no namespace", odd, ("namespaceSelector", "(odd)"))


TYPOS: tuple[tuple[Json, str], ...] = (
    ({"podTemplate": {"affinity": {"nodeAfinity": {}}}}, 'unknown field "spec.podTemplate.affinity.nodeAfinity"'),
    ({"podTemplate": {"affinity": {"nodeAffinity": 5}}}, "nodeAffinity: Invalid value"),
    ({"podTemplate": {"volumes": [{"name": "a", "configMap": {"name": 5}}]}}, "configMap.name: Invalid value"),
    ({"podTemplate": {"volumes": [{"name": "a", "projected": {"sorces": []}}]}}, "projected.sorces"),
    ({"network": {"egress": [{"too": []}]}}, 'unknown field "spec.network.egress[0].too"'),
    ({"network": {"egress": [{"to": 5}]}}, "spec.network.egress[0].to: Invalid value"),
)
"""What the definitions know of Kubernetes' own objects: refused at once, and how."""
