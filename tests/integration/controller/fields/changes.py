"""Every field of an EfritInstance's spec with another valid value and all that must differ in the cluster for it.

`effect` is the whole difference: what is missing from it must not change, and what is in it must. Which schema fields
a case covers follows from what it changes; test_coverage.py proves that no field is without one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.integration.controller.fields.rig import merged
from tests.support.kube import Json

SUSPENDED: Json = {"operatingMode": "Suspended"}
POD = "StatefulSet.spec.template"
SPEC = f"{POD}.spec"
EMACS = f"{SPEC}.containers[emacs]"
BRIDGE = f"{SPEC}.initContainers[bridge]"
POLICY = "NetworkPolicy.spec"


@dataclass(frozen=True)
class Change:
    """`change` merged into `base`. Everything is suspended, so that no pod has to come and go."""

    title: str
    change: Json
    effect: Mapping[str, Any]
    base: Json = field(default_factory=dict)

    def __str__(self) -> str:
        return self.title

    @property
    def before(self) -> Json:
        return merged(SUSPENDED, self.base)

    @property
    def after(self) -> Json:
        return merged(self.before, self.change)


def variable(container: str, name: str, value: str) -> Json:
    """Return the effect of a variable that is there already."""
    return {f"{container}.env[{name}].value": value}


def new_variable(name: str, value: str) -> Json:
    return {f"{EMACS}.env[{name}].name": name, **variable(EMACS, name, value)}


def new_mount(path: str, volume: str, **more: Any) -> Json:
    at = f"{EMACS}.volumeMounts[{path}]"
    return {f"{at}.mountPath": path, f"{at}.name": volume, **{f"{at}.{key}": value for key, value in more.items()}}


def changes() -> list[Change]:
    """Return all cases of fields that may change."""
    return [*_emacs(), *_queue(), *_model(), *_limits(), *_network(), *_placement(), *_identity(), *_container()]


def _emacs() -> Iterator[Change]:
    image = "registry.example.org/emacs:31"
    yield Change("image", {"emacs": {"image": image}}, {f"{EMACS}.image": image})
    pulled = {f"{EMACS}.imagePullPolicy": "Always"}
    yield Change("image pull policy", {"emacs": {"imagePullPolicy": "Always"}}, pulled)
    yield Change("daemon name", {"emacs": {"daemonName": "x.y"}}, variable(EMACS, "EFRIT_DAEMON_NAME", "x.y"))
    volume = f"{SPEC}.volumes[init]"
    yield Change(
        "init file",
        {"emacs": {"initConfigMapRef": {"name": "my-init"}}},
        {
            f"{volume}.name": "init",
            f"{volume}.configMap.name": "my-init",
            f"{volume}.configMap.defaultMode": 0o644,
            **new_mount("/etc/efrit/init", "init", readOnly=True),
            **new_variable("EFRIT_INIT_FILE", "/etc/efrit/init/init.el"),
        },
    )
    yield Change(
        "libraries of a fast start",
        {"emacs": {"fastStart": {"libraries": ["org", "dired-x"]}}},
        {
            **new_variable("EFRIT_FAST_START_LIBRARIES", "org dired-x"),
            **new_variable("EFRIT_FAST_START_DIR", "/var/lib/efrit/dumps"),
        },
    )
    yield Change(
        "claim for the dumps of a fast start",
        {"emacs": {"fastStart": {"existingClaim": "crew-dumps"}}},
        {
            **variable(EMACS, "EFRIT_FAST_START_DIR", "/var/lib/efrit-dumps"),
            **new_mount("/var/lib/efrit-dumps", "dumps"),
            f"{SPEC}.volumes[dumps].name": "dumps",
            f"{SPEC}.volumes[dumps].persistentVolumeClaim.claimName": "crew-dumps",
        },
        {"emacs": {"fastStart": {"libraries": ["org"]}}},
    )
    resources = {"requests": {"cpu": "70m", "memory": "128Mi"}, "limits": {"memory": "1Gi", "cpu": 2}}
    at = f"{EMACS}.resources"
    yield Change(
        "resources",
        {"emacs": {"resources": resources}},
        {f"{at}.requests.cpu": "70m", f"{at}.limits.memory": "1Gi", f"{at}.limits.cpu": "2"},
    )
    yield Change(
        "one resource of several",
        {"emacs": {"resources": {"requests": {"cpu": "80m"}}}},
        {f"{at}.requests.cpu": "80m"},
        {"emacs": {"resources": resources}},
    )


def _queue() -> Iterator[Change]:
    yield Change("max pending", {"queue": {"maxPending": 7}}, variable(BRIDGE, "EFRIT_MAX_PENDING", "7"))
    yield Change("archive", {"queue": {"archiveSeconds": 90}}, variable(BRIDGE, "EFRIT_ARCHIVE_SECONDS", "90"))
    yield Change("archived count", {"queue": {"archiveRequests": 8}}, variable(BRIDGE, "EFRIT_ARCHIVE_REQUESTS", "8"))
    yield Change("archived bytes", {"queue": {"archiveBytes": 9}}, variable(BRIDGE, "EFRIT_ARCHIVE_BYTES", "9"))


MODEL: Json = {"model": {"name": "m", "apiKeySecretRef": {"name": "my-key", "key": "k"}}}
PUBLIC = f"{POLICY}.egress[1]"


def _model() -> Iterator[Change]:
    volume = f"{SPEC}.volumes[model]"
    v4, v6 = (f"{PUBLIC}.to[{number}].ipBlock" for number in (0, 1))
    private = ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
    yield Change(
        "model",
        MODEL,
        {
            **new_variable("EFRIT_MODEL_NAME", "m"),
            **new_variable("EFRIT_MODEL_BASE_URL", "https://api.anthropic.com"),
            **new_variable("EFRIT_MODEL_MAX_TOKENS", "8192"),
            **new_variable("EFRIT_MODEL_API_KEY_FILE", "/etc/efrit/model/api-key"),
            **new_variable("EFRIT_MODEL_PROTOCOL", "tools"),
            **new_variable("EFRIT_CONCURRENCY", "4"),
            **new_variable("EFRIT_COMMAND_TIMEOUT", "600"),
            **new_variable("EFRIT_MAX_TOOL_CALLS", "30"),
            **new_variable("EFRIT_MAX_REPEATED_CALLS", "3"),
            f"{BRIDGE}.env[EFRIT_COMMAND_TIMEOUT].name": "EFRIT_COMMAND_TIMEOUT",
            **variable(BRIDGE, "EFRIT_COMMAND_TIMEOUT", "600"),
            # A command that runs may end when the pod is asked to stop.
            f"{SPEC}.terminationGracePeriodSeconds": 300,
            **new_mount("/etc/efrit/model", "model", readOnly=True),
            f"{volume}.name": "model",
            f"{volume}.secret.secretName": "my-key",
            f"{volume}.secret.defaultMode": 0o440,
            f"{volume}.secret.items[0].key": "k",
            f"{volume}.secret.items[0].path": "api-key",
            f"{PUBLIC}.ports[0].protocol": "TCP",
            f"{PUBLIC}.ports[0].port": 443,
            f"{v4}.cidr": "0.0.0.0/0",
            **{f"{v4}.except[{number}]": network for number, network in enumerate(private)},
            f"{v6}.cidr": "::/0",
            **{
                f"{v6}.except[{number}]": network
                for number, network in enumerate(("::1/128", "fc00::/7", "fe80::/10"))
            },
            "condition[ModelReady].type": "ModelReady",
            "condition[ModelReady].status": "Unknown",
            "condition[ModelReady].reason": "Unknown",
            "condition[ModelReady].message": "Emacs has not read the model's key yet.",
        },
    )
    yield Change("model name", {"model": {"name": "n"}}, variable(EMACS, "EFRIT_MODEL_NAME", "n"), MODEL)
    yield Change("model tokens", {"model": {"maxTokens": 5}}, variable(EMACS, "EFRIT_MODEL_MAX_TOKENS", "5"), MODEL)
    yield Change(
        "model URL",
        {"model": {"baseURL": "http://model.example.org:8080/v1"}},
        {
            **variable(EMACS, "EFRIT_MODEL_BASE_URL", "http://model.example.org:8080/v1"),
            f"{PUBLIC}.ports[0].port": 8080,
        },
        MODEL,
    )
    yield Change(
        "model protocol", {"model": {"protocol": "elisp"}}, variable(EMACS, "EFRIT_MODEL_PROTOCOL", "elisp"), MODEL
    )
    yield Change(
        "proxy to the model",
        {"model": {"proxyURL": "http://proxy.example.org:3128"}},
        {
            **new_variable("EFRIT_MODEL_PROXY", "http://proxy.example.org:3128"),
            f"{PUBLIC}.ports[0].port": 3128,
        },
        MODEL,
    )
    yield Change("sessions", {"queue": {"concurrency": 9}}, variable(EMACS, "EFRIT_CONCURRENCY", "9"), MODEL)
    limits = {"maxToolCalls": 7, "maxRepeatedCalls": 8}
    effect = {
        **variable(EMACS, "EFRIT_MAX_TOOL_CALLS", "7"),
        **variable(EMACS, "EFRIT_MAX_REPEATED_CALLS", "8"),
    }
    yield Change("tool calls", {"limits": limits}, effect, MODEL)
    yield Change(
        "command timeout",
        {"limits": {"commandTimeoutSeconds": 61}},
        {
            **variable(BRIDGE, "EFRIT_COMMAND_TIMEOUT", "61"),
            **variable(EMACS, "EFRIT_COMMAND_TIMEOUT", "61"),
            f"{SPEC}.terminationGracePeriodSeconds": 71,
        },
        MODEL,
    )
    for limit, name in (
        ("maxIterations", "EFRIT_MAX_ITERATIONS"),
        ("maxTokens", "EFRIT_MAX_TOKENS"),
        ("iterationTimeoutSeconds", "EFRIT_ITERATION_TIMEOUT"),
    ):
        yield Change(limit, {"limits": {limit: 11}}, new_variable(name, "11"), MODEL)
    allowed = new_variable("EFRIT_TOOLS_ALLOW", "file_read,todo_add")
    yield Change("tools allowed", {"tools": {"allow": ["file_read", "todo_add"]}}, allowed, MODEL)
    yield Change(
        "tools denied", {"tools": {"deny": ["eval_sexp"]}}, new_variable("EFRIT_TOOLS_DENY", "eval_sexp"), MODEL
    )
    yield Change(
        "model key",
        {"model": {"apiKeySecretRef": {"name": "other", "key": "j"}}},
        {f"{volume}.secret.secretName": "other", f"{volume}.secret.items[0].key": "j"},
        MODEL,
    )


def _limits() -> Iterator[Change]:
    def of(**limits: int) -> Json:
        return {"limits": limits}

    yield Change("request bytes", of(maxRequestBytes=99), variable(BRIDGE, "EFRIT_MAX_REQUEST_BYTES", "99"))
    yield Change("result bytes", of(maxResultBytes=2048), variable(EMACS, "EFRIT_MAX_RESULT_BYTES", "2048"))
    yield Change(
        "request timeout",
        of(requestTimeoutSeconds=31),
        {
            **variable(BRIDGE, "EFRIT_REQUEST_TIMEOUT", "31"),
            **variable(EMACS, "EFRIT_REQUEST_TIMEOUT", "31"),
            # What runs may end when the pod is asked to stop.
            f"{SPEC}.terminationGracePeriodSeconds": 41,
        },
    )
    yield Change("longest timeout", of(maxTimeoutSeconds=700), variable(EMACS, "EFRIT_MAX_TIMEOUT", "700"))
    yield Change("drain", of(drainSeconds=20), {f"{SPEC}.terminationGracePeriodSeconds": 20})


def _network() -> Iterator[Change]:
    cidr = {"ipBlock": {"cidr": "192.0.2.0/24"}}
    yield Change(
        "egress",
        {"network": {"egress": [{"to": [cidr], "ports": [{"port": 99}]}, {"to": [cidr]}]}},
        {
            f"{PUBLIC}.to[0].ipBlock.cidr": "192.0.2.0/24",
            f"{PUBLIC}.ports[0].port": 99,
            f"{PUBLIC}.ports[0].protocol": "TCP",
            f"{POLICY}.egress[2].to[0].ipBlock.cidr": "192.0.2.0/24",
        },
    )
    yield Change(
        "ingress",
        {"network": {"allowIngressFrom": [cidr]}},
        {f"{POLICY}.ingress[1].from[0].ipBlock.cidr": "192.0.2.0/24"},
    )


def _pod(**fields: Any) -> Json:
    return {"podTemplate": fields}


def _placement() -> Iterator[Change]:
    labels = {"team": "blue", "example.org/tier": ""}
    at = f"{POD}.metadata.labels"
    yield Change("labels", _pod(labels=labels), {f"{at}.team": "blue", f"{at}.example.org/tier": ""})
    yield Change("one label of several", _pod(labels={"team": "red"}), {f"{at}.team": "red"}, _pod(labels=labels))
    yield Change("annotations", _pod(annotations={"a/b": "é\n"}), {f"{POD}.metadata.annotations.a/b": "é\n"})
    yield Change("node selector", _pod(nodeSelector={"disk": "fast"}), {f"{SPEC}.nodeSelector.disk": "fast"})
    at = f"{SPEC}.tolerations"
    taints = [
        {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 9},
        {"operator": "Exists"},
    ]
    yield Change(
        "tolerations",
        _pod(tolerations=taints),
        {
            f"{at}[0].key": "k",
            f"{at}[0].operator": "Equal",
            f"{at}[0].value": "v",
            f"{at}[0].effect": "NoExecute",
            f"{at}[0].tolerationSeconds": 9,
            f"{at}[1].operator": "Exists",
        },
    )
    terms = [{"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]
    preferred = "nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    at = f"{SPEC}.affinity.{preferred}[0]"
    expression = f"{at}.preference.matchExpressions[0]"
    yield Change(
        "affinity",
        _pod(affinity={"nodeAffinity": {preferred.partition(".")[2]: terms}}),
        {f"{at}.weight": 1, f"{expression}.key": "zone", f"{expression}.operator": "Exists"},
    )
    yield Change("runtime class", _pod(runtimeClassName="gvisor"), {f"{SPEC}.runtimeClassName": "gvisor"})
    yield Change("priority class", _pod(priorityClassName="high"), {f"{SPEC}.priorityClassName": "high"})


def _identity() -> Iterator[Change]:
    at = f"{SPEC}.imagePullSecrets"
    yield Change(
        "pull secrets",
        _pod(imagePullSecrets=[{"name": "a"}, {"name": "b"}]),
        {f"{at}[a].name": "a", f"{at}[b].name": "b"},
    )
    yield Change(
        "service account",
        _pod(serviceAccountName="mine"),
        {
            f"{SPEC}.serviceAccountName": "mine",
            f"{SPEC}.serviceAccount": "mine",
            f"{SPEC}.automountServiceAccountToken": True,
        },
    )


SOURCES: Mapping[str, tuple[Json, Json]] = {
    "configMap": ({"name": "c"}, {"name": "c", "defaultMode": 0o644}),
    "secret": ({"secretName": "s"}, {"secretName": "s", "defaultMode": 0o644}),
    "emptyDir": ({"sizeLimit": "9Mi"}, {"sizeLimit": "9Mi"}),
    "persistentVolumeClaim": ({"claimName": "p"}, {"claimName": "p"}),
    "projected": (
        {"sources": [{"configMap": {"name": "c"}}]},
        {"sources[0].configMap.name": "c", "defaultMode": 0o644},
    ),
    "csi": ({"driver": "csi.example.org"}, {"driver": "csi.example.org"}),
    "ephemeral": (
        {
            "volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            }
        },
        {
            "volumeClaimTemplate.metadata": {},
            "volumeClaimTemplate.spec.accessModes[0]": "ReadWriteOnce",
            "volumeClaimTemplate.spec.resources.requests.storage": "1Gi",
            "volumeClaimTemplate.spec.volumeMode": "Filesystem",
        },
    ),
}
"""Source of a volume -> what is given, and what the pod then has."""


def _container() -> Iterator[Change]:
    yield Change("env", _pod(env=[{"name": "A", "value": "1"}]), new_variable("A", "1"))
    both = _pod(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])
    gone: Json = dict.fromkeys(new_variable("A", ""))
    yield Change("one variable less", _pod(env=[{"name": "B", "value": "2"}]), gone, both)
    yield Change("a variable of ours", _pod(env=[{"name": "LANG", "value": "C"}]), variable(EMACS, "LANG", "C"))
    at = f"{EMACS}.env[A]"
    reference = {"fieldRef": {"fieldPath": "metadata.uid"}}
    yield Change(
        "env from elsewhere",
        _pod(env=[{"name": "A", "valueFrom": reference}]),
        {
            f"{at}.name": "A",
            f"{at}.valueFrom.fieldRef.fieldPath": "metadata.uid",
            f"{at}.valueFrom.fieldRef.apiVersion": "v1",
        },
    )
    at = f"{EMACS}.envFrom"
    yield Change(
        "env of maps and secrets",
        _pod(envFrom=[{"prefix": "P_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]),
        {f"{at}[0].prefix": "P_", f"{at}[0].configMapRef.name": "c", f"{at}[1].secretRef.name": "s"},
    )
    for source, (volume_source, fields) in SOURCES.items():
        at = f"{SPEC}.volumes[data]"
        yield Change(
            f"volume: {source}",
            _pod(volumes=[{"name": "data", source: volume_source}]),
            {f"{at}.name": "data", **{f"{at}.{source}.{key}": value for key, value in fields.items()}},
        )
    volume = [{"name": "data", "emptyDir": {}}]
    yield Change(
        "mounts",
        _pod(volumeMounts=[{"name": "data", "mountPath": "/data", "subPath": "s", "readOnly": True}]),
        new_mount("/data", "data", subPath="s", readOnly=True),
        _pod(volumes=volume),
    )
